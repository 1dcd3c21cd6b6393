package growth

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

func killExperiments() []experiment {
	return []experiment{{name: "the leader is killed", nodes: 3, run: killed}}
}

const (
	kills   = 5
	writers = 64
	// between is from the end of one gap to the next kill, so that the members know each other again.
	between = 5 * time.Second
)

// killed kills the leader under writers and takes the time to the next answer of any member. A writer goes to another member as soon as its
// own does not answer.
func killed(ctx context.Context, b *bed) ([]Figure, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var members []*grpc.ClientConn
	for _, n := range b.cluster.Nodes {
		c, err := dial(n.KV)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		members = append(members, c)
	}
	var answered atomic.Int64 // when a put that began after the last kill was answered first, in nanoseconds; 0: none was
	var since atomic.Int64    // that kill
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(b.seed, uint64(w)))
			for at := w; ctx.Err() == nil; {
				began := time.Now()
				one, end := context.WithTimeout(ctx, 2*time.Second)
				_, err := pb.NewKVClient(members[at%len(members)]).Put(one, &pb.PutRequest{Key: key("key/", r.IntN(1000)), Value: []byte("v")})
				end()
				if err != nil {
					at++
					time.Sleep(2 * time.Millisecond) // a member that is gone refuses at once
					continue
				}
				if began.UnixNano() > since.Load() {
					answered.CompareAndSwap(0, time.Now().UnixNano())
				}
			}
		})
	}
	defer wg.Wait()
	defer cancel()
	var gaps []float64
	for range kills {
		if err := sleep(ctx, between); err != nil {
			return nil, err
		}
		gap, err := killOne(ctx, b.cluster, &since, &answered)
		if err != nil {
			return nil, err
		}
		gaps = append(gaps, millis(gap))
	}
	slices.Sort(gaps)
	return []Figure{{Row: fmt.Sprintf("gap in writes after kill -9 of the leader, %d writers", writers), P50: gaps[len(gaps)/2], Worst: gaps[len(gaps)-1]}}, nil
}

func killOne(ctx context.Context, c *proctest.Cluster, since, answered *atomic.Int64) (time.Duration, error) {
	leader, err := c.WaitLeader(30 * time.Second)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	since.Store(began.UnixNano())
	if err := leader.Kill(); err != nil {
		return 0, err
	}
	answered.Store(0) // those of the leader that came before it ended do not count
	for answered.Load() == 0 {
		if time.Since(began) > time.Minute {
			return 0, fmt.Errorf("no put was answered within a minute")
		}
		if err := sleep(ctx, time.Millisecond); err != nil {
			return 0, err
		}
	}
	gap := time.Duration(answered.Load() - began.UnixNano())
	return gap, c.Restart(leader)
}
