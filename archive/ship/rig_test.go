package ship

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/worker/workertest"
	"github.com/holdfastdb/holdfast/objstore"
)

// cluster is the id of the cluster in these tests, and its timeline.
const cluster = 1

// history is a log that members share as far as they have applied it. The first entry has index 2: the first state stands for entry 1.
type history struct {
	mu      sync.Mutex
	entries []node.Entry  // guarded by mu
	more    chan struct{} // guarded by mu; closed when it grows
	term    uint64        // guarded by mu
	flavour string        // of another history from here on
}

func newHistory() *history { return &history{more: make(chan struct{}), term: 1} }

// fork is a copy that goes its own way.
func (h *history) fork(flavour string) *history {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &history{entries: append([]node.Entry(nil), h.entries...), more: make(chan struct{}), term: h.term, flavour: flavour}
}

// stateAt is the rolling state hash after an entry.
func (h *history) stateAt(index uint64) uint64 { return index * 0x9e3779b97f4a7c15 }

func (h *history) last() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return uint64(len(h.entries)) + 1
}

// add appends n entries with data of a size.
func (h *history) add(n, size int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for range n {
		index := uint64(len(h.entries)) + 2
		head := entry.Header{TickMs: int64(index), WallNs: time.Now().UnixNano()}
		if index%3 == 0 { // several entries have the stamp of one
			head.HashIndex, head.Hash = index-2, h.stateAt(index-2)
		}
		data := entry.AppendHeader(nil, head)
		text := fmt.Appendf(nil, "%s entry %d ", h.flavour, index)
		data = entry.AppendPacked(data, append(text, make([]byte, max(size-len(text), 0))...))
		h.entries = append(h.entries, node.Entry{Index: index, Term: h.term, Data: data})
	}
	close(h.more)
	h.more = make(chan struct{})
}

// elect begins a term with the empty entry of its leader.
func (h *history) elect() (term uint64) {
	h.mu.Lock()
	h.term++
	term = h.term
	h.entries = append(h.entries, node.Entry{Index: uint64(len(h.entries)) + 2, Term: term})
	h.mu.Unlock()
	h.add(0, 0)
	return term
}

// testMember is a member over such a log.
type testMember struct {
	*workertest.Member
	log *history

	mu       sync.Mutex
	first    uint64        // of what its log still has; guarded by mu, as all below
	memory   uint64        // state hashes it remembers
	archived uint64        // as SetArchived has said
	wanted   uint64        // a caller waits for this
	more     chan struct{} // closed when wanted rises
	retained uint64
	behind   uint64 // entries of the log that it has not applied
}

func newMember(h *history) *testMember {
	return &testMember{Member: workertest.New(), log: h, first: 2, memory: 4096, more: make(chan struct{})}
}

func (m *testMember) applied() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log.last() - m.behind
}

func (m *testMember) Status() node.Status { return node.Status{Applied: m.applied()} }

func (m *testMember) Committed(ctx context.Context, from uint64, maxBytes int) (out []node.Entry, err error) {
	for {
		m.log.mu.Lock()
		more := m.log.more
		m.log.mu.Unlock()
		m.mu.Lock()
		first, behind := m.first, m.behind
		m.mu.Unlock()
		if from < first {
			return nil, fmt.Errorf("%w: entry %d was asked for, the first one is %d", node.ErrTruncated, from, first)
		}
		m.log.mu.Lock()
		for i, n := int(from)-2, 0; i < len(m.log.entries)-int(behind) && (n < maxBytes || len(out) == 0); i++ {
			out = append(out, m.log.entries[i])
			n += len(m.log.entries[i].Data) + 48
		}
		m.log.mu.Unlock()
		if len(out) > 0 {
			return out, nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-m.StoppedC():
			return nil, node.ErrStopped
		}
	}
}

func (m *testMember) StateHash(_ context.Context, index uint64) (uint64, bool, error) {
	applied := m.applied()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log.stateAt(index), index <= applied && applied-index < m.memory, nil
}

func (m *testMember) Retain(name string, from uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if name == RetainName {
		m.retained = from
	}
}

// kept is from where on the log is kept.
func (m *testMember) kept() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.retained
}

func (m *testMember) SetArchived(index uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.archived = max(m.archived, index)
}

func (m *testMember) ArchivedIndex() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.archived
}

func (m *testMember) ArchiveWanted() (uint64, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wanted <= m.archived {
		return 0, m.more
	}
	return m.wanted, m.more
}

// want has a caller wait for an index.
func (m *testMember) want(index uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if index > m.wanted {
		m.wanted = index
		close(m.more)
		m.more = make(chan struct{})
	}
}

// truncate lets the log go up to an index.
func (m *testMember) truncate(to uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.first = to + 1
}

