package ship

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/archive/format"
	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/internal/task"
)

// term is the shipping of one term of leadership. It begins at the end of the archive as found in the store (tail.go), reads the log from
// there, and has some spans in flight. Only the gapless spans count as archived.
type term struct {
	w      *Worker
	number uint64
	news   chan struct{} // has room for one: something under mu has changed
	ended  chan struct{} // closed by end

	mu      sync.Mutex
	over    bool                       // guarded by mu
	calls   map[int]context.CancelFunc // guarded by mu: of what waits for the store or the log
	called  int                        // guarded by mu: the number of the next one
	active  int                        // guarded by mu: uploads that run, abandoned ones too
	flight  []*upload                  // guarded by mu: after tip, in order
	begins  *beginning                 // guarded by mu: where shipping begins, or goes on behind a gap
	taken   *taken                     // guarded by mu: the newest snapshot
	mark    uint64                     // guarded by mu: a span ends with this entry, if it can, because a snapshot does
	taking  bool                       // guarded by mu: a snapshot is being put
	shipped int64                      // guarded by mu: bytes of log that were archived in this term
	chained uint64                     // guarded by mu: the archive has the log up to here, as this term has found or put it
	round   int                        // guarded by mu: how often the end of the archive was found anew
	doubted bool                       // guarded by mu: the store is not what was shipped to; the next turn begins a round

	// The last look at the store, and the changes since. Guarded by mu.
	glance       *glance // the look under way; nil: there is none
	lookedAt     time.Duration
	sinceLook    int64 // bytes of log that were archived
	troubles     int   // failures of the store in this term
	troublesSeen int   // those before the last look began

	silent   bool          // guarded by mu: requests have failed since one was answered
	silentAt time.Duration // guarded by mu: the first of them did

	twice bool // guarded by mu: the archive was begun twice, and a snapshot has to make one end of both

	// The rest belongs to the goroutine of lead.
	found    bool       // tip is known
	tip      format.Tip // of the archived log
	newest   string     // the object that ends with tip, or the manifest of the snapshot there; guarded by mu
	looked   uint64     // the archive had the log up to here at the last look: the log is kept from there on
	enc      *format.Encoder
	pending  []node.Entry // read, and in no span yet
	bytes    int          // of pending, as spans have them
	stamps   []stamp      // state hashes that entries of pending, or after them, have with them; by index
	wallNs   int64        // time along the log at the newest entry read
	openedAt time.Duration
	lastAt   time.Duration // the newest of pending was read
	nextPut  time.Duration // the earliest start of the next upload
	next     uint64        // the next index to read
	reading  *batch
	further  bool // entries after the last state hash were read; the span may not end here
	gap      bool // the log does not have what is next
	rooting  bool // a snapshot is being put to go on behind

	snapped taken // the newest snapshot
}

// batch is one read of the log. A cancelled batch may finish after its successor; its result is dropped.
type batch struct {
	done    bool // guarded by term.mu; then the rest does not change
	entries []node.Entry
	err     error
	cancel  context.CancelFunc
}

// beginning is where shipping begins.
type beginning struct {
	tip    format.Tip
	newest string // the object that ends with tip, or the manifest of the snapshot there
	since  int64  // bytes of log since the newest snapshot; below zero: not known yet
}

// stamp is a rolling state hash.
type stamp struct{ index, hash uint64 }

const (
	// readAtOnce is how much of the log is read at a time.
	readAtOnce = 512 << 10
	// entryCharge is the most that an entry takes in a span beside its data.
	entryCharge = 32
)

func newTerm(w *Worker, number uint64) *term {
	return &term{w: w, number: number, news: make(chan struct{}, 1), ended: make(chan struct{}), calls: map[int]context.CancelFunc{}}
}

// poke has lead look again.
func (t *term) poke() {
	select {
	case t.news <- struct{}{}:
	default: // it will look anyway
	}
}

// end ends what runs. It is called once or several times.
func (t *term) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	t.over = true
	close(t.ended)
	for _, cancel := range t.calls { // any order: each is on its own
		cancel()
	}
}

func (t *term) isOver() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

