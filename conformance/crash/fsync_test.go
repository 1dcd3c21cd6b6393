package crash

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/node"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestFailedSync makes the log's fsync fail, or its writes meet a full disk, under load in one process. A real disk does not fail on
// request. The node must stop at once, never answer what it could not sync, and lose nothing it answered.
func TestFailedSync(t *testing.T) {
	if etcdInstead != "" {
		t.Skip("CRASH_ETCD is set and etcd has no seam")
	}
	rounds := count("FAILED_SYNCS", 3, 40)
	ioError := &os.PathError{Op: "sync", Path: "wal", Err: syscall.EIO}
	faults := []struct {
		name string
		arm  func(d *disk.Faulty)
		is   error
	}{
		{"failed fsync", func(d *disk.Faulty) { d.FailSync(inLog, ioError) }, syscall.EIO},
		{"failed write", func(d *disk.Faulty) { d.FailWrite(inLog, ioError) }, syscall.EIO},
		{"full disk", func(d *disk.Faulty) { d.FillAfter(inLog, 10_000) }, syscall.ENOSPC},
	}
	r := rng(t)
	dir := t.TempDir()
	acked := &inProcess{keys: map[string]bool{}}
	// One directory for all rounds: later rounds start with what earlier ones left behind.
	for round := range rounds {
		fault := faults[round%len(faults)]
		faulty := disk.NewFaulty(disk.OS())
		fatal := make(chan error, 8)
		n := openNode(t, dir, faulty, func(err error) { fatal <- err })
		acked.check(t, n)
		stop := acked.load(n, fmt.Sprintf("r%d", round), 16)
		time.Sleep(between(r, 20*time.Millisecond, 150*time.Millisecond))
		fault.arm(faulty)
		// A full disk is met by the next segment at the latest; the load fills what is preallocated.
		select {
		case err := <-fatal:
			if !errors.Is(err, fault.is) {
				t.Errorf("%s: the node died of %v", fault.name, err)
			}
			if round < len(faults) {
				t.Logf("%s: %v", fault.name, err)
			}
		case <-time.After(wait.Limit(t)):
			t.Fatalf("%s: the node runs on", fault.name)
		}
		select {
		case <-n.StoppedC():
		case <-time.After(wait.Limit(t)):
			t.Fatalf("%s: OnFatal was called but the node runs on", fault.name)
		}
		stop()
		if _, err := n.Propose(t.Context(), laneKV, put("after", "death")); err == nil {
			t.Fatalf("%s: a dead node answers", fault.name)
		}
		n.Stop()
	}
	n := openNode(t, dir, disk.OS(), nil)
	defer n.Stop()
	missing := acked.check(t, n)
	summary(t, "failed disk: %d failed syncs, writes and full disks in turn, each stopped the node, %s acknowledged, %d missing", rounds,
		grouped(acked.total()), missing)
}

// inLog reports whether a file is the log's; the store's do not go through package disk.
func inLog(name string) bool {
	return strings.Contains(name, string(filepath.Separator)+"wal"+string(filepath.Separator))
}

// openNode starts a cluster of one, or continues it, and waits until it serves.
func openNode(t *testing.T, dir string, fs disk.FS, onFatal func(error)) *member {
	t.Helper()
	keys := kvmachine.New(kvmachine.Options{})
	cfg := node.Config{Machines: []machine.Machine{keys}, Lanes: []node.LaneSpec{{Number: laneKV, Name: "kv"}}, FS: fs, Dir: dir, Logger: slog.New(slog.DiscardHandler), OnFatal: onFatal}
	n, err := node.Start(t.Context(), cfg, node.StartOptions{Name: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	if !eventually(t, func() bool { return n.Status().Ready }) {
		t.Fatalf("not ready after 30 s: %+v", n.Status())
	}
	return &member{n, keys}
}

// laneKV is the kv door's.
const laneKV node.Lane = 1

// member is a node in this process, with the machine that holds its keys.
type member struct {
	*node.Node
	kv *kvmachine.Machine
}

func put(key, value string) entry.Part {
	return entry.Part{Machine: entry.MachineKV, Body: kvpart.Append(nil, &kvpart.Part{Put: &kvpart.Put{Key: []byte(key), Value: []byte(value)}})}
}

// inProcess remembers what a node in this process acknowledged.
type inProcess struct {
	mu   sync.Mutex
	keys map[string]bool
}

func (a *inProcess) total() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.keys)
}

// load proposes unique keys until the returned func is called, which waits for the last answers.
func (a *inProcess) load(n *member, prefix string, writers int) func() {
	var stopped atomic.Bool
	var wg sync.WaitGroup
	value := strings.Repeat("v", 2000)
	for i := range writers {
		wg.Go(func() {
			for seq := 0; !stopped.Load(); seq++ {
				key := fmt.Sprintf("%s/%02d/%06d", prefix, i, seq)
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				res, err := n.Propose(ctx, laneKV, put(key, value))
				cancel()
				if err != nil {
					time.Sleep(time.Millisecond)
					continue
				}
				if res.Rejection == nil {
					a.mu.Lock()
					a.keys[key] = true
					a.mu.Unlock()
				}
			}
		})
	}
	return func() {
		stopped.Store(true)
		wg.Wait()
	}
}

// check reads every acknowledged key back.
func (a *inProcess) check(t *testing.T, n *member) (missing int) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range a.keys {
		res, _, err := n.kv.Range(&kvpart.Range{Key: []byte(key)}, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if len(res.KVs) != 1 {
			if missing++; missing <= 5 {
				t.Errorf("acknowledged %s is missing", key)
			}
		}
	}
	return missing
}
