package stopping

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestARequestThatIsSentTwiceIsOne: a signal counts again only a second after the last one that did.
func TestARequestThatIsSentTwiceIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent, done := make(chan os.Signal), make(chan struct{})
		defer close(done)
		asked := distinct(sent, done)
		for _, at := range []struct {
			pause time.Duration
			sig   os.Signal
			heard int
		}{
			{0, syscall.SIGTERM, 1},
			{time.Millisecond, syscall.SIGTERM, 1},
			{same / 2, os.Interrupt, 1},
			{same / 2, os.Interrupt, 2}, // a second after the first: the one between them was none
		} {
			time.Sleep(at.pause)
			sent <- at.sig
			synctest.Wait()
			if len(asked) != at.heard {
				t.Errorf("after %v and another %v %d are heard, want %d", at.sig, at.pause, len(asked), at.heard)
			}
		}
	})
}

// TestSignalsOfTheProcessAreHeard, until it is stopped.
func TestSignalsOfTheProcessAreHeard(t *testing.T) {
	asked, stop := Notify()
	defer stop()
	for range 2 {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	if s := <-asked; s != syscall.SIGTERM {
		t.Errorf("heard %v", s)
	}
}
