package wait

import (
	"testing"
	"time"
)

// GivenBack fails the test unless owed says "" before the test's Limit: all that was reserved has been given back. Fixtures call it when they
// have ended what they started.
func GivenBack(t testing.TB, owed func() string) {
	t.Helper()
	left := owed()
	for end := time.Now().Add(Limit(t)); left != "" && time.Now().Before(end); left = owed() {
		time.Sleep(time.Millisecond)
	}
	if left != "" {
		t.Errorf("not given back at the end: %s", left)
	}
}
