package saga

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// saga1 is a saga of one step whose action answers as its URL ends; DTM's clients say wait_result in it.
func saga1(gid, answer string) string {
	return fmt.Sprintf(`{"gid":%q,"trans_type":"saga","steps":[{"action":"http://busi/%s","compensate":"http://busi/ok"}],"payloads":["{}"],"wait_result":true}`, gid, answer)
}

// answer is one that comes later.
type answer struct {
	code int
	body string
}

// later sends a request and returns where its answer will be.
func (s *served) later(method, path, body string) <-chan answer {
	c := make(chan answer, 1)
	go func() {
		code, _, b := s.do(method, path, body)
		c <- answer{code, b}
	}()
	return c
}

// waits waits until n requests wait for news of a gid: they have watches of it.
func (s *served) waits(gid string, n int) {
	s.t.Helper()
	wait.Until(s.t, "requests wait for "+gid, func() bool {
		t, err := s.saga.Find(gid)
		return err == nil && t != nil && s.door.waiting.Load() == int64(n)
	})
}

// stillGoingOn is what a client hears that waited for an outcome that there is not yet.
const stillGoingOn = `{"dtm_result":"ONGOING","message":"wait result not return success: the transaction is still going on; ask GET /api/dtmsvr/query for its outcome, or submit it again with the same gid to wait once more ONGOING"}`

// TestWaitResult: a waiting client hears of a success only when there is one.
func TestWaitResult(t *testing.T) {
	s := serve(t, Options{})
	for _, c := range []struct {
		answer string
		code   int
		body   string
	}{
		{"ok", 200, success},
		{"fail", 409, `{"dtm_result":"FAILURE","message":"url:http://busi/fail return failed: no money FAILURE"}`},
		{"ongoing", 425, stillGoingOn},
	} {
		s.want(c.code, c.body, "POST", "submit", saga1(c.answer, c.answer))
	}
	if status := s.find("fail").Status; status != sagapart.Failed {
		t.Errorf("who waited for a failure heard of it while the saga was %s", status)
	}
}

// TestSuccessIsHeardOnceItIsApplied: the answer comes with the command that records the end, not before and not without it.
func TestSuccessIsHeardOnceItIsApplied(t *testing.T) {
	s := serve(t, Options{})
	a := s.later("POST", prefix+"submit", saga1("slow", "never"))
	s.waits("slow", 1)
	s.passed() // one that came later would find its step done and end the saga
	number := s.find("slow").Number
	s.change(&sagapart.ChangePart{Gid: "slow", Number: number, From: sagapart.Of(sagapart.Submitted), Results: []sagapart.BranchResult{{Branch: 1, Status: sagapart.Succeed}}})
	select {
	case got := <-a:
		t.Fatalf("answered %d %s before the end", got.code, got.body)
	case <-time.After(20 * time.Millisecond):
	}
	s.change(&sagapart.ChangePart{Gid: "slow", Number: number, From: sagapart.Of(sagapart.Submitted), To: sagapart.Succeed, Pass: true})
	if got := <-a; got.code != 200 {
		t.Errorf("%d %s", got.code, got.body)
	}
	s.waits("slow", 0)
}

// TestARepeatedSubmitWaitsForItsOwnPass: the end of a pass before it was sent is no answer to it.
func TestARepeatedSubmitWaitsForItsOwnPass(t *testing.T) {
	s := serve(t, Options{})
	first := s.later("POST", prefix+"submit", saga1("twice", "never"))
	s.waits("twice", 1)
	number := s.find("twice").Number
	pass := func(c sagapart.ChangePart) {
		c.Gid, c.Number, c.From, c.Pass, c.IntervalMs = "twice", number, sagapart.Of(sagapart.Submitted), true, 10_000
		s.change(&c)
	}
	s.mu.Lock()
	s.before = func() { pass(sagapart.ChangePart{Timer: true, NextMs: 10_000}) } // while the second submit is on its way
	s.mu.Unlock()
	second := s.later("POST", prefix+"submit", saga1("twice", "never"))
	if got := <-first; got.code != 425 {
		t.Errorf("the first: %d %s", got.code, got.body)
	}
	wait.Until(t, "the second one has made it due", func() bool { return s.find("twice").DueTick == s.Tick() })
	s.waits("twice", 1)
	pass(sagapart.ChangePart{To: sagapart.Succeed})
	if got := <-second; got.code != 200 {
		t.Errorf("the second: %d %s", got.code, got.body)
	}
}

// TestNobodyWaitsForNothing: where no pass will come soon the answer does.
func TestNobodyWaitsForNothing(t *testing.T) {
	s := serve(t, Options{WaitTimeout: 50 * time.Millisecond})
	s.want(425, stillGoingOn, "POST", "submit", saga1("late", "never"))
	s.waits("late", 0)

	// Who goes away is not waited for.
	s = serve(t, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "POST", "http://"+s.addr+prefix+"submit", strings.NewReader(saga1("gone", "never")))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := client.Do(r)
		ended <- err
	}()
	s.waits("gone", 1)
	cancel()
	if err := <-ended; err == nil {
		t.Error("an answer")
	}
	s.waits("gone", 0)

	// A member that stops says that it does not know.
	a := s.later("POST", prefix+"submit", saga1("stop", "never"))
	s.waits("stop", 1)
	close(s.stopped)
	if got := <-a; got.code != 500 || !strings.Contains(got.body, "submitted") || strings.Contains(got.body, wordFailure) {
		t.Errorf("when the member stopped: %d %s", got.code, got.body)
	}
}

// TestHeldNobodyWaits: after a restore no call goes out, so no pass will end.
func TestHeldNobodyWaits(t *testing.T) {
	s := serve(t, Options{})
	s.want(200, success, "POST", "submit", saga1("before", "ok"))
	s.restore()
	if !s.saga.Held() {
		t.Fatal("not held")
	}
	s.want(425, "", "POST", "submit", saga1("held", "ok"))
	if status := s.find("held").Status; status != sagapart.Submitted {
		t.Errorf("it is %s", status)
	}
	s.passes.Wait() // the first one's, which finds the call-outs held
	s.apply(&sagapart.Part{Kind: sagapart.Resume})
	s.want(200, success, "POST", "submit", saga1("held", "ok"))
}

// restore makes what the member has what a snapshot's restore would.
func (s *solo) restore() {
	s.t.Helper()
	s.passes.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	it, err := s.rig.Store.NewIter([]byte{byte(sagapart.Machine)}, []byte{byte(sagapart.Machine) + 1})
	if err != nil {
		s.t.Fatal(err)
	}
	b := s.rig.Store.NewBatch()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			s.t.Fatal(err)
		}
		row, keep, err := s.saga.Spec().Restore(it.Key(), v)
		switch {
		case err != nil:
			s.t.Fatal(err)
		case keep:
			b.Set(append([]byte(nil), it.Key()...), row)
		default:
			b.Delete(append([]byte(nil), it.Key()...))
		}
	}
	it.Close()
	if err := s.rig.Applier.Replace(func() error { return s.rig.Store.Commit(b, s.rig.Index) }); err != nil {
		s.t.Fatal(err)
	}
}
