package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

func TestThreeMembers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "n1", "n2", "n3")
	i := 0
	for name, n := range c.nodes {
		i++
		mustPropose(t, n, "k", name)
		if v, version := read(t, n, "k"); v != name || int(version) != i {
			t.Fatalf("%s does not see its own write: %q, version %d", name, v, version)
		}
		for other, o := range c.nodes {
			if err := o.Linearize(within(t)); err != nil {
				t.Fatal(err)
			}
			if v, _ := read(t, o, "k"); v != name {
				t.Fatalf("%s reads %q after %s wrote %q", other, v, name, name)
			}
		}
	}
	for name, n := range c.nodes {
		if ms := n.Members(); len(ms) != 3 || ms[0].Name == "" || ms[0].PeerURLs[0] == "" {
			t.Errorf("%s lists %+v", name, ms)
		}
	}

	// Calls are answered by the leader, wherever they are made, and this package's errors keep their identity.
	for name, n := range c.nodes {
		n.Handle("test.who", func(context.Context, []byte) ([]byte, error) { return []byte(name), nil })
		n.Handle("test.no", func(_ context.Context, req []byte) ([]byte, error) {
			if len(req) > 0 {
				return nil, errors.New(string(req))
			}
			return nil, fmt.Errorf("looked for it: %w", ErrMemberNotFound)
		})
	}
	leader, _ := c.leader()
	for name, n := range c.nodes {
		if got, err := n.Call(within(t), "test.who", nil); err != nil || string(got) != leader {
			t.Errorf("a call from %s was answered by %q, %v", name, got, err)
		}
		if _, err := n.Call(within(t), "test.no", nil); !errors.Is(err, ErrMemberNotFound) {
			t.Errorf("an error of the service, from %s: %v", name, err)
		}
		if _, err := n.Call(within(t), "test.no", []byte("some other trouble")); err == nil || !strings.Contains(err.Error(), "some other trouble") {
			t.Errorf("an unknown error of the service, from %s: %v", name, err)
		}
	}
	if got := c.nodes[leader].Followers(); len(got) != 0 && len(got) != 3 {
		t.Errorf("followers %+v", got)
	}

	// Leadership is handed over, and goes nowhere if the target is no member.
	target, tn := c.follower()
	_, id := tn.IDs()
	if err := c.nodes[leader].TransferLeader(within(t), id); err != nil {
		t.Fatal(err)
	}
	if now, _ := c.leader(); now != target {
		await(t, "the target leads", func() bool { now, _ := c.leader(); return now == target })
	}
	if err := c.nodes[leader].TransferLeader(within(t), 12345); !errors.Is(err, ErrTransferTargetUnknown) {
		t.Errorf("to nobody: %v", err)
	}
	mustPropose(t, c.nodes[leader], "k", "after")
}

// The leader goes while clients count up on the other two: none hears an error, and every count is there exactly once.
func TestLeaderStops(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "n1", "n2", "n3")
	leader, _ := c.leader()
	var counted atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for name, n := range c.nodes {
		if name == leader {
			continue
		}
		for range 8 {
			wg.Go(func() {
				for !stop.Load() {
					r, err := n.Propose(within(t), LaneKV, putPart("count", "x"))
					if err != nil || r.Rejection != nil {
						t.Errorf("%s: %v %v", name, err, r)
						return
					}
					counted.Add(1)
				}
			})
		}
	}
	await(t, "some counts", func() bool { return counted.Load() > 200 })
	c.stop(leader)
	at := counted.Load()
	start := time.Now()
	await(t, "counting goes on", func() bool { return counted.Load() > at+200 })
	t.Logf("counts resumed %v after the leader stopped", time.Since(start).Round(10*time.Millisecond))
	stop.Store(true)
	wg.Wait()
	back := c.restart(leader)
	if err := back.Linearize(within(t)); err != nil {
		t.Fatal(err)
	}
	for name, n := range c.nodes {
		if err := n.Linearize(within(t)); err != nil {
			t.Fatal(err)
		}
		if _, version := read(t, n, "count"); version != counted.Load() {
			t.Errorf("%s: %d counts were acknowledged, %d are there", name, counted.Load(), version)
		}
	}
}

// Without a majority nothing is acknowledged and nothing read; callers get their own deadline, and what happened is said right.
func TestNoMajority(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "n1", "n2", "n3")
	mustPropose(t, c.nodes["n1"], "k", "1")
	c.stop("n2")
	c.stop("n3")
	n := c.nodes["n1"]
	await(t, "it steps down", func() bool { return n.Status().Leader == 0 })
	short, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err := n.Propose(short, LaneKV, putPart("k", "2")); !errors.Is(err, ErrNoLeader) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("propose: %v", err)
	}
	if err := n.Linearize(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("read: %v", err)
	}
	if _, err := n.Call(short, "test.who", nil); !errors.Is(err, ErrNoLeader) {
		t.Errorf("call: %v", err)
	}
	if n.Status().Ready {
		t.Error("it says that it is ready")
	}
	c.restart("n2")
	mustPropose(t, n, "k", "3")
	if v, version := read(t, n, "k"); v != "3" || version != 2 {
		t.Errorf("k = %q, version %d: what was not proposed must not appear", v, version)
	}
}

