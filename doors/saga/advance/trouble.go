package advance

import (
	"strings"
	"sync"

	"github.com/holdfastdb/holdfast/doors/saga/outcall"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// Trouble is why a transaction is tried again: the newest call that came to something else than a success.
type Trouble struct {
	// URL was called. "": no call is the reason, for example because the transaction's custom_data cannot be read.
	URL string
	// Text describes the trouble, for people.
	Text string
	// Call is the newest call of the transaction, zero if none is known.
	Call LastCall
}

// LastCall is a call of a branch, or a query that a transaction makes by itself.
type LastCall struct {
	URL, Op, BranchID string
	// Tick is when it ended, by the clock that transactions go by; when it began if Running.
	Tick    int64
	Running bool
}

// Trouble returns the newest error of an open transaction in a status; the zero Trouble if this term has seen none in it. leads reports whether this member
// leads and so would know. Errors are in the leader's memory alone: a log entry for each failed call would let a service that is down
// fill the disk. Any goroutine.
func (w *Worker) Trouble(number uint64, in sagapart.Status) (of Trouble, leads bool) {
	t := w.current()
	if t == nil {
		return Trouble{}, false
	}
	of = t.troubles.of(number, in)
	if call := t.lastCall(number); call != nil {
		of.Call = *call
	}
	return of, true
}

// lastCall is the newest call of the pass over a transaction, nil if there is no pass, or no call in it.
func (t *term) lastCall(number uint64) *LastCall {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k := t.known[number]; k != nil && k.pass != nil {
		return k.pass.last.Load()
	}
	return nil
}

// noteLast notes that a call begins, or has ended.
func (p *pass) noteLast(place int, running bool) LastCall {
	call := LastCall{URL: clip(p.url(place), maxTroubleURL), Op: "msg", BranchID: "00", Tick: p.t.w.now(), Running: running}
	if place != queryCall {
		b := &p.tx().Branches[place]
		call.Op, call.BranchID = b.Op, b.ID
	}
	p.last.Store(&call)
	return call
}

const (
	// maxTroubleBytes bounds the errors that a term keeps. When they are more, those that were noted first are dropped.
	maxTroubleBytes = 1 << 20
	// maxTroubleURL and maxTroubleText bound one URL and one text, in bytes.
	maxTroubleURL, maxTroubleText = 256, 512
	// troubleBytes is what one costs beside its texts: an entry of the map and up to two places in the order.
	troubleBytes = 240
)

// troubles are the newest errors of the transactions of one term.
type troubles struct {
	mu    sync.Mutex // guards the rest
	all   map[uint64]trouble
	order []noted // as they were noted, with some that are gone or were noted again since
	count uint64
	bytes int
}

type trouble struct {
	Trouble
	place  int
	status sagapart.Status // of the transaction
	id     uint64
}

// noted is one trouble's place in the order of dropping.
type noted struct{ number, id uint64 }

func (t *trouble) size() int {
	return troubleBytes + len(t.URL) + len(t.Text) + len(t.Call.Op) + len(t.Call.BranchID)
}

// of is empty for another status than that in which the error was noted: its call is no longer made.
func (s *troubles) of(number uint64, in sagapart.Status) Trouble {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.all[number]; t.status == in {
		return t.Trouble
	}
	return Trouble{}
}

// note replaces what is known of a transaction.
func (s *troubles) note(number uint64, in sagapart.Status, place int, what Trouble) {
	// Clones: the texts may be parts of an answer or a transaction, which would stay in memory with them.
	what.URL, what.Text = strings.Clone(clip(what.URL, maxTroubleURL)), strings.Clone(clip(what.Text, maxTroubleText))
	what.Call.URL, what.Call.Op, what.Call.BranchID = what.URL, strings.Clone(what.Call.Op), strings.Clone(what.Call.BranchID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[uint64]trouble{}
	}
	s.drop(number)
	s.count++
	t := trouble{Trouble: what, place: place, status: in, id: s.count}
	s.all[number] = t
	s.bytes += t.size()
	s.order = append(s.order, noted{number, t.id})
	for s.bytes > maxTroubleBytes {
		first := s.order[0]
		s.order = s.order[1:]
		if s.all[first.number].id == first.id {
			s.drop(first.number)
		}
	}
	if len(s.order) > 1024+2*len(s.all) {
		kept := make([]noted, 0, len(s.all))
		for _, n := range s.order {
			if s.all[n.number].id == n.id {
				kept = append(kept, n)
			}
		}
		s.order = kept
	}
}

// over forgets the trouble of a call that has succeeded.
func (s *troubles) over(number uint64, place int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.all[number]; ok && t.place == place {
		s.drop(number)
	}
}

// forget forgets a transaction.
func (s *troubles) forget(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(number)
}

// drop is forget with mu held.
func (s *troubles) drop(number uint64) {
	if t, ok := s.all[number]; ok {
		s.bytes -= t.size()
		delete(s.all, number)
	}
}

// clip is the beginning of a text, in whole characters.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}

// noCall is the place of a trouble that is of no call.
const noCall = queryCall - 1

// noteCall keeps what a call that has ended tells about why the transaction is tried again. The view has taken the result in.
func (p *pass) noteCall(place int, r outcall.Result) {
	s, number := &p.t.troubles, p.number
	call := p.noteLast(place, false)
	switch {
	case r.Outcome == outcall.OK:
		s.over(number, place)
	case p.isOver || p.tx().Status.Final():
	case place != queryCall && p.view.branches[place].status != sagapart.Prepared: // the call has decided its branch, which the log tells
	case r.Outcome == outcall.Ongoing:
		s.note(number, p.tx().Status, place, Trouble{URL: p.url(place), Text: "the service is still at it: " + r.Message, Call: call})
	case r.Outcome == outcall.Failure:
		s.note(number, p.tx().Status, place, Trouble{URL: p.url(place), Text: "the service refused: " + r.Message, Call: call})
	default:
		s.note(number, p.tx().Status, place, Trouble{URL: p.url(place), Text: r.Message, Call: call})
	}
}
