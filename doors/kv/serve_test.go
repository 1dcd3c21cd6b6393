package kv_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/status"

	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/node"
	doorkv "github.com/holdfastdb/holdfast/doors/kv"
	"github.com/holdfastdb/holdfast/doors/kv/etcddata"
	"github.com/holdfastdb/holdfast/doors/kv/lease"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	v2machine "github.com/holdfastdb/holdfast/doors/kv/v2/machine"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// server is one member with the door and the lease worker, in this process.
type server struct {
	node *node.Node
	kv   *kvmachine.Machine
	v2   *v2machine.Machine
	door *doorkv.Door
	addr string
	stop func()
}

// serve starts a cluster of one that ends with the test.
func serve(t testing.TB, opts doorkv.Options) *server {
	t.Helper()
	s := start(t, opts, node.StartOptions{Name: "n1"})
	s.ready(t)
	return s
}

// serveThree starts a cluster of three.
func serveThree(t testing.TB, opts doorkv.Options) []*server {
	t.Helper()
	peers, held := map[string]string{}, make([]net.Listener, 3)
	for i := range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		held[i] = l // until all are known: the system may give a closed one's port again
		peers[fmt.Sprintf("n%d", i+1)] = l.Addr().String()
	}
	for _, l := range held {
		l.Close()
	}
	servers := make([]*server, 3)
	var wg sync.WaitGroup
	for i := range servers {
		name := fmt.Sprintf("n%d", i+1)
		wg.Add(1)
		go func() {
			defer wg.Done()
			servers[i] = start(t, opts, node.StartOptions{Name: name, PeerAddr: peers[name], Peers: peers})
		}()
	}
	wg.Wait()
	for _, s := range servers {
		if s == nil {
			t.FailNow()
		}
		s.ready(t)
	}
	return servers
}

func start(t testing.TB, opts doorkv.Options, how node.StartOptions) *server {
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
	defer cancel()
	keys, nodes, dir := kvmachine.New(kvmachine.Options{}), v2machine.New(v2machine.Options{}), t.TempDir()
	n, err := node.Start(ctx, node.Config{Dir: dir, Machines: []machine.Machine{keys, nodes}, Lanes: []node.LaneSpec{{Number: doorkv.Lane, Name: "kv"}},
		Archive: opts.Ack.Archiving, Logger: slog.New(slog.DiscardHandler)}, how)
	if err != nil {
		t.Errorf("start %s: %v", how.Name, err)
		return nil
	}
	w := lease.New(n, keys)
	worked := make(chan struct{})
	go func() { defer close(worked); w.Run() }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Errorf("listen: %v", err)
		return nil
	}
	opts.Leases = w
	opts.RequestTimeout = cmp.Or(opts.RequestTimeout, 10*time.Minute) // a machine that is busy answers late
	opts.SaveEtcd = etcddata.NewSaver(n, nil, dir).Save
	s := &server{node: n, kv: keys, v2: nodes, door: doorkv.New(n, keys, nodes.Stats(), opts), addr: l.Addr().String()}
	served := make(chan error, 1)
	go func() { served <- s.door.Serve(l) }()
	s.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
		defer cancel()
		if err := s.door.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		wait.GivenBack(t, func() string {
			left := s.door.Owed()
			if left != "" {
				runtime.GC() // finds the answers that no transport has taken
			}
			return left
		})
		n.Stop()
		<-worked
	})
	t.Cleanup(s.stop)
	return s
}

func (s *server) ready(t testing.TB) {
	t.Helper()
	for end := time.Now().Add(wait.Limit(t)); !s.node.Status().Ready; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("member not ready after 20 s")
		}
	}
}

func (s *server) client(t testing.TB) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.addr}, DialTimeout: wait.Limit(t), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// must unwraps the two results of a call: must(c.Get(ctx, "a"))(t).
func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func put(t testing.TB, c *clientv3.Client, key, value string, opts ...clientv3.OpOption) int64 {
	t.Helper()
	return must(c.Put(context.Background(), key, value, opts...))(t).Header.Revision
}

// wantError compares an error with one of etcd's, by code and text, as clients do.
func wantError(t testing.TB, what string, got, want error) {
	t.Helper()
	if got == nil || status.Convert(rpctypes.Error(want)).Message() != status.Convert(rpctypes.Error(got)).Message() {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
