package advance

import (
	"fmt"
	"strings"
	"testing"

	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	"github.com/holdfastdb/holdfast/doors/saga/outcall"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// Decisions are tested on views written as text: one letter for each branch, in the order of the rows.
//
//	p  prepared and not called in this pass   r  called, no answer yet
//	s  succeeded, f failed: the log says so   S, F  likewise, but the log does not say so yet
//	o  answered that it is at it              x  no usable answer; the call is to be made again
//	t  the same under a retry limit, to be called again 50 ms into the pass
//
// A saga's branches are compensation and action by turns, those of tcc cancel and confirm, of xa rollback and commit, as DTM has them.

var ops = map[sagapart.Mode][2]string{
	sagapart.Saga: {sagapart.OpCompensate, sagapart.OpAction},
	sagapart.TCC:  {sagapart.OpCancel, sagapart.OpConfirm},
	sagapart.XA:   {sagapart.OpRollback, sagapart.OpCommit},
	sagapart.Msg:  {sagapart.OpAction, sagapart.OpAction},
}

var plainTiming = timing{retryIntervalMs: 10_000, timeoutMs: 35_000, requestTimeoutMs: 3_000, alertAfter: 3}

// viewOf makes a view of a transaction whose branches stand as the letters say. Options that change the transaction come as edits.
func viewOf(mode sagapart.Mode, status sagapart.Status, letters string, edits ...func(*view)) *view {
	tx := &sagamachine.Transaction{Number: 7, Definition: sagapart.Definition{Gid: "g", Mode: mode, QueryPrepared: "http://q/ask"}}
	tx.Status, tx.IntervalMs = status, 10_000
	for i := range letters {
		b := sagamachine.Branch{}
		b.ID, b.URL, b.Status = fmt.Sprintf("%02d", i/2+1), fmt.Sprintf("http://s%d/", i), sagapart.Prepared
		if pair, ok := ops[mode]; ok {
			b.Op = pair[i%2]
		}
		tx.Branches = append(tx.Branches, b)
	}
	v := &view{tx: tx, timing: &plainTiming, plan: &plan{}}
	for _, edit := range edits {
		edit(v)
	}
	made := newView(tx, v.timing, v.inherited)
	made.ageMs, made.passMs, made.aheadMs, made.retries, made.query, made.queried = v.ageMs, v.passMs, v.aheadMs, v.retries, v.query, v.queried
	for i, letter := range letters {
		b := &made.branches[i]
		b.idle = tx.Branches[i].URL == ""
		answered := func(o outcall.Outcome) {
			b.state, b.outcome, b.tries, b.message = ended, o, 1, "says service "+fmt.Sprint(i)
		}
		switch letter {
		case 's':
			b.status = sagapart.Succeed
		case 'f':
			b.status = sagapart.Failed
		case 'S':
			b.status, b.saved = sagapart.Succeed, false
			answered(outcall.OK)
			made.succeeded = true
		case 'F':
			b.status, b.saved = sagapart.Failed, false
			answered(outcall.Failure)
		case 'r':
			b.state, b.tries = running, 1
		case 'o':
			answered(outcall.Ongoing)
		case 'x':
			answered(outcall.Transient)
		case 't':
			answered(outcall.Transient)
			b.state, b.retryMs = retrying, 50
		}
	}
	made.doubts()
	return made
}

// told is a step in words.
func (v *view) told(s step) string {
	var out []string
	if s.cancel {
		out = append(out, "cancel")
	}
	switch c := s.change; {
	case s.over:
		out = append(out, "over")
	case s.reread:
		out = append(out, "read again")
	case c != nil:
		if c.to != 0 {
			out = append(out, c.to.String())
		}
		if c.reason != "" {
			out = append(out, fmt.Sprintf("(%s)", c.reason))
		}
		for _, m := range c.marks {
			b := &v.branches[m.Branch]
			b.status, b.saved = m.Status, false
		}
		for _, r := range v.results() {
			out = append(out, fmt.Sprintf("%d=%s", r.Branch, r.Status))
		}
		if c.end && !c.to.Final() {
			out = append(out, fmt.Sprintf("end, next in %d, interval %d", c.nextMs, c.intervalMs))
		}
		if c.alert != nil {
			out = append(out, fmt.Sprintf("alert %d %s: %s", c.alert.RetryCount, c.alert.Branch, c.alert.Error))
		}
	case len(s.calls) > 0:
		out = append(out, "call", strings.Trim(fmt.Sprint(s.calls), "[]"))
	default:
		out = append(out, "wait")
	}
	if s.wakeMs != 0 {
		out = append(out, fmt.Sprintf("until %d", s.wakeMs))
	}
	return strings.Join(out, " ")
}

func timeout(ms int64) func(*view) { return func(v *view) { v.tx.Options.TimeoutMs = ms } }
func retries(limit int64) func(*view) {
	return func(v *view) { v.tx.Options.RetryLimit = limit }
}
func custom(json string) func(*view)  { return func(v *view) { v.tx.CustomData = json } }
func age(ms int64) func(*view)        { return func(v *view) { v.ageMs = ms } }
func lasted(ms int64) func(*view)     { return func(v *view) { v.passMs = ms } }
func interval(ms int64) func(*view)   { return func(v *view) { v.tx.IntervalMs = ms } }
func passes(n uint32) func(*view)     { return func(v *view) { v.tx.Passes = n } }
func retryEvery(ms int64) func(*view) { return func(v *view) { v.tx.Options.RetryIntervalMs = ms } }
func concurrently(v *view)            { v.tx.Options.Concurrent = true }
func inherited(v *view)               { v.inherited = true }
func queriedAgain(v *view)            { v.queried = true }
func answer(o outcall.Outcome) func(*view) {
	return func(v *view) { v.query = call{state: ended, outcome: o, tries: 1, message: "says the client"} }
}
func noURL(places ...int) func(*view) {
	return func(v *view) {
		for _, i := range places {
			v.tx.Branches[i].URL = ""
		}
	}
}

const parallel = `{"concurrent":true}`

type decision struct {
	name string
	view *view
	want string
}

func judge(t *testing.T, all []decision) {
	t.Helper()
	for _, d := range all {
		if got := d.view.told(decide(d.view)); got != d.want {
			t.Errorf("%s:\n got  %s\n want %s", d.name, got, d.want)
		}
	}
}

func TestASagaGoesForwardStepByStep(t *testing.T) {
	saga := func(letters string, edits ...func(*view)) *view {
		return viewOf(sagapart.Saga, sagapart.Submitted, letters, edits...)
	}
	judge(t, []decision{
		{"it begins", saga("pppp"), "call 1"},
		{"an answer is awaited", saga("prpp"), "wait"},
		{"the next goes out before the log has the first", saga("pSpp"), "call 3"},
		{"the log has both at the end, with the status", saga("pSpS"), "succeed 1=succeed 3=succeed"},
		{"what an earlier pass has done is not called again", saga("pspp", passes(1)), "call 3"},
		{"a saga without steps has succeeded", saga(""), "succeed"},
		{"a service is at it", saga("popp"), "end, next in 10000, interval 10000"},
		{"what was done before is kept then", saga("pSpo"), "1=succeed end, next in 10000, interval 10000"},
		{"no answer", saga("pxpp"), "end, next in 20000, interval 20000"},
		{"no answer after a success", saga("pSpx", interval(40_000)), "1=succeed end, next in 20000, interval 20000"},
		{"it has ended", viewOf(sagapart.Saga, sagapart.Succeed, "psps"), "over"},
		{"a pass that lasts too long ends, and another follows at once", saga("pSpp", lasted(5_000)), "1=succeed end, next in 0, interval 10000"},
		{"but not in the middle of a call", saga("pSpr", lasted(5_000)), "wait"},
		{"nothing is done before it is submitted", viewOf(sagapart.Saga, sagapart.Prepared, "pp"), "end, next in 10000, interval 10000"},
		{"its data cannot be read", saga("pp", custom("{")), "end, next in 20000, interval 20000"},
		{"orders that go round", saga("pppp", custom(`{"concurrent":true,"orders":{"0":[1],"1":[0]}}`)), "end, next in 20000, interval 20000"},
	})
}

func TestOnlyPlainSagasAreLazy(t *testing.T) {
	saga := func(letters string, edits ...func(*view)) *view {
		return viewOf(sagapart.Saga, sagapart.Submitted, letters, edits...)
	}
	judge(t, []decision{
		{"with a time limit", saga("pSpp", timeout(60_000)), "1=succeed"},
		{"with a retry limit", saga("pSpp", retries(3)), "1=succeed"},
		{"several at a time", saga("pSpp", custom(parallel)), "1=succeed"},
		{"then the next", saga("pspp", timeout(60_000)), "call 3 until 60000"},
		{"a step without a URL has nothing to lose", saga("pSpp", timeout(60_000), noURL(1)), "call 3 until 60000"},
		{"a message", viewOf(sagapart.Msg, sagapart.Submitted, "Sp"), "0=succeed"},
		{"tcc", viewOf(sagapart.TCC, sagapart.Submitted, "pppS"), "3=succeed"},
		{"xa", viewOf(sagapart.XA, sagapart.Submitted, "pSpp"), "1=succeed"},
		{"compensations", viewOf(sagapart.Saga, sagapart.Aborting, "psSf"), "2=succeed"},
	})
}

func TestASagaThatFails(t *testing.T) {
	submitted := func(letters string, edits ...func(*view)) *view {
		return viewOf(sagapart.Saga, sagapart.Submitted, letters, edits...)
	}
	aborting := func(letters string, edits ...func(*view)) *view {
		return viewOf(sagapart.Saga, sagapart.Aborting, letters, edits...)
	}
	judge(t, []decision{
		{"progress is durable before anything is compensated", submitted("pSpF"),
			"aborting (url:http://s3/ return failed: says service 3 FAILURE) 1=succeed 3=failed"},
		{"the step that failed is compensated first", aborting("pspfpp"), "call 2"},
		{"then the one before", aborting("pssfpp"), "call 0"},
		{"each once the log has the one behind it", aborting("psSfpp"), "2=succeed"},
		{"all is undone", aborting("Sssfpp"), "failed 0=succeed"},
		{"a compensation that says no is called again later", aborting("xf"), "end, next in 20000, interval 20000"},
		{"one that is at it too", aborting("of"), "end, next in 10000, interval 10000"},
		{"no compensation overtakes its action", viewOf(sagapart.Saga, sagapart.Aborting, "pfpr", custom(parallel)), "wait"},
		{"and what that action came to is kept", viewOf(sagapart.Saga, sagapart.Aborting, "pfpSpr", custom(parallel)), "3=succeed"},
		{"a failure that was logged without a word", submitted("pf"), "aborting (fail message lost)"},
	})
}

func TestASagaThatIsOverdue(t *testing.T) {
	limit := timeout(30_000)
	judge(t, []decision{
		{"nobody waits for the call under way", viewOf(sagapart.Saga, sagapart.Submitted, "pspr", limit, age(30_000)),
			"cancel aborting (Timeout after 30 seconds)"},
		{"it is noticed in the middle of a call", viewOf(sagapart.Saga, sagapart.Submitted, "pspr", limit, age(29_000), lasted(2_000)), "wait until 3000"},
		{"and between two passes", viewOf(sagapart.Saga, sagapart.Submitted, "pspo", limit, age(29_000)), "end, next in 1000, interval 10000"},
		{"what may have been called before is compensated", viewOf(sagapart.Saga, sagapart.Aborting, "pppp", limit, passes(1)), "call 0"},
		{"what cannot have been called is not", viewOf(sagapart.Saga, sagapart.Aborting, "sppp", limit, passes(1)), "failed"},
		{"nothing was ever called", viewOf(sagapart.Saga, sagapart.Aborting, "pppp", limit), "failed"},
		{"a leader before may have called the next", viewOf(sagapart.Saga, sagapart.Aborting, "pspppp", limit, inherited), "call 2"},
		{"a part of a second is said", viewOf(sagapart.Saga, sagapart.Submitted, "pp", timeout(1_500), age(1_500)), "cancel aborting (Timeout after 1.5 seconds)"},
		{"no limit", viewOf(sagapart.Saga, sagapart.Submitted, "pp", age(1e12)), "call 1"},
	})
}

func TestRetryLimit(t *testing.T) {
	saga := func(letters string, edits ...func(*view)) *view {
		return viewOf(sagapart.Saga, sagapart.Submitted, letters, append(edits, retries(3))...)
	}
	judge(t, []decision{
		{"its time has not come", saga("ptpp"), "wait until 50"},
		{"its time has come", saga("ptpp", lasted(50)), "call 1"},
		{"others go on meanwhile", saga("ptpp", custom(parallel)), "call 3 until 50"},
		{"that was the last", saga("pxpp"), "aborting (RetryCount is greater than RetryLimit, RetryLimit: 3)"},
		{"the pass has lasted long enough", saga("ptpp", lasted(5_000)), "end, next in 0, interval 10000"},
		{"a service that is at it has not failed", saga("popp"), "end, next in 10000, interval 10000"},
		{"a step that may be done is compensated", viewOf(sagapart.Saga, sagapart.Aborting, "pspxpp", retries(3)), "call 2"},
	})
	v := saga("pp")
	for try := range 4 {
		v.start(1)
		v.record(1, outcall.Result{Outcome: outcall.Transient}, 0.5)
		if again := v.action(0).state == retrying; again != (try < 3) {
			t.Errorf("try %d: to be called again: %v", try, again)
		}
	}
	if v.retries != 3 {
		t.Errorf("%d retries", v.retries)
	}
	for try, want := range []int64{50, 50, 100, 200, 400, 800, 1600, 2000, 2000} {
		if got := retryAfterMs(try, 0.5); got != want {
			t.Errorf("after try %d: %d ms", try, got)
		}
	}
	if low, high := retryAfterMs(1, 0), retryAfterMs(1, 1); low != 40 || high != 60 {
		t.Errorf("spread from %d to %d ms", low, high)
	}
}

func TestConcurrentSagas(t *testing.T) {
	const diamond = `{"concurrent":true,"orders":{"1":[0],"2":[0],"3":[1,2]}}`
	saga := func(letters string, edits ...func(*view)) *view {
		return viewOf(sagapart.Saga, sagapart.Submitted, letters, append(edits, custom(diamond))...)
	}
	aborting := func(letters string, edits ...func(*view)) *view {
		return viewOf(sagapart.Saga, sagapart.Aborting, letters, append(edits, custom(diamond))...)
	}
	judge(t, []decision{
		{"all at once", viewOf(sagapart.Saga, sagapart.Submitted, "pppppp", custom(parallel)), "call 1 3 5"},
		{"the first", saga("pppppppp"), "call 1"},
		{"then both in the middle", saga("pspppppp"), "call 3 5"},
		{"the last follows both", saga("pspspr" + "pp"), "wait"},
		{"then the last", saga("pspspspp"), "call 7"},
		{"one is at it, the others go on", saga("pspopr" + "pp"), "wait"},
		{"and then it waits", saga("pspopspp"), "end, next in 10000, interval 10000"},
		{"one fails: it is over at once", saga("pspFpr" + "pp"), "aborting (url:http://s3/ return failed: says service 3 FAILURE) 3=failed"},
		{"the last is undone first", aborting("pspspfpf"), "call 6"},
		{"then both in the middle", aborting("pspspfsf"), "call 4 2"},
		{"the first follows both", aborting("psrsSfsf"), "4=succeed"},
		{"and waits for them", aborting("psrssfsf"), "wait"},
		{"then the first", aborting("pssssfsf"), "call 0"},
		{"steps that never began are left alone", aborting("pspfpppp"), "call 2"},
	})
}

func TestASagaThatSomebodyAborts(t *testing.T) {
	saga := func(letters string, edits ...func(*view)) *view {
		return viewOf(sagapart.Saga, sagapart.Aborting, letters, edits...)
	}
	judge(t, []decision{
		{"the call under way is heard first", saga("pSprpp"), "1=succeed"},
		{"and waited for", saga("psprpp"), "wait"},
		{"what was tried counts as failed, what was not has nothing to undo", saga("pSpxpp"), "1=succeed 3=failed 4=succeed"},
		{"what an earlier pass may have called counts too", saga("pspppp", passes(1)), "3=failed 4=succeed"},
		{"then all is undone", saga("pspfsp", passes(1)), "call 2"},
		{"nothing was called at all", saga("pppp"), "failed"},
		{"a leader before may have called anything", saga("pppppp", inherited), "1=failed 3=failed 5=failed"},
		{"unless it waited for the log", saga("pppppp", inherited, timeout(60_000)), "call 0"},
		{"or has said what it knew", saga("pspssp", inherited), "call 2"},
		{"the worker's own decision leaves no doubt", saga("pspfpp", inherited), "call 2"},
	})
}

func TestMessages(t *testing.T) {
	prepared := func(edits ...func(*view)) *view { return viewOf(sagapart.Msg, sagapart.Prepared, "pp", edits...) }
	submitted := func(letters string, edits ...func(*view)) *view {
		return viewOf(sagapart.Msg, sagapart.Submitted, letters, edits...)
	}
	old := age(35_000)
	judge(t, []decision{
		{"its client still has time", prepared(age(10_000)), "end, next in 25000, interval 10000"},
		{"its own time", prepared(age(10_000), timeout(120_000)), "end, next in 110000, interval 10000"},
		{"it is asked", prepared(old), "call -1"},
		{"it says yes", prepared(old, answer(outcall.OK)), "submitted"},
		{"it says no", prepared(old, answer(outcall.Failure)), "failed (url:http://q/ask return failed: says the client FAILURE)"},
		{"it does not know yet", prepared(old, answer(outcall.Ongoing), interval(40_000)), "end, next in 10000, interval 10000"},
		{"it does not answer", prepared(old, answer(outcall.Transient)), "end, next in 20000, interval 20000"},
		{"it goes to the first", submitted("pp"), "call 0"},
		{"then to the second", submitted("sp"), "call 1"},
		{"not to the second before the first", submitted("op"), "end, next in 10000, interval 10000"},
		{"it does not come through", submitted("xp"), "end, next in 20000, interval 20000"},
		{"to all at once", submitted("ppp", concurrently), "call 0 1 2"},
		{"all are waited for", submitted("xr", concurrently), "wait"},
		{"it is delivered", submitted("sS"), "succeed 1=succeed"},
		{"a limit means nothing after it is submitted", submitted("pp", timeout(10), age(1e9)), "call 0"},
		{"not before its time", submitted("pp", custom(`{"delay":10}`), age(3_999)), "end, next in 6002, interval 10000"},
		{"nor when a part of a millisecond may be missing", submitted("pp", custom(`{"delay":10}`), age(10_000)), "end, next in 1, interval 10000"},
		{"at its time", submitted("pp", custom(`{"delay":10}`), age(10_001)), "call 0"},
		{"aborted", viewOf(sagapart.Msg, sagapart.Aborting, "pp"), "failed"},
	})
}

func TestTwoPhases(t *testing.T) {
	of := func(mode sagapart.Mode, s sagapart.Status, letters string, edits ...func(*view)) *view {
		return viewOf(mode, s, letters, edits...)
	}
	const tcc, xa = sagapart.TCC, sagapart.XA
	judge(t, []decision{
		{"the client decides", of(tcc, sagapart.Prepared, "pppp", age(34_000)), "end, next in 1000, interval 10000"},
		{"or its time is up", of(tcc, sagapart.Prepared, "pppp", age(35_000)), "aborting (Timeout after 35 seconds)"},
		{"by a limit of its own", of(xa, sagapart.Prepared, "", age(35_000), timeout(5_000)), "aborting (Timeout after 5 seconds)"},
		{"the last is confirmed first", of(tcc, sagapart.Submitted, "pppp"), "call 3"},
		{"then the one before", of(tcc, sagapart.Submitted, "ppps"), "call 1"},
		{"then all is well", of(tcc, sagapart.Submitted, "pSps"), "succeed 1=succeed"},
		{"the last is cancelled first", of(tcc, sagapart.Aborting, "pppp"), "call 2"},
		{"none before the one behind it", of(tcc, sagapart.Aborting, "ppop"), "end, next in 10000, interval 10000"},
		{"all is cancelled", of(tcc, sagapart.Aborting, "Spsp"), "failed 0=succeed"},
		{"no branches", of(tcc, sagapart.Submitted, ""), "succeed"},
		{"the first is committed first", of(xa, sagapart.Submitted, "pppp"), "call 1"},
		{"then the next", of(xa, sagapart.Submitted, "pspp"), "call 3"},
		{"committed", of(xa, sagapart.Submitted, "pspS"), "succeed 3=succeed"},
		{"the first is rolled back first", of(xa, sagapart.Aborting, "pppp"), "call 0"},
		{"a refusal is no end", of(xa, sagapart.Aborting, "xppp"), "end, next in 20000, interval 20000"},
	})
}

func TestWorkflows(t *testing.T) {
	flow := func(edits ...func(*view)) *view {
		return viewOf(sagapart.Workflow, sagapart.Prepared, "", append(edits, custom(`{"name":"pay","data":"aGk="}`))...)
	}
	judge(t, []decision{
		{"it is called", flow(), "call -1"},
		{"the log may know more after that", flow(answer(outcall.OK)), "read again"},
		{"it has not ended", flow(answer(outcall.OK), queriedAgain), "end, next in 10000, interval 10000"},
		{"it is at it", flow(answer(outcall.Ongoing), queriedAgain), "end, next in 10000, interval 10000"},
		{"it did not answer", flow(answer(outcall.Transient), queriedAgain), "end, next in 20000, interval 20000"},
		{"it has ended", viewOf(sagapart.Workflow, sagapart.Failed, ""), "over"},
	})
	v := flow()
	if v.plan.name != "pay" || string(v.workflowBody()) != "hi" {
		t.Errorf("over HTTP: %q %q", v.plan.name, v.workflowBody())
	}
	v.tx.Protocol = outcall.GRPC
	if got := string(v.workflowBody()); got != "\x0a\x02hi" {
		t.Errorf("over gRPC: %q", got)
	}
}

func TestIntervals(t *testing.T) {
	saga := func(letters string, edits ...func(*view)) *view {
		return viewOf(sagapart.Saga, sagapart.Submitted, letters, edits...)
	}
	const day = 24 * 60 * 60 * 1000
	judge(t, []decision{
		{"its own", saga("px", retryEvery(150_000), interval(150_000)), "end, next in 300000, interval 300000"},
		{"doubled again", saga("px", interval(20_000)), "end, next in 40000, interval 40000"},
		{"a service that is at it keeps what was reached", saga("po", interval(40_000)), "end, next in 40000, interval 40000"},
		{"a day at most", saga("px", interval(day-1)), "end, next in 86400000, interval 86400000 alert 13 http://s1/: says service 1"},
		{"or its own, if that is longer", saga("px", interval(2*day), retryEvery(2*day)), "end, next in 172800000, interval 172800000"},
		{"an alert after three doublings", saga("px", interval(40_000)), "end, next in 80000, interval 80000 alert 3 http://s1/: says service 1"},
		{"none for a service that is at it", saga("po", interval(80_000)), "end, next in 80000, interval 80000"},
		{"none was ever said", saga("po", interval(0)), "end, next in 10000, interval 10000"},
	})
}

func TestWhatAnswersMean(t *testing.T) {
	for _, c := range []struct {
		mode    sagapart.Mode
		place   int
		outcome outcall.Outcome
		want    sagapart.Status
	}{
		{sagapart.Saga, 1, outcall.OK, sagapart.Succeed},
		{sagapart.Saga, 1, outcall.Failure, sagapart.Failed},
		{sagapart.Saga, 1, outcall.Refused, sagapart.Prepared},
		{sagapart.Saga, 0, outcall.Failure, sagapart.Prepared}, // a compensation cannot fail
		{sagapart.TCC, 1, outcall.Failure, sagapart.Prepared},
		{sagapart.XA, 0, outcall.Failure, sagapart.Prepared},
		{sagapart.Msg, 0, outcall.Failure, sagapart.Prepared},
		{sagapart.Msg, 0, outcall.Ongoing, sagapart.Prepared},
	} {
		v := viewOf(c.mode, sagapart.Submitted, "pp")
		v.start(c.place)
		v.record(c.place, outcall.Result{Outcome: c.outcome}, 0)
		if b := v.branches[c.place]; b.status != c.want || b.saved != (c.want == sagapart.Prepared) {
			t.Errorf("%s branch %d, %s: %s, saved %v", c.mode, c.place, c.outcome, b.status, b.saved)
		}
	}
	v := viewOf(sagapart.Saga, sagapart.Submitted, "pp")
	v.start(1)
	logged := *v.tx
	logged.Branches = append([]sagamachine.Branch(nil), v.tx.Branches...)
	logged.Branches[1].Status = sagapart.Failed
	v.merge(&logged)
	v.record(1, outcall.Result{Outcome: outcall.OK}, 0)
	if b := v.branches[1]; b.status != sagapart.Failed || !b.saved {
		t.Errorf("an answer came over what the log says: %s", b.status)
	}
}

// A pass that has begun while the transaction was prepared goes by what its submit gave.
func TestAPassTakesTheOptionsOfASubmit(t *testing.T) {
	v := viewOf(sagapart.Msg, sagapart.Prepared, "pp")
	tx := *v.tx
	tx.Status, tx.CustomData, tx.Options.Concurrent = sagapart.Submitted, `{"delay":5}`, true
	v.merge(&tx)
	if s := decide(v); s.change == nil || !s.change.end || s.change.nextMs != 5001 {
		t.Errorf("before the delay is over: %+v", s)
	}
	v.ageMs = 5001
	if s := decide(v); len(s.calls) != 2 {
		t.Errorf("after it: calls %v, want both at once", s.calls)
	}
}
