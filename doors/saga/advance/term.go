package advance

import (
	"container/heap"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	"github.com/holdfastdb/holdfast/doors/saga/outcall"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// term is everything the worker knows while it leads in one term. Transactions that are due are known: they run, are being read, or wait
// by number for room or for an endpoint. One that is known is not begun a second time, so no transaction is run by two passes at once.
type term struct {
	w      *Worker
	number uint64
	began  int64         // tick
	dead   atomic.Bool   // the term is over
	news   chan struct{} // capacity 1: there is something for turn

	troubles troubles // why transactions are tried again, for people

	// Of the goroutine that leads.
	timers timers
	seq    uint64 // of the last timer that an entry has set and that was taken in

	mu         sync.Mutex // guards the rest; never held while a pass is told anything
	known      map[uint64]*known
	queue      []uint64 // known, to be read, from head on
	head       int
	loading    int             // being read
	loaded     int             // with a pass
	given      int             // with a place and no pass yet
	givenBytes int64           // of those
	passed     map[uint64]bool // transactions from before the term that are open, and whose pass this leader has ended: the log has all of it
	bytes      int64
	endpoints  map[string]*endpoint // by name
	hosts      map[string]*host     // by name
	answered   names                // endpoints that have
	// known, each with a call to an endpoint without an answer so far, for which memory is reserved; and some that no longer are
	strangers  []uint64
	narrow     []*endpoint // where a transaction waits for memory rather than for a place
	met        uint64      // of strangers, how many had their turn
	meeting    uint64      // the one of them that is being read; 0: none
	relieved   *pass       // its calls are being given up; nil: none are
	relievedAt int64       // tick
	wakes      timerHeap   // when passes want to decide again
	full       bool        // a timer was left in the store for lack of room
}

// known is a transaction that is due. Guarded by term.mu.
type known struct {
	pass      *pass         // nil: it waits, or is being read
	again     bool          // its timer was set once more since it was read
	inherited bool          // see view.inherited
	delayed   bool          // a wake has it read
	forced    bool          // run it, due or not
	parked    *endpoint     // it waits for a place there
	stranger  bool          // it waits among term.strangers
	reserved  *endpoint     // it has been given a place there
	bytes     int           // its memory when it was parked
	ended     chan struct{} // closed when it is no longer known; nil: not watched
}

const (
	// inheritedSlackMs is by how much the tick of a leader before may have been ahead of ours.
	inheritedSlackMs = 1000
	// longestWait bounds a wait of the leader: the cluster's tick and a timer may drift apart.
	longestWait = time.Minute
	// rereadMs is how long a transaction waits that could not be read.
	rereadMs = 1000
)

func newTerm(w *Worker, number uint64) *term {
	t := &term{w: w, number: number, began: w.now(), news: make(chan struct{}, 1), known: map[uint64]*known{}, passed: map[uint64]bool{}, endpoints: map[string]*endpoint{}, hosts: map[string]*host{}}
	_, t.seq, _, _ = w.state.Recent(math.MaxUint64) // the rows are read after it
	return t
}

// turn begins what is due and returns how long there is nothing to do unless changed is closed.
func (t *term) turn() (wait time.Duration, changed <-chan struct{}) {
	if t.w.state.Held() {
		return pause, nil
	}
	changed = t.listen()
	now, room, err := t.w.now(), t.room(), error(nil)
	for room {
		x, ok := t.timers.due(now)
		if !ok {
			break
		}
		room = t.admit(x)
	}
	if room && !t.w.opt.ByHand {
		err = t.scan(now)
	}
	t.wake(now)
	if err != nil {
		t.w.opt.Logger.Error("saga: timers cannot be read; trying again", "error", err)
		return pause, nil
	}
	return t.untilNext(), changed
}

// room reports whether there is room for more that is due.
func (t *term) room() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.full
}

// listen takes in the timers that entries have set since the last time.
func (t *term) listen() (changed <-chan struct{}) {
	for {
		all, seq, ok, changed := t.w.state.Recent(t.seq)
		t.seq = seq
		if !ok {
			t.timers = timers{}
			continue
		}
		if len(all) == 0 {
			return changed
		}
		now := t.w.now()
		for _, x := range all {
			switch {
			case x.Tick > now:
				if !t.w.opt.ByHand {
					t.timers.add(x)
				}
			case t.again(x.Number):
			case t.timers.covers(x) || t.w.opt.ByHand: // else it is read when it is its turn
				t.admit(x)
			}
		}
	}
}

