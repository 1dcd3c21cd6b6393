package advance

import "strings"

// endpoint is a service as far as the bounds go: all transactions whose next call goes to one path of one host share it. A transaction that
// finds it full leaves memory but for its number, and is read again when its turn has come: one that hangs fills its own share and
// nobody else's. Guarded by term.mu.
type endpoint struct {
	name  string
	host  *host
	calls int      // under way, and places given to transactions that are being read again
	bytes int      // of the transactions they belong to
	queue []uint64 // who waits, and who did
}

// host is what the endpoints of one host and port have together. Guarded by term.mu.
type host struct {
	name      string
	calls     int
	endpoints int
}

// maxPaths bounds the endpoints that one host has by path. The calls to further paths share one: clients name paths.
const maxPaths = 64

// endpointOf is the part of a URL up to the second segment of its path, and the host and port in it. Two spellings of one service are two
// endpoints: outcall counts more exactly.
func endpointOf(url string) (name, host string) {
	rest := url
	if _, behind, ok := strings.Cut(url, "://"); ok {
		rest = behind
	}
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest = rest[:i]
	}
	host, path, _ := strings.Cut(rest, "/")
	if first, behind, ok := strings.Cut(path, "/"); ok {
		second, _, _ := strings.Cut(behind, "/")
		path = first + "/" + second
	}
	return host + "/" + path, host
}

// at finds the endpoint that a URL is called at; make makes it where there is none, else it is nil. The caller holds mu.
func (t *term) at(url string, make bool) *endpoint {
	name, on := endpointOf(url)
	h := t.hosts[on]
	if e := t.endpoints[name]; e != nil {
		return e
	}
	if h != nil && h.endpoints >= maxPaths {
		name = on
	}
	e := t.endpoints[name]
	if e != nil || !make {
		return e
	}
	if h == nil {
		h = &host{name: on}
		t.hosts[on] = h
	}
	h.endpoints++
	e = &endpoint{name: name, host: h}
	t.endpoints[name] = e
	return e
}

// enter takes a place for a call of a transaction with so many bytes to a URL, nil if it has none. reserved is the place that the
// transaction was given while it waited, nil if it was not; afterwards it has none.
func (t *term) enter(url string, bytes int, reserved **endpoint) *endpoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.at(url, true)
	if *reserved == e {
		*reserved = nil
		e.bytes += bytes
		return e
	}
	o := &t.w.opt
	if len(e.queue) > 0 || e.calls >= o.PerEndpoint || e.calls > 0 && int64(e.bytes+bytes) > o.MaxBytes/4 || e.calls >= t.share() ||
		e.host.calls >= o.PerEndpoint && e.calls >= max(o.PerEndpoint/8, leastShare) {
		return nil
	}
	e.calls++
	e.host.calls++
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
	} else {
		t.free(e)
	}
	t.mu.Unlock()
	t.load()
}

// free gives up one place of an endpoint, and forgets it with the last. The caller holds mu.
func (t *term) free(e *endpoint) {
	e.host.calls--
	if e.calls--; e.calls > 0 {
		return
	}
	delete(t.endpoints, e.name)
	if e.host.endpoints--; e.host.endpoints == 0 {
		delete(t.hosts, e.host.name)
	}
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
func (t *term) park(p *pass, url string, called bool) bool {
	number := p.tx().Number
	t.mu.Lock()
	e, k := t.at(url, false), t.known[number]
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