// context is one that ends with the term, or after d. done must be called.
func (t *term) context(d time.Duration) (ctx context.Context, done context.CancelFunc) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ctx, cancel := t.w.tasks.Timeout(d)
	if t.over {
		cancel()
		return ctx, cancel
	}
	number := t.called
	t.called++
	t.calls[number] = cancel
	return ctx, func() {
		t.mu.Lock()
		delete(t.calls, number)
		t.mu.Unlock()
		cancel()
	}
}

// pause waits between two attempts at one thing: half as long as the store has only failed, so longer each time while it is down. A pause
// per request would delay one of many, and all that has arrived behind it, while the store answers the others. It returns false if the term
// is over.
func (t *term) pause() bool {
	t.mu.Lock()
	now := t.w.node.Mono()
	if !t.silent {
		t.silent, t.silentAt = true, now
	}
	d := min(max((now-t.silentAt)/2, pauseLeast), pauseMost)
	t.mu.Unlock()
	return t.w.tasks.Wait(d, t.ended, t.w.node.StoppedC()) < 0
}

// answers notes that the store has done what it was asked.
func (t *term) answers() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.silent = false
}

// turn runs all due work. It returns how long to sleep if nothing wakes the loop earlier.
func (t *term) turn(wanted uint64) time.Duration {
	defer t.show()
	if t.w.stopped() != nil || t.isOver() {
		return task.Forever
	}
	t.again()
	t.proceed()
	if !t.found {
		return task.Forever
	}
	t.settle()
	if t.join() {
		return task.Forever
	}
	t.absorb()
	t.read()
	for {
		wait, due := t.due(wanted)
		if !due {
			t.snapshots()
			return wait
		}
		if !t.cut() {
			return task.Forever // more of the log has to come first
		}
		t.read()
	}
}

// proceed begins where start, or a snapshot over a gap, has found that shipping begins.
func (t *term) proceed() {
	t.mu.Lock()
	b := t.begins
	t.begins = nil
	if t.taken != nil {
		t.snapped, t.taken = *t.taken, nil
	}
	t.mu.Unlock()
	if b == nil {
		return
	}
	t.found, t.gap, t.rooting = true, false, false
	t.snapped.shipped -= max(b.since, 0) // the bytes shipped by others since
	t.wallNs = max(t.wallNs, t.snapped.wallNs)
	t.reset(b.tip)
	t.mu.Lock()
	t.newest = b.newest
	t.lookedAt, t.sinceLook, t.troublesSeen = t.w.node.Mono(), 0, t.troubles
	t.mu.Unlock()
	t.looked = b.tip.Last
	t.w.wentBack()
	t.archived(b.tip)
}

// reset continues after tip and drops all read and assembled entries.
func (t *term) reset(tip format.Tip) {
	if t.reading != nil {
		t.reading.cancel()
	}
	t.reading, t.pending, t.bytes, t.stamps, t.further = nil, nil, 0, nil, false
	t.enc, t.next = format.NewEncoder(tip, format.MaxBytes), tip.Last+1
}

// archived publishes how far the archive has the log. The log is kept from the last look on: entries acknowledged since are shipped again
// if the store turns out to have been swapped.
func (t *term) archived(tip format.Tip) {
	t.tip = tip
	t.mu.Lock()
	t.chained = tip.Last
	t.mu.Unlock()
	t.w.chained(tip.Last, t.looked)
	t.w.node.SetArchived(tip.Last)
	t.w.node.Retain(RetainName, t.looked+1)
}

