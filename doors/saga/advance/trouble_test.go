package advance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/doors/saga/outcall"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// trouble is what the leader says of a transaction.
func (l *leader) trouble(gid string) string {
	tx := l.h.find(gid)
	t, leads := l.w.Trouble(tx.Number, tx.Status)
	return fmt.Sprintf("%v %s %s", leads, t.URL, t.Text)
}

// TestTheNewestErrorIsKnownToTheLeader until the call succeeds, the transaction moves on, or another member leads.
func TestTheNewestErrorIsKnownToTheLeader(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{})
	l.answer("action 01", transient, outcall.Result{Outcome: outcall.Ongoing, Message: "packing"})
	l.answer("action 02", transient)
	expect := func(l *leader, want string) {
		t.Helper()
		if got := l.trouble("order"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	h.saga("order", 2)
	l.pass("order")
	expect(l, "true http://s01/do connection refused")
	l.advance(30_000)
	l.pass("order")
	expect(l, "true http://s01/do the service is still at it: packing")
	l.advance(30_000)
	l.pass("order") // the first step is done, and the second is in trouble
	expect(l, "true http://s02/do connection refused")
	second := h.lead(2, Options{})
	second.answer("action 02", failure)
	second.answer("compensate 02", failure)
	eventually(t, "the second leads, and has not tried yet", func() bool { return second.trouble("order") == "true  " })
	l.Lead(0)
	eventually(t, "the first leads no more", func() bool { return l.trouble("order") == "false  " })
	second.advance(60_000)
	second.pass("order") // what is called from now on are compensations
	expect(second, "true http://s02/undo the service refused: not enough money")
	second.advance(60_000)
	second.pass("order")
	h.ends("order", "failed s s s f")
	expect(second, "true  ")

	second.answer("action 01", transient)
	second.answer("compensate 01", hang)
	h.saga("given up", 1)
	second.pass("given up")
	h.move("given up", sagapart.Submitted, sagapart.Aborting, "no longer wanted")
	if got := second.trouble("given up"); got != "true  " {
		t.Errorf("an action's error of what its client has aborted: %q", got)
	}
	eventually(t, "it is being undone", func() bool { second.mu.Lock(); defer second.mu.Unlock(); return len(second.held["compensate 01"]) == 1 })
	second.release(t, "compensate 01", ok)
	second.pass("given up")

	h.saga("ill", 1, customData(`{"orders":`))
	second.pass("ill")
	if got := second.trouble("ill"); !strings.Contains(got, "custom_data of the saga") {
		t.Errorf("a plan that cannot be read: %q", got)
	}
}

// TestAMessageThatItsClientDeniesSaysSo: the reason is what QueryPrepared answered.
func TestAMessageThatItsClientDeniesSaysSo(t *testing.T) {
	h := newHouse(t)
	l := h.lead(1, Options{})
	l.answer("msg 00", failure)
	h.msg("note", sagapart.Prepared, 1)
	l.advance(60_000)
	l.pass("note")
	if got := h.find("note").Reason; got != "url:http://client/query return failed: not enough money FAILURE" {
		t.Errorf("reason %q", got)
	}
}

// TestErrorsOfManyTransactionsAreBounded: the oldest give way, and what one says is cut.
func TestErrorsOfManyTransactionsAreBounded(t *testing.T) {
	s := &troubles{}
	const n = 20_000
	for i := range uint64(n) {
		s.note(i, sagapart.Submitted, 0, Trouble{URL: strings.Repeat("u", 4000), Text: strings.Repeat("ä", 4000)})
		s.note(n, sagapart.Submitted, 0, Trouble{Text: "again and again"})
	}
	if s.bytes > maxTroubleBytes || len(s.all) > maxTroubleBytes/troubleBytes || len(s.order) > 1025+2*len(s.all) {
		t.Errorf("%d bytes, %d transactions, %d in order", s.bytes, len(s.all), len(s.order))
	}
	newest := s.of(n-1, sagapart.Submitted)
	if len(newest.URL) != maxTroubleURL || len(newest.Text) > maxTroubleText || newest.Text == "" || s.of(0, sagapart.Submitted) != (Trouble{}) || s.of(n, sagapart.Submitted).Text == "" {
		t.Errorf("newest %v, oldest %v", newest, s.of(0, sagapart.Submitted))
	}
	for i := range uint64(n + 1) {
		s.forget(i)
	}
	if s.bytes != 0 || len(s.all) != 0 {
		t.Errorf("%d bytes are left", s.bytes)
	}
}
