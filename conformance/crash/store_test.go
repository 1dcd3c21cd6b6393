package crash

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfastdb/holdfast/internal/bucket"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// retentionMiB is what the log may take while the store does not answer.
const retentionMiB = 192

// TestTheStoreIsDown: the bucket is slow, full, refuses or does not answer. Sessions that are answered at commit continue, and the others
// get the protocol's error at their deadline. The log keeps to its bound. Once it is back, all is there.
func TestTheStoreIsDown(t *testing.T) {
	processTest(t, false)
	beside(t)
	b, err := bucket.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	c := describe(t, 1, "--archive", b.URL("gone"), "--log-retention", fmt.Sprintf("%dMiB", retentionMiB), "--memory", "256MiB", "--tlog", "{tlog}", "--saga", "{saga}")
	n := c.Nodes[0]
	n.Setenv(b.Env()...)
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	g := newGone(t, c)
	cc, err := grpc.NewClient(n.KV, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	g.conns = []*grpc.ClientConn{cc}
	g.value = noise(rng(t), 1024)

	// A stretch is writers of both kinds, each with keys of its own, over a bucket that does as it is told.
	window := seconds("STORE_SECONDS", 2, 20)
	stretches := 0
	stretch := func(windows int, fault func(*http.Request) bucket.Fault, slow time.Duration) (commits, stored int) {
		b.Slow(slow)
		b.Fail(fault)
		stretches++
		ctx, stop := context.WithTimeout(t.Context(), time.Duration(windows)*window)
		defer stop()
		g.mu.Lock()
		had, kept := len(g.rev), len(g.stored)
		g.mu.Unlock()
		var writers sync.WaitGroup
		for i := range 12 {
			writers.Go(func() { g.write(ctx, "kv", 300*stretches+i, rand.New(rand.NewPCG(uint64(seed), uint64(i)))) })
		}
		writers.Wait()
		g.mu.Lock()
		defer g.mu.Unlock()
		stored = len(g.stored) - kept
		return len(g.rev) - had - stored, stored
	}
	healthy, _ := stretch(1, nil, 5*time.Millisecond)
	worst, line := 1.0, ""
	always := func(f bucket.Fault) func(*http.Request) bucket.Fault {
		return func(*http.Request) bucket.Fault { return f }
	}
	for _, m := range []struct {
		name  string
		fault func(*http.Request) bucket.Fault
		slow  time.Duration
		some  bool // archive sessions are answered
	}{
		{"down", always(bucket.Failed), 0, false},
		{"silent", always(bucket.Hang), 0, false},
		{"refusing", always(bucket.Refused), 0, false},
		{"full", always(bucket.Full), 0, false},
		{"half answers", always(bucket.Cut), 0, false},
		{"slow", nil, 400 * time.Millisecond, true},
		{"answers lost", func() func(*http.Request) bucket.Fault {
			r := rand.New(rand.NewPCG(uint64(seed), 4)) // in a fixed order requests and their repetitions may keep step with it
			var mu sync.Mutex
			return func(*http.Request) bucket.Fault {
				mu.Lock()
				defer mu.Unlock()
				return []bucket.Fault{bucket.None, bucket.Lost, bucket.Twice, bucket.Refused}[r.IntN(4)]
			}
		}(), 5 * time.Millisecond, true},
	} {
		if m.some { // hanging requests from before are released
			b.Fail(nil)
			g.healed(t)
		}
		commits, stored := stretch(1, m.fault, m.slow)
		// A span that is tried again holds up those behind it: a short stretch may end before the first is through.
		for tries := 0; m.some && stored == 0 && tries < 15; tries++ { // beside load a span takes seconds
			_, stored = stretch(min(2+tries, 6), m.fault, m.slow)
		}
		worst = min(worst, float64(commits)/float64(healthy))
		line += fmt.Sprintf("; %s %d and %d", m.name, commits, stored)
		if m.some && stored == 0 {
			t.Errorf("%s: nothing was said to be in the bucket", m.name)
		}
		if !m.some && m.name != "half answers" && stored > 0 {
			t.Errorf("%s: %d were said to be in the bucket", m.name, stored)
		}
		if commits == 0 {
			t.Errorf("%s: nothing was acknowledged at commit", m.name)
		}
		if size := diskOf(t, filepath.Join(n.Dir, "wal")); size > (retentionMiB+16)<<20 {
			t.Errorf("%s: the log takes %d MiB", m.name, size>>20)
		}
		if rss, err := n.PeakRSS(); err != nil || rss > 256<<20 {
			t.Errorf("%s: %d MiB resident, %v", m.name, rss>>20, err)
		}
	}
	if g.late["written, not archived"] == 0 {
		t.Error("nobody was told that a write took effect and is not in the bucket")
	}
	b.Fail(nil)
	b.Slow(0)
	g.healed(t)
	for name := range g.rev { // any order: all of them were written before the last one, which is in the bucket
		g.stored[name] = true
	}
	kill(t, n)
	sums := g.restored(t, b, t.TempDir(), "is back")
	summary(t, "%s acknowledged, %d missing after the restore; at commit and in the bucket, in %v each: healthy %d%s; at commit at least %.2f of it", grouped(sums["stored"]),
		sums["missing"], window, healthy, line, worst)
	if long && worst < 0.95 {
		t.Errorf("sessions that are answered at commit got down to %.2f of their rate", worst)
	}
}

// healed waits until a write is said to be in the bucket, which works again.
func (g *gone) healed(t *testing.T) {
	t.Helper()
	if !eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return g.put(ctx, 0, fmt.Sprintf("after-%d", time.Now().UnixNano()), "archive")
	}) {
		t.Fatal("a minute after the bucket is back nothing is said to be in it")
	}
}

