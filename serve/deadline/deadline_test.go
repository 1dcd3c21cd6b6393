package deadline

import (
	"testing"
	"time"
)

// TestADeadlineIsSharedByAQuarterSecond: no request gets less than the limit, and none much more.
func TestADeadlineIsSharedByAQuarterSecond(t *testing.T) {
	s := New(5 * time.Second)
	began := time.Now()
	first := s.Context(began)
	end, ok := first.Deadline()
	if !ok || end.Sub(began) < 5*time.Second || time.Until(end) > 5*time.Second+250*time.Millisecond {
		t.Errorf("the deadline is in %v", end.Sub(began))
	}
	same := began.Truncate(250 * time.Millisecond)
	if a, b := s.Context(same), s.Context(same.Add(249*time.Millisecond)); a != b {
		t.Error("two requests of one quarter second have two contexts")
	}
	if s.Context(same) == s.Context(same.Add(250*time.Millisecond)) {
		t.Error("the next quarter second has the context of the one before")
	}
}

// TestNothingEndsASharedDeadlineEarly: what one request does must not end the wait of the others.
func TestNothingEndsASharedDeadlineEarly(t *testing.T) {
	s := New(0) // it ends a quarter second from now
	ctx := s.Context(time.Now())
	if err := ctx.Err(); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if end, _ := ctx.Deadline(); time.Now().Before(end) {
		t.Error("it ended before its time")
	}
}
