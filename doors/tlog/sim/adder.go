package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/sim"
)

// adder adds one batch after the other, as the queue of a door does. It never repeats an entry with an unknown outcome, so in the log that
// does not deduplicate each entry must be there at most once.
type adder struct {
	b     *logsBook
	id    int
	count int
	pause time.Duration
}

func (a *adder) next() {
	w, r := a.b.w, a.b.r
	if a.b.done {
		return
	}
	h := w.Members()[r.IntN(len(w.Members()))]
	lb := a.b.logs[r.IntN(len(a.b.logs))]
	var l *tlogmachine.Log
	if h.Node() != nil {
		l = machineOf(h).Find(lb.spec.Name)
	}
	if l == nil {
		w.After(sim.Between(r, time.Millisecond, 30*time.Millisecond), a.next)
		return
	}
	texts := a.texts(lb)
	part := &tlogpart.Part{Kind: tlogpart.Append, Log: l.Number}
	for _, text := range texts {
		part.Entries = tiles.AppendEntry(part.Entries, []byte(text))
		lb.asked[text] = true
	}
	moved := false
	move := func() {
		if !moved {
			moved = true
			w.After(sim.Around(r, a.pause), a.next)
		}
	}
	w.After(sim.Between(r, 2*time.Second, 5*time.Second), move) // the client gives up; the answer may still come
	w.Trace("t%d → %s add %d to %s: %s…", a.id, h.Name(), len(texts), lb.spec.Name, texts[0])
	refused := func() {
		w.Trace("t%d ← %s add %s…: refused", a.id, h.Name(), texts[0])
		lb.refuse(texts)
		move()
	}
	var err error
	h.Hear(func() {
		err = h.Node().ProposeAsync(lane, 0, []entry.Part{{Machine: entry.MachineTlog, Body: tlogpart.AppendPart(nil, part)}},
			func(res *entry.Result, err error) {
				switch {
				case errors.Is(err, node.ErrOverloaded):
					refused()
					return
				case errors.Is(err, node.ErrUnknown):
					w.Trace("t%d ← %s add %s…: unknown", a.id, h.Name(), texts[0])
					move()
					return
				case err != nil:
					w.Fail(sim.WrongOutcome, "an add through %s ended with %v", h.Name(), err)
				case res.Rejection != nil:
					w.Fail(sim.WrongOutcome, "an add through %s: %v", h.Name(), res.Rejection)
				}
				w.Trace("t%d ← %s %s@%d add %s…: %d", a.id, h.Name(), res.Pos, res.Term, texts[0], res.Of(entry.MachineTlog).(*tlogpart.Appended).At(0))
				lb.acknowledge(w, h, texts, res.Of(entry.MachineTlog).(*tlogpart.Appended))
				w.Count(Added, len(texts))
				move()
			})
	})
	if err != nil {
		refused()
		return
	}
	h.Pump()
}

// texts draws a batch: mostly a few entries, sometimes more than a bundle holds.
func (a *adder) texts(lb *logBook) []string {
	r := a.b.r
	n := 1 + r.IntN(6)
	if r.IntN(8) == 0 {
		n = 1 + r.IntN(300)
	}
	texts := make([]string, n)
	for i := range texts {
		if a.count++; lb.spec.Dedup {
			texts[i] = fmt.Sprintf("text %d", r.IntN(fewTexts))
		} else {
			texts[i] = fmt.Sprintf("entry %d of adder %d", a.count, a.id)
		}
	}
	return texts
}
