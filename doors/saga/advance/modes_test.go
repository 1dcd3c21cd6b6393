package advance

import (
	"testing"

	"github.com/holdfastdb/holdfast/doors/saga/outcall"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// TestASagaOfTwoStepsIsTwoCommands: the client's, and one with both results and the status.
func TestASagaOfTwoStepsIsTwoCommands(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{})
	h.saga("order", 2)
	l.pass("order")
	h.logged("begin", "succeed 1=succeed 3=succeed")
	l.called("action 01", "action 02")
	h.ends("order", "succeed p s p s")
	tx := h.find("order")
	if tx.Finished == 0 || tx.Passes != 1 || tx.Reason != "" {
		t.Errorf("at the end: %+v", tx.Head)
	}
}

// TestWhatServicesAreTold: gid, mode, branch, op, payload, headers and the time limit of a call.
func TestWhatServicesAreTold(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{RequestTimeoutMs: 4_000})
	h.saga("order", 1, func(b *sagapart.BeginPart) {
		b.Headers = []sagapart.Header{{Name: "tenant", Value: "7"}}
		b.Options.RequestTimeoutMs = 6_000
	})
	l.pass("order")
	h.begin("bank", sagapart.XA, sagapart.Prepared, nil)
	h.register("bank", "01", sagapart.OpRollback, sagapart.OpCommit)
	h.move("bank", sagapart.Prepared, sagapart.Submitted, "")
	l.pass("bank")
	saga, xa := l.asked[0], l.asked[1]
	if saga.Gid != "order" || saga.Mode != "saga" || saga.BranchID != "01" || saga.Op != "action" || saga.URL != "http://s01/do" ||
		string(saga.Payload) != "{}" || saga.Post || saga.Timeout.Seconds() != 6 || len(saga.Headers) != 1 || saga.Headers[0] != (outcall.Header{Name: "tenant", Value: "7"}) {
		t.Errorf("a saga's action: %+v", saga)
	}
	if !xa.Post || xa.Mode != "xa" || xa.Op != "commit" || xa.Timeout.Seconds() != 4 || len(xa.Payload) != 0 {
		t.Errorf("xa: %+v", xa)
	}
}

// TestASagaIsUndoneInReverse, the step that failed with it; each compensation is in the log before the next is called.
func TestASagaIsUndoneInReverse(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{})
	l.answer("action 03", failure)
	h.saga("order", 4)
	l.pass("order")
	l.called("action 01", "action 02", "action 03", "compensate 03", "compensate 02", "compensate 01")
	h.logged("begin", "aborting 1=succeed 3=succeed 5=failed", "4=succeed", "2=succeed", "failed 0=succeed")
	h.ends("order", "failed s s s s s f p p")
	tx := h.find("order")
	if want := "url:http://s03/do return failed: not enough money FAILURE"; tx.Reason != want || tx.RolledBack == 0 {
		t.Errorf("reason %q, rolled back %d", tx.Reason, tx.RolledBack)
	}
}

// TestStepsWithoutAURL are done without a call, forward and back, and without a command of their own.
func TestStepsWithoutAURL(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{})
	l.answer("action 03", failure)
	h.saga("order", 3, func(b *sagapart.BeginPart) { b.Branches[3].URL, b.Branches[2].URL, b.Branches[0].URL = "", "", "" })
	l.pass("order")
	l.called("action 01", "action 03", "compensate 03")
	h.logged("begin", "aborting 1=succeed 3=succeed 5=failed", "4=succeed", "failed 0=succeed 2=succeed")
	h.saga("empty", 2, func(b *sagapart.BeginPart) { b.Branches[1].URL, b.Branches[3].URL = "", "" })
	l.pass("empty")
	h.logged("begin", "succeed 1=succeed 3=succeed")
}

