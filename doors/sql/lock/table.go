package lock

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
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

	ranges  map[string][]*resource // by the key of the lock on their table
	watched atomic.Int64           // ranges that there are; it is changed under mu

	owners atomic.Uint64 // the number of the last one
}

// New returns a table whose locks take at most so many bytes.
func New(bytes int64) *Table {
	return &Table{locks: map[string]*resource{}, ranges: map[string][]*resource{}, room: bytes, most: bytes}
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
	first [1]hold    // room for holds: most keys have one owner
	queue []*Request // in the order in which they are served
	span  *span      // nil: it is no range
}

type hold struct {
	owner *Owner
	modes set
}

// Owner is a transaction, or what a session keeps locked beyond its transactions. The methods of all owners of a party are called by one goroutine at
// a time.
type Owner struct {
	t     *Table
	id    uint64
	party *party
	held  []*resource // guarded by the table's mu
	grown *resource   // the key that the owner asked for last, if it had shared it before and has it alone since; guarded by the table's mu
	over  announced   // guarded by the table's mu
}

// announced is a key that an owner has locked and not announced at all ranges over it: it waits for one of them. The lock is not the owner's before.
type announced struct {
	key  string // "": there is none
	mode Mode
}

// party are the owners of one session. Their locks do not conflict with each other, and one of them waits at most. Guarded by the table's mu.
type party struct {
	weight  int64 // bytes that the transaction has written; the lightest of a circle gives up
	waits   *Request
	blocked int    // resources among those held for which others wait
	round   uint64 // in which the search for circles has come by
}

// Owner begins a transaction.
func (t *Table) Owner() *Owner {
	both := &struct {
		owner Owner
		party party
	}{}
	both.owner = Owner{t: t, id: t.owners.Add(1), party: &both.party}
	return &both.owner
}

// Kin returns another owner of the same party. Each is released by itself.
func (o *Owner) Kin() *Owner { return &Owner{t: o.t, id: o.t.owners.Add(1), party: o.party} }

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
	o.party.weight = bytes
}

// Lock asks for a lock on a key. A nil Request without an error: the owner has it. A Request: the owner waits for it, and asks for nothing else
// meanwhile. wait false: ErrBusy instead of a Request. Errors: ErrBusy, ErrDeadlock, ErrFull, ErrEnded.
func (o *Owner) Lock(key []byte, mode Mode, wait bool) (*Request, error) {
	t := o.t
	t.mu.Lock()
	defer t.mu.Unlock()
	return o.lock(t.locks[string(key)], key, mode, wait)
}

