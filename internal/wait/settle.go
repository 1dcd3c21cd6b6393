package wait

import (
	"testing"
	"time"
)

// settleLimit is how long goroutines that a test has ended may take to give back what they hold.
const settleLimit = 10 * time.Second

// GivenBack fails the test unless owed says "" within ten seconds: all that was reserved has been given back. Fixtures call it when they have
// ended what they started.
func GivenBack(t testing.TB, owed func() string) {
	t.Helper()
	left := owed()
	for end := time.Now().Add(settleLimit); left != "" && time.Now().Before(end); left = owed() {
		time.Sleep(time.Millisecond)
	}
	if left != "" {
		t.Errorf("not given back at the end: %s", left)
	}
}
