package proctest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Node is one member: its process and where it listens. Addresses are host:port on loopback.
type Node struct {
	*Process
	Name            string
	Dir             string // data directory, kept over restarts
	KV, Admin, Peer string

	client *tls.Config // of the server's kind

	mu       sync.Mutex
	addrs    map[string]string // guarded by mu
	patience time.Duration     // of the next Status; guarded by mu; 0: leastPatience
}

// A paused node does not answer, and a node on a busy machine answers late. So a Status waits a second, and twice as long each time there was no
// answer.
const leastPatience, mostPatience = time.Second, 30 * time.Second

// Addr is the loopback address of the node's door of that name, the same at each call: extra flags have it as {NAME}.
func (n *Node) Addr(door string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := n.addrs[door]
	if at == "" {
		ports, err := freePorts(1)
		if err != nil {
			panic(err) // the machine has no port left: nothing can be tested
		}
		if at = ports[0]; n.addrs == nil {
			n.addrs = map[string]string{}
		}
		n.addrs[door] = at
	}
	return at
}

// Cluster is one to five nodes of one kind of server.
type Cluster struct {
	Dir  string
	kind Server

	mu    sync.Mutex // guards Nodes and named while nodes are added or dropped
	Nodes []*Node
	named int // names are n1, n2 … and never used twice
}

// readyTimeout ends what hangs. It is long because the machine may be busy with other tests; a node that ends before it is ready fails at once.
const readyTimeout = 20 * time.Minute

// Start runs n Holdfast nodes (extra is added to each one's serve flags), waits until all are ready and ends them with
// the test. If the test fails, each node's last lines are in its log. The binary is $HOLDFAST_BIN, or built once.
func Start(t testing.TB, n int, extra ...string) *Cluster {
	t.Helper()
	bin, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(t.TempDir(), Holdfast(bin, extra...), n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if t.Failed() {
			for _, node := range c.Nodes {
				t.Logf("%s, last lines:\n%s", node.Name, node.LogTail(60))
			}
		}
	})
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	return c
}

// New describes n nodes of a kind below dir; Run starts them.
func New(dir string, kind Server, n int) (*Cluster, error) {
	c := &Cluster{Dir: dir, kind: kind}
	for range n {
		if _, err := c.add(); err != nil {
			return nil, err
		}
	}
	for _, node := range c.Nodes {
		node.Process = NewProcess(filepath.Join(dir, node.Name+".log"), kind.Bin, kind.args(node, c.Nodes)...)
	}
	return c, nil
}

func (c *Cluster) add() (*Node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.named++
	name := fmt.Sprintf("n%d", c.named)
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	node := &Node{Name: name, Dir: filepath.Join(c.Dir, name), KV: ports[0], Admin: ports[1], Peer: ports[2],
		client: c.kind.client}
	if err := os.MkdirAll(node.Dir, 0o700); err != nil {
		return nil, err
	}
	c.Nodes = append(c.Nodes, node)
	return node, nil
}

// Add describes one more node with the given flags instead of the cluster's own (beside data directory, name and
// addresses), without starting it.
func (c *Cluster) Add(flags ...string) (*Node, error) {
	node, err := c.add()
	if err != nil {
		return nil, err
	}
	args := append(c.kind.base(node), flags...)
	node.Process = NewProcess(filepath.Join(c.Dir, node.Name+".log"), c.kind.Bin, args...)
	return node, nil
}

// Reflag gives a node that has ended other flags (beside data directory, name and addresses) for its next start.
func (c *Cluster) Reflag(node *Node, flags ...string) {
	node.Process = NewProcess(node.LogFile(), c.kind.Bin, append(c.kind.base(node), flags...)...)
}

// Join describes one more node that joins the members there are, without starting it.
func (c *Cluster) Join(extra ...string) (*Node, error) {
	node, err := c.add()
	if err != nil {
		return nil, err
	}
	args := append(append(c.kind.base(node), c.kind.join(c.Nodes)...), extra...)
	node.Process = NewProcess(filepath.Join(c.Dir, node.Name+".log"), c.kind.Bin, args...)
	return node, nil
}

// Drop kills a node and takes it out of Nodes, after its member was removed.
func (c *Cluster) Drop(node *Node) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Nodes = slices.DeleteFunc(c.Nodes, func(n *Node) bool { return n == node })
	return node.Kill()
}