// scan reads timers on from where it stopped, as long as they are due and there is room.
func (t *term) scan(now int64) error {
	for !t.timers.all && len(t.timers.soon) == 0 {
		page, err := t.w.state.Due(t.timers.cover, math.MaxInt64, ahead)
		if err != nil {
			return err
		}
		for _, x := range page {
			t.timers.cover = x
			if x.Tick > now {
				t.timers.soon = append(t.timers.soon, x) // in order, and so a heap
			} else if !t.admit(x) {
				return nil
			}
		}
		t.timers.all = len(page) < ahead
	}
	return nil
}

// again notes that the timer of a known transaction was set once more, and reports whether it is known. A pass over it looks at the log
// again: a client may have asked for its end.
func (t *term) again(number uint64) bool {
	t.mu.Lock()
	k := t.known[number]
	var p *pass
	if k != nil {
		k.again, p = true, k.pass
		if k.parked != nil || k.stranger { // the endpoint may hang; the new request may have nothing to do with it
			k.parked, k.stranger = nil, false
			t.enqueue(number)
		}
	}
	t.mu.Unlock()
	t.load()
	if p != nil {
		t.w.loads.put(func() { p.post(event{kind: looked}) })
	}
	return k != nil
}

// admit makes a transaction known that is due; one that is known is read once more before it is forgotten. Without room its timer is left
// to be read again; it returns false then.
func (t *term) admit(x sagamachine.Timer) bool {
	t.mu.Lock()
	if k := t.known[x.Number]; k != nil {
		k.again = true // its pass may have set this timer with its last command, and not have heard of that
	} else {
		if len(t.known) >= 16*t.w.opt.MaxRunning {
			t.full = true
			t.mu.Unlock()
			t.timers.retreat(x)
			return false
		}
		t.known[x.Number] = &known{inherited: x.Tick <= t.began+inheritedSlackMs}
		t.enqueue(x.Number)
	}
	t.mu.Unlock()
	t.load()
	return true
}

// enqueue has a known transaction read. The caller holds mu, and calls load without it.
func (t *term) enqueue(number uint64) {
	if t.head >= 1024 && t.head*2 > len(t.queue) {
		t.queue, t.head = append(t.queue[:0], t.queue[t.head:]...), 0
	}
	t.queue = append(t.queue, number)
}

// load has transactions read while there is room for them.
func (t *term) load() {
	for {
		t.mu.Lock()
		o := &t.w.opt
		if t.dead.Load() || t.head == len(t.queue) || t.loading >= maxLoads || t.loaded+t.loading >= o.MaxRunning || t.bytes >= t.w.most.Load() {
			hung := t.relieve()
			t.mu.Unlock()
			if hung != nil {
				t.w.loads.put(func() { hung.post(event{kind: relieved}) })
			}
			return
		}
		number := t.queue[t.head]
		t.head++
		t.loading++
		t.known[number].again = false
		t.mu.Unlock()
		t.w.loads.put(func() { t.read(number) })
	}
}

// read reads a transaction and begins a pass over it if it is due.
func (t *term) read(number uint64) {
	tx, err := t.w.state.FindNumber(number)
	now := t.w.now()
	t.mu.Lock()
	t.loading--
	k := t.known[number]
	var p *pass
	var idle *endpoint
	switch {
	case t.dead.Load():
	case err != nil:
		k.delayed = true
		heap.Push(&t.wakes, sagamachine.Timer{Tick: now + rereadMs, Number: number})
	case tx == nil || tx.Status.Final() || tx.DueTick > now && !k.forced:
		idle = t.forget(number, k)
	default:
		p = newPass(t, tx, k.inherited || t.unheard(tx), now)
		k.pass, k.forced = p, false
		p.reserved = t.claim(k)
		t.loaded++
		t.bytes += int64(p.bytes)
	}
	if p == nil {
		t.metIs(number)
	}
	t.mu.Unlock()
	if err != nil {
		t.w.opt.Logger.Error("saga: a transaction cannot be read; trying again", "number", number, "error", err)
		t.signal()
	}
	if idle != nil {
		t.leave(idle, nil, outcall.Refused)
	}
	if p != nil {
		p.post(event{kind: woken})
	}
	t.load()
}