// diskOf is what the files below a directory take.
func diskOf(t *testing.T, dir string) (sum int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // it has just gone
		}
		if info, err := d.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// TestArchiveOverAChangeOfLeader: the leader is killed, and another ships. It measures how long no caller is told that something is in the
// bucket.
func TestArchiveOverAChangeOfLeader(t *testing.T) {
	processTest(t, false)
	beside(t)
	b, err := bucket.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.Slow(50 * time.Millisecond)
	c := describe(t, 3, "--archive", b.URL("gone"), "--ack", "archive", "--tlog", "{tlog}", "--saga", "{saga}")
	for _, n := range c.Nodes {
		n.Setenv(b.Env()...)
	}
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	g := newGone(t, c)
	for _, n := range c.Nodes {
		cc, err := grpc.NewClient(n.KV, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer cc.Close()
		g.conns = append(g.conns, cc)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() { g.write(ctx, "kv", 3*i, rand.New(rand.NewPCG(uint64(seed), uint64(i)))) })
	}
	acked := func() int {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.stored)
	}
	var gaps []time.Duration
	for range count("ARCHIVE_LEADERS", 2, 20) {
		time.Sleep(time.Second)
		lead, err := c.WaitLeader(wait.Limit(t))
		if err != nil {
			t.Fatal(err)
		}
		kill(t, lead)
		before, since := acked(), time.Now()
		if !eventually(t, func() bool { return acked() > before+8 }) { // one of each writer may have been under way
			t.Fatal("nothing is said to be in the bucket for 20 s after a change of leader")
		}
		gaps = append(gaps, time.Since(since))
		if err := c.Restart(lead); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	writers.Wait()
	worst, sum := time.Duration(0), time.Duration(0)
	for _, gap := range gaps {
		worst, sum = max(worst, gap), sum+gap
	}
	if worst > barOf(3*time.Second) {
		t.Errorf("nobody was told that something is in the bucket for %v after a kill", worst)
	}
	for _, n := range c.Nodes {
		kill(t, n)
	}
	sums := g.restored(t, b, t.TempDir(), "leaders killed")
	summary(t, "%d leaders killed: %s said to be in the bucket, %d missing; %v on average until the next ones, %v at most", len(gaps), grouped(sums["stored"]), sums["missing"],
		(sum / time.Duration(len(gaps))).Round(10*time.Millisecond), worst.Round(10*time.Millisecond))
}
