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

// deleteBar is for how long the delete of 100,000 keys may hold other writes, on a machine that does nothing else.
const deleteBar = 100 * time.Millisecond

// TestHugeDelete deletes very many keys by one command beside a steady load of puts. The puts wait for it and must not wait for long. A
// watcher of the keys sees each go once, all at one revision, and a reader sees all of them or none.
func TestHugeDelete(t *testing.T) {
	processTest(t, true)
	const putsPerSecond = 500
	keys := count("DELETE_KEYS", 100_000, 100_000)
	c := start(t, 1)
	cli, putter, reader := dial(t, c.Nodes[0].KV), dial(t, c.Nodes[0].KV), dial(t, c.Nodes[0].KV)
	loadKeys(t, cli, keys)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watched := reader.Watch(ctx, "0", clientv3.WithRange(":"), clientv3.WithCreatedNotify())
	if first := <-watched; !first.Created {
		t.Fatalf("watch: %+v", first)
	}

	var mu sync.Mutex
	var worst, before time.Duration
	stop := make(chan struct{})
	var load, inFlight sync.WaitGroup
	load.Go(func() {
		room := make(chan struct{}, 512)
		began := time.Now()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Until(began.Add(time.Duration(i) * time.Second / putsPerSecond))):
			}
			room <- struct{}{}
			inFlight.Go(func() {
				defer func() { <-room }()
				one := time.Now()
				if _, err := putter.Put(wait.Context(t), fmt.Sprintf("other/%03d", i%1000), "v"); err != nil && !excused(err) {
					t.Errorf("a put beside the delete: %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				worst = max(worst, time.Since(one))
			})
		}
	})
	// Readers that count while it happens see everything or nothing.
	halves := 0
	load.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			res, err := reader.Get(wait.Context(t), "0", clientv3.WithRange(":"), clientv3.WithCountOnly())
			if excused(err) {
				continue
			}
			if err != nil {
				t.Errorf("a count beside the delete: %v", err)
				return
			}
			if res.Count != int64(keys) && res.Count != 0 {
				halves++
			}
			time.Sleep(2 * time.Millisecond) // the reader must not be the load
		}
	})
	<-time.After(seconds("DELETE_SETTLE", 1, 5)) // of load alone, for comparison
	mu.Lock()
	before, worst = worst, 0
	mu.Unlock()
	began := time.Now()
	res, err := cli.Delete(wait.Context(t), "0", clientv3.WithRange(":"))
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	if res.Deleted != int64(keys) {
		t.Errorf("%d keys deleted of %d", res.Deleted, keys)
	}

	seen := map[string]bool{}
	deadline := time.After(wait.Limit(t))
	for len(seen) < keys {
		select {
		case got, ok := <-watched:
			if !ok || got.Err() != nil {
				t.Fatalf("the watch ended after %d of %d events: %v", len(seen), keys, got.Err())
			}
			for _, ev := range got.Events {
				switch key := string(ev.Kv.Key); {
				case ev.Type != clientv3.EventTypeDelete || ev.Kv.ModRevision != res.Header.Revision:
					t.Fatalf("event %v of %s at revision %d, deleted at %d", ev.Type, key, ev.Kv.ModRevision, res.Header.Revision)
				case seen[key]:
					t.Fatalf("%s is told of twice", key)
				default:
					seen[key] = true
				}
			}
		case <-deadline:
			t.Fatalf("%d of %d events", len(seen), keys)
		}
	}
	told := time.Since(began)
	close(stop)
	load.Wait()
	inFlight.Wait()
	if halves > 0 {
		t.Errorf("%d counts saw a part of the keys", halves)
	}
	if bar := barOf(deleteBar); worst > bar {
		t.Errorf("the worst put beside the delete took %s (%s before it), bar %s", tenth(worst), tenth(before), tenth(bar))
	}
	select {
	case got := <-watched:
		t.Errorf("after the last event there is another: %+v", got.Events)
	default:
	}
	summary(t, "huge delete: %s keys by one command in %s beside %d puts/s, of which the worst took %s (%s before); a watcher had every event once after %s",
		grouped(keys), tenth(took), putsPerSecond, tenth(worst), tenth(before), tenth(told))
}
