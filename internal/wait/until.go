// Package wait is how tests wait for what another goroutine is to do: they look again and again, with a limit. Never for luck, by a
// sleep that is hoped to be long enough.
package wait

import (
	"testing"
	"time"
)

// limit is long for a machine that does much else.
const limit = 20 * time.Second

// Until returns once ok does, and ends the test if that takes more than 20 s. what says what is waited for.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
