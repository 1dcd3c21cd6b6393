package lock

import (
	"errors"
	"slices"
	"sync"
)

var (
	// ErrDeadlock: the transaction has waited in a circle and was chosen to give up. It holds its locks until it is released.
	ErrDeadlock = errors.New("deadlock")
	// ErrBusy: another transaction is in the way, and the caller does not want to wait.
	ErrBusy = errors.New("lock is held by another transaction")
	// ErrFull: there is no room for another lock.
	ErrFull = errors.New("table of locks is full")
	// ErrEnded: the table's term is over.
	ErrEnded = errors.New("term of the locks is over")
	// ErrGivenUp: the caller has given up the request.
	ErrGivenUp = errors.New("request was given up")
)

// About what a locked key takes in memory beside itself, and what each owner of it does.
const (
	keyBytes  = 160
	holdBytes = 64
)

// Table has the locks of one term. Its methods may be called from several goroutines.
type Table struct {
	mu    sync.Mutex
	locks map[string]*resource // guarded by mu, as all below
	room  int64                // bytes left for locks; below 0: Bound has taken what transactions still hold
	most  int64                // bytes of all locks
	waits int                  // requests
	ended bool
	round uint64 // of the search for circles
}

// New returns a table whose locks take at most so many bytes.
func New(bytes int64) *Table {
	return &Table{locks: map[string]*resource{}, room: bytes, most: bytes}
}

// Bound sets how many bytes the locks may take. Locks that are held stay until their transactions end.
func (t *Table) Bound(bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.room += bytes - t.most
	t.most = bytes
}

// Bytes returns how many bytes the locks take.
func (t *Table) Bytes() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.most - t.room
}

// resource is what one key locks. Guarded by the table's mu.
type resource struct {
	key   string
	holds []hold
	queue []*Request // in the order in which they are served
}

type hold struct {
	owner *Owner
	modes set
}

// Owner is a transaction. Its methods are called by one goroutine at a time.
type Owner struct {
	t *Table

	// Guarded by the table's mu.
	weight  int64 // bytes that the transaction has written; the lightest of a circle gives up
	held    []*resource
	waits   *Request
	blocked int    // resources among held for which others wait
	round   uint64 // in which the search for circles has come by
}

// Owner begins a transaction.
func (t *Table) Owner() *Owner { return &Owner{t: t} }

// Request is a lock that is waited for. Done, and then Err, may be called from any goroutine.
type Request struct {
	owner *Owner
	on    *resource
	mode  Mode
	done  chan struct{}
	err   error // set before done is closed
}

// Done is closed when the lock is granted, or will not be.
func (r *Request) Done() <-chan struct{} { return r.done }

// Err returns nil once the lock is granted. It is called after Done was closed.
func (r *Request) Err() error { return r.err }

// SetWeight says how many bytes the transaction has written.
func (o *Owner) SetWeight(bytes int64) {
	o.t.mu.Lock()
	defer o.t.mu.Unlock()
	o.weight = bytes
}

// Lock asks for a lock on a key. A nil Request without an error: the owner has it. A Request: the owner waits for it, and asks for nothing else
// meanwhile. wait false: ErrBusy instead of a Request. Errors: ErrBusy, ErrDeadlock, ErrFull, ErrEnded.
func (o *Owner) Lock(key []byte, mode Mode, wait bool) (*Request, error) {
	t := o.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil, ErrEnded
	}
	if o.waits != nil {
		panic("lock: an owner that waits asks for another lock")
	}
	on := t.locks[string(key)]
	var mine *hold
	if on != nil {
		mine = on.of(o)
	}
	if mine != nil && mine.modes&covers[mode] != 0 {
		return nil, nil
	}
	need := int64(0)
	if mine == nil {
		need = holdBytes
	}
	if on == nil {
		need += int64(len(key)) + keyBytes
	}
	if need > 0 && t.room < need {
		return nil, ErrFull
	}
	if on == nil {
		on = &resource{key: string(key)}
		t.locks[on.key] = on
	}
	t.room -= need
	r := &Request{owner: o, on: on, mode: mode}
	if on.free(r, on.waiting(mine != nil)) {
		on.grant(r)
		return nil, nil
	}
	if !wait {
		t.room += need // the key was locked before, so that it stays
		return nil, ErrBusy
	}
	r.done = make(chan struct{})
	on.enqueue(r, mine != nil)
	o.waits = r
	t.waits++
	for {
		victim := t.circle(o)
		if victim == nil {
			return r, nil
		}
		t.fail(victim.waits, ErrDeadlock)
		if victim == o {
			return nil, ErrDeadlock
		}
		if o.waits == nil { // the victim was all that was in the way
			return nil, r.err
		}
	}
}

// Take gives an owner a lock for which nobody has to wait or to make room: that of a transaction which cannot be refused any more, on what nobody
// else can have locked in a way that conflicts. Error: ErrEnded.
func (o *Owner) Take(key []byte, mode Mode) error {
	t := o.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return ErrEnded
	}
	on := t.locks[string(key)]
	if on == nil {
		on = &resource{key: string(key)}
		t.locks[on.key] = on
		t.room -= int64(len(key)) + keyBytes
	}
	if on.of(o) == nil {
		t.room -= holdBytes
	}
	r := &Request{owner: o, on: on, mode: mode}
	if !on.free(r, 0) {
		panic("lock: another owner has what is taken")
	}
	on.grant(r)
	return nil
}

