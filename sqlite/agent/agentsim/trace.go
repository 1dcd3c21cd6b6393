package agentsim

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
)

// traceKept is how many lines a failure shows.
const traceKept = 400

// trace is what happened, a line each. All lines are hashed, so that two runs can be compared.
type trace struct {
	sum  xxhash.Digest
	ring []string
	next int
	all  bool
	buf  []byte
}

func (t *trace) add(now time.Duration, format string, args ...any) {
	t.buf = fmt.Appendf(t.buf[:0], "%10.6f ", now.Seconds())
	t.buf = fmt.Appendf(t.buf, format, args...)
	_, _ = t.sum.Write(t.buf)
	if t.all || len(t.ring) < traceKept {
		t.ring = append(t.ring, string(t.buf))
		return
	}
	t.ring[t.next] = string(t.buf)
	t.next = (t.next + 1) % traceKept
}

// lines returns those that were kept, oldest first.
func (t *trace) lines() []string {
	return append(append([]string(nil), t.ring[t.next:]...), t.ring[:t.next]...)
}

// logger writes an agent's log into the trace.
type logger struct {
	m     *machine
	attrs string
}

func (l logger) Enabled(context.Context, slog.Level) bool { return true }
func (l logger) WithGroup(string) slog.Handler            { return l }

func (l logger) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		l.attrs += " " + a.String()
	}
	return l
}

func (l logger) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	r.Attrs(func(a slog.Attr) bool {
		b.WriteString(" " + a.String())
		return true
	})
	l.m.w.note("%s says: %s%s", l.m.name, r.Message, b.String())
	return nil
}
