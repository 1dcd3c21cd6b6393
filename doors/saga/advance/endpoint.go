package advance

import (
	"slices"
	"strings"

	"github.com/holdfastdb/holdfast/doors/saga/outcall"
)

// endpoint is a service as far as the bounds go: all transactions whose next call goes to one path of one host share it. A transaction that
// finds it full leaves memory except for its number, and is read again on its turn. One that hangs fills only its own share. Guarded by
// term.mu.
type endpoint struct {
	name  string
	host  *host
	calls int      // under way, and places given to transactions that are being read again
	bytes int      // of the transactions they belong to
	since int64    // tick of the last answer, or of the first call under way
	under []*pass  // those with a call under way, as they began
	queue []uint64 // waiting transactions, and earlier ones
	// narrow: it is in term.narrow, because a transaction waits for it that would have had a place if memory were not scarce.
	narrow bool
}

// host is the common state of the endpoints of one host and port. Guarded by term.mu.
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

// nameOf is the name of the endpoint that a URL is called at, and its host and port. The caller holds mu.
func (t *term) nameOf(url string) (name, on string) {
	name, on = endpointOf(url)
	if h := t.hosts[on]; t.endpoints[name] == nil && h != nil && h.endpoints >= maxPaths {
		return on, on
	}
	return name, on
}

// add makes the endpoint of a name, with no call yet. The caller holds mu.
func (t *term) add(name, on string) *endpoint {
	h := t.hosts[on]
	if h == nil {
		h = &host{name: on}
		t.hosts[on] = h
	}
	h.endpoints++
	e := &endpoint{name: name, host: h, since: t.w.now()}
	t.endpoints[name] = e
	return e
}

// enter takes a place for a call of a transaction to a URL, nil if it has none. The place that the transaction was given while it waited is
// taken at first.
func (t *term) enter(p *pass, url string) *endpoint {
	t.mu.Lock()
	e := t.place(p, url)
	next := e != nil && t.metIs(p.number)
	if e != nil && t.widen() {
		next = true
	}
	t.mu.Unlock()
	if next {
		t.load()
	}
	return e
}

// place is enter. The caller holds mu.
func (t *term) place(p *pass, url string) *endpoint {
	name, on := t.nameOf(url)
	e := t.endpoints[name]
	switch {
	case e != nil && p.reserved == e:
		p.reserved = nil
	case e != nil && len(e.queue) > 0, !t.fits(e, name, p.bytes):
		return nil
	case e == nil:
		e = t.add(name, on)
		fallthrough
	default:
		e.take(1)
	}
	e.bytes += p.bytes
	e.under = append(e.under, p)
	return e
}

// Shares of memory, in 64ths. From the first on, an endpoint has a share of it; from the second on, one that hangs begins no call. From the
// third on a stranger begins none: the rest is for services that answer.
const (
	all64     = 64
	scarce    = all64 * 3 / 4
	scarcer   = all64 * 7 / 8
	forLively = all64 * 15 / 16
)

// scarceShare is the least that a share is, in calls, but for the last of memory.
const scarceShare, leastShare = 8, 4

// taken is the share of memory that all other transactions have, in 64ths: by count or by bytes, the larger of both. Those that have been
// given a place count as read already: nothing holds them back then. The caller holds mu.
func (t *term) taken(bytes int) int64 {
	o := &t.w.opt
	return max(int64(t.loaded+t.given-1)*all64/int64(o.MaxRunning), (t.bytes+t.givenBytes-int64(bytes))*all64/t.w.most.Load())
}

// fits reports whether there is room for one more call to an endpoint, for a transaction of so many bytes that is in memory already. e is nil where no
// call to it is under way. However many services hang, and whether or not they have ever answered, those that answer find room. The caller holds mu.
func (t *term) fits(e *endpoint, name string, bytes int) bool {
	o := &t.w.opt
	taken := t.taken(bytes)
	if e == nil { // a first call
		return taken < forLively || t.answered.has(name)
	}
	if e.host.calls >= o.PerEndpoint && e.calls >= max(o.PerEndpoint/8, leastShare) {
		return false
	}
	share, sharedBytes := o.PerEndpoint, t.w.most.Load()/4
	lively := t.lively(e)
	switch {
	case taken >= scarcer && !lively:
		return false
	case taken >= scarcer || taken >= scarce && !lively:
		share, sharedBytes = max(o.MaxRunning/64, scarceShare), t.w.most.Load()/64
	case taken >= scarce:
		share, sharedBytes = max(o.MaxRunning/16, scarceShare), t.w.most.Load()/16
	}
	if taken >= forLively {
		share = leastShare
	}
	return e.calls < min(share, o.PerEndpoint) && int64(e.bytes+bytes) <= sharedBytes
}

