package crash

import (
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

const overBytes = 10 << 10 // of a value

// TestOverwrites writes values of 10 KB over and over, compacts, and kills the server throughout. Acknowledged values are there, and whole,
// and no put waits long while the server runs. Disk space follows the live data and the kept history. That bar needs the long run: before,
// the log's segments are most of it.
func TestOverwrites(t *testing.T) {
	processTest(t, false)
	keys, lasts := count("OVER_KEYS", 2_000, 100_000), seconds("OVER_SECONDS", 4, 1800)
	perSecond := count("OVER_RATE", 400, 2_000)
	killEvery, compactEvery := seconds("OVER_KILL", 1, 60), seconds("OVER_COMPACT", 1, 20)
	c := start(t, 1, "--kv-quota", "0")
	node := c.Nodes[0]
	if !eventually(t, func() bool { return levelOf(t, node) == newest }) { // values lie apart from then on
		t.Fatalf("it stays at level %d", levelOf(t, node))
	}
	cli := dialEager(t, node.KV)
	o := &overwriter{cli: cli, node: node, noise: noise(rng(t), 4<<20), keys: make([]overwritten, keys)}
	o.everyKey(t)

	ctx, stop := context.WithTimeout(t.Context(), lasts)
	defer stop()
	var wg sync.WaitGroup
	const workers = 64
	for w := range workers {
		wg.Go(func() { o.work(ctx, t, w, workers, time.Second*workers/time.Duration(perSecond)) })
	}
	var worst, limit, peak int64 // bytes on the disk where they were most above their bar, that bar, and the most there were
	kills, nextKill, nextCompact := 0, time.Now().Add(killEvery), time.Now().Add(compactEvery)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
		switch now := time.Now(); {
		case now.After(nextCompact):
			o.compact(ctx)
			nextCompact = now.Add(compactEvery)
		case now.After(nextKill):
			o.lives.Add(1)
			kill(t, node)
			if err := c.Restart(node); err != nil {
				t.Fatal(err)
			}
			o.lives.Add(1)
			kills, nextKill = kills+1, time.Now().Add(killEvery)
		}
		if long {
			used, bar := diskBytes(node.Dir), o.bar()
			if peak = max(peak, used); limit == 0 || used-bar > worst-limit {
				worst, limit = used, bar
			}
		}
	}
	wg.Wait()
	o.lives.Add(1)
	kill(t, node)
	if err := c.Restart(node); err != nil {
		t.Fatal(err)
	}
	bad := o.verify(t)
	if bar := barOf(500 * time.Millisecond); o.slowest > bar {
		t.Errorf("a put took %s", tenth(o.slowest))
	}
	if worst > limit {
		t.Errorf("%d MB on the disk, bar %d", worst>>20, limit>>20)
	}
	if kills == 0 || o.acked.Load() == 0 {
		t.Errorf("%d kills, %d puts: the test shows nothing", kills, o.acked.Load())
	}
	summary(t, "overwrites: %s values of 10 KB overwritten %s times in %s with %d kills, %d lost, slowest put %s, p99 %s; most on the disk %d MB, "+
		"closest to its bar %d of %d MB", grouped(keys), grouped(int(o.acked.Load())), lasts, kills, bad, tenth(o.slowest), tenth(quantile(o.took, 0.99)),
		peak>>20, worst>>20, limit>>20)
}

// overwriter writes values whose version can be told from them. Each key belongs to one worker.
type overwriter struct {
	cli   *clientv3.Client
	node  *proctest.Node
	noise string
	keys  []overwritten
	lives atomic.Int64 // changes when the server is killed, and when it is there again
	acked atomic.Int64

	mu      sync.Mutex
	took    []time.Duration // guarded by mu: one put of sixteen
	slowest time.Duration   // guarded by mu

	// The figures behind the bar of disk space; the test's goroutine only, except rev.
	rev             atomic.Int64 // the newest that was answered
	compacted, kept int64        // the last revision compacted to, and its predecessor
}

// overwritten is the state of a key: a sent value is there perhaps, an acknowledged one is there.
type overwritten struct{ sent, acked uint64 }