// settle marks every gapless uploaded span as archived. If the store holds a different span at a position, the log is cut there. Uploads in
// flight behind it stay: beside the chain, or as a link of it.
func (t *term) settle() {
	var tips []format.Tip
	var other *format.Tip
	t.mu.Lock()
	for i, u := range t.flight {
		if u.sure && u.tip != u.own {
			other = &u.tip
			u.own = u.tip
			for _, behind := range t.flight[i+1:] {
				behind.abandoned = true
			}
			t.flight = t.flight[:i+1]
			break
		}
	}
	n, seen, back := 0, uint64(0), false
	if g := t.glance; g != nil && g.done {
		t.glance, t.lookedAt, t.sinceLook, t.troublesSeen = nil, t.w.node.Mono(), 0, g.after
		t.looked = max(t.looked, g.upTo)
		seen, back = g.upTo, true
	}
	// Spans seen by the last look are archived, and so are later ones, unless a look is due.
	for n < len(t.flight) && t.flight[n].sure && (t.flight[n].tip.Last <= seen || t.glance == nil && !t.lookDue()) {
		n++
	}
	for _, u := range t.flight[:n] {
		t.shipped += int64(u.size)
		t.sinceLook += int64(u.size)
		t.newest = u.name
		tips = append(tips, u.tip)
	}
	t.flight = t.flight[n:]
	k := 0
	for k < len(t.flight) && t.flight[k].sure {
		k++
	}
	if k > 0 && t.glance == nil {
		t.lookAt(t.flight[:k])
	}
	t.mu.Unlock()
	if back {
		t.w.wentBack()
		t.w.node.Retain(RetainName, t.looked+1)
	}
	if other != nil {
		t.reset(*other)
	}
	if len(tips) > 0 {
		t.archived(tips[len(tips)-1])
	}
}

// join reports whether a snapshot is being put because the archive was begun twice, and begins that. Spans in flight stay beside the chain.
func (t *term) join() bool {
	t.mu.Lock()
	twice := t.twice
	t.twice = false
	if twice {
		for _, u := range t.flight {
			u.abandoned = true
		}
		t.flight = nil
	}
	t.mu.Unlock()
	if twice && !t.rooting {
		t.reset(t.tip)
		t.w.opt.Logger.Warn("two members have begun this archive at a time; a snapshot makes one of it", "at", t.tip.Last)
		t.root()
	}
	return t.rooting
}

// read asks the log for more, unless a span is full.
func (t *term) read() {
	if t.reading != nil || t.gap || t.bytes >= t.w.span && !t.further {
		return
	}
	ctx, done := t.context(time.Hour) // an idle log is asked again every hour
	b, from := &batch{cancel: done}, t.next
	t.reading = b
	t.w.tasks.Go(func() {
		b.entries, b.err = t.w.node.Committed(ctx, from, min(readAtOnce, t.w.span))
		done()
		t.mu.Lock()
		b.done = true
		t.mu.Unlock()
		t.poke()
	})
}

// absorb takes over the entries that were read.
func (t *term) absorb() {
	b := t.reading
	t.mu.Lock()
	done := b != nil && b.done
	t.mu.Unlock()
	if !done {
		return
	}
	t.reading, t.further = nil, false
	now := t.w.node.Mono()
	if errors.Is(b.err, node.ErrTruncated) {
		t.gap = true
	}
	if len(b.entries) == 0 {
		return
	}
	if len(t.pending) == 0 {
		t.openedAt = now
	}
	t.lastAt = now
	for _, e := range b.entries {
		t.bytes += len(e.Data) + entryCharge
		if e.Type != 0 || len(e.Data) == 0 {
			continue
		}
		h, _, err := entry.DecodeHeader(e.Data)
		if err != nil {
			continue // a machine would have stopped this member; the archive does not judge an entry's content
		}
		t.wallNs = max(t.wallNs, h.WallNs)
		if n := len(t.stamps); h.HashIndex > 0 && (n == 0 || t.stamps[n-1].index < h.HashIndex) {
			t.stamps = append(t.stamps, stamp{h.HashIndex, h.Hash})
		}
	}
	t.pending = append(t.pending, b.entries...)
	t.next = b.entries[len(b.entries)-1].Index + 1
}

// due reports whether a span has to be closed now, and otherwise when.
func (t *term) due(wanted uint64) (wait time.Duration, due bool) {
	t.mu.Lock()
	active, flight := t.active, len(t.flight)
	t.mu.Unlock()
	if len(t.pending) == 0 {
		if t.gap && flight == 0 && !t.rooting {
			t.w.opt.Logger.Error("the log does not have any more what the archive has not; a snapshot closes the gap, and no restore to an entry in it is possible",
				"from", t.tip.Last+1)
			t.w.lost()
			t.root()
		}
		return task.Forever, false
	}
	// A span that fails again and again holds up later ones, even uploaded ones. Spans behind a hole are of no use, and a restore must tell
	// a dead leader's hole from a removed span.
	if max(active, flight) >= flights {
		return task.Forever, false // the end of one pokes
	}
	now := t.w.node.Mono()
	at := t.openedAt + t.w.requests.interval(t.w.opt.Interval)
	switch {
	case t.bytes >= t.w.span || t.gap:
		at = now
	case wanted >= t.pending[0].Index: // a lower index is in flight already: no haste for later entries
		at = min(at, t.lastAt+quiet, t.openedAt+most)
	}
	if at = max(at, t.nextPut); at > now {
		return at - now, false
	}
	return 0, true
}

