package crash

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// wires is the network between members, with this process in the middle. Each member announces the address of a proxy here, so messages of
// others to it can be held back or cut off. A connection between members carries frames in one direction, from the side that dialled, so a
// cut has a direction too.
//
// A silent cut is a network that drops packets. Connections stay open, new ones are accepted and hear nothing, and sent frames arrive when
// it heals. A loud one is a firewall that resets.
type wires struct {
	c     *proctest.Cluster
	lns   []net.Listener
	wg    sync.WaitGroup
	mu    sync.Mutex
	ids   []uint64               // of the members in the cluster's order, once known; guarded by mu
	how   map[[2]int]cutKind     // guarded by mu
	turn  chan struct{}          // closed when how changes; guarded by mu
	conns map[*wireConn]struct{} // guarded by mu
}

type cutKind int

const (
	silent cutKind = 1 + iota
	loud
)

// wireConn is one proxied connection. Its ends are closed together.
type wireConn struct {
	dialler net.Conn
	to      int
	from    uint64   // member id in the hello, 0 for a question; written once, under wires.mu
	member  net.Conn // nil until the hello has passed; written once, under wires.mu
}

// The hello of a connection between members (docs/formats/peer.md): its frame's length, and where in it the dialling side's
// id is.
const (
	helloFrame  = 8 + 33
	helloFromAt = 8 + 17
)

// startWired starts three members whose connections run through wires.
func startWired(t *testing.T, flags ...string) (*proctest.Cluster, *wires) {
	t.Helper()
	c := describe(t, 3)
	bin, err := proctest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	w := &wires{c: c, how: map[[2]int]cutKind{}, turn: make(chan struct{}), conns: map[*wireConn]struct{}{}}
	var peers []string
	for _, n := range c.Nodes {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		w.lns = append(w.lns, ln)
		peers = append(peers, n.Name+"="+ln.Addr().String())
	}
	t.Cleanup(w.close)
	for i, n := range c.Nodes {
		w.wg.Go(func() { w.accept(i) })
		n.Process = proctest.NewProcess(filepath.Join(c.Dir, n.Name+".log"), bin, append([]string{"serve", "--data", n.Dir, "--name", n.Name,
			"--kv", n.KV, "--admin", n.Admin, "--peer", n.Peer, "--peer-advertise", w.lns[i].Addr().String(), "--peers", strings.Join(peers, ",")},
			flags...)...)
	}
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	ids := make([]uint64, len(c.Nodes))
	for i, n := range c.Nodes {
		st, err := n.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = st.Header.MemberId
	}
	w.mu.Lock()
	w.ids = ids
	w.mu.Unlock()
	return c, w
}

func (w *wires) close() {
	for _, ln := range w.lns {
		ln.Close()
	}
	w.mu.Lock()
	for c := range w.conns {
		c.shut()
	}
	clear(w.how)
	close(w.turn)
	w.turn = make(chan struct{})
	w.mu.Unlock()
	w.wg.Wait()
}

// cut sets what becomes of everything from one member to another; heal ends it all.
func (w *wires) cut(kind cutKind, links ...[2]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range links {
		w.how[l] = kind
	}
	if kind == loud {
		for c := range w.conns {
			if w.kind(c) == loud {
				c.shut()
			}
		}
	}
	w.changed()
}

// reset resets every connection there is, once; what is dialled anew goes through.
func (w *wires) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		c.shut()
	}
}

// refuse has a member's proxy refuse connections for a while, like one that is being restarted in front of a healthy member. It ends the
// open ones.
func (w *wires) refuse(t *testing.T, to int, lasts time.Duration) {
	t.Helper()
	at := w.lns[to].Addr().String()
	w.lns[to].Close()
	w.mu.Lock()
	for c := range w.conns {
		if c.to == to {
			c.shut()
		}
	}
	w.mu.Unlock()
	time.Sleep(lasts)
	ln, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	w.lns[to] = ln
	w.wg.Go(func() { w.acceptAt(ln, to) })
}

func (w *wires) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.how)
	w.changed()
}

// changed needs mu.
func (w *wires) changed() {
	close(w.turn)
	w.turn = make(chan struct{})
}

// kind is how a connection is cut, 0 = not; needs mu.
func (w *wires) kind(c *wireConn) cutKind {
	for i, id := range w.ids {
		if id == c.from {
			return w.how[[2]int{i, c.to}]
		}
	}
	return 0
}

// pass waits until a connection may carry bytes; false: never more.
func (w *wires) pass(c *wireConn) bool {
	for {
		w.mu.Lock()
		kind, turn := w.kind(c), w.turn
		_, open := w.conns[c]
		w.mu.Unlock()
		switch {
		case !open || kind == loud:
			return false
		case kind == 0:
			return true
		}
		<-turn
	}
}

func (w *wires) accept(to int) { w.acceptAt(w.lns[to], to) }

func (w *wires) acceptAt(ln net.Listener, to int) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		c := &wireConn{dialler: conn, to: to}
		w.wg.Go(func() { w.carry(c) })
	}
}

// carry reads who dials, and then carries bytes both ways.
func (w *wires) carry(c *wireConn) {
	w.mu.Lock()
	w.conns[c] = struct{}{}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.conns, c)
		c.shut()
		w.mu.Unlock()
	}()
	var hello [helloFrame]byte
	if _, err := io.ReadFull(c.dialler, hello[:]); err != nil {
		return
	}
	w.mu.Lock()
	c.from = binary.LittleEndian.Uint64(hello[helloFromAt:])
	w.mu.Unlock()
	if !w.pass(c) {
		return
	}
	member, err := net.Dial("tcp", w.c.Nodes[c.to].Peer)
	if err != nil {
		return
	}
	w.mu.Lock()
	c.member = member
	w.mu.Unlock()
	if _, err := member.Write(hello[:]); err != nil {
		return
	}
	w.wg.Go(func() {
		w.pump(c, c.dialler, member) // what the member that was dialled answers, or that it is gone
		w.mu.Lock()
		c.shut()
		w.mu.Unlock()
	})
	w.pump(c, member, c.dialler)
}

// pump carries bytes one way until an end is closed.
func (w *wires) pump(c *wireConn, to, from net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && w.pass(c) {
			_, werr := to.Write(buf[:n])
			if werr == nil && err == nil {
				continue
			}
		}
		return
	}
}

// shut closes both ends; needs wires.mu.
func (c *wireConn) shut() {
	c.dialler.Close()
	if c.member != nil {
		c.member.Close()
	}
}

// links are those between some members and all others, as a person says it: both ways, only what they send, or only what
// they hear.
func (w *wires) links(way string, some ...int) (links [][2]int) {
	in := map[int]bool{}
	for _, i := range some {
		in[i] = true
	}
	for a := range w.lns {
		for b := range w.lns {
			if in[a] && !in[b] {
				if way != "hears" {
					links = append(links, [2]int{a, b})
				}
				if way != "sends" {
					links = append(links, [2]int{b, a})
				}
			}
		}
	}
	return links
}

// index of a node in the cluster.
func (w *wires) index(n *proctest.Node) int {
	for i, o := range w.c.Nodes {
		if o == n {
			return i
		}
	}
	panic(fmt.Sprintf("%s is not of this cluster", n.Name))
}
