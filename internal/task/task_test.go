package task

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestWaitReturnsWhatCame(t *testing.T) {
	var r Goroutines
	for i := range MaxWait {
		on := make([]<-chan struct{}, MaxWait)
		c := make(chan struct{}, 1)
		c <- struct{}{}
		on[i] = c
		if got := r.Wait(Forever, on...); got != i || len(c) != 0 {
			t.Errorf("channel %d: %d, and %d left in it", i, got, len(c))
		}
	}
	if got := r.Wait(time.Millisecond, make(chan struct{}), nil); got != -1 {
		t.Errorf("nothing came: %d", got)
	}
	if got := r.Wait(0); got != -1 {
		t.Errorf("no time at all: %d", got)
	}
}

func TestTimeoutEndsByItself(t *testing.T) {
	ctx, cancel := Goroutines{}.Timeout(time.Millisecond)
	defer cancel()
	<-ctx.Done()
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Error(ctx.Err())
	}
}