// cut closes a span and sends it. It returns false if no state hash is known for any end of it yet, and true when there may be more to do.
func (t *term) cut() bool {
	n, size := 0, 0
	for ; n < len(t.pending); n++ {
		size += len(t.pending[n].Data) + entryCharge
		if n > 0 && size > t.w.span {
			break
		}
	}
	t.mu.Lock()
	mark := t.mark
	t.mu.Unlock()
	if first, last := t.pending[0].Index, t.pending[n-1].Index; first <= mark && mark < last {
		n = int(mark-first) + 1
	}
	n, state, err := t.stateAfter(n)
	switch {
	case err != nil:
		return false // the term ends, and so does the member
	case n == 0 && t.gap: // the entry whose stamp would say it is gone with the rest: these are lost with it
		t.pending, t.bytes = nil, 0
		return true
	case n == 0:
		t.further = true
		t.read()
		return false
	}
	u := &upload{before: t.enc.Tip(), wallNs: t.wallOf(t.pending[0])}
	for _, e := range t.pending[:n] {
		u.size += len(e.Data) + entryCharge
		if ok, err := t.enc.Append(format.Entry(e)); err != nil || !ok {
			if err == nil {
				err = errors.New("it has no room in an object")
			}
			t.w.stop(fmt.Errorf("entry %d@%d cannot be archived: %w", e.Index, e.Term, err))
			return false
		}
	}
	u.name, u.data = t.enc.Finish(state)
	u.own = t.enc.Tip()
	t.bytes -= u.size
	t.pending = append([]node.Entry(nil), t.pending[n:]...) // releases the log's memory behind the others
	for len(t.stamps) > 0 && t.stamps[0].index <= u.own.Last {
		t.stamps = t.stamps[1:]
	}
	now := t.w.node.Mono()
	t.openedAt, t.nextPut = now, now+apart
	t.mu.Lock()
	u.round = t.round
	t.flight = append(t.flight, u)
	t.active++
	t.mu.Unlock()
	t.w.tasks.Go(func() { t.upload(u) })
	return true
}

// stateAfter returns the hash of the state at the end of a span of pending, and the number of entries of that span. It may have fewer than
// n, so that the hash is known. The number is 0 if no hash is known. A member remembers only the newest hashes; older ones come from the
// stamps of leaders on later entries.
func (t *term) stateAfter(n int) (int, uint64, error) {
	ask := func(n int) (uint64, bool, error) {
		ctx, done := t.context(patience)
		defer done()
		return t.w.node.StateHash(ctx, t.pending[n-1].Index)
	}
	hash, known, err := ask(n)
	if err != nil || known {
		return n, hash, err
	}
	first, best := t.pending[0].Index, stamp{}
	for _, s := range t.stamps {
		if s.index < first || s.index > t.pending[len(t.pending)-1].Index {
			continue
		}
		if s.index <= t.pending[n-1].Index || best.index == 0 { // the last one within, or else the first one beyond
			best = s
		}
	}
	if best.index > 0 {
		return int(best.index-first) + 1, best.hash, nil
	}
	if n < len(t.pending) {
		if hash, known, err = ask(len(t.pending)); err != nil || known {
			return len(t.pending), hash, err
		}
	}
	return 0, 0, nil
}

// wallOf is the time along the log of an entry, or of the newest that has one.
func (t *term) wallOf(e node.Entry) int64 {
	if e.Type == 0 && len(e.Data) > 0 {
		if h, _, err := entry.DecodeHeader(e.Data); err == nil {
			return h.WallNs
		}
	}
	return t.wallNs
}
