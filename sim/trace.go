package sim

import (
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"
)

// traceKept is how many lines a failure shows.
const traceKept = 250

// trace is what happened, a line each. All lines are hashed, so that two runs can be compared; the last ones are kept.
type trace struct {
	sum  xxhash.Digest
	ring []string
	next int
	all  bool
	buf  []byte
}

func (t *trace) add(now time.Duration, format string, a ...any) {
	t.buf = fmt.Appendf(t.buf[:0], "%10.6f ", now.Seconds())
	t.buf = fmt.Appendf(t.buf, format, a...)
	_, _ = t.sum.Write(t.buf)
	if t.all || len(t.ring) < traceKept {
		t.ring = append(t.ring, string(t.buf))
		return
	}
	t.ring[t.next] = string(t.buf)
	t.next = (t.next + 1) % traceKept
}

// lines returns what was kept, oldest first.
func (t *trace) lines() []string {
	return append(append([]string(nil), t.ring[t.next:]...), t.ring[:t.next]...)
}