// lively reports whether an endpoint answers, as far as is known. The caller holds mu.
func (t *term) lively(e *endpoint) bool { return t.answered.has(e.name) && !t.hangs(e) }

// hangs reports whether an endpoint with a call under way is silent for longer than a call usually may take. The caller holds mu.
func (t *term) hangs(e *endpoint) bool { return t.w.now()-e.since > t.w.opt.RequestTimeoutMs }

// leave gives a place back, to the transaction that has waited for it longest. p is whose call has ended, nil if none was made, and came what it came to.
func (t *term) leave(e *endpoint, p *pass, came outcall.Outcome) {
	t.mu.Lock()
	switch came {
	case outcall.OK, outcall.Failure, outcall.Ongoing:
		e.since = t.w.now()
		t.answered.add(e.name)
	case outcall.Transient:
		t.answered.drop(e.name)
	}
	if p != nil {
		e.bytes -= p.bytes
		if i := slices.Index(e.under, p); i >= 0 {
			e.under = slices.Delete(e.under, i, i+1)
		}
	}
	e.take(-1)
	for range 2 { // two, so that an endpoint that had little room while it hung has it again in the end
		if e.calls > 0 && !t.fits(e, e.name, 0) {
			break
		}
		if !t.give(e) {
			break
		}
	}
	if e.calls == 0 {
		t.unlist(e)
	}
	t.mu.Unlock()
	t.load()
}

// take counts n calls, which may be negative, of an endpoint and of its host. The caller holds mu.
func (e *endpoint) take(n int) {
	e.calls += n
	e.host.calls += n
}

// unlist drops an endpoint without calls, and its host with the last of its endpoints. The caller holds mu.
func (t *term) unlist(e *endpoint) {
	delete(t.endpoints, e.name)
	if e.host.endpoints--; e.host.endpoints == 0 {
		delete(t.hosts, e.host.name)
	}
}

// give gives a place at an endpoint to the transaction that has waited for it longest, and reports whether there was one. The caller holds mu, and calls
// load without it.
func (t *term) give(e *endpoint) bool {
	number, ok := t.waiting(e)
	if !ok {
		return false
	}
	k := t.known[number]
	k.parked, k.reserved = nil, e
	t.given++
	t.givenBytes += int64(k.bytes)
	e.take(1)
	t.enqueue(number)
	return true
}

// claim takes from a transaction the place that it was given while it was not in memory, nil if it has none. The caller holds mu.
func (t *term) claim(k *known) *endpoint {
	e := k.reserved
	if e != nil {
		k.reserved = nil
		t.given--
		t.givenBytes -= int64(k.bytes)
	}
	return e
}

// widen gives one more place at an endpoint that had less than it may have while memory was scarce, and reports whether it did. The caller holds mu, and
// calls load without it.
func (t *term) widen() bool {
	for len(t.narrow) > 0 {
		e := t.narrow[0]
		t.narrow = t.narrow[1:]
		switch {
		case t.endpoints[e.name] != e || len(e.queue) == 0:
			e.narrow = false
		case !t.fits(e, e.name, 0):
			t.narrow = append(t.narrow, e)
			return false
		case t.give(e):
			t.narrow = append(t.narrow, e)
			return true
		default:
			e.narrow = false
		}
	}
	return false
}

// names are the endpoints that have answered of late. They are bounded: clients name them. When so many have come the oldest half is forgotten.
type names struct{ now, before map[string]bool }

const mostNames = 4096

func (n *names) has(name string) bool { return n.now[name] || n.before[name] }

func (n *names) add(name string) {
	if n.now[name] {
		return
	}
	if n.now == nil || len(n.now) >= mostNames/2 {
		n.now, n.before = map[string]bool{}, n.now
	}
	n.now[name] = true
}