func overKey(i int) string { return fmt.Sprintf("over/%07d", i) }

// value is version n of key i: both numbers, then noise from a place that follows from them.
func (o *overwriter) value(i int, n uint64) string {
	head := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(i)), n)
	at := rand.New(rand.NewPCG(uint64(i), n)).IntN(len(o.noise) - overBytes)
	return string(head) + o.noise[at:at+overBytes-len(head)]
}

// put writes the next version of key i once; its outcome may stay open.
func (o *overwriter) put(ctx context.Context, i int) error {
	k := &o.keys[i]
	k.sent++
	res, err := o.cli.Put(ctx, overKey(i), o.value(i, k.sent))
	if err != nil {
		return err
	}
	k.acked = k.sent
	for now := o.rev.Load(); res.Header.Revision > now && !o.rev.CompareAndSwap(now, res.Header.Revision); now = o.rev.Load() {
	}
	return nil
}

// everyKey writes the first version of all keys.
func (o *overwriter) everyKey(t *testing.T) {
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := w; i < len(o.keys); i += 16 {
				if err := untilAnswered(t, func(ctx context.Context) error { return o.put(ctx, i) }); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	if wg.Wait(); t.Failed() {
		t.FailNow()
	}
}

// work overwrites random keys of one worker at its pace until ctx ends.
func (o *overwriter) work(ctx context.Context, t *testing.T, worker, workers int, every time.Duration) {
	r := rand.New(rand.NewPCG(uint64(seed), uint64(worker)))
	for due := time.Now().Add(time.Duration(r.Int64N(int64(every)))); ; due = due.Add(every) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(due)):
		}
		i := worker + workers*r.IntN((len(o.keys)-worker+workers-1)/workers)
		life, began := o.lives.Load(), time.Now()
		one, cancel := context.WithTimeout(t.Context(), wait.Limit(t))
		err := o.put(one, i)
		cancel()
		took := time.Since(began)
		if life%2 != 0 || o.lives.Load() != life { // the server was away in between
			due = time.Now()
			continue
		}
		if excused(err) {
			continue // what it did is open: verify allows for it
		}
		if err != nil {
			t.Errorf("put while the server runs: %v after %s", err, took)
			return
		}
		o.note(int(o.acked.Add(1)), took)
		due = later(due, time.Now().Add(-time.Second)) // what could not be kept up with is not caught up with
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (o *overwriter) note(n int, took time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.slowest = max(o.slowest, took)
	if n%16 == 0 {
		o.took = append(o.took, took)
	}
}

// compact drops the history up to now.
func (o *overwriter) compact(ctx context.Context) {
	rev := o.rev.Load()
	one, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := o.cli.Compact(one, rev); err == nil || strings.Contains(err.Error(), "compacted") {
		o.kept, o.compacted = o.compacted, rev
	}
}

// bar is the allowed disk space: two and a half times the live data, plus the history. History counts if it was there when the last
// compaction began, or came later.
func (o *overwriter) bar() int64 {
	return 25*int64(len(o.keys))*overBytes/10 + (o.rev.Load()-o.kept)*overBytes
}

// verify reads every key and returns how many are not as they should be.
func (o *overwriter) verify(t *testing.T) (bad int) {
	t.Helper()
	for i := range o.keys {
		k := &o.keys[i]
		var res *clientv3.GetResponse
		if err := untilAnswered(t, func(ctx context.Context) (err error) {
			res, err = o.cli.Get(ctx, overKey(i))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		n := uint64(0)
		if len(res.Kvs) == 1 && len(res.Kvs[0].Value) == overBytes {
			n = binary.BigEndian.Uint64(res.Kvs[0].Value[8:])
		}
		if n < k.acked || n > k.sent || n == 0 || string(res.Kvs[0].Value) != o.value(i, n) {
			if bad++; bad < 5 {
				t.Errorf("%s has version %d; %d was acknowledged, %d sent", overKey(i), n, k.acked, k.sent)
			}
		}
	}
	return bad
}

// diskBytes is what the files of a directory take on the disk. Files may go while it looks.
func diskBytes(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			n += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return nil
	})
	return n
}
