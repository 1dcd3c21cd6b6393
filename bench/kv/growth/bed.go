package growth

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// conns is how many connections the load uses, as etcd's own load tool is told to in bench/kv.
const conns = 8

// bed is a running server, with connections to its first member.
type bed struct {
	cluster *proctest.Cluster
	conns   []*grpc.ClientConn
	lasts   time.Duration
	seed    uint64
}

func newBed(ctx context.Context, dir string, kind proctest.Server, nodes int) (_ *bed, err error) {
	b := &bed{}
	if b.cluster, err = proctest.New(dir, kind, nodes); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if err := b.cluster.Run(); err != nil {
		return nil, err
	}
	if nodes > 1 {
		if _, err := b.cluster.WaitLeader(30 * time.Second); err != nil {
			return nil, err
		}
	}
	return b, b.connect(b.cluster.Nodes[0])
}

// connect opens the connections anew, to a member.
func (b *bed) connect(n *proctest.Node) error {
	b.hangUp()
	for range conns {
		c, err := dial(n.KV)
		if err != nil {
			return err
		}
		b.conns = append(b.conns, c)
	}
	return nil
}

// messageBytes is more than any answer here.
const messageBytes = 64 << 20

func dial(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageBytes), grpc.MaxCallSendMsgSize(messageBytes)))
}

func (b *bed) hangUp() {
	for _, c := range b.conns {
		c.Close() // its data is thrown away
	}
	b.conns = nil
}

func (b *bed) close() {
	b.hangUp()
	b.cluster.Close()
}

// kv is the client of the load's i-th worker.
func (b *bed) kv(i int) pb.KVClient { return pb.NewKVClient(b.conns[i%len(b.conns)]) }

func (b *bed) rand() *rand.Rand { return rand.New(rand.NewPCG(b.seed, 18)) }

// cpu is what all members have used.
func (b *bed) cpu() (sum time.Duration, err error) {
	for _, n := range b.cluster.Nodes {
		d, err := n.CPU()
		if err != nil {
			return 0, fmt.Errorf("%s is gone: %w; last lines:\n%s", n.Name, err, n.LogTail(20))
		}
		sum += d
	}
	return sum, nil
}

// rss is the largest member's, in MiB.
func (b *bed) rss() (most float64, err error) {
	for _, n := range b.cluster.Nodes {
		r, err := n.RSS()
		if err != nil {
			return 0, err
		}
		most = max(most, float64(r)/(1<<20))
	}
	return most, nil
}

// times does f, which is n operations, and says what each took.
func (b *bed) times(row string, n int, f func() error) (Figure, error) {
	before, err := b.cpu()
	if err != nil {
		return Figure{}, err
	}
	began := time.Now()
	if err := f(); err != nil {
		return Figure{}, fmt.Errorf("%s: %w", row, err)
	}
	took := time.Since(began)
	after, err := b.cpu()
	if err != nil {
		return Figure{}, err
	}
	rss, err := b.rss()
	return Figure{Row: row, CPU: micros(after-before) / float64(n), Rate: float64(n) / took.Seconds(), RSS: rss}, err
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