// TestConcurrentSagasFollowTheirOrders, forward and back.
func TestConcurrentSagasFollowTheirOrders(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{})
	const diamond = `{"concurrent":true,"orders":{"1":[0],"2":[0],"3":[1,2]}}`
	l.answer("action 02", hang)
	l.answer("action 04", failure)
	l.answer("compensate 02", hang)
	h.saga("order", 4, customData(diamond))
	eventually(t, "both in the middle", l.has(3))
	l.called("action 01", "action 02", "action 03")
	eventually(t, "the third is in the log", func() bool { return h.stands("order") == "submitted p s p p p s p p" })
	l.release(t, "action 02", ok)
	eventually(t, "the last has failed and two are undone", func() bool { return h.stands("order") == "aborting p s p s s s s f" })
	l.called("action 04", "compensate 04", "compensate 03", "compensate 02")
	l.release(t, "compensate 02", ok)
	l.pass("order")
	l.called("compensate 01")
	h.ends("order", "failed s s s s s s s f")
}

// TestAConcurrentSagaThatFailsEarly: steps that follow what failed never begin and are not undone; one that is under way is waited for.
func TestAConcurrentSagaThatFailsEarly(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{})
	l.answer("action 01", failure)
	l.answer("action 02", hang)
	h.saga("order", 3, customData(`{"concurrent":true,"orders":{"2":[0]}}`))
	h.ends("order", "aborting p f p p p p")
	l.called("action 01", "action 02")
	l.release(t, "action 02", ok)
	l.pass("order")
	h.ends("order", "failed s f s s p p")
	if got := l.made(); len(got) != 2 {
		t.Errorf("undone: %v", got)
	}
}

// TestAMessage goes to one service after the other, and never back.
func TestAMessage(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{})
	l.answer("action 02", failure)
	h.msg("news", sagapart.Submitted, 3)
	l.pass("news")
	l.called("action 01", "action 02")
	h.logged("begin", "0=succeed", "due in 20000")
	l.advance(20_000)
	l.pass("news")
	l.called("action 02", "action 03")
	h.ends("news", "succeed s s s")
	h.commands()
	h.msg("all", sagapart.Submitted, 3, func(b *sagapart.BeginPart) { b.Options.Concurrent = true })
	l.pass("all")
	if got := l.made(); len(got) != 3 {
		t.Errorf("called %v", got)
	}
}

// TestAPreparedMessageIsAskedAbout when its client has had time enough, and not before.
func TestAPreparedMessageIsAskedAbout(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{})
	l.answer("msg 00", ongoing, transient, ok)
	h.msg("news", sagapart.Prepared, 1)
	l.advance(10_000)
	l.pass("news")
	l.called()
	h.logged("begin", "due in 25000")
	l.advance(25_000)
	l.pass("news")
	l.called("msg 00")
	h.logged("due in 10000")
	l.advance(10_000)
	l.pass("news")
	h.logged("due in 20000")
	l.advance(20_000)
	l.pass("news")
	l.called("msg 00", "msg 00", "action 01")
	h.logged("submitted", "succeed 0=succeed")
	if asked := l.asked[0]; asked.URL != "http://client/query" || asked.Payload != nil || asked.Post {
		t.Errorf("asked %+v", asked)
	}

	l.answer("msg 00", failure)
	h.msg("never", sagapart.Prepared, 1, timesOut(3_000))
	l.advance(10_000)
	l.pass("never")
	l.called("msg 00")
	h.ends("never", "failed p")
}

// TestAMessageThatIsSubmittedWhileItIsAskedAbout is delivered once.
func TestAMessageThatIsSubmittedWhileItIsAskedAbout(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{})
	l.answer("msg 00", hang)
	h.msg("news", sagapart.Prepared, 1, timesOut(3_000))
	l.advance(10_000)
	eventually(t, "it is asked about", l.has(1))
	h.move("news", sagapart.Prepared, sagapart.Submitted, "")
	l.release(t, "msg 00", ok)
	l.pass("news")
	l.called("msg 00", "action 01")
	h.ends("news", "succeed s")
}

