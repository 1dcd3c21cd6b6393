package node

import (
	"crypto/tls"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/disk"
	emember "github.com/holdfastdb/holdfast/core/entry/member"
	"github.com/holdfastdb/holdfast/internal/proctest"
)

// cluster is members over real TCP on loopback, each in a directory of its own.
type cluster struct {
	t     testing.TB
	mu    sync.Mutex        // newCluster starts members at once
	peers map[string]string // name → address
	dirs  map[string]string
	nodes map[string]*Node
	fs    map[string]*disk.Faulty
	tick  time.Duration // 0 = the default
	tls   *tls.Config   // of all members; nil: cleartext
	// listen is where each listens if that is not its address in peers; logger makes its log. nil: as usual.
	listen map[string]string
	logger func(name string) *slog.Logger
}

// freeAddr is an address without a listener, that no other test of this process was given, and that no outgoing connection takes.
func freeAddr(t testing.TB) string {
	t.Helper()
	addr, err := proctest.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

func newCluster(t testing.TB, names ...string) *cluster {
	t.Helper()
	c := unstarted(t, names...)
	c.begin(names...)
	return c
}

// unstarted is addresses and directories for a cluster.
func unstarted(t testing.TB, names ...string) *cluster {
	c := &cluster{t: t, peers: map[string]string{}, dirs: map[string]string{}, nodes: map[string]*Node{}, fs: map[string]*disk.Faulty{}}
	for _, name := range names {
		c.peers[name], c.dirs[name] = freeAddr(t), t.TempDir()
	}
	return c
}

// begin starts members that begin a cluster, and waits until they work.
func (c *cluster) begin(names ...string) {
	t := c.t
	t.Helper()
	var wg sync.WaitGroup
	for _, name := range names {
		wg.Go(func() {
			n, err := c.start(name, StartOptions{Peers: c.peers})
			if err != nil {
				t.Error(err)
				return
			}
			c.mu.Lock()
			c.nodes[name] = n
			c.mu.Unlock()
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for _, n := range c.nodes {
		awaitReady(t, n)
		await(t, "announced", n.Announced)
	}
}

// start starts a member in its directory; the caller puts it into nodes.
func (c *cluster) start(name string, opt StartOptions) (*Node, error) {
	opt.Name = name
	if opt.PeerAddr == "" {
		opt.PeerAddr = c.peers[name]
	}
	opt.PeerTLS = c.tls
	if at := c.listen[name]; at != "" {
		opt.PeerListen = []string{at}
	}
	c.mu.Lock()
	if c.fs[name] == nil {
		c.fs[name] = disk.NewFaulty(disk.OS())
	}
	cfg := house(Config{FS: c.fs[name], Dir: c.dirs[name], MemoryBytes: 64 << 20, TickInterval: c.tick, HealthyAfter: time.Second})
	c.mu.Unlock()
	if c.logger != nil {
		cfg.Logger = c.logger(name)
	}
	n, err := Start(within(c.t), cfg, opt)
	if err == nil {
		c.t.Cleanup(n.Stop)
	}
	return n, err
}

// join starts a member that is not in the cluster yet.
func (c *cluster) join(name, through string) (*Node, error) {
	if c.dirs[name] == "" {
		c.peers[name], c.dirs[name] = freeAddr(c.t), c.t.TempDir()
	}
	n, err := c.start(name, StartOptions{Join: c.peers[through]})
	if err == nil {
		c.nodes[name] = n
	}
	return n, err
}

func (c *cluster) restart(name string) *Node {
	c.t.Helper()
	n, err := c.start(name, StartOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	c.nodes[name] = n
	awaitReady(c.t, n)
	return n
}

func (c *cluster) stop(name string) {
	c.nodes[name].Stop()
	delete(c.nodes, name)
}

func (c *cluster) leader() (name string, n *Node) {
	c.t.Helper()
	await(c.t, "a leader", func() bool {
		for nm, m := range c.nodes {
			if term, _ := m.Leadership(); term != 0 {
				name, n = nm, m
				return true
			}
		}
		return false
	})
	return name, n
}

func (c *cluster) follower() (name string, n *Node) {
	c.t.Helper()
	_, l := c.leader()
	for nm, m := range c.nodes {
		if m != l {
			return nm, m
		}
	}
	c.t.Fatal("no follower")
	return "", nil
}

// healthy waits until the leader counts everybody as healthy, which takes a second of unbroken connections.
func (c *cluster) healthy() {
	c.t.Helper()
	await(c.t, "all healthy", func() bool {
		_, l := c.leader()
		members := l.members.List()
		return l.healthyVoters(members) == len(slices.DeleteFunc(members, func(m emember.Member) bool { return m.Learner }))
	})
}
