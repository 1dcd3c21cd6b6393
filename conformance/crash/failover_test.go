package crash

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// deadline is what each request of these tests is given; etcd's tools use the same.
const deadline = 5 * time.Second

// request is one request of a pulse: one try, not one write.
type request struct {
	writer       int
	began, ended time.Time
	err          error
}

// pulse is closed-loop writers over a few connections, each sending every write until it is acknowledged.
type pulse struct {
	writers int
	stopped atomic.Bool
	wg      sync.WaitGroup
	mu      sync.Mutex
	all     []request
	tries   int // the most requests one write took
}

func startPulse(t *testing.T, c *proctest.Cluster, writers int) *pulse {
	t.Helper()
	var clients []*clientv3.Client
	for range 8 {
		clients = append(clients, dial(t, c.Endpoints()...))
	}
	p := &pulse{writers: writers}
	for i := range writers {
		p.wg.Go(func() {
			for seq := 0; !p.stopped.Load(); seq++ {
				p.write(clients[i%len(clients)], i, fmt.Sprintf("p/%03d/%06d", i, seq))
			}
		})
	}
	return p
}

func (p *pulse) write(cli *clientv3.Client, writer int, key string) {
	for try := 1; ; try++ {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		r := request{writer: writer, began: time.Now()}
		_, r.err = cli.Put(ctx, key, "v")
		r.ended = time.Now()
		cancel()
		p.mu.Lock()
		p.all = append(p.all, r)
		p.tries = max(p.tries, try)
		p.mu.Unlock()
		if r.err == nil || p.stopped.Load() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (p *pulse) stop() {
	p.stopped.Store(true)
	p.wg.Wait()
}

// firstAfter is when the first write that began after t was acknowledged, zero if none was.
func (p *pulse) firstAfter(t time.Time) (first time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.all) - 1; i >= 0 && p.all[i].ended.After(t); i-- {
		if r := p.all[i]; r.err == nil && r.began.After(t) && (first.IsZero() || r.ended.Before(first)) {
			first = r.ended
		}
	}
	return first
}

// backAfter is when a share of the writers had a write acknowledged that began after t, zero if they have not.
func (p *pulse) backAfter(t time.Time, share float64) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := map[int]time.Time{}
	for i := len(p.all) - 1; i >= 0 && p.all[i].ended.After(t); i-- {
		if r := p.all[i]; r.err == nil && r.began.After(t) {
			if f, ok := first[r.writer]; !ok || r.ended.Before(f) {
				first[r.writer] = r.ended
			}
		}
	}
	need := int(share * float64(p.writers))
	if len(first) < need {
		return time.Time{}
	}
	all := slices.SortedFunc(maps.Values(first), time.Time.Compare)
	return all[need-1]
}

// timedOut reports whether a request got no answer before its deadline, by the client's error or by the server's.
func timedOut(err error) bool {
	return err != nil && (errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded)
}

// expired counts requests that waited for their deadline, and the longest any request took.
func (p *pulse) expired() (n int, longest time.Duration, reasons map[string]int) {
	reasons = map[string]int{}
	for _, r := range p.all {
		if timedOut(r.err) || r.ended.Sub(r.began) >= deadline {
			n++
		}
		if r.err != nil {
			reasons[shorten(r.err)]++
		}
		longest = max(longest, r.ended.Sub(r.began))
	}
	return n, longest, reasons
}