// TestTCC: confirmed or cancelled in the reverse order of registration, one by one.
func TestTCC(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{})
	for _, gid := range []string{"yes", "no"} {
		h.begin(gid, sagapart.TCC, sagapart.Prepared, nil)
		h.register(gid, "01", sagapart.OpCancel, sagapart.OpConfirm)
		h.register(gid, "02", sagapart.OpCancel, sagapart.OpConfirm)
	}
	h.commands()
	h.move("yes", sagapart.Prepared, sagapart.Submitted, "")
	l.pass("yes")
	l.called("confirm 02", "confirm 01")
	h.logged("submitted due in 0", "3=succeed", "succeed 1=succeed")
	h.ends("yes", "succeed p s p s")
	l.answer("cancel 01", ongoing)
	h.move("no", sagapart.Prepared, sagapart.Aborting, "no money")
	l.pass("no")
	l.called("cancel 02", "cancel 01")
	h.ends("no", "aborting p p s p")
	l.advance(10_000)
	l.pass("no")
	l.called("cancel 01")
	h.ends("no", "failed s p s p")
}

// TestABranchThatIsRegisteredAtTheLastMoment, while its transaction runs out of time, is cancelled with the others.
func TestABranchThatIsRegisteredAtTheLastMoment(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{})
	h.begin("late", sagapart.TCC, sagapart.Prepared, nil, timesOut(5_000))
	h.register("late", "01", sagapart.OpCancel, sagapart.OpConfirm)
	h.mu.Lock()
	h.before = func(c *sagapart.ChangePart) error { // between the worker's reading and its command
		h.before = nil
		h.mu.Unlock()
		h.register("late", "02", sagapart.OpCancel, sagapart.OpConfirm)
		h.mu.Lock()
		return nil
	}
	h.mu.Unlock()
	l.advance(10_000)
	l.pass("late")
	l.called("cancel 02", "cancel 01")
	h.ends("late", "failed s p s p")
	if got := h.find("late").Reason; got != "Timeout after 5 seconds" {
		t.Errorf("reason %q", got)
	}
}

// TestXA: committed or rolled back in the order of registration.
func TestXA(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{})
	prepare := func(gid string) {
		h.begin(gid, sagapart.XA, sagapart.Prepared, nil)
		h.register(gid, "01", sagapart.OpRollback, sagapart.OpCommit)
		h.register(gid, "02", sagapart.OpRollback, sagapart.OpCommit)
	}
	prepare("yes")
	l.answer("commit 02", failure) // a database that does not answer as it should is asked again
	h.move("yes", sagapart.Prepared, sagapart.Submitted, "")
	l.pass("yes")
	l.called("commit 01", "commit 02")
	h.ends("yes", "submitted p s p p")
	l.advance(20_000)
	l.pass("yes")
	l.called("commit 02")
	h.ends("yes", "succeed p s p s")
	prepare("no")
	h.move("no", sagapart.Prepared, sagapart.Aborting, "")
	l.pass("no")
	l.called("rollback 01", "rollback 02")
	h.ends("no", "failed s p s p")
}

// TestAWorkflow is called again whenever it is due, until its client has said how it ended.
func TestAWorkflow(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{})
	h.begin("flow", sagapart.Workflow, sagapart.Prepared, nil, customData(`{"name":"pay","data":"aGk="}`))
	l.called()
	l.answer("pay 00", transient)
	l.advance(10_000)
	l.pass("flow")
	h.logged("begin", "due in 20000")
	l.answer("pay 00", hang)
	l.advance(20_000)
	eventually(t, "it is called", l.has(2))
	h.do(&sagapart.Part{Kind: sagapart.Register, Register: &sagapart.RegisterPart{Gid: "flow", Branches: []sagapart.Branch{{ID: "01", Op: "action", Status: sagapart.Succeed}}}})
	h.move("flow", sagapart.Prepared, sagapart.Succeed, "")
	l.release(t, "pay 00", ok)
	l.pass("flow")
	h.logged("register", "succeed due in 0")
	l.called("pay 00", "pay 00")
	if asked := l.asked[0]; string(asked.Payload) != "hi" || asked.URL != "http://client/query" {
		t.Errorf("called %+v", asked)
	}
	h.ends("flow", "succeed s")
}
