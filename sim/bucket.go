package sim

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"strings"
	"time"

	"crypto/sha256"

	"github.com/holdfastdb/holdfast/archive/format"
	archiveship "github.com/holdfastdb/holdfast/archive/ship"
	"github.com/holdfastdb/holdfast/internal/task"
	"github.com/holdfastdb/holdfast/objstore"
)

// bucket is the object store of a run, behind all faults. It judges each request. An object of the archive is put under a condition and
// never replaced. It has only committed entries, and a snapshot's manifest comes after its pieces.
type bucket struct {
	*objstore.Memory
	b *archiveBook
	// halves: an upload that is cut in half leaves half an object under its name, as no store should.
	halves bool
	half   map[string]bool // those that it has left
	// stuck is the name of a span that fails for now, the first one that is put: others go through.
	stuck      string
	stuckUntil time.Duration

	spans     map[uint64]*format.Span // by first index, those that are there whole
	manifests map[uint64]bool         // by index
	reach     uint64                  // states up to this index can be had; 0: not known
	judged    []*format.Span          // all that ever arrived
}

func newBucket(b *archiveBook, halves bool) *bucket {
	return &bucket{Memory: objstore.NewMemory(), b: b, halves: halves, half: map[string]bool{}, spans: map[uint64]*format.Span{},
		manifests: map[uint64]bool{}}
}

var (
	errHalf  = errors.New("half an upload")
	errStuck = errors.New("this name fails for now")
)

// mostBehind is the largest number of spans behind a hole: the uploads that three leaders one after the other can have had in flight.
const mostBehind = 3 * 8

// PutIfAbsent implements objstore.Store.
func (s *bucket) PutIfAbsent(ctx context.Context, o objstore.Object) error {
	if _, _, span := format.ParseSpanName(o.Name); span && s.b.w.now < s.stuckUntil && (s.stuck == "" || s.stuck == o.Name) {
		s.stuck = o.Name
		return errStuck
	}
	whole := isWhole(o)
	if !whole && !s.halves {
		return errHalf
	}
	if err := s.Memory.PutIfAbsent(ctx, o); err != nil {
		_, _, span := format.ParseSpanName(o.Name)
		if b, _ := s.Memory.Get(ctx, o.Name); span && errors.Is(err, objstore.ErrExists) && !bytes.Equal(b, o.Data) {
			s.b.w.trace.add(s.b.w.now, "store: %s is there with other bytes", o.Name)
			s.b.w.rep.Met++
		}
		return err
	}
	if !whole {
		s.half[o.Name] = true
		s.b.w.trace.add(s.b.w.now, "store: half of %s", o.Name)
		return nil
	}
	s.takes(o)
	return nil
}

// isWhole reports whether an object's content fits its name. Objects with a name outside an archive pass.
func isWhole(o objstore.Object) bool {
	if _, _, ok := format.ParseSpanName(o.Name); ok {
		_, err := format.DecodeSpan(o.Name, o.Data)
		return err == nil
	}
	if _, _, ok := format.ParseManifestName(o.Name); ok {
		_, err := format.DecodeManifest(o.Name, o.Data)
		return err == nil
	}
	if strings.Contains(o.Name, "/pieces/") {
		sum := sha256.Sum256(o.Data)
		return strings.HasSuffix(o.Name, "-"+hex.EncodeToString(sum[:16]))
	}
	return true
}

// takes judges an object that is there from now on.
func (s *bucket) takes(o objstore.Object) {
	w := s.b.w
	if _, first, ok := format.ParseSpanName(o.Name); ok {
		span, err := format.DecodeSpan(o.Name, o.Data)
		if err != nil {
			w.fail(BadArchive, "%v", err)
		}
		w.trace.add(w.now, "store: entries %d to %d", first, span.Last)
		if span.Last > w.applied {
			w.fail(BadArchive, "%s has entries up to %d when no member has applied more than %d", o.Name, span.Last, w.applied)
		}
		s.spans[first] = span
		s.judged = append(s.judged, span)
		if behind := s.behind(); behind > mostBehind {
			w.fail(BadArchive, "%d objects lie behind entry %d, which is not there", behind, s.reach+1)
		}
		w.rep.Spans++
		return
	}
	if _, index, ok := format.ParseManifestName(o.Name); ok {
		m, err := format.DecodeManifest(o.Name, o.Data)
		if err != nil {
			w.fail(BadArchive, "%v", err)
		}
		w.trace.add(w.now, "store: snapshot at %d", index)
		for i := range m.Pieces {
			b, err := s.Memory.Get(context.Background(), m.PieceName(i))
			if err == nil {
				err = m.CheckPiece(i, b)
			}
			if err != nil {
				w.fail(BadArchive, "there is a manifest of the snapshot at %d, and of its %d pieces: %v", index, len(m.Pieces), err)
			}
		}
		if at := w.states.at[index]; at.hash != m.State || at.wallNs != m.WallNs {
			w.fail(BadArchive, "the manifest of the snapshot at %d says state %x at %d ns, the members had %x at %d ns", index, m.State, m.WallNs,
				at.hash, at.wallNs)
		}
		s.manifests[index] = true
		w.rep.Kept++
	}
}

