package advance

import (
	"github.com/holdfastdb/holdfast/doors/saga/outcall"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// call1 is one call under way.
type call1 struct {
	place  int
	cancel func()
}

// begin begins calls, and returns false if there is nothing to decide before one of them ends.
func (p *pass) begin(places []int) (decide bool) {
	full := ""
	for _, place := range places {
		url := p.url(place)
		if url == "" { // nothing to call, and so done
			p.view.start(place)
			p.view.record(place, outcall.Result{Outcome: outcall.OK}, 0)
			decide = true
			continue
		}
		e := p.t.enter(p, url)
		if e == nil {
			full = url
			continue
		}
		p.view.start(place)
		p.noteLast(place, true)
		cancel := p.t.w.opt.Caller.Go(p.request(place, url), func(r outcall.Result) {
			p.t.leave(e, p, r.Outcome)
			p.post(event{kind: called, place: place, result: r})
		})
		p.under = append(p.under, call1{place, cancel})
	}
	if p.reserved != nil && len(places) > 0 {
		p.t.leave(p.reserved, nil, outcall.Refused)
		p.reserved = nil
	}
	if full == "" || decide || len(p.under) > 0 {
		return decide
	}
	return p.full(full)
}

// full waits for a place at an endpoint, outside of memory: nothing else of the transaction is under way. The commands that the log lacks
// are sent first. If an earlier call of the pass has not ended, the pass ends instead, so that its retry wait is kept.
func (p *pass) full(url string) (decide bool) {
	v := p.view
	_, broken, ongoing := v.trouble()
	switch {
	case broken || ongoing:
		p.propose(v.later().change)
	case len(v.results()) > 0:
		p.propose(&change{})
	default:
		if !p.t.park(p, url, v.anyCalled()) {
			return true
		}
		p.isOver = true
		p.unwatch()
	}
	return false
}

// url is the URL of a place.
func (p *pass) url(place int) string {
	if place == queryCall {
		return p.tx().QueryPrepared
	}
	return p.tx().Branches[place].URL
}

// request is one call.
func (p *pass) request(place int, url string) *outcall.Request {
	tx := p.tx()
	r := &outcall.Request{URL: url, Protocol: tx.Protocol, Gid: tx.Gid, Mode: tx.Mode.String(), Headers: p.headers, Timeout: p.view.timeoutOf(),
		Post: tx.Mode == sagapart.XA}
	switch {
	case place != queryCall:
		b := &tx.Branches[place]
		r.BranchID, r.Op, r.Payload = b.ID, b.Op, b.Payload
	case tx.Mode == sagapart.Workflow:
		r.BranchID, r.Op, r.Payload = "00", p.view.plan.name, p.view.workflowBody()
	default:
		r.BranchID, r.Op = "00", "msg"
	}
	return r
}

// spread is a number from 0 to 1 that differs between transactions, branches and tries, and is the same in every run of a simulation.
func spread(number uint64, place, tries int) float64 {
	x := number*0x9e3779b97f4a7c15 + uint64(place)<<32 + uint64(tries)
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	return float64(x>>11) / (1 << 53)
}