// lock is Lock. on is the resource of the key; nil: there is none yet. Guarded by the table's mu.
func (o *Owner) lock(on *resource, key []byte, mode Mode, wait bool) (*Request, error) {
	t, p := o.t, o.party
	if t.ended {
		return nil, ErrEnded
	}
	if p.waits != nil {
		panic("lock: an owner that waits asks for another lock")
	}
	if on == nil || on.span == nil {
		o.grown = nil
	}
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
		on.holds = on.first[:0]
		t.locks[on.key] = on
	}
	t.room -= need
	holder := mine != nil || on.has(p)
	asked := Request{owner: o, on: on, mode: mode}
	if on.free(&asked, on.waiting(holder)) {
		on.grant(&asked)
		return nil, nil
	}
	if !wait {
		t.room += need // the key was locked before, so that it stays
		return nil, ErrBusy
	}
	r := &Request{owner: o, on: on, mode: mode, done: make(chan struct{})}
	on.enqueue(r, holder)
	p.waits = r
	t.waits++
	for {
		victim := t.circle(p)
		if victim == nil {
			return r, nil
		}
		t.fail(victim.waits, ErrDeadlock)
		if victim == p {
			return nil, ErrDeadlock
		}
		if p.waits == nil { // the victim was all that was in the way
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
	return o.take(on, mode)
}

// take is Take of a resource. Guarded by the table's mu.
func (o *Owner) take(on *resource, mode Mode) error {
	if on.of(o) == nil {
		o.t.room -= holdBytes
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

// has reports whether an owner of a party holds the resource.
func (on *resource) has(p *party) bool {
	for i := range on.holds {
		if on.holds[i].owner.party == p {
			return true
		}
	}
	return false
}

// waiting are the modes of the requests that a new one waits behind. An owner that holds the resource already waits behind other such owners
// alone: everybody else waits for it.
func (on *resource) waiting(holder bool) (s set) {
	for _, r := range on.queue {
		if holder && !on.has(r.owner.party) {
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
		if h := &on.holds[i]; h.modes&conflicts[r.mode] != 0 && h.owner.party != r.owner.party {
			return false
		}
	}
	return true
}

func (on *resource) grant(r *Request) {
	if mine := on.of(r.owner); mine != nil {
		if mine.modes == 1<<Shared && r.mode == Exclusive {
			r.owner.grown = on
		}
		mine.modes |= 1 << r.mode
		return
	}
	on.holds = append(on.holds, hold{r.owner, 1 << r.mode})
	r.owner.held = append(r.owner.held, on)
	if len(on.queue) > 0 {
		r.owner.party.blocked++
	}
}

// enqueue adds a request. Those of holders come first.
func (on *resource) enqueue(r *Request, holder bool) {
	if len(on.queue) == 0 {
		for i := range on.holds {
			on.holds[i].owner.party.blocked++
		}
	}
	at := len(on.queue)
	if holder {
		for at = 0; at < len(on.queue) && on.has(on.queue[at].owner.party); at++ {
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
			on.holds[i].owner.party.blocked--
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
	r.owner.party.waits = nil
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
		t.forget(on)
		t.room += int64(len(on.key)) + keyBytes
	}
}

// GiveUp ends a request that is waited for. It reports false if the request has ended before: then Err has how.
func (o *Owner) GiveUp(r *Request) bool {
	o.t.mu.Lock()
	defer o.t.mu.Unlock()
	if o.party.waits != r {
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
	if r := o.party.waits; r != nil && r.owner == o {
		t.fail(r, ErrGivenUp)
	}
	held := o.held
	o.held = nil
	for _, on := range held {
		o.leave(on)
	}
}

// Unlock gives back the lock on a key, if the owner has it.
func (o *Owner) Unlock(key []byte) {
	o.t.mu.Lock()
	defer o.t.mu.Unlock()
	on := o.t.locks[string(key)]
	if on == nil || on.of(o) == nil {
		return
	}
	at := slices.Index(o.held, on)
	o.held = slices.Delete(o.held, at, at+1)
	o.leave(on)
}

// UnlockSince gives back the lock on a key, if the owner has got it behind the first so many of its locks, as Held counted them.
func (o *Owner) UnlockSince(mark int, key []byte) {
	o.t.mu.Lock()
	defer o.t.mu.Unlock()
	if on, at := o.since(mark, key); on != nil {
		o.held = slices.Delete(o.held, at, at+1)
		o.leave(on)
	}
}

// ShareSince makes a lock Shared instead of Exclusive, if the owner has got it behind the first so many of its locks, or has shared it before and asked for it
// alone last.
func (o *Owner) ShareSince(mark int, key []byte) {
	o.t.mu.Lock()
	defer o.t.mu.Unlock()
	on, _ := o.since(mark, key)
	if on == nil && o.grown != nil && o.grown == o.t.locks[string(key)] {
		on = o.grown
	}
	if on != nil {
		on.of(o).modes = 1 << Shared
		o.t.serve(on)
	}
}

// since returns the lock on a key, and its place among those held, if the owner has got it behind the first so many. Guarded by the table's mu.
func (o *Owner) since(mark int, key []byte) (on *resource, at int) {
	if on = o.t.locks[string(key)]; on == nil || mark >= len(o.held) {
		return nil, -1
	}
	if at = slices.Index(o.held[mark:], on); at < 0 {
		return nil, -1
	}
	return on, mark + at
}

// UnlockAll gives back the locks on all keys for which drop reports true, but for the first so many of them. What they protected is protected in another
// way by now, or is not there any more.
func (o *Owner) UnlockAll(mark int, drop func(key string) bool) {
	o.t.mu.Lock()
	defer o.t.mu.Unlock()
	var rest, gone []*resource // new slices: the old one may be large
	for i, on := range o.held {
		if i >= mark && drop(on.key) {
			gone = append(gone, on)
		} else {
			rest = append(rest, on)
		}
	}
	o.held = rest
	for _, on := range gone {
		o.leave(on)
	}
}

// leave takes the owner off a resource that is no longer among those held, and serves those that waited.
func (o *Owner) leave(on *resource) {
	at := slices.IndexFunc(on.holds, func(h hold) bool { return h.owner == o })
	on.holds = slices.Delete(on.holds, at, at+1)
	if len(on.queue) > 0 {
		o.party.blocked--
	}
	o.t.room += holdBytes
	o.t.serve(on)
}

// Each calls f for each key that the owner has locked. exclusive: nobody else may share it.
func (o *Owner) Each(f func(key string, exclusive bool)) {
	o.t.mu.Lock()
	defer o.t.mu.Unlock()
	for _, on := range o.held {
		f(on.key, on.of(o).modes&(1<<Exclusive) != 0)
	}
}

// Separate makes the owner a party of its own: from now on its locks conflict with those of its kin. It waits for nothing.
func (o *Owner) Separate() {
	o.t.mu.Lock()
	defer o.t.mu.Unlock()
	was := o.party
	o.party = &party{weight: was.weight}
	for _, on := range o.held {
		if len(on.queue) > 0 {
			was.blocked--
			o.party.blocked++
		}
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
				on.holds[i].owner.party.blocked--
			}
		}
		for _, r := range queue {
			r.end(ErrEnded)
		}
	}
}