// unheard reports whether a leader before may have begun a pass over a saga that was aborted since. The abort has set the timer anew, so the timer
// no longer says when the transaction was due. The caller holds mu.
func (t *term) unheard(tx *sagamachine.Transaction) bool {
	return tx.Status == sagapart.Aborting && t.older(tx) && !t.passed[tx.Number]
}

// older reports whether a transaction may have begun before the term.
func (t *term) older(tx *sagamachine.Transaction) bool {
	return tx.CreatedTick <= t.began+inheritedSlackMs
}

// forget ends what is known of a transaction, unless its timer was set while it was looked at: then it is read again. The caller holds mu,
// and gives back the place that is returned.
func (t *term) forget(number uint64, k *known) (reserved *endpoint) {
	reserved, k.pass = t.claim(k), nil
	if k.ended != nil {
		close(k.ended)
		k.ended = nil
	}
	if k.again && !t.dead.Load() {
		k.inherited, k.forced = false, false
		t.enqueue(number)
		return reserved
	}
	delete(t.known, number)
	if t.full && len(t.known) <= 15*t.w.opt.MaxRunning {
		t.full = false
		t.signal()
	}
	return reserved
}

// ended is called by a pass when it is over. With final nothing follows.
func (t *term) ended(p *pass, final bool) {
	t.mu.Lock()
	t.unload(p)
	k := t.known[p.tx().Number]
	switch {
	case final:
		k.again = false
		delete(t.passed, p.tx().Number)
	case t.older(p.tx()):
		t.passed[p.tx().Number] = true
	}
	t.forget(p.tx().Number, k)
	t.mu.Unlock()
	t.load()
}

// wakeAt has a pass decide again at a tick.
func (t *term) wakeAt(number uint64, tick int64) {
	t.mu.Lock()
	if len(t.wakes) > 1024+4*t.loaded { // most are of passes that are over
		t.wakes = slices.DeleteFunc(t.wakes, func(x sagamachine.Timer) bool { return t.known[x.Number] == nil })
		heap.Init(&t.wakes)
	}
	first := len(t.wakes) == 0 || tick < t.wakes[0].Tick
	heap.Push(&t.wakes, sagamachine.Timer{Tick: tick, Number: number})
	t.mu.Unlock()
	if first {
		t.signal()
	}
}

// wake tells the passes whose time has come.
func (t *term) wake(now int64) {
	var passes []*pass
	t.mu.Lock()
	for len(t.wakes) > 0 && t.wakes[0].Tick <= now {
		x := heap.Pop(&t.wakes).(sagamachine.Timer)
		k := t.known[x.Number]
		switch {
		case k == nil:
		case k.pass != nil:
			passes = append(passes, k.pass)
		case k.delayed:
			k.delayed = false
			t.enqueue(x.Number)
		}
	}
	t.mu.Unlock()
	for _, p := range passes {
		p.post(event{kind: woken})
	}
	t.load()
}

// untilNext is how long nothing is due.
func (t *term) untilNext() time.Duration {
	wait := longestWait
	until := func(tick int64) {
		wait = min(wait, time.Duration(min(max(tick-t.w.now(), 0), 60_000))*time.Millisecond)
	}
	t.mu.Lock()
	full := t.full
	if len(t.strangers) > 0 {
		wait = 2 * relieveMs * time.Millisecond
	}
	if len(t.wakes) > 0 {
		until(t.wakes[0].Tick)
	}
	t.mu.Unlock()
	if tick, ok := t.timers.next(); ok && !full {
		until(tick)
	}
	return wait
}

// signal has turn look again.
func (t *term) signal() {
	select {
	case t.news <- struct{}{}:
	default:
	}
}

// end makes the term one that is over: every pass ends, and no result of a call leads to anything.
func (t *term) end() {
	t.dead.Store(true)
	var passes []*pass
	t.mu.Lock()
	for _, number := range slices.Sorted(maps.Keys(t.known)) {
		k := t.known[number]
		if k.pass != nil {
			passes = append(passes, k.pass)
		} else if k.ended != nil {
			close(k.ended)
			k.ended = nil
		}
	}
	t.mu.Unlock()
	for _, p := range passes {
		p.post(event{kind: woken})
	}
}