// Run starts every node and waits until all are ready. On an error everything is ended and the logs are in the error.
func (c *Cluster) Run() error {
	for _, node := range c.Nodes {
		if err := node.Start(); err != nil {
			c.Close()
			return err
		}
	}
	if err := c.WaitReady(); err != nil {
		c.Close()
		return err
	}
	return nil
}

// WaitReady waits until every running node says it is ready, and fails early when one ends.
func (c *Cluster) WaitReady() error {
	for _, node := range c.Nodes {
		if node.Running() {
			if err := c.WaitNode(node, readyTimeout); err != nil {
				return err
			}
		}
	}
	return nil
}

// WaitNode waits until one node is ready.
func (c *Cluster) WaitNode(node *Node, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for {
		err := c.kind.ready(ctx, node)
		if err == nil {
			return nil
		}
		select {
		case <-node.Exited():
			return fmt.Errorf("%s ended before it was ready (%v); last lines:\n%s", node.Name, node.ExitError(), node.LogTail(30))
		case <-ctx.Done():
			return fmt.Errorf("%s not ready after %s: %w; last lines:\n%s", node.Name, timeout, err, node.LogTail(30))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Restart starts a node that has ended and waits until it is ready. With two of three nodes down, use Start: a node
// without a majority is never ready.
func (c *Cluster) Restart(node *Node) error {
	if err := node.Start(); err != nil {
		return err
	}
	return c.WaitNode(node, readyTimeout)
}

// Endpoints are the client addresses of all nodes, in order.
func (c *Cluster) Endpoints() []string {
	var out []string
	for _, node := range c.Nodes {
		out = append(out, node.KV)
	}
	return out
}

// ErrNoLeader: no running node says that it leads.
var ErrNoLeader = errors.New("no node says that it leads")

// Leader asks the running nodes which of them leads. Shortly after a failure two may say so: the later term wins.
func (c *Cluster) Leader(ctx context.Context) (*Node, error) {
	var found *Node
	var term uint64
	for _, node := range c.Nodes {
		if !node.Running() {
			continue
		}
		st, err := node.Status(ctx)
		if err == nil && st.Leader == st.Header.MemberId && st.RaftTerm >= term {
			found, term = node, st.RaftTerm
		}
	}
	if found == nil {
		return nil, ErrNoLeader
	}
	return found, nil
}

// WaitLeader polls Leader until there is one.
func (c *Cluster) WaitLeader(timeout time.Duration) (*Node, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for {
		node, err := c.Leader(ctx)
		if err == nil {
			return node, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Status asks one node for etcd's Maintenance status, for at most its patience.
func (n *Node) Status(ctx context.Context) (*pb.StatusResponse, error) {
	n.mu.Lock()
	patience := max(n.patience, leastPatience)
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := n.dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	res, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{})
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.patience = 0; ctx.Err() != nil {
		n.patience = min(2*patience, mostPatience)
	}
	return res, err
}

// dial makes a connection to the node's client port; the caller closes it.
func (n *Node) dial() (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if n.client != nil {
		creds = credentials.NewTLS(n.client)
	}
	return grpc.NewClient(n.KV, grpc.WithTransportCredentials(creds))
}

// Lead waits for a leader and, if it is another node, has it hand the leadership to the given one.
func (c *Cluster) Lead(ctx context.Context, to *Node) error {
	for {
		leader, err := c.Leader(ctx)
		if err == nil && leader == to {
			return nil
		}
		if err == nil {
			err = leader.handOver(ctx, to)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not lead: %w", to.Name, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// handOver asks a leader to let another node lead.
func (n *Node) handOver(ctx context.Context, to *Node) error {
	st, err := to.Status(ctx)
	if err != nil {
		return err
	}
	conn, err := n.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = pb.NewMaintenanceClient(conn).MoveLeader(ctx, &pb.MoveLeaderRequest{TargetID: st.Header.MemberId})
	return err
}

// Close kills every node. Data and logs stay where they are.
func (c *Cluster) Close() {
	for _, node := range c.Nodes {
		if node.Process != nil {
			_ = node.Kill() // the error would say that SIGKILL failed: nothing more can be done
		}
	}
}
