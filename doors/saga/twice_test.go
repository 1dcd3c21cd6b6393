package saga

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// Every recovery of the door is tried a second time: what the first one leaves behind shows only then. serve looks at the end of each test that
// all room was given back.

// TestAFullPortIsFullAgain: a request that is too large for the room is refused each time, and one that fits is served behind it.
func TestAFullPortIsFullAgain(t *testing.T) {
	s := serve(t, Options{MaxFlightBytes: 1 << 20})
	payload := strings.Repeat("p", 2<<20)
	for round := range 3 {
		s.refuseUnread(503, `{"gid":"g","trans_type":"saga","steps":[{"action":"http://a/ok"}],"payloads":["`+payload+`"]}`)
		if _, err := s.call("Submit", "DtmRequest", `{"Gid":"g","TransType":"saga","CustomedData":"`+payload+`"}`, ""); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("round %d, by gRPC: %v", round, err)
		}
		s.want(200, success, "POST", "prepare", fmt.Sprintf(`{"gid":"fits%d","trans_type":"tcc"}`, round))
	}
}

// TestWatchersComeAndGo: the second time as many are let in as the first, and one more is refused again.
func TestWatchersComeAndGo(t *testing.T) {
	s := serve(t, Options{MaxWatchers: 2})
	s.want(200, success, "POST", "prepare", `{"gid":"t","trans_type":"tcc"}`)
	for range 3 {
		first, second := s.watch("t"), s.watch("t")
		first.wants("prepared", "")
		second.wants("prepared", "")
		if code, h, b := s.do("GET", "/watch?gid=t", ""); code != 503 || h.Get("Retry-After") == "" {
			t.Errorf("a third: %d %s", code, b)
		}
		first.end()
		second.end()
		wait.Until(t, "both have left", func() bool { return s.door.watching.Load() == 0 && s.door.waiting.Load() == 0 })
	}
}

// TestRestoredTwice: call-outs are held after each restore, and go on after each resume.
func TestRestoredTwice(t *testing.T) {
	s := serve(t, Options{})
	s.want(200, success, "POST", "submit", saga1("before", "ok"))
	for round := range 2 {
		s.restore()
		if !s.saga.Held() {
			t.Fatalf("round %d: not held", round)
		}
		gid := fmt.Sprint("held", round)
		s.want(425, "", "POST", "submit", saga1(gid, "ok"))
		if st := s.find(gid).Status; st != sagapart.Submitted {
			t.Errorf("round %d: it is %s", round, st)
		}
		s.passes.Wait()
		s.apply(&sagapart.Part{Kind: sagapart.Resume})
		s.want(200, success, "POST", "submit", saga1(gid, "ok"))
		s.want(200, success, "POST", "submit", saga1(fmt.Sprint("after", round), "ok"))
	}
}