// A member that was away while the log was truncated is brought up by a snapshot over the wire.
func TestCatchUpOverTheWire(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "n1", "n2", "n3")
	far, _ := c.follower()
	c.stop(far)
	_, leader := c.leader()
	for i := range 300 {
		mustPropose(t, leader, fmt.Sprintf("k%03d", i), strings.Repeat("v", 2000))
	}
	for _, n := range c.nodes {
		done := make(chan error, 1)
		n.later(func() error {
			if err := n.store.Flush(); err != nil {
				return err
			}
			done <- n.wal.Truncate(n.appliedIdx)
			return nil
		})
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	back := c.restart(far)
	await(t, "a snapshot", func() bool { return back.Counters().SnapshotsInstalled == 1 })
	if err := back.Linearize(within(t)); err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		if _, version := read(t, back, fmt.Sprintf("k%03d", i)); version != 1 {
			t.Fatalf("k%03d has version %d", i, version)
		}
	}
	mustPropose(t, back, "k000", "after")
	await(t, "the same state", func() bool {
		a, b := back.Counters(), leader.Counters()
		return a.HashIndex == b.HashIndex && a.Hash == b.Hash
	})
	var out bytes.Buffer
	if err := back.SaveSnapshot(within(t), &out); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSnapshot(&out, nil, nil); err != nil {
		t.Fatal(err)
	}
}

// Each member is restarted in turn while clients count up on all of them. Acknowledged counts are there, exactly once. Unknown ones,
// because their own node stopped, may be there once or not at all.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "n1", "n2", "n3")
	var acked, unknown atomic.Int64
	for _, name := range []string{"n1", "n2", "n3"} {
		var wg sync.WaitGroup
		var stop atomic.Bool
		for _, n := range c.nodes {
			for range 4 {
				wg.Go(func() {
					for !stop.Load() {
						_, err := n.Propose(within(t), LaneKV, putPart("count", "x"))
						switch {
						case err == nil:
							acked.Add(1)
						case errors.Is(err, ErrUnknown):
							unknown.Add(1)
							return
						case errors.Is(err, ErrStopped):
							return
						default:
							t.Error(err)
							return
						}
					}
				})
			}
		}
		at := acked.Load()
		await(t, "some counts", func() bool { return acked.Load() > at+50 })
		c.stop(name)
		at = acked.Load()
		await(t, "counts without "+name, func() bool { return acked.Load() > at+50 })
		c.restart(name)
		stop.Store(true)
		wg.Wait()
	}
	for name, n := range c.nodes {
		if err := n.Linearize(within(t)); err != nil {
			t.Fatal(err)
		}
		if _, v := read(t, n, "count"); v < acked.Load() || v > acked.Load()+unknown.Load() {
			t.Errorf("%s: %d acknowledged, %d unknown, %d there", name, acked.Load(), unknown.Load(), v)
		}
	}
	// All at once, too.
	for _, name := range []string{"n1", "n2", "n3"} {
		c.stop(name)
	}
	for _, name := range []string{"n1", "n2", "n3"} {
		n, err := c.start(name, StartOptions{})
		if err != nil {
			t.Fatal(err)
		}
		c.nodes[name] = n
	}
	mustPropose(t, c.nodes["n2"], "k", "after")
	if _, v := read(t, c.nodes["n2"], "count"); v < acked.Load() {
		t.Errorf("after a restart of all: %d acknowledged, %d there", acked.Load(), v)
	}
}

// A member whose disk fails stops; the others go on, whether it led or followed, and nothing acknowledged is lost.
func TestFailedDiskOfOne(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "n1", "n2", "n3")
	for i, pick := range []func() (string, *Node){c.follower, c.leader} {
		mustPropose(t, c.nodes["n1"], "k", fmt.Sprint("before ", i))
		name, n := pick()
		c.fs[name].FailSync(func(name string) bool { return strings.Contains(name, "wal") }, errors.New("medium error"))
		var healthy *Node
		for other, o := range c.nodes {
			if other != name {
				healthy = o
			}
		}
		mustPropose(t, healthy, "k", fmt.Sprint("after ", i))
		select {
		case <-n.StoppedC():
		case <-time.After(wait.Limit(t)):
			t.Fatal("it goes on")
		}
		if err := n.Failure(); err == nil || !strings.Contains(err.Error(), "medium error") {
			t.Errorf("failure: %v", err)
		}
		c.stop(name)
		c.fs[name].FailSync(nil, nil)
		back := c.restart(name)
		if err := back.Linearize(within(t)); err != nil {
			t.Fatal(err)
		}
		if v, _ := read(t, back, "k"); v != fmt.Sprint("after ", i) {
			t.Errorf("k = %q after its return", v)
		}
	}
}

// A leader that cannot read its own log stops and says why; raft meets the error where it knows of no disk, and panics.
func TestUnreadableLogStopsTheNode(t *testing.T) {
	t.Parallel()
	c := unstarted(t, "n1", "n2", "n3")
	c.tick = 250 * time.Millisecond // on a busy machine, too, the leader stays the leader until it has to read its log
	c.begin("n1", "n2", "n3")
	far, _ := c.follower()
	c.stop(far)
	name, leader := c.leader()
	for i := range 300 { // more than is kept in memory
		mustPropose(t, leader, fmt.Sprintf("k%03d", i), strings.Repeat("v", 30_000))
	}
	gone := errors.New("medium error")
	c.fs[name].FailRead(func(name string) bool { return strings.Contains(name, "wal") }, gone)
	n, err := c.start(far, StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.nodes[far] = n
	select {
	case <-leader.StoppedC():
	case <-time.After(wait.Limit(t)):
		t.Fatal("it goes on")
	}
	if err := leader.Failure(); !errors.Is(err, gone) {
		t.Errorf("failure: %v", err)
	}
	delete(c.nodes, name)
	mustPropose(t, n, "k000", "after")
	if _, version := read(t, n, "k000"); version != 2 {
		t.Errorf("version %d", version)
	}
}
