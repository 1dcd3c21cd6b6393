package wait

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// timed is a test whose run ends at a time of the bubble's clock, and that notes how it ends.
type timed struct {
	testing.TB
	end  time.Time
	said []string
}

func (t *timed) Deadline() (time.Time, bool) { return t.end, !t.end.IsZero() }
func (t *timed) Helper()                     {}
func (t *timed) Failed() bool                { return false }
func (t *timed) Logf(format string, args ...any) {
	t.said = append(t.said, "log: "+format)
}
func (t *timed) Errorf(format string, args ...any) {
	t.said = append(t.said, "error: "+format)
}
func (t *timed) Fatalf(format string, args ...any) {
	t.said = append(t.said, "fatal: "+format)
	panic(t)
}

// ended runs a wait that may end its test.
func (t *timed) ended(do func()) {
	defer func() {
		if p := recover(); p != nil && p != any(t) {
			panic(p)
		}
	}()
	do()
}

// TestLimits: a wait ends before its run does, and however short the run is it has some time.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for left, want := range map[time.Duration]time.Duration{
			10 * time.Minute: 10*time.Minute - margin,
			10 * time.Second: 9 * time.Second,
			0:                0,
		} {
			if got := Limit(&timed{end: time.Now().Add(left)}); got != want {
				t.Errorf("%v before the end of the run: %v, want %v", left, got, want)
			}
		}
		if got := Limit(&timed{}); got != unbounded {
			t.Errorf("without an end: %v", got)
		}
		if got := Limit(t); got != unbounded {
			t.Errorf("in a bubble: %v", got)
		}
		defer func(was time.Duration) { most = was }(most)
		most = 20 * time.Second
		for left, want := range map[time.Duration]time.Duration{10 * time.Minute: most, 10 * time.Second: 9 * time.Second} {
			if got := Limit(&timed{end: time.Now().Add(left)}); got != want {
				t.Errorf("with WAIT_MOST, %v before the end of the run: %v, want %v", left, got, want)
			}
		}
	})
}

// TestAWaitEndsWithTheRun, and says before that what it waits for.
func TestAWaitEndsWithTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := func() *timed { return &timed{TB: t, end: time.Now().Add(10 * time.Minute)} }
		began := time.Now()
		r := run()
		r.ended(func() { Until(r, "nothing", func() bool { return false }) })
		if said := strings.Join(r.said, "\n"); !strings.HasPrefix(said, "log: still waiting") || !strings.Contains(said, "fatal: not within") ||
			time.Since(began) < 9*time.Minute || time.Since(began) > 10*time.Minute {
			t.Errorf("after %v: %s", time.Since(began), said)
		}
		r = run()
		Until(r, "a minute", func() bool { return time.Until(r.end) < 9*time.Minute })
		if len(r.said) != 1 {
			t.Errorf("it came, and the test says %q", r.said)
		}
		r = run()
		r.ended(func() { For(r, "nothing", make(chan int)) })
		if len(r.said) != 1 || !strings.HasPrefix(r.said[0], "fatal: not within") {
			t.Errorf("a channel: %q", r.said)
		}
		c := make(chan int, 1)
		c <- 7
		if got := For(run(), "a number", c); got != 7 {
			t.Errorf("a channel with 7 gave %d", got)
		}
	})
}

// TestAContextEndsWithItsTest.
func TestAContextEndsWithItsTest(t *testing.T) {
	var ctx context.Context
	t.Run("inner", func(t *testing.T) {
		if ctx = Context(t); ctx.Err() != nil {
			t.Error(ctx.Err())
		}
	})
	if ctx.Err() == nil {
		t.Error("the test is over, and its context is not")
	}
}

// TestOneQuickRunIsEnough: what is slow each time fails the test.
func TestOneQuickRunIsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &timed{TB: t, end: time.Now().Add(time.Hour)}
		took := 5 * time.Second
		Quickly(r, "it gets quicker", time.Second, func() { time.Sleep(took); took -= time.Second })
		if len(r.said) != 0 {
			t.Errorf("%q", r.said)
		}
		Quickly(r, "it stays slow", time.Second, func() { time.Sleep(2 * time.Second) })
		if len(r.said) != 1 || !strings.HasPrefix(r.said[0], "error:") {
			t.Errorf("%q", r.said)
		}
	})
}
