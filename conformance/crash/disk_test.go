package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestFullDisk lets a small file system run full under load. The node stops with a line that says so, and refuses to start while there is
// no room. Once there is room it has everything it acknowledged. Of three, the other two go on.
func TestFullDisk(t *testing.T) {
	processTest(t, false)
	beside(t)
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: mounting a small file system needs root")
	}
	t.Run("one", func(t *testing.T) { fullDisk(t, 1, count("FULL_ONE", 1, 10)) })
	t.Run("three", func(t *testing.T) { fullDisk(t, 3, count("FULL_THREE", 1, 5)) })
}

// diskMB holds a preallocated log and little more.
const diskMB = 400

func fullDisk(t *testing.T, nodes, rounds int) {
	r := rng(t)
	c := describe(t, nodes, "--kv-quota", "0")
	small := c.Nodes[0]
	mount(t, c, small.Dir)
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	clients := []*clientv3.Client{dial(t, c.Endpoints()...), dial(t, c.Endpoints()...)}
	var loads []*load
	acked := 0
	for round := range rounds {
		l := startLoadAt(clients, 8, fmt.Sprintf("r%d-", round))
		loads = append(loads, l)
		time.Sleep(between(r, 200*time.Millisecond, time.Second))
		ballast := fillDisk(t, small.Dir, uint64(r.IntN(3<<20)))
		// Large values bring the node to the end of its room soon; the load goes on beside them.
		full := make(chan struct{})
		go func() { push(clients[0], r, small.Exited()); close(full) }()
		select {
		case <-small.Exited():
		case <-time.After(wait.Limit(t)):
			l.stop()
			t.Fatalf("the node runs on with a full disk after 60 s:\n%s", stacks(small))
		}
		<-full
		if err := small.ExitError(); err == nil {
			t.Error("status 0 after a full disk")
		}
		if log := small.LogTail(5); !strings.Contains(log, "no space left") {
			t.Errorf("the last lines do not name the full disk:\n%s", log)
		}
		if nodes > 1 {
			before := l.acked.Load()
			if !eventually(t, func() bool { return l.acked.Load() > before+100 }) {
				t.Error("the other two members do not go on")
			}
		}
		l.stop()
		acked += int(l.acked.Load())
		refill(t, small.Dir)
		if err := small.Start(); err != nil {
			t.Fatal(err)
		}
		select { // while the disk is full it must end with a refusal
		case <-small.Exited():
			if log := small.LogTail(5); !strings.Contains(log, "no space left") {
				t.Errorf("the refusal to start does not name the full disk:\n%s", log)
			}
		case <-time.After(3 * time.Second):
			kill(t, small) // it found room by itself (a truncated log): no fault
		}
		if err := errors.Join(os.Remove(ballast), os.Remove(filepath.Join(small.Dir, "ballast2"))); err != nil {
			t.Fatal(err)
		}
		if err := c.Restart(small); err != nil {
			t.Fatal(err)
		}
		// Room again for the next round: drop what was pushed, with its history.
		if err := dropPushed(t, clients[0]); err != nil {
			t.Fatal(err)
		}
	}
	missing := 0
	for _, node := range c.Nodes {
		held := stored(t, dial(t, node.KV))
		for _, l := range loads {
			missing += l.verify(t, held)
		}
	}
	if nodes > 1 {
		hashes(t, c)
	}
	summary(t, "full disk: %d nodes, %d times full, stopped and started again, %s writes acknowledged beside it, %d missing", nodes, rounds, grouped(acked), missing)
}

// mount puts a small file system where a node keeps its data. It goes with the test.
func mount(t *testing.T, c *proctest.Cluster, dir string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0700", diskMB)); err != nil {
		t.Skipf("NOT RUN: mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		c.Close() // nothing may hold files there
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
}

// fillDisk writes a ballast file that leaves the given number of bytes, and returns its name.
func fillDisk(t *testing.T, dir string, leave uint64) string {
	t.Helper()
	name := filepath.Join(dir, "ballast")
	if err := takeSpace(name, dir, leave); err != nil {
		t.Fatal(err)
	}
	return name
}

// refill takes the space that was freed when the node's process ended.
func refill(t *testing.T, dir string) {
	t.Helper()
	if err := takeSpace(filepath.Join(dir, "ballast2"), dir, 0); err != nil {
		t.Fatal(err)
	}
}

func takeSpace(name, dir string, leave uint64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for {
		var st syscall.Statfs_t
		if err := syscall.Statfs(dir, &st); err != nil {
			return err
		}
		free := st.Bavail * uint64(st.Bsize)
		if free <= leave {
			return nil
		}
		_, err := f.Write(block[:min(uint64(len(block)), free-leave)])
		if errors.Is(err, syscall.ENOSPC) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// push writes 512 KiB values until the channel closes. Their outcome does not matter.
func push(cli *clientv3.Client, r *rand.Rand, until <-chan struct{}) {
	value := noise(r, 512<<10)
	for i := 0; ; i++ {
		select {
		case <-until:
			return
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		_, _ = cli.Put(ctx, fmt.Sprintf("push/%03d", i%100), value)
		cancel()
	}
}

// dropPushed deletes the pushed values and their history.
func dropPushed(t *testing.T, cli *clientv3.Client) error {
	return untilAnswered(t, func(ctx context.Context) error {
		res, err := cli.Delete(ctx, "push/", clientv3.WithPrefix())
		if err != nil {
			return err
		}
		_, err = cli.Compact(ctx, res.Header.Revision, clientv3.WithCompactPhysical())
		return err
	})
}
