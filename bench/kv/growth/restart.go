package growth

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	// clients have so many watches each, all at one member.
	clients    = 100
	watchesOf  = 100
	restartRow = "10,000 watches of 100 clients resume after kill -9 and restart of their member"
)

func restartExperiments() []experiment {
	return []experiment{{name: "watches over a restart", nodes: 3, run: watchesOverRestart}}
}

// audience is clients whose watches go on over the end of their member: each resumes behind the last event it has seen.
type audience struct {
	address string
	mu      sync.Mutex
	seen    map[string][]int64 // guarded by mu: revisions of events, by key
	failed  error              // guarded by mu
}

// note takes events in and reports whether they follow what was seen.
func (a *audience) note(res *pb.WatchResponse) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range res.Events {
		k := string(e.Kv.Key)
		if l := a.seen[k]; len(l) > 0 && e.Kv.ModRevision <= l[len(l)-1] {
			return fmt.Errorf("key %s: revision %d after %d", k, e.Kv.ModRevision, l[len(l)-1])
		}
		a.seen[k] = append(a.seen[k], e.Kv.ModRevision)
	}
	return nil
}

// attend is one client. created is told each time that all of its watches are.
func (a *audience) attend(ctx context.Context, number int, from int64, created func()) {
	conn, err := grpc.NewClient(a.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.2, MaxDelay: 200 * time.Millisecond},
			MinConnectTimeout: time.Second}))
	if err != nil {
		a.fail(err)
		return
	}
	defer conn.Close()
	for ctx.Err() == nil {
		if err := a.session(ctx, conn, number, from, created); err != nil {
			a.fail(err)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (a *audience) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = err
}

// session watches until the stream ends, which is no error.
func (a *audience) session(ctx context.Context, conn *grpc.ClientConn, number int, from int64, created func()) error {
	s, err := pb.NewWatchClient(conn).Watch(ctx, grpc.WaitForReady(true))
	if err != nil {
		return nil
	}
	for i := range watchesOf {
		k := key("watched/", number*watchesOf+i)
		next := from
		a.mu.Lock()
		if l := a.seen[string(k)]; len(l) > 0 {
			next = l[len(l)-1] + 1
		}
		a.mu.Unlock()
		err := s.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: k, StartRevision: next}}})
		if err != nil {
			return nil
		}
	}
	for left := watchesOf; ; {
		res, err := s.Recv()
		if err != nil {
			return nil
		}
		if res.Canceled {
			return fmt.Errorf("watch %d was canceled: %s", res.WatchId, res.CancelReason)
		}
		if res.Created {
			if left--; left == 0 {
				created()
			}
		}
		if err := a.note(res); err != nil {
			return err
		}
	}
}

// watchesOverRestart has clients watch at one member, and all keys written beside its death. It is over when each of the watches has had every event
// once and in order.
func watchesOverRestart(ctx context.Context, b *bed) ([]Figure, error) {
	member := b.cluster.Nodes[2]
	from, err := b.put(ctx, []byte("now"), nil)
	if err != nil {
		return nil, err
	}
	a := &audience{address: member.KV, seen: map[string][]int64{}}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	ready := make(chan struct{}, 10*clients)
	for number := range clients {
		wg.Go(func() { a.attend(ctx, number, from+1, func() { ready <- struct{}{} }) })
	}
	for range clients {
		select {
		case <-ready:
		case <-time.After(time.Minute):
			return nil, fmt.Errorf("not all watches were created within a minute")
		}
	}
	want := map[string][]int64{}
	write := func() error { // each key once, a hundred in a revision
		for i := 0; i < clients*watchesOf; i += batch {
			txn := &pb.TxnRequest{}
			for k := i; k < i+batch; k++ {
				txn.Success = append(txn.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key("watched/", k), Value: []byte("value")}}})
			}
			res, err := b.kv(0).Txn(ctx, txn)
			if err != nil {
				return err
			}
			for k := i; k < i+batch; k++ {
				name := string(key("watched/", k))
				want[name] = append(want[name], res.Header.Revision)
			}
		}
		return nil
	}
	if err := write(); err != nil {
		return nil, err
	}
	if err := member.Kill(); err != nil {
		return nil, err
	}
	for range 3 {
		if err := writeLater(ctx, write); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	if err := member.Start(); err != nil {
		return nil, err
	}
	complete := func() (bool, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.failed != nil {
			return false, a.failed
		}
		for k, revs := range want { // any order: all are compared
			if l := a.seen[k]; len(l) < len(revs) {
				return false, nil
			} else if !slices.Equal(l, revs) {
				return false, fmt.Errorf("key %s: events %v, written at %v", k, l, revs)
			}
		}
		return true, nil
	}
	for {
		done, err := complete()
		if err != nil {
			return nil, err
		}
		if done {
			break
		}
		if time.Since(began) > 2*time.Minute {
			return nil, fmt.Errorf("events are missing after two minutes")
		}
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return nil, err
		}
	}
	took := time.Since(began)
	cpu, err := member.CPU() // all of its life
	if err != nil {
		return nil, err
	}
	rss, err := member.RSS()
	return []Figure{{Row: restartRow, CPU: micros(cpu), Rate: 1 / took.Seconds(), RSS: float64(rss) / (1 << 20)}}, err
}

// writeLater writes once the cluster has a leader, after any member was killed.
func writeLater(ctx context.Context, write func() error) (err error) {
	for began := time.Now(); time.Since(began) < 20*time.Second; {
		if err = write(); err == nil {
			return nil
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return err
}
