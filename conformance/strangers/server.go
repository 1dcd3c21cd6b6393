package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/internal/certtest"
	"github.com/holdfastdb/holdfast/internal/proctest"
)

const (
	// memory is the server's --memory, mostResident the bound on its resident bytes: the kernel counts some pages that the budget does not.
	memory       = "256MiB"
	mostResident = 300_000_000
	// slower is the bound on the neighbour's p99 as a multiple of that alone, floor a p99 that always passes. A quick run has other groups
	// beside it on the same processors, so its floor only finds a door that is shut.
	slower     = 5
	floor      = 100 * time.Millisecond
	quickFloor = 2 * time.Second
)

// target is the server that is attacked, as one attacker or the neighbour sees it. Its methods may be called from several goroutines.
type target struct {
	at   map[string]string // where the doors listen
	port string            // of the door that is attacked
	from []string
	tls  *tls.Config // nil: plain
	next atomic.Uint64
}

// addr is where a door listens.
func (t *target) addr(port string) string { return t.at[port] }

// ports are the addresses of a node's doors.
func ports(n *proctest.Node) map[string]string {
	at := map[string]string{"kv": n.KV, "admin": n.Admin, "peer": n.Peer}
	for _, door := range []string{"tlog", "saga", "saga-grpc", "sql"} {
		at[door] = n.Addr(door)
	}
	return at
}

// dial opens a connection to the attacked door from the attacker's next address, without a TLS handshake.
func (t *target) dial(ctx context.Context) (net.Conn, error) {
	from := t.from[t.next.Add(1)%uint64(len(t.from))]
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 2 * time.Second}
	return d.DialContext(ctx, "tcp", t.addr(t.port))
}

// open is dial with the handshake where the server wants one. protocols is what is offered in it.
func (t *target) open(ctx context.Context, protocols ...string) (net.Conn, error) {
	c, err := t.dial(ctx)
	if err != nil || t.tls == nil || t.port == "sql" { // the sql door begins TLS by its own protocol, and takes clients without
		return c, err
	}
	conf := t.tls.Clone()
	conf.NextProtos = protocols
	s := tls.Client(c, conf)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := s.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return s, nil
}

// attackers are the addresses that attacks come from.
func attackers(many bool) []string {
	if !many {
		return []string{"127.0.0.77"}
	}
	var all []string
	for i := range 64 {
		all = append(all, fmt.Sprintf("127.0.77.%d", 1+i))
	}
	return all
}

// served is a server that runs, and how its clients speak with it.
type served struct {
	cluster *proctest.Cluster
	node    *proctest.Node
	conf    *tls.Config // nil: plain
	ca      string      // file of the authority
}

// serve starts a server with every door in dir.
func (c *campaign) serve(dir string, secure bool) (*served, error) {
	s := new(served)
	flags := []string{"--memory", memory, "--tlog", "{tlog}", "--saga", "{saga}", "--saga-grpc", "{saga-grpc}", "--sql", "{sql}"}
	if secure {
		authority := certtest.NewAuthority("strangers")
		cert, key, err := certtest.WriteFiles(dir, "server", authority.Issue("127.0.0.1"))
		if err != nil {
			return nil, err
		}
		if s.ca, err = authority.WriteFile(dir); err != nil {
			return nil, err
		}
		s.conf = &tls.Config{RootCAs: authority.Pool(), ServerName: "127.0.0.1"}
		flags = append(flags, "--tls-cert", cert, "--tls-key", key)
	}
	var err error
	if s.cluster, err = proctest.New(filepath.Join(dir, "servers"), proctest.HoldfastTLS(c.bin, s.conf, flags...), 1); err != nil {
		return nil, err
	}
	if err := s.cluster.Run(); err != nil {
		s.cluster.Close()
		return nil, err
	}
	s.node = s.cluster.Nodes[0]
	return s, nil
}

// attack starts a server and its neighbour, attacks, and judges.
func (c *campaign) attack(a *attack, port string, w way) (note string, err error) {
	dir, err := os.MkdirTemp("", "strangers")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	s, err := c.serve(dir, w.tls)
	if err != nil {
		return "", err
	}
	defer s.cluster.Close()
	node := s.node
	n, err := newNeighbour(&target{at: ports(node), tls: s.conf})
	if err != nil {
		return "", fmt.Errorf("the well-behaved client, before the attack: %w", err)
	}
	defer n.close()
	n.begin()
	time.Sleep(c.alone)
	before := n.take()

	did, attackErr := (&order{Attack: a.name, Port: port, At: ports(node), Many: w.many, CA: s.ca, Lasts: c.lasts}).carryOut()
	during := n.take()
	n.end()

	var errs []error
	if attackErr != nil {
		errs = append(errs, fmt.Errorf("the attack: %w", attackErr))
	}
	if !node.Running() {
		return did, errors.Join(append(errs, fmt.Errorf("the server has ended: %s", node.LogTail(5)))...)
	}
	peak, err := node.PeakRSS()
	if err != nil {
		return did, err
	}
	if peak > mostResident {
		errs = append(errs, fmt.Errorf("%d MB resident", peak/1e6))
	}
	passes := floor
	if c.quick {
		passes = quickFloor
	}
	errs = append(errs, n.judge(before, during, passes))
	note = fmt.Sprintf("%s; %d MB; p99 %s", did, peak/1e6, during.text(before))
	if err := errors.Join(errs...); err != nil {
		return note, fmt.Errorf("%w (%s, %d MB)", err, did, peak/1e6)
	}
	return note, nil
}