// longestGap is the longest time between two successive acknowledgements, over all writers.
func (p *pulse) longestGap() time.Duration {
	var ends []time.Time
	for _, r := range p.all {
		if r.err == nil {
			ends = append(ends, r.ended)
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	var gap time.Duration
	for i := 1; i < len(ends); i++ {
		gap = max(gap, ends[i].Sub(ends[i-1]))
	}
	return gap
}

func (p *pulse) acked() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.all {
		if r.err == nil {
			n++
		}
	}
	return n
}

func logReasons(t *testing.T, reasons map[string]int) {
	t.Helper()
	for text, n := range reasons {
		t.Logf("%6d requests answered with: %s", n, text)
	}
}

// TestLeaderKilled kills the leader under 64 writers and measures how long writes stand still. No request may have to wait for its
// deadline: a command is sent again to the next leader, or known to be dead.
func TestLeaderKilled(t *testing.T) {
	processTest(t, true)
	kills := count("LEADER_KILLS", 2, 100)
	apart := time.Second
	if long {
		apart = 5 * time.Second // etcd's clients wait longer and longer for a member that is away, and forget it then
	}
	r := rng(t)
	c := start(t, 3)
	p := startPulse(t, c, 64)
	var pauses, back []time.Duration
	oneTerm := 0
	term := func(but *proctest.Node) (most uint64) {
		for _, n := range c.Nodes {
			if n == but {
				continue
			}
			if st, err := n.Status(t.Context()); err == nil {
				most = max(most, st.RaftTerm)
			}
		}
		return most
	}
	for range kills {
		time.Sleep(between(r, apart, apart+time.Second))
		leader, err := c.WaitLeader(wait.Limit(t))
		if err != nil {
			t.Fatal(err)
		}
		before := term(nil)
		kill(t, leader)
		killed := time.Now()
		if !eventually(t, func() bool { return !p.firstAfter(killed).IsZero() }) {
			t.Fatalf("no write was acknowledged in 20 s after kill %d of the leader", len(pauses)+1)
		}
		pause := p.firstAfter(killed).Sub(killed)
		pauses = append(pauses, pause)
		if pause > barOf(300*time.Millisecond) {
			t.Logf("pause of %s after kill %d, of %s at %s", tenth(pause), len(pauses), leader.Name, killed.UTC().Format(time.StampMicro))
			for _, n := range c.Nodes {
				t.Logf("%s logged:\n%s", n.Name, n.LogTail(20))
			}
		}
		if !eventually(t, func() bool { return !p.backAfter(killed, 0.9).IsZero() }) {
			t.Fatalf("nine of ten writers had no write acknowledged in 20 s after kill %d of the leader", len(pauses))
		}
		back = append(back, p.backAfter(killed, 0.9).Sub(killed))
		if term(leader) == before+1 {
			oneTerm++
		}
		time.Sleep(between(r, 1, 500*time.Millisecond))
		if err := c.Restart(leader); err != nil {
			t.Fatal(err)
		}
	}
	p.stop()
	median, worst := quantile(pauses, 0.5), slices.Max(pauses)
	if bar := barOf(100 * time.Millisecond); median > bar {
		t.Errorf("median pause %s, bar %s", tenth(median), bar)
	}
	if bar := barOf(time.Second); worst > bar {
		t.Errorf("worst pause %s, bar %s", tenth(worst), bar)
	}
	if p95, bar := quantile(pauses, 0.95), barOf(300*time.Millisecond); p95 > bar {
		t.Errorf("pause that 95 of 100 are below: %s, bar %s", tenth(p95), bar)
	}
	if m, bar := quantile(back, 0.5), barOf(300*time.Millisecond); m > bar {
		t.Errorf("nine of ten writers are back after a median of %s, bar %s", tenth(m), bar)
	}
	if long && oneTerm < kills*98/100 {
		t.Errorf("%d of %d deaths took one term", oneTerm, kills)
	}
	expired, longest, reasons := p.expired()
	if expired > 0 && long {
		t.Errorf("%d requests waited for their deadline", expired)
	}
	t.Logf("pauses: %v", pauses)
	logReasons(t, reasons)
	summary(t, "leader killed: %d kills, 64 writers, writes resume after %s (median), %s (95 of 100) and %s (worst), nine of ten writers after %s (median), "+
		"one term in %d, %s acknowledged, longest request %s, %d waited for their deadline", kills, tenth(median), tenth(quantile(pauses, 0.95)), tenth(worst),
		tenth(quantile(back, 0.5)), oneTerm, grouped(p.acked()), tenth(longest), expired)
}

// TestRollingRestart stops each of three members in turn with SIGTERM under load, as an upgrade does.
func TestRollingRestart(t *testing.T) {
	processTest(t, true)
	rounds := count("ROLLS", 1, 10)
	c := start(t, 3)
	p := startPulse(t, c, 64)
	time.Sleep(time.Second)
	var slowest time.Duration
	for range rounds {
		for _, node := range c.Nodes {
			began := time.Now()
			if err := node.Term(wait.Limit(t)); err != nil {
				t.Fatal(err)
			}
			if err := node.ExitError(); err != nil && etcdInstead == "" {
				t.Errorf("%s after SIGTERM: %v", node.Name, err)
			}
			slowest = max(slowest, time.Since(began))
			if err := c.Restart(node); err != nil {
				t.Fatal(err)
			}
			time.Sleep(700 * time.Millisecond)
		}
	}
	p.stop()
	gap := p.longestGap()
	if bar := barOf(time.Second); gap > bar {
		t.Errorf("longest gap %s, bar %s", tenth(gap), bar)
	}
	expired, longest, reasons := p.expired()
	if expired > 0 && long {
		t.Errorf("%d requests waited for their deadline", expired)
	}
	logReasons(t, reasons)
	summary(t, "rolling restart: %d rounds of three, 64 writers, longest gap %s, slowest stop %s, %s acknowledged, at most %d tries for one write, "+
		"longest request %s, %d waited for their deadline", rounds, tenth(gap), tenth(slowest), grouped(p.acked()), p.tries, tenth(longest), expired)
}
