package crash

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// largeWriters put values of 4 KiB to 1 MiB, each over keys of its own, and know what was acknowledged.
type largeWriters struct {
	wg      sync.WaitGroup
	stop    chan struct{}
	writers []*largeWriter
}

type largeWriter struct {
	acked   map[string][32]byte   // of the newest acknowledged value of each key
	inDoubt map[string][][32]byte // of values put afterwards without an answer
	n       int
}

func startLargeWriters(cli *clientv3.Client, n int, seed uint64) *largeWriters {
	l := &largeWriters{stop: make(chan struct{})}
	for i := range n {
		w := &largeWriter{acked: map[string][32]byte{}, inDoubt: map[string][][32]byte{}}
		l.writers = append(l.writers, w)
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		l.wg.Go(func() {
			for {
				select {
				case <-l.stop:
					return
				default:
				}
				key := fmt.Sprintf("large/%d/%d", i, r.IntN(20))
				value := make([]byte, 4<<10<<r.IntN(7)<<(r.IntN(20)/19*2))
				for j := 0; j < len(value); j += 512 {
					value[j] = byte(r.Uint32())
				}
				copy(value, fmt.Sprintf("%d %d ", i, w.n))
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				_, err := cli.Put(ctx, key, string(value))
				cancel()
				time.Sleep(5 * time.Millisecond) // who joins has to receive all of it
				w.n++
				if err != nil {
					w.inDoubt[key] = append(w.inDoubt[key], sha256.Sum256(value))
					time.Sleep(5 * time.Millisecond)
					continue
				}
				w.acked[key] = sha256.Sum256(value)
				delete(w.inDoubt, key)
			}
		})
	}
	return l
}

// finish ends the writers and counts a member's keys of theirs. wrong ones hold neither the newest acknowledged value nor one in doubt.
func (l *largeWriters) finish(t *testing.T, nodes []*proctest.Node) (puts, keys, wrong int) {
	t.Helper()
	close(l.stop)
	l.wg.Wait()
	for _, node := range nodes {
		cli := dial(t, node.KV)
		for _, w := range l.writers {
			for key, sum := range w.acked {
				res, err := cli.Get(wait.Context(t), key)
				if err != nil {
					t.Fatal(err)
				}
				keys++
				ok := len(res.Kvs) == 1
				if ok {
					got := sha256.Sum256(res.Kvs[0].Value)
					ok = got == sum
					for _, other := range w.inDoubt[key] {
						ok = ok || got == other
					}
				}
				if !ok {
					wrong++
					t.Errorf("%s on %s is not what was acknowledged", key, node.Name)
				}
			}
		}
	}
	for _, w := range l.writers {
		puts += w.n
	}
	return puts, keys, wrong
}

// TestGrowingUnderLargeValues takes a member that is alone to three and back to one, again and again, with kills of its members. Puts are
// of values that a member keeps from raft while it is alone (core/raft/aside.go). Every acknowledged value is there in the end, on every
// member.
func TestGrowingUnderLargeValues(t *testing.T) {
	processTest(t, false)
	if !long {
		t.Skip("half a minute a round: only with CRASH=long")
	}
	rounds := count("GROW_ROUNDS", 1, 10)
	r := rng(t)
	c := start(t, 1)
	first := c.Nodes[0]
	cli := dialEager(t, first.KV)
	l := startLargeWriters(cli, 4, r.Uint64())
	cluster := pb.NewClusterClient(conn(t, first.KV))
	kills := 0
	strike := func() {
		n := c.Nodes[r.IntN(len(c.Nodes))]
		kill(t, n)
		kills++
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
	}
	until := func(what string, do func(ctx context.Context) error) {
		t.Helper()
		if err := untilAnswered(t, do); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for range rounds {
		for len(c.Nodes) < 3 {
			time.Sleep(between(r, 100*time.Millisecond, 500*time.Millisecond))
			node, err := c.Join()
			if err != nil {
				t.Fatal(err)
			}
			until("add a member", func(ctx context.Context) error {
				all, err := cluster.MemberList(ctx, &pb.MemberListRequest{Linearizable: true})
				if err == nil && memberOf(node, all.Members) == nil {
					_, err = cluster.MemberAdd(ctx, &pb.MemberAddRequest{PeerURLs: []string{"http://" + node.Peer}})
				}
				return err
			})
			if err := node.Start(); err != nil {
				t.Fatal(err)
			}
			if err := c.WaitNode(node, wait.Limit(t)); err != nil {
				t.Fatal(err)
			}
		}
		strike()
		for len(c.Nodes) > 1 {
			time.Sleep(between(r, 100*time.Millisecond, 500*time.Millisecond))
			last := c.Nodes[len(c.Nodes)-1]
			until("remove a member", func(ctx context.Context) error {
				all, err := cluster.MemberList(ctx, &pb.MemberListRequest{Linearizable: true})
				if err != nil {
					return err
				}
				if m := memberOf(last, all.Members); m != nil {
					_, err = cluster.MemberRemove(ctx, &pb.MemberRemoveRequest{ID: m.ID})
				}
				return err
			})
			if err := c.Drop(last); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(between(r, 100*time.Millisecond, 500*time.Millisecond))
		strike()
		until("compact", func(ctx context.Context) error {
			res, err := cli.Get(ctx, "large/0/0")
			if err == nil {
				_, err = cli.Compact(ctx, res.Header.Revision)
			}
			if errors.Is(err, rpctypes.ErrCompacted) {
				err = nil // an attempt whose answer was lost
			}
			return err
		})
	}
	if err := c.WaitNode(first, wait.Limit(t)); err != nil {
		t.Fatal(err)
	}
	puts, keys, wrong := l.finish(t, c.Nodes)
	summary(t, "growing under large values: %d times from one member to three and back, %d kills, %s puts of 4 KiB to 1 MiB; of %d keys %d do not hold what was acknowledged",
		rounds, kills, grouped(puts), keys, wrong)
}
