package ship

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/objstore"
)

const (
	// lookAfter and lookBytes bound what is acknowledged between two looks at the store: a minute, or so much of the log. After a failure of
	// the store lookSoon bounds it: a store that fails now and then is looked at no more often.
	lookAfter = time.Minute
	lookSoon  = time.Second
	lookBytes = 64 << 20
	// lookLimit bounds one look, in time.
	lookLimit = 4 * patienceLeast
)

// LostUnknown is Options.Lost for an archive whose identity no member knows.
const LostUnknown = "unknown"

// strange is the error of a place that is not this member's archive. Nothing is put there and nothing acknowledged until the archive is back.
type strange struct {
	url        string
	want, have string // identities; want "": only archived is known, have "": the place has none
	archived   uint64
}

func (e *strange) Error() string {
	found := "holds no archive"
	if e.have != "" {
		found = "holds archive " + e.have
	}
	want, lost := "archive "+e.want, e.want
	if e.want == "" {
		want, lost = fmt.Sprintf("an archive with the log up to entry %d", e.archived), LostUnknown
	}
	return fmt.Sprintf("%s %s, and this cluster's log is in %s: bring that back (mount its disk, correct --archive); if it is lost for good, "+
		"start the members with --archive-lost %s, and a new archive begins here", e.url, found, want, lost)
}

// gone is the error of an object that the store has taken and does not have any more.
type gone struct{ name string }

func (e *gone) Error() string {
	return fmt.Sprintf("the store has taken archive object %s and does not have it any more; the log is shipped again from where the archive ends", e.name)
}

// isStrange reports whether an error says that the store is not, or not wholly, this term's archive. The end of the archive has to be found
// anew then.
func isStrange(err error) bool {
	var s *strange
	var g *gone
	return errors.As(err, &s) || errors.As(err, &g) || errors.Is(err, objstore.ErrSwapped)
}

// identify reads the identity of the place, and returns "" if it has none and may become an archive. It writes nothing.
func (t *term) identify() (id string, err error) {
	if err := t.w.reopen(); err != nil {
		return "", err
	}
	known := t.w.known()
	err = t.steady().try(func(ctx context.Context) error {
		id, err = objstore.Identity(ctx, t.w.at(), IdentityName, false)
		return err
	})
	switch {
	case err != nil && !errors.Is(err, objstore.ErrAbsent):
		return "", fmt.Errorf("read the archive's identity: %w", err)
	case known.Identity == "" || known.Identity == id || known.Identity == t.w.opt.Lost:
		return id, nil
	}
	return "", &strange{url: t.w.opt.URL, want: known.Identity, have: id, archived: known.Archived}
}

// adopt makes the place the archive of this member, with the identity it has or, if that is "", a new one, and remembers that.
func (t *term) adopt(id string, archived uint64) (err error) {
	if id == "" {
		err = t.steady().try(func(ctx context.Context) error {
			t.w.requests.add(1)
			id, err = objstore.Identity(ctx, t.w.at(), IdentityName, true)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("make the archive's identity: %w", err)
	}
	return t.w.remember(id, archived)
}

// glance is one look at the store. It ends well, or the round ends.
type glance struct {
	names []string // of objects that must be there and were not seen yet; of the goroutine that looks
	upTo  uint64   // the newest entry in them
	after int      // troubles of the term before the attempt that ended well; guarded by term.mu
	done  bool     // guarded by term.mu
}

// lookDue reports whether nothing more may be acknowledged before a look at the store; the caller holds mu.
func (t *term) lookDue() bool {
	since := t.w.node.Mono() - t.lookedAt
	return since >= lookAfter || t.sinceLook >= lookBytes || t.troubles != t.troublesSeen && since >= lookSoon
}

// lookAt begins a look at the store, for the uploads that have arrived; the caller holds mu. The look comes after them: their store is the
// archive, or was swapped by the moment of the look.
func (t *term) lookAt(arrived []*upload) {
	g := &glance{}
	if t.newest != "" {
		g.names = append(g.names, t.newest)
	}
	for _, u := range arrived {
		g.names = append(g.names, u.name)
		g.upTo = u.tip.Last
	}
	t.glance = g
	round := t.round
	t.w.tasks.Go(func() {
		for {
			t.mu.Lock()
			g.after = t.troubles
			t.mu.Unlock()
			err := t.look(g)
			if err == nil {
				t.mu.Lock()
				g.done = true
				t.mu.Unlock()
				t.poke()
				return
			}
			if t.given(round, err) || !t.pause() {
				return
			}
		}
	})
}

// look asks whether the store is this member's archive with all acknowledged objects.
func (t *term) look(g *glance) error {
	id, err := t.identify()
	if err != nil {
		return err
	}
	known := t.w.known()
	if id != known.Identity { // Options.Lost is for a term's beginning
		return &strange{url: t.w.opt.URL, want: known.Identity, have: id, archived: known.Archived}
	}
	if err := t.see(g); err != nil {
		return err
	}
	return t.w.remember(id, g.upTo)
}

// see checks the objects that the look has not seen yet. The failure of one request holds up no other, unless the store is silent.
func (t *term) see(g *glance) (failed error) {
	var left []string
	for i, name := range g.names {
		err := t.there(name)
		if isStrange(err) {
			return err
		}
		if errors.Is(err, context.DeadlineExceeded) {
			left, failed = append(left, g.names[i:]...), err
			break
		}
		if err != nil {
			left, failed = append(left, name), err
			continue
		}
		t.answers()
	}
	g.names = left
	return failed
}

// there reads the head of an object that must be there.
func (t *term) there(name string) error {
	ctx, done := t.context(lookLimit)
	defer done()
	t.w.requests.add(1)
	r, err := t.w.at().Open(ctx, name, 0, format.SpanHeadBytes)
	if err == nil {
		_, err = io.Copy(io.Discard, r)
		_ = r.Close() // nothing was written through it
	}
	if errors.Is(err, objstore.ErrAbsent) {
		return &gone{name}
	}
	if err != nil {
		return fmt.Errorf("look at %s: %w", name, err)
	}
	return nil
}

// doubt ends a round: the end of the archive is found anew. Uploads on their way count no more. A round that is over already stays so.
func (t *term) doubt(round int, err error) {
	if t.moved(round) {
		return
	}
	t.w.wentAway(err)
	t.mu.Lock()
	t.doubted = true
	t.mu.Unlock()
	t.poke()
}

// again begins a new round if the store is doubted.
func (t *term) again() {
	t.mu.Lock()
	doubted := t.doubted
	if t.doubted = false; doubted {
		t.round++
		for _, u := range t.flight {
			u.abandoned = true
		}
		t.flight, t.begins, t.twice, t.glance, t.taking = nil, nil, false, nil, false
	}
	t.mu.Unlock()
	if doubted {
		t.reset(t.tip)
		t.found, t.gap, t.rooting = false, false, false
		t.start()
	}
}

// moved reports whether a round is over: its requests are of no use any more.
func (t *term) moved(round int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.round != round || t.over
}

// at returns the store. It is another value after the store's directory was swapped and has come back.
func (w *Worker) at() objstore.Store {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.store
}

// reopen opens the store anew if that is due: a directory that was mounted again has another inode than the store's.
func (w *Worker) reopen() error {
	w.mu.Lock()
	stale := w.stale
	w.mu.Unlock()
	if !stale || w.opt.Reopen == nil {
		return nil
	}
	s, err := w.opt.Reopen()
	if err != nil {
		return fmt.Errorf("open the archive's store again: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.store, w.stale = s, false
	return nil
}