func (n *names) drop(name string) {
	delete(n.now, name)
	delete(n.before, name)
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
	name, _ := t.nameOf(url)
	e, k := t.endpoints[name], t.known[number]
	switch {
	case t.dead.Load(), e == nil && t.fits(e, name, p.bytes):
		t.mu.Unlock()
		return false
	case e == nil: // it waits for memory
		if len(t.strangers) > 1024+2*len(t.known) { // most wait no more
			t.strangers = slices.DeleteFunc(t.strangers, func(n uint64) bool { return t.known[n] == nil || !t.known[n].stranger })
		}
		t.strangers, k.stranger = append(t.strangers, number), true
	default:
		e.queue = append(e.queue, number)
		k.parked, k.bytes = e, p.bytes
		if !e.narrow && e.calls < t.w.opt.PerEndpoint {
			e.narrow = true
			t.narrow = append(t.narrow, e)
		}
	}
	k.pass, k.inherited = nil, k.inherited || called
	t.unload(p)
	if k.again { // its timer was set meanwhile
		k.parked, k.stranger = nil, false
		t.enqueue(number)
	}
	t.mu.Unlock()
	t.load()
	return true
}

// unload counts a transaction as no longer in memory. The caller holds mu.
func (t *term) unload(p *pass) {
	t.loaded--
	t.bytes -= int64(p.bytes)
	if t.relieved == p {
		t.relieved = nil
	}
	if !t.metIs(p.number) {
		t.meet()
	}
	t.widen()
}

// meet starts the read of one transaction that waits for memory to call a stranger, if there is some. It takes by turns the last and the
// first to come. The last may be a service that answers behind thousands that do not. One is read at a time: several would block each other
// in memory. The caller holds mu.
func (t *term) meet() {
	for len(t.strangers) > 0 && t.meeting == 0 && t.taken(0) < forLively {
		var number uint64
		if t.met++; t.met%2 == 0 {
			number, t.strangers = t.strangers[0], t.strangers[1:]
		} else {
			last := len(t.strangers) - 1
			number, t.strangers = t.strangers[last], t.strangers[:last]
		}
		if k := t.known[number]; k != nil && k.stranger {
			k.stranger, t.meeting = false, number
			t.enqueue(number)
		}
	}
}

// rebound has those begin that wait for memory, after its bound has changed.
func (t *term) rebound() {
	t.mu.Lock()
	t.meet()
	for t.widen() {
	}
	t.mu.Unlock()
	t.load()
}

// metIs notes that the fate of a transaction is known. It starts the read of the next stranger if the transaction was the one chosen by
// meet. It reports whether it was. The caller holds mu, and calls load without it.
func (t *term) metIs(number uint64) bool {
	if t.meeting != number {
		return false
	}
	t.meeting = 0
	t.meet()
	return true
}

// relieveMs is between two calls that are given up.
const relieveMs = 10

// relieve looks for a transaction whose calls are to be given up to make room for others. It does so when memory is full, or reserved for
// answering services, and a transaction waits for it. It picks the oldest call to the hanging endpoint with the most. Its service was to
// have all the time that the transaction grants, but not at the expense of others. nil: there is none. The caller holds mu, and tells the
// pass without it.
func (t *term) relieve() *pass {
	now := t.w.now()
	o := &t.w.opt
	full := t.head < len(t.queue) && (t.loaded >= o.MaxRunning || t.bytes >= t.w.most.Load())
	kept := len(t.strangers) > 0 && t.taken(0) >= forLively
	if !full && !kept || t.relieved != nil || t.dead.Load() || now-t.relievedAt < relieveMs {
		return nil
	}
	t.relievedAt = now // also if there is none: waiting transactions call again and again
	var worst *endpoint
	for _, e := range t.endpoints { // any order: of two as bad the name decides
		switch {
		case len(e.under) == 0 || !t.hangs(e):
		case worst == nil, e.bytes > worst.bytes, e.bytes == worst.bytes && e.since < worst.since,
			e.bytes == worst.bytes && e.since == worst.since && e.name < worst.name:
			worst = e
		}
	}
	if worst != nil {
		t.relieved = worst.under[0]
	}
	return t.relieved
}
