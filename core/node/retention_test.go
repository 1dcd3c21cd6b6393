package node

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

// lockedBuffer is a log that the test reads while the node writes.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// cutNow has the node truncate its log as far as it may, and returns the log's new beginning.
func cutNow(t *testing.T, n *Node) (first uint64) {
	t.Helper()
	if err := n.store.Flush(); err != nil {
		t.Fatal(err)
	}
	await(t, "nothing is cut beside it", func() bool { return !n.truncating.Load() })
	if err := n.onLoop(t.Context(), n.truncate); err != nil {
		t.Fatal(err)
	}
	await(t, "it is cut", func() bool { return !n.truncating.Load() })
	return n.wal.FirstIndex()
}

func TestTheLogIsKeptForWhoReadsIt(t *testing.T) {
	const segment, limit = 16 << 10, 200 << 10
	var log lockedBuffer
	n := startAlone(t, t.TempDir(), func(cfg *Config) {
		cfg.SegmentBytes, cfg.LogRetention, cfg.TruncateEvery = segment, limit, time.Hour
		cfg.Retain = []string{"archive"}
		cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	})
	write := func(kilobytes int) {
		t.Helper()
		for range kilobytes {
			mustPropose(t, n, "k", strings.Repeat("x", 1000))
		}
	}
	// A reader silent since the start may want all of it.
	write(100)
	if first := cutNow(t, n); first != 2 {
		t.Fatalf("the log begins at %d, before anybody could say from where on it is wanted", first)
	}
	if got := fmt.Sprint(n.Retained()); got != "[{archive 0 false}]" {
		t.Error(got)
	}
	// The lowest counts, and a name that is released does not.
	n.Retain("archive", 60)
	n.Retain("auditor", 30)
	if first := cutNow(t, n); first > 30 || first < 5 {
		t.Fatalf("the log begins at %d, wanted from 30 on", first)
	}
	n.Release("auditor")
	if first := cutNow(t, n); first > 60 || first <= 30 {
		t.Fatalf("the log begins at %d, wanted from 60 on", first)
	}
	if es, err := n.Committed(t.Context(), 60, 1); err != nil || es[0].Index != 60 {
		t.Fatalf("%v, %v", es, err)
	}
	if s := log.String(); s != "" {
		t.Fatalf("nothing is lost, and it says %s", s)
	}
	// Beyond the limit it goes all the same, and says so once.
	for range 5 {
		write(80)
		cutNow(t, n)
	}
	if first := n.wal.FirstIndex(); first <= 60 {
		t.Fatalf("after 500 kB the log begins at %d", first)
	}
	if size := n.wal.Stats().Segments * segment; size > limit || size < limit/2 {
		t.Errorf("%d bytes of log are kept, the limit is %d", size, limit)
	}
	if _, err := n.Committed(t.Context(), 60, 1); !errors.Is(err, ErrTruncated) {
		t.Errorf("entry 60: %v", err)
	}
	if got := fmt.Sprint(n.Retained()); got != "[{archive 60 true}]" {
		t.Error(got)
	}
	if s := log.String(); strings.Count(s, "\n") != 1 || !strings.Contains(s, "by=archive wanted=60") {
		t.Errorf("it says %q", s)
	}
	// It goes on where the log begins, is told anew if it is lost anew, and released the log is as short as ever.
	n.Retain("archive", n.wal.FirstIndex())
	if got := n.Retained(); len(got) != 1 || got[0].Lost {
		t.Errorf("%+v", got)
	}
	write(400)
	cutNow(t, n)
	if s := log.String(); strings.Count(s, "\n") != 2 {
		t.Errorf("it says %q", s)
	}
	n.Release("archive")
	if first, applied := cutNow(t, n), n.Status().Applied; first+60 < applied {
		t.Errorf("nobody wants it, and the log begins at %d of %d", first, applied)
	}
	if got := n.Retained(); got != nil {
		t.Errorf("%+v", got)
	}
}

// A member that is given a snapshot has no log from before it: who wanted that is told too.
func TestWhoWantsTheLogHearsOfASnapshot(t *testing.T) {
	m := newManual(t, 3)
	far := m.nodes[2]
	var log bytes.Buffer
	far.log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	m.cutOff(far.id)
	from := far.appliedIdx + 1
	far.Retain("archive", from)
	m.writeOn(m.nodes[0], 30)
	m.forgetLog(far.id)
	m.lose = nil
	m.until("a snapshot", func() bool { return far.replaced.Load() == 1 })
	if got := far.Retained(); len(got) != 1 || !got[0].Lost {
		t.Errorf("%+v", got)
	}
	if s := log.String(); !strings.Contains(s, "by=archive") || !strings.Contains(s, "snapshot") {
		t.Errorf("it says %q", s)
	}
	if _, err := far.Committed(t.Context(), from, 1); !errors.Is(err, ErrTruncated) {
		t.Errorf("%v", err)
	}
}