// of returns what an owner holds, or nil.
func (on *resource) of(o *Owner) *hold {
	for i := range on.holds {
		if on.holds[i].owner == o {
			return &on.holds[i]
		}
	}
	return nil
}

// waiting are the modes of the requests that a new one waits behind. An owner that holds the resource already waits behind other such owners
// alone: everybody else waits for it.
func (on *resource) waiting(holder bool) (s set) {
	for _, r := range on.queue {
		if holder && on.of(r.owner) == nil {
			break
		}
		s |= 1 << r.mode
	}
	return s
}

// free reports whether a request conflicts neither with other owners' locks nor with the requests before it.
func (on *resource) free(r *Request, before set) bool {
	if before&conflicts[r.mode] != 0 {
		return false
	}
	for i := range on.holds {
		if h := &on.holds[i]; h.owner != r.owner && h.modes&conflicts[r.mode] != 0 {
			return false
		}
	}
	return true
}

func (on *resource) grant(r *Request) {
	if mine := on.of(r.owner); mine != nil {
		mine.modes |= 1 << r.mode
		return
	}
	on.holds = append(on.holds, hold{r.owner, 1 << r.mode})
	r.owner.held = append(r.owner.held, on)
	if len(on.queue) > 0 {
		r.owner.blocked++
	}
}

// enqueue adds a request. Those of holders come first.
func (on *resource) enqueue(r *Request, holder bool) {
	if len(on.queue) == 0 {
		for i := range on.holds {
			on.holds[i].owner.blocked++
		}
	}
	at := len(on.queue)
	if holder {
		for at = 0; at < len(on.queue) && on.of(on.queue[at].owner) != nil; at++ {
		}
	}
	on.queue = slices.Insert(on.queue, at, r)
}

// dequeue takes a request out.
func (on *resource) dequeue(r *Request) {
	at := slices.Index(on.queue, r)
	on.queue = slices.Delete(on.queue, at, at+1)
	if len(on.queue) == 0 {
		for i := range on.holds {
			on.holds[i].owner.blocked--
		}
	}
}

// fail ends a request and serves those that waited behind it.
func (t *Table) fail(r *Request, err error) {
	if r.on.of(r.owner) == nil {
		t.room += holdBytes
	}
	r.on.dequeue(r)
	r.end(err)
	t.serve(r.on)
}

func (r *Request) end(err error) {
	r.owner.t.waits--
	r.owner.waits = nil
	r.err = err
	close(r.done)
}

// serve grants what may be granted by now.
func (t *Table) serve(on *resource) {
	var before set
	for i := 0; i < len(on.queue); {
		r := on.queue[i]
		if !on.free(r, before) {
			before |= 1 << r.mode
			i++
			continue
		}
		on.dequeue(r)
		on.grant(r)
		r.end(nil)
	}
	if len(on.holds) == 0 && len(on.queue) == 0 {
		delete(t.locks, on.key)
		t.room += int64(len(on.key)) + keyBytes
	}
}

// GiveUp ends a request that is waited for. It reports false if the request has ended before: then Err has how.
func (o *Owner) GiveUp(r *Request) bool {
	o.t.mu.Lock()
	defer o.t.mu.Unlock()
	if o.waits != r {
		return false
	}
	o.t.fail(r, ErrGivenUp)
	return true
}

// Release gives back all locks of the owner, and ends the request that it waits for.
func (o *Owner) Release() {
	t := o.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if o.waits != nil {
		t.fail(o.waits, ErrGivenUp)
	}
	held := o.held
	o.held, o.blocked = nil, 0
	for _, on := range held {
		at := slices.IndexFunc(on.holds, func(h hold) bool { return h.owner == o })
		on.holds = slices.Delete(on.holds, at, at+1)
		t.room += holdBytes
		t.serve(on)
	}
}

// Unlock gives back the locks on those keys for which drop reports true. What they protected is protected in another way by now.
func (o *Owner) Unlock(drop func(key string) bool) {
	t := o.t
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := o.held[:0]
	for _, on := range o.held {
		if !drop(on.key) {
			kept = append(kept, on)
			continue
		}
		if len(on.queue) > 0 {
			o.blocked--
		}
		at := slices.IndexFunc(on.holds, func(h hold) bool { return h.owner == o })
		on.holds = slices.Delete(on.holds, at, at+1)
		t.room += holdBytes
		t.serve(on)
	}
	clear(o.held[len(kept):])
	o.held = kept
}

// Each calls f for each key that the owner has locked. exclusive: nobody else may share it.
func (o *Owner) Each(f func(key string, exclusive bool)) {
	o.t.mu.Lock()
	defer o.t.mu.Unlock()
	for _, on := range o.held {
		f(on.key, on.of(o).modes&(1<<Exclusive) != 0)
	}
}

// Held is how many keys the owner has locked.
func (o *Owner) Held() int {
	o.t.mu.Lock()
	defer o.t.mu.Unlock()
	return len(o.held)
}

// Waiting is how many requests wait.
func (t *Table) Waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waits
}

// End ends the table with its term: every request fails with ErrEnded, and so does every later Lock.
func (t *Table) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	for _, on := range t.locks { // any order: requests are ended one by one
		queue := on.queue
		on.queue = nil
		for i := range on.holds {
			if len(queue) > 0 {
				on.holds[i].owner.blocked--
			}
		}
		for _, r := range queue {
			r.end(ErrEnded)
		}
	}
}
