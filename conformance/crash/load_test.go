package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// ack is one key of one acknowledged write. Every key is written once, so the ack alone says what must be found later.
type ack struct {
	key, value string
	rev        int64
}

// load is a number of writers that write unique keys below w/ as fast as they are answered, and remember every answer.
type load struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	prefix string       // of the keys, after w/
	top    atomic.Int64 // highest acknowledged revision
	acked  atomic.Int64 // acknowledged writes (a Txn is one)

	mu     sync.Mutex
	acks   []ack
	failed map[string]int // unanswered writes by error text
	wrong  []string       // answers that contradict earlier ones
}

// startLoad starts n writers over the clients, in turn. They end with stop.
func startLoad(clients []*clientv3.Client, n int) *load { return startLoadAt(clients, n, "") }

// startLoadAt is startLoad with keys below w/ and a prefix, for tests that load more than once.
func startLoadAt(clients []*clientv3.Client, n int, prefix string) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{cancel: cancel, prefix: prefix, failed: map[string]int{}}
	for i := range n {
		l.wg.Go(func() { l.write(ctx, clients[i%len(clients)], i) })
	}
	return l
}

// stop ends the writers and waits until their last requests are answered: one given up could land while the test reads.
func (l *load) stop() {
	l.cancel()
	l.wg.Wait()
}

func (l *load) write(ctx context.Context, cli *clientv3.Client, writer int) {
	for seq := 0; ctx.Err() == nil; seq++ {
		key := fmt.Sprintf("w/%s%03d/%07d", l.prefix, writer, seq)
		value := fmt.Sprintf("%s by %d", key, time.Now().UnixNano())
		a := []ack{{key: key, value: value}}
		// Every write acknowledged before this one begins has a smaller revision, on any client and member.
		floor := l.top.Load()
		rev, err := int64(0), error(nil)
		opCtx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		if seq%3 == 2 {
			a = append(a, ack{key: key + "/b", value: value})
			var res *clientv3.TxnResponse
			res, err = cli.Txn(opCtx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
				Then(clientv3.OpPut(a[0].key, value), clientv3.OpPut(a[1].key, value)).Commit()
			if err == nil {
				rev = res.Header.Revision
				if !res.Succeeded {
					l.note("Txn: key %s exists before it was written", key)
				}
			}
		} else {
			var res *clientv3.PutResponse
			if res, err = cli.Put(opCtx, key, value); err == nil {
				rev = res.Header.Revision
			}
		}
		cancel()
		if err != nil {
			l.mu.Lock()
			l.failed[shorten(err)]++
			l.mu.Unlock()
			time.Sleep(5 * time.Millisecond)
			continue
		}
		if rev <= floor {
			l.note("%s got revision %d after revision %d was acknowledged", key, rev, floor)
		}
		for top := l.top.Load(); rev > top && !l.top.CompareAndSwap(top, rev); top = l.top.Load() {
		}
		l.acked.Add(1)
		l.mu.Lock()
		for _, one := range a {
			one.rev = rev
			l.acks = append(l.acks, one)
		}
		l.mu.Unlock()
	}
}

func (l *load) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
}

// shorten makes error texts countable: addresses and numbers go.
func shorten(err error) string {
	s := err.Error()
	if i := strings.Index(s, "127.0.0.1"); i >= 0 {
		s = s[:i] + "…"
	}
	return s[:min(len(s), 110)]
}

// stored is what the cluster holds below w/: key to value and revision.
func stored(t *testing.T, cli *clientv3.Client) map[string]ack {
	t.Helper()
	out := map[string]ack{}
	for from := "w/"; ; {
		res, err := cli.Get(wait.Context(t), from, clientv3.WithRange("w0"), clientv3.WithLimit(5000))
		if err != nil {
			t.Fatalf("read back: %v", err)
		}
		for _, kv := range res.Kvs {
			out[string(kv.Key)] = ack{string(kv.Key), string(kv.Value), kv.ModRevision}
			from = string(kv.Key) + "\x00"
		}
		if !res.More {
			return out
		}
	}
}

// verify compares the acknowledged writes with held and fails the test for each contradiction (the first few in words). It returns the
// number of acknowledged keys that are missing or different.
func (l *load) verify(t *testing.T, held map[string]ack) (missing int) {
	t.Helper()
	for _, a := range l.acks {
		if held[a.key] != a {
			missing++
			if missing <= 5 {
				t.Errorf("acknowledged %s at revision %d; held: %+v", a.key, a.rev, held[a.key])
			}
		}
	}
	for i, w := range l.wrong {
		if i == 5 {
			t.Errorf("and %d more", len(l.wrong)-i)
			break
		}
		t.Error(w)
	}
	return missing
}

// report lists unanswered writes by reason.
func (l *load) report(t *testing.T) {
	t.Helper()
	for text, n := range l.failed {
		t.Logf("%6d writes without an answer: %s", n, text)
	}
}

// noise is n bytes that do not compress.
func noise(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

// putOnce is one put in the form untilAnswered takes.
func putOnce(cli *clientv3.Client, key, value string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := cli.Put(ctx, key, value)
		return err
	}
}
