package crash

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// follower watches w/ from the first revision on and remembers every event.
type follower struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	seen    map[ack]int
	last    int64 // highest revision seen; the watch is reopened after it
	wrong   []string
	reopens int
	created bool               // the server has answered the present watch
	cut     context.CancelFunc // ends the present watch
}

// follow starts a watch that the client library resumes, and that follow itself resumes where the library gives up.
func follow(cli *clientv3.Client) *follower {
	ctx, cancel := context.WithCancel(context.Background())
	f := &follower{cancel: cancel, done: make(chan struct{}), seen: map[ack]int{}}
	go func() {
		defer close(f.done)
		for ctx.Err() == nil {
			f.watch(ctx, cli)
		}
	}()
	return f
}

func (f *follower) watch(parent context.Context, cli *clientv3.Client) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	f.mu.Lock()
	f.cut = cancel
	f.reopens++
	f.created = false
	from := f.last + 1
	f.mu.Unlock()
	for res := range cli.Watch(ctx, "w/", clientv3.WithPrefix(), clientv3.WithRev(from), clientv3.WithCreatedNotify()) {
		if err := res.Err(); err != nil {
			f.mu.Lock()
			if res.CompactRevision != 0 {
				f.wrong = append(f.wrong, fmt.Sprintf("watch from %d: %v", from, err))
			}
			f.mu.Unlock()
			time.Sleep(20 * time.Millisecond)
			return
		}
		f.mu.Lock()
		f.created = true
		for _, ev := range res.Events {
			if ev.Kv.ModRevision < f.last {
				f.wrong = append(f.wrong, fmt.Sprintf("event of revision %d after one of %d", ev.Kv.ModRevision, f.last))
			}
			f.last = max(f.last, ev.Kv.ModRevision)
			f.seen[ack{string(ev.Kv.Key), string(ev.Kv.Value), ev.Kv.ModRevision}]++
		}
		f.mu.Unlock()
	}
}

// reopen ends the watch; a new one begins after the last revision seen.
func (f *follower) reopen() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cut != nil {
		f.cut()
	}
}

// finish waits until the watch has reached what is held, ends it, and fails the test for everything missed, repeated,
// or never held. It returns how many of each there were together.
func (f *follower) finish(t *testing.T, name string, held map[string]ack) (bad int) {
	t.Helper()
	var newest int64
	for _, a := range held {
		newest = max(newest, a.rev)
	}
	eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.last >= newest
	})
	f.cancel()
	<-f.done
	missed, repeated, invented := 0, 0, 0
	for _, a := range held {
		if f.seen[a] == 0 {
			missed++
		}
	}
	for a, n := range f.seen {
		if n > 1 {
			repeated++
		}
		if held[a.key] != a {
			invented++
		}
	}
	if bad = missed + repeated + invented + len(f.wrong); bad > 0 {
		t.Errorf("%s watch: %d of %d events missed, %d repeated, %d never held, at revision %d of %d, created %v; %v", name, missed,
			len(held), repeated, invented, f.last, newest, f.created, f.wrong[:min(len(f.wrong), 5)])
	}
	return bad
}

// kept is a number of leases kept alive by the client library, each with one key below l/.
type kept struct {
	cancel context.CancelFunc
	ids    []clientv3.LeaseID
	keys   []string

	mu   sync.Mutex
	lost int // keep-alive channels that ended early
}

// keepLeases grants n leases and keeps them.
func keepLeases(t *testing.T, cli *clientv3.Client, n int, ttl time.Duration) *kept {
	t.Helper()
	if !long {
		ttl *= 10 // a client that shares its machine may not be run for seconds
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	k := &kept{cancel: cancel}
	for i := range n {
		granted, err := cli.Grant(wait.Context(t), int64(ttl/time.Second))
		if err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprintf("l/%03d", i)
		if _, err := cli.Put(wait.Context(t), key, "kept", clientv3.WithLease(granted.ID)); err != nil {
			t.Fatal(err)
		}
		answers, err := cli.KeepAlive(ctx, granted.ID)
		if err != nil {
			t.Fatal(err)
		}
		k.ids, k.keys = append(k.ids, granted.ID), append(k.keys, key)
		go func() {
			for range answers {
			}
			if ctx.Err() == nil {
				k.mu.Lock()
				k.lost++
				k.mu.Unlock()
			}
		}()
	}
	return k
}

// finish fails the test for every lease or key that is gone and returns how many are.
func (k *kept) finish(t *testing.T, cli *clientv3.Client) (dead int) {
	t.Helper()
	for i, id := range k.ids {
		left, err := cli.TimeToLive(wait.Context(t), id)
		if err != nil {
			t.Fatal(err)
		}
		got, err := cli.Get(wait.Context(t), k.keys[i])
		if err != nil {
			t.Fatal(err)
		}
		if left.TTL <= 0 || len(got.Kvs) != 1 {
			dead++
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if dead > 0 || k.lost > 0 {
		t.Errorf("of %d kept leases %d died, and the client gave up keeping %d", len(k.ids), dead, k.lost)
	}
	k.cancel()
	return dead
}