func (m *testMember) TakeSnapshot(ctx context.Context) (*node.SnapshotInfo, io.ReadCloser, error) {
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	index := m.applied()
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	term := m.log.entries[index-2].Term
	return &node.SnapshotInfo{Cluster: cluster, Index: index, Term: term, State: m.log.stateAt(index), WallNs: time.Now().UnixNano()},
		io.NopCloser(bytes.NewReader(fmt.Appendf(nil, "the state at %d", index))), nil
}

// counting counts the requests of each kind and notes when uploads begin.
type counting struct {
	objstore.Store
	mu      sync.Mutex
	kinds   map[string]int // guarded by mu
	starts  []time.Time    // guarded by mu
	running int            // guarded by mu
	most    int            // guarded by mu
}

func count(s objstore.Store) *counting { return &counting{Store: s, kinds: map[string]int{}} }

func (c *counting) add(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kinds[kind]++
}

func (c *counting) all() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.kinds { // any order: a sum
		n += k
	}
	return n
}

func (c *counting) of(kind string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kinds[kind]
}

func (c *counting) PutIfAbsent(ctx context.Context, o objstore.Object) error {
	c.mu.Lock()
	c.kinds["put"]++
	c.starts = append(c.starts, time.Now())
	c.running++
	c.most = max(c.most, c.running)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.running--
		c.mu.Unlock()
	}()
	return c.Store.PutIfAbsent(ctx, o)
}

func (c *counting) Get(ctx context.Context, name string) ([]byte, error) {
	c.add("get")
	return c.Store.Get(ctx, name)
}

func (c *counting) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Listed, error] {
	c.add("list")
	return c.Store.List(ctx, prefix, after)
}

// run runs a worker until the test ends, or the member is stopped.
func run(t *testing.T, m *testMember, s objstore.Store, opt Options) *Worker {
	t.Helper()
	t.Cleanup(func() { time.Sleep(time.Hour) }) // what is on its way to a store arrives
	w := New(m, s, opt)
	m.Run(t, w.Run)
	return w
}

// chain reads an archive as a reader should, from the snapshot at an index on, name after name. It fails the test if an entry differs from
// the log's. It ends at a missing name, or at an object begun behind a later snapshot.
func chain(t *testing.T, s *objstore.Memory, h *history, from uint64) (last uint64) {
	t.Helper()
	all := s.Objects()
	var tip format.Tip
	for next := from + 1; ; next = tip.Last + 1 {
		name := format.SpanName(cluster, next)
		b, ok := all[name]
		if !ok {
			return next - 1
		}
		span, err := format.DecodeSpan(name, b)
		if err != nil {
			t.Fatal(err)
		}
		// Behind another snapshot the hash begins anew: there a reader goes on from that one (covers).
		ends := tip.Last > 0 && span.Follows(tip) != nil
		tip = span.Tip()
		if span.State != h.stateAt(span.Last) {
			t.Fatalf("%s has another state hash", name)
		}
		h.mu.Lock()
		for e := range span.Entries() {
			if here := h.entries[e.Index-2]; !e.Equal(format.Entry(here)) {
				t.Fatalf("%s: entry %d@%d, the log has %d@%d", name, e.Index, e.Term, here.Index, here.Term)
			}
		}
		h.mu.Unlock()
		if ends {
			return next - 1
		}
	}
}

// roots lists the snapshots of an archive, by index.
func roots(t *testing.T, s *objstore.Memory) (all []uint64) {
	t.Helper()
	for l, err := range s.List(context.Background(), format.SnapshotsName(cluster), "") {
		if err != nil {
			t.Fatal(err)
		}
		_, index, ok := format.ParseManifestName(l.Name)
		if !ok {
			t.Fatal(l.Name)
		}
		all = append(all, index)
	}
	return all
}

// until waits for what must come within an hour of the test's own time.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for limit := time.Now().Add(time.Hour); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// lines is a Logger's output.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

var errDown = errors.New("the store is down")

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// careless is a store that takes no notice of conditions.
type careless struct{ *objstore.Memory }

func (c careless) PutIfAbsent(ctx context.Context, o objstore.Object) error {
	return c.Put(ctx, o)
}

// noPieces is a store that does not take pieces of snapshots while it is told not to.
type noPieces struct {
	*objstore.Memory
	refuse atomic.Bool
}

func (s *noPieces) PutIfAbsent(ctx context.Context, o objstore.Object) error {
	if s.refuse.Load() && strings.Contains(o.Name, "/pieces/") {
		return errDown
	}
	return s.Memory.PutIfAbsent(ctx, o)
}

// noSpans is a store that does not take entries while it is told not to.
type noSpans struct {
	*objstore.Memory
	refuse atomic.Bool
}

func (s *noSpans) PutIfAbsent(ctx context.Context, o objstore.Object) error {
	if _, _, span := format.ParseSpanName(o.Name); span && s.refuse.Load() {
		return errDown
	}
	return s.Memory.PutIfAbsent(ctx, o)
}
