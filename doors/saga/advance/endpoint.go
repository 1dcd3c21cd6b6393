package advance

import "strings"

// endpoint is a service as far as the bounds go: all transactions whose next call goes to one host and port share it. A transaction that
// finds it full leaves memory but for its number, and is read again when its turn has come: one that hangs fills its own share and
// nobody else's. Guarded by term.mu.
type endpoint struct {
	name  string
	calls int      // under way, and places given to transactions that are being read again
	bytes int      // of the transactions they belong to
	queue []uint64 // who waits, and who did
}

// endpointOf is the part of a URL in front of the path. Two spellings of one service are two endpoints: outcall counts more exactly.
func endpointOf(url string) string {
	host := url
	if _, rest, ok := strings.Cut(url, "://"); ok {
		host = rest
	}
	if i := strings.IndexAny(host, "/?#"); i >= 0 {
		host = host[:i]
	}
	return host
}

// enter takes a place at an endpoint for a call of a transaction with so many bytes, nil if it has none. reserved is the place that the
// transaction was given while it waited, nil if it was not; afterwards it has none.
func (t *term) enter(name string, bytes int, reserved **endpoint) *endpoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.endpoints[name]
	if e != nil && *reserved == e {
		*reserved = nil
		e.bytes += bytes
		return e
	}
	if e == nil {
		e = &endpoint{name: name}
		t.endpoints[name] = e
	}
	o := &t.w.opt
	if len(e.queue) > 0 || e.calls >= o.PerEndpoint || e.calls > 0 && int64(e.bytes+bytes) > t.w.most.Load()/4 || e.calls >= t.share() {
		return nil
	}
	e.calls++
	e.bytes += bytes
	return e
}

// Shares of an endpoint while memory is scarce, in calls.
const scarceShare, leastShare = 8, 4

// share is how many calls one endpoint may have. From three quarters of all transactions that memory has room for on it is a 64th of them, and in
// the last eighth a handful: however many endpoints hang, there is room for the first calls to another. The caller holds mu.
func (t *term) share() int {
	o := &t.w.opt
	switch {
	case t.loaded >= o.MaxRunning/8*7 && o.MaxRunning >= 8*scarceShare:
		return leastShare
	case t.loaded >= o.MaxRunning/4*3:
		return max(o.MaxRunning/64, scarceShare)
	}
	return o.PerEndpoint
}

// leave gives a place back, to the transaction that has waited for it longest.
func (t *term) leave(e *endpoint, bytes int) {
	t.mu.Lock()
	e.bytes -= bytes
	if number, ok := t.waiting(e); ok {
		k := t.known[number]
		k.parked, k.reserved = nil, e
		t.enqueue(number)
	} else if e.calls--; e.calls == 0 {
		delete(t.endpoints, e.name)
	}
	t.mu.Unlock()
	t.load()
}

// waiting takes the transaction out of a queue that has waited for longest. One that was read meanwhile for another reason waits no more.
// The caller holds mu.
func (t *term) waiting(e *endpoint) (number uint64, ok bool) {
	for len(e.queue) > 0 && !ok {
		number, e.queue = e.queue[0], e.queue[1:]
		k := t.known[number]
		ok = k != nil && k.parked == e
	}
	if len(e.queue) == 0 {
		e.queue = nil
	}
	return number, ok
}

// park has a transaction whose next call has no place at an endpoint wait for one, behind the others. called says that a call of its pass
// may have been made of which the log does not say so. park returns false if there is a place now.
func (t *term) park(p *pass, name string, called bool) bool {
	number := p.tx().Number
	t.mu.Lock()
	e, k := t.endpoints[name], t.known[number]
	if e == nil || t.dead.Load() {
		t.mu.Unlock()
		return false
	}
	e.queue = append(e.queue, number)
	k.pass, k.parked, k.inherited = nil, e, k.inherited || called
	t.loaded--
	t.bytes -= int64(p.bytes)
	if k.again { // its timer was set meanwhile
		k.parked = nil
		t.enqueue(number)
	}
	t.mu.Unlock()
	t.load()
	return true
}
