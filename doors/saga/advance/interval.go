package advance

import (
	"cmp"
	"math/bits"
	"strconv"
	"time"

	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	"github.com/holdfastdb/holdfast/doors/saga/outcall"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

const (
	// longestMs is where the doubling of intervals ends, unless a transaction's own is longer.
	longestMs = 24 * 60 * 60 * 1000
	// passSlackMs is how much longer than one request a pass over a saga may last.
	passSlackMs = 2000
	// firstRetryMs and longestRetryMs bound the wait before a call under a retry limit is made again.
	firstRetryMs, longestRetryMs = 50, 2000
)

// timing is the coordinator's own times, for transactions that do not say otherwise.
type timing struct {
	retryIntervalMs, timeoutMs, requestTimeoutMs int64
	maxRequestTimeoutMs                          int64
	alertAfter                                   int // doublings of the interval
}

// interval is a transaction's wait between two passes at first, and again after a success.
func (t *timing) interval(o *sagapart.Options) int64 { return o.FirstIntervalMs(t.retryIntervalMs) }

// timeoutMs is the age at which a transaction is aborted, or asked about; 0: never.
func (v *view) timeoutMs() int64 {
	if v.tx.Mode == sagapart.Saga {
		return v.tx.Options.TimeoutMs
	}
	return cmp.Or(v.tx.Options.TimeoutMs, v.timing.timeoutMs)
}

// timeoutWake is when that is, by passMs; 0: never.
func (v *view) timeoutWake() int64 {
	if limit := v.timeoutMs(); limit > 0 {
		return max(v.passMs+limit-v.ageMs, 1)
	}
	return 0
}

// timeoutReason is DTM's rollback reason for it.
func timeoutReason(limitMs int64) string {
	return "Timeout after " + strconv.FormatFloat(float64(limitMs)/1000, 'f', -1, 64) + " seconds"
}

// requestTimeoutMs is the time limit of one call. The transaction's own value stays as it is in the log. The upper bound is this member's
// own setting, and may differ tomorrow.
func (v *view) requestTimeoutMs() int64 {
	ms := cmp.Or(v.tx.Options.RequestTimeoutMs, v.timing.requestTimeoutMs)
	if most := v.timing.maxRequestTimeoutMs; most > 0 {
		ms = min(ms, most)
	}
	return ms
}

// limitMs is how long a pass over a saga begins calls. A client that waits for its outcome is then told that there is none yet, and the
// next pass goes on at once.
func (v *view) limitMs() int64 { return v.requestTimeoutMs() + passSlackMs }

// intervalMs is the transaction's present wait.
func (v *view) intervalMs() int64 {
	return cmp.Or(v.tx.IntervalMs, v.timing.interval(&v.tx.Options))
}

// endAfter ends the pass; the next one is due after nextMs.
func (v *view) endAfter(nextMs, intervalMs int64) step {
	return step{change: &change{end: true, nextMs: nextMs, intervalMs: intervalMs}}
}

// pause ends the pass because it has lasted long enough, and not because it could not go on.
func (v *view) pause() step { return v.endAfter(0, v.intervalMs()) }

// later ends the pass because no further step is possible now. A success in it resets the interval, an error doubles it, and an ongoing
// service leaves it unchanged. DTM waits the doubled interval too.
func (v *view) later() step {
	reset := v.timing.interval(&v.tx.Options)
	interval := v.intervalMs()
	if v.succeeded {
		interval = min(interval, reset)
	}
	place, broken, _ := v.trouble()
	broken = broken || v.plan.problem != ""
	if broken {
		interval = min(interval*2, max(longestMs, reset))
	}
	next := interval
	if limit := v.timeoutMs(); v.tx.Mode == sagapart.Saga && v.tx.Status == sagapart.Submitted && limit > 0 {
		next = min(next, max(limit-v.ageMs, 0)) // aborted on time, and not at the next try
	}
	s := v.endAfter(next, interval)
	if doublings := bits.Len64(uint64(interval/max(reset, 1))) - 1; broken && doublings >= v.timing.alertAfter {
		s.change.alert = v.alert(place, doublings)
	}
	return s
}

// retryAfterMs is the wait before a call is repeated under a retry limit. It is 50 ms, doubled after each try up to 2 s, and spread by 20 %
// to both sides. So calls that failed together do not return together.
func retryAfterMs(tries int, spread float64) int64 {
	wait := int64(longestRetryMs)
	if n := max(tries, 1) - 1; n < 6 {
		wait = min(int64(firstRetryMs)<<n, longestRetryMs)
	}
	return int64(float64(wait) * (0.8 + 0.4*spread))
}

// sooner is the earlier of two times of which 0 is never.
func sooner(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func (c *call) ongoing() bool { return c.outcome == outcall.Ongoing }

// timeoutOf is the time limit of one call.
func (v *view) timeoutOf() time.Duration {
	return time.Duration(v.requestTimeoutMs()) * time.Millisecond
}

// payloadBytes is about what a transaction takes in memory. Branches that stand side by side often share a payload.
func payloadBytes(tx *sagamachine.Transaction) int {
	n := 2048 + len(tx.CustomData) + len(tx.Reason) + len(tx.Result)
	var last []byte
	for i := range tx.Branches {
		b := &tx.Branches[i]
		n += 512 + len(b.URL)
		if len(b.Payload) > 0 && (len(last) == 0 || &last[0] != &b.Payload[0]) {
			n += len(b.Payload)
			last = b.Payload
		}
	}
	return n
}
