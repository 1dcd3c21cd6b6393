package saga

import (
	"math"
	"time"

	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// resetCronTime makes transactions due now whose next pass is farther away than a given time. A service has recovered, and transactions
// that failed at it need not wait out their intervals.
func (d *Door) resetCronTime(q *ask, p params) (any, error) {
	timeout := 3 * d.opts.TimeoutToFail
	if s := p.get("timeout"); s != "" {
		n, err := whole(s)
		if err != nil {
			return nil, err
		}
		timeout = time.Duration(min(max(n, 0), maxSeconds)) * time.Second
	}
	n, err := limit(p)
	if err != nil {
		return nil, err
	}
	if err := d.node.Linearize(d.bounded()); err != nil {
		return nil, unread(err)
	}
	hurried, more, err := d.late(d.now()+timeout.Milliseconds(), n)
	if err != nil {
		return nil, err
	}
	if err := d.hurryAll(q, hurried); err != nil {
		return nil, err
	}
	return &struct {
		Remaining bool `json:"has_remaining"`
		Succeeded int  `json:"succeed_count"`
	}{more, len(hurried)}, nil
}

// mostTimers is how many timers one request looks at: most of them may be of transactions that are delayed.
const mostTimers = 10_000

// late finds up to n transactions that are due after a tick and may be hurried, and whether there may be more.
func (d *Door) late(tick int64, n int) (found []sagapart.ChangePart, more bool, err error) {
	at := sagamachine.Timer{Tick: tick, Number: math.MaxUint64}
	for looked := 0; ; {
		timers, err := d.machine.Due(at, math.MaxInt64, usualPage)
		if err != nil || len(timers) == 0 {
			return found, false, err
		}
		for _, at = range timers {
			if looked++; len(found) == n || looked > mostTimers {
				return found, true, nil
			}
			t, err := d.machine.BriefNumber(at.Number)
			if err != nil {
				return nil, false, err
			}
			if t != nil && hasty(t) {
				found = append(found, *hurried(t))
			}
		}
	}
}

// hurryAll makes transactions due at once, several at a time, and returns the first error.
func (d *Door) hurryAll(q *ask, all []sagapart.ChangePart) error {
	const together = 32
	errs := make(chan error, len(all))
	room := make(chan struct{}, together)
	for i := range all {
		room <- struct{}{}
		go func() {
			defer func() { <-room }()
			own := *q // its revision may change
			errs <- d.hurry(&own, &all[i])
		}()
	}
	var first error
	for range all {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// hasty reports whether a transaction may be made due before its time. One that was submitted and has had no pass yet is delayed, and its
// client was promised that nothing is called before.
func hasty(t *sagamachine.Transaction) bool {
	return !t.Status.Final() && (t.Status != sagapart.Submitted || t.Passes > 0)
}

// resetNextCronTime makes one transaction due now.
func (d *Door) resetNextCronTime(q *ask, r *request) error {
	if err := checkGid(r.Gid); err != nil {
		return err
	}
	t, err := d.mustFind(r.Gid)
	if err != nil || !hasty(t) {
		return err
	}
	return d.hurry(q, hurried(t))
}

// hurried is the change that makes a transaction due at once.
func hurried(t *sagamachine.Transaction) *sagapart.ChangePart {
	return &sagapart.ChangePart{Gid: t.Gid, Number: t.Number, From: sagapart.Of(t.Status), Timer: true, IntervalMs: t.IntervalMs}
}

// hurry carries it out. If the transaction has advanced meanwhile, that is as good.
func (d *Door) hurry(q *ask, c *sagapart.ChangePart) error {
	_, rej, err := d.propose(q, &sagapart.Part{Kind: sagapart.Change, Change: c})
	if rej != nil && rej.Code != sagapart.WrongStatus && rej.Code != sagapart.NotFound {
		return unknown(rej)
	}
	return err
}