// Put implements objstore.Store.
func (s *bucket) Put(ctx context.Context, objects ...objstore.Object) error {
	for _, o := range objects {
		if !strings.HasPrefix(o.Name, "probe-") {
			s.b.w.fail(BadArchive, "%s is put without a condition", o.Name)
		}
	}
	return s.Memory.Put(ctx, objects...)
}

// PutIfMatch implements objstore.Store. Half an identity is all that is replaced.
func (s *bucket) PutIfMatch(ctx context.Context, o objstore.Object, was string) (string, error) {
	if o.Name == archiveship.IdentityName {
		return s.Memory.PutIfMatch(ctx, o, was)
	}
	s.b.w.fail(BadArchive, "%s is put on a condition that may replace it", o.Name)
	return "", nil
}

// PutFrom implements objstore.Store. Nothing of the archive is a stream: none is judged.
func (s *bucket) PutFrom(_ context.Context, name string, _ int64, _ io.Reader, _ bool) error {
	s.b.w.fail(BadArchive, "%s is put as a stream", name)
	return nil
}

// Delete implements objstore.Store.
func (s *bucket) Delete(ctx context.Context, names ...string) error {
	s.reach = 0
	for _, name := range names {
		if _, first, ok := format.ParseSpanName(name); ok {
			delete(s.spans, first)
		}
		if _, index, ok := format.ParseManifestName(name); ok {
			delete(s.manifests, index)
		}
		s.b.w.trace.add(s.b.w.now, "store: %s is removed", name)
		s.b.w.rep.Pruned++
	}
	return s.Memory.Delete(ctx, names...)
}

// covers reports whether the stored objects give the state at an index, or after it: a snapshot, and all entries after it.
func (s *bucket) covers(index uint64) bool {
	for moved := true; moved && s.reach < index; {
		moved = false
		for at := range s.manifests { // any order: it ends where nothing goes further
			if at > s.reach {
				s.reach, moved = at, true
			}
		}
		for first, span := range s.spans { // likewise
			if s.reach > 0 && first <= s.reach+1 && span.Last > s.reach {
				s.reach, moved = span.Last, true
			}
		}
	}
	return s.reach >= index
}

// behind counts the spans that begin behind the first entry that is missing.
func (s *bucket) behind() (n int) {
	s.covers(math.MaxUint64)
	for first := range s.spans { // any order: they are counted
		if s.reach > 0 && first > s.reach+1 {
			n++
		}
	}
	return n
}

// outlet is the store as one machine reaches it.
type outlet struct {
	objstore.Store
	h *host
}

var errCutOff = errors.New("no route to the store")

func (o *outlet) cut() error {
	if o.h.w.now < o.h.cutOff {
		return errCutOff
	}
	return nil
}

// PutIfAbsent implements objstore.Store.
func (o *outlet) PutIfAbsent(ctx context.Context, obj objstore.Object) error {
	if err := o.cut(); err != nil {
		return err
	}
	o.h.w.trace.add(o.h.w.now, "%s → store put %s of %d bytes", o.h.name, obj.Name, len(obj.Data))
	if up := o.h.w.archive.uplink; up > 0 && o.h.tasks.Wait(Between(o.h.w.archive.r, 0, up), ctx.Done()) == 0 {
		return ctx.Err()
	}
	err := o.Store.PutIfAbsent(ctx, obj)
	o.h.w.trace.add(o.h.w.now, "%s ← store put %s: %v", o.h.name, obj.Name, err)
	return err
}

// GetVersion implements objstore.Store.
func (o *outlet) GetVersion(ctx context.Context, name string) ([]byte, string, error) {
	if err := o.cut(); err != nil {
		return nil, objstore.Absent, err
	}
	return o.Store.GetVersion(ctx, name)
}

// Get implements objstore.Store.
func (o *outlet) Get(ctx context.Context, name string) ([]byte, error) {
	if err := o.cut(); err != nil {
		return nil, err
	}
	return o.Store.Get(ctx, name)
}

// Open implements objstore.Store.
func (o *outlet) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if err := o.cut(); err != nil {
		return nil, err
	}
	return o.Store.Open(ctx, name, off, n)
}

// wires carry requests to the store. They belong to no process: a request arrives when its machine is paused, and may arrive when it is
// dead. The caller waits for the answer as a task of its process.
type wires struct {
	task.Goroutines // for methods that are not called here
	w               *World
	at              *host // stands for the store's own machine
}

var _ task.Runner = (*wires)(nil)

func (w *World) newWires() *wires {
	h := &host{w: w, at: -1, name: "store", rate: 1, synced: w.now}
	h.tasks = &tasks{h: h}
	return &wires{w: w, at: h}
}

// Go implements task.Runner.
func (s *wires) Go(f func()) {
	asker := s.w.running
	gen := asker.gen
	s.at.tasks.Go(func() {
		f()
		if asker.h.gen == gen {
			asker.soon(0)
		}
	})
}

// Wait implements task.Runner.
func (s *wires) Wait(d time.Duration, on ...<-chan struct{}) int { return s.w.running.Wait(d, on...) }
