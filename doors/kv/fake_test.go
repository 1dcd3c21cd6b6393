package kv

import (
	"context"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfastdb/holdfast/core/entry"
	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	"github.com/holdfastdb/holdfast/core/node"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// fakeMember is a member without a log: a test says how it stands and how proposals end.
type fakeMember struct {
	rounds atomic.Int64 // of Linearize
	member
	mu      sync.Mutex
	status  node.Status
	changed chan struct{}
	stopped chan struct{}
	propose func(ctx context.Context) (*entry.Result, error)
	lanes   []node.Lane
	parts   []entry.Part // of the newest proposal
	level   uint16
}

func newFakeMember() *fakeMember {
	return &fakeMember{
		status:  node.Status{ClusterID: 1, MemberID: 2, Leader: 2, Term: 3},
		changed: make(chan struct{}), stopped: make(chan struct{}),
		propose: func(context.Context) (*entry.Result, error) {
			return &entry.Result{Term: 3, Bodies: []entry.Body{{Machine: entry.MachineKV, Value: &kvpart.PutResult{Revision: 5}}}}, nil
		},
	}
}

func (m *fakeMember) Status() node.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status
}

func (m *fakeMember) ClusterLevel() uint16 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.level
}

func (m *fakeMember) set(change func(*node.Status)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.status)
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *fakeMember) LeaderChanged() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

func (m *fakeMember) StoppedC() <-chan struct{} { return m.stopped }

func (m *fakeMember) Linearize(context.Context) error {
	m.rounds.Add(1)
	return nil
}

func (m *fakeMember) Propose(ctx context.Context, lane node.Lane, parts ...entry.Part) (*entry.Result, error) {
	m.mu.Lock()
	m.lanes, m.parts = append(m.lanes, lane), parts
	propose := m.propose
	m.mu.Unlock()
	return propose(ctx)
}

func (m *fakeMember) Call(context.Context, string, []byte) ([]byte, error) {
	return kvpart.AppendLeaseTime(nil, kvpart.LeaseTime{Granted: 9, Remaining: 9}), nil
}

// fakeStore is a reader with one key, in which nothing happens.
type fakeStore struct{ reader }

func (fakeStore) Revision() (int64, int64) { return 1, 0 }

func (fakeStore) Scrubbed() int64 { return 0 }

func (fakeStore) Recent(int64) ([]kvmachine.Event, int64, bool, <-chan struct{}) {
	return nil, 1, true, nil
}

func (fakeStore) Range(r *kvpart.Range, _ int64) (*kvpart.RangeResult, int64, error) {
	return &kvpart.RangeResult{Revision: 5, Count: 1, KVs: []kvpart.KeyValue{{Key: r.Key, Value: []byte("v"), ModRevision: 5}}}, 5, nil
}

func (fakeStore) Txn(*kvpart.Txn, int64) (*kvpart.TxnResult, error) {
	return &kvpart.TxnResult{Revision: 5}, nil
}

func (fakeStore) Stats() *kvmachine.Stats { return new(kvmachine.Stats) }

func (fakeStore) Alarms() []kvpart.AlarmState { return nil }

func (fakeStore) Size() (int64, int64) { return 0, 0 }

func (fakeStore) Leases() []kvmachine.Lease { return nil }

func (fakeStore) LeaseCount() int { return 0 }

func (fakeStore) Lease(int64) (kvmachine.Lease, bool) { return kvmachine.Lease{}, false }

// collected has the garbage collector find the answers that no transport has taken before it asks.
func collected(owed func() string) func() string {
	return func() string {
		left := owed()
		if left != "" {
			runtime.GC()
		}
		return left
	}
}

// serveFake serves m and returns a connection to it.
func serveFake(t testing.TB, m *fakeMember, opts Options) *grpc.ClientConn {
	t.Helper()
	return serveReader(t, m, fakeStore{}, opts)
}

func serveReader(t testing.TB, m *fakeMember, kv reader, opts Options) *grpc.ClientConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := newDoor(m, kv, mident.New(), opts)
	served := make(chan error, 1)
	go func() { served <- d.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
		defer cancel()
		if err := d.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		wait.GivenBack(t, collected(d.Owed))
	})
	return conn
}
