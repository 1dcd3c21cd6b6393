package port

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/serve/port/frame"
	"github.com/holdfastdb/holdfast/serve/port/http2test"
	"github.com/holdfastdb/holdfast/serve/port/intake"
)

// at is a client's address.
func at(addr string) net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(addr), 4711))
}

// located is a connection of a client at an address.
type located struct {
	*http2test.Wire
	from net.Addr
}

func (l *located) RemoteAddr() net.Addr { return l.from }

// TestSites: an address of IPv4 however it is written, the network of one of IPv6, and nothing for what comes over no network.
func TestSites(t *testing.T) {
	for from, want := range map[net.Addr]string{
		at("192.0.2.7"): "192.0.2.7", at("::ffff:192.0.2.7"): "192.0.2.7",
		at("2001:db8:1:2:3:4:5:6"): "2001:db8:1:2::", at("fe80::1%eth0"): "fe80::",
		&net.UnixAddr{Name: "/run/x"}: "invalid IP", inProcess{}: "invalid IP",
	} {
		if got := Site(from); got.String() != want {
			t.Errorf("%v is of %v, want %s", from, got, want)
		}
	}
	if Site(nil).IsValid() {
		t.Error("no address is one")
	}
}

// TestAnAddressHasItsShareOfConnections: one address may have up to three quarters of all places, then only places of its own connections
// without progress. The last quarter is for others, a 64th for each. When all is taken, a connection without progress makes room, from any
// address.
func TestAnAddressHasItsShareOfConnections(t *testing.T) {
	l := NewConnLimit(256)
	idle := map[netip.Addr]int{}
	l.Join(func(may func(netip.Addr) bool, rank Rank) bool {
		if rank != Idle {
			return false
		}
		for site, n := range idle {
			if n > 0 && may(site) {
				idle[site]--
				l.leave(site)
				return true
			}
		}
		return false
	})
	fill := func(from net.Addr) (n int) {
		for n < 1000 && l.Enter(from) {
			n++
		}
		return n
	}
	greedy := at("192.0.2.77")
	if n := fill(greedy); n != 192 || !l.Use().Near() {
		t.Fatalf("%d of 256 from one address, %v", n, l.Use())
	}
	if want := "192 of 256 connections are open, 192 of them from 192.0.2.77"; l.Use().String() != want {
		t.Errorf("%q, want %q", l.Use(), want)
	}
	idle[Site(greedy)] = 3
	if l.Enter(greedy) {
		t.Error("room is looked for again at once")
	}
	clear(l.missed)
	if n := fill(greedy); n != 3 || l.Use().Open != 192 {
		t.Errorf("%d in exchange for 3 without progress, %v", n, l.Use())
	}
	taken := 192
	for i := 0; taken < 256; i++ {
		// Two addresses of a network of IPv6 are one.
		a, b := at(fmt.Sprintf("2001:db8:0:%x::1", i)), at(fmt.Sprintf("2001:db8:0:%x::2", i))
		n := fill(a) + fill(b)
		if taken += n; n != 5 && taken != 256 {
			t.Fatalf("%d from a network where a 64th is 4", n)
		}
	}
	if modest := at("192.0.2.1"); l.Enter(modest) {
		t.Error("a place where there is none, and all make progress")
	}
	idle[Site(greedy)] = 1
	clear(l.missed)
	if modest := at("192.0.2.1"); !l.Enter(modest) || l.Enter(modest) || l.Use().Open != 256 {
		t.Errorf("one without progress makes room once: %v", l.Use())
	}
	for range 191 {
		l.Leave(greedy)
	}
	if l.Use().Near() || l.Use().Open != 65 {
		t.Error(l.Use())
	}
	if n := fill(greedy); n != 192-65 { // twice the same
		t.Errorf("%d the second time", n)
	}
}

// TestOneAddressShutsOutNobody: half-sent requests from one address, more than there are places, are renewed as they are cut. They take no
// place of another address: it opens connections as before, and its idle one stays.
func TestOneAddressShutsOutNobody(t *testing.T) {
	t.Parallel()
	for _, half := range []string{"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 6000\r\n\r\n{", "GET /fast/ HTTP/1.1\r\nHo", "",
		preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"} {
		s := start(t, nil, Options{MaxConns: 128, SilenceTimeout: time.Hour, RequestTimeout: time.Hour})
		kept := s.dialFrom("127.0.0.2")
		ask := func(c net.Conn) error {
			if _, err := io.WriteString(c, "GET /fast/ HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				return err
			}
			_, err := io.ReadAtLeast(c, make([]byte, 1<<10), 20)
			return err
		}
		if err := ask(kept); err != nil {
			t.Fatal(err)
		}
		for i := range 300 {
			if c := s.dialFrom("127.0.0.77"); c != nil {
				_, _ = io.WriteString(c, half) // it may be closed already
			}
			if i%50 == 49 {
				settle(s)
				c := s.dialFrom("127.0.0.2")
				if err := ask(c); err != nil {
					t.Fatalf("%q %d times: a client at another address: %v", half, i+1, err)
				}
				c.Close()
			}
		}
		if err := ask(kept); err != nil {
			t.Errorf("%q: the connection that was open before: %v", half, err)
		}
		if n := s.count(); n > 100 || n < 90 {
			t.Errorf("%q: %d connections where three quarters of 128 are for one address", half, n)
		}
	}
}

// TestACrowdOfAddressesShutsOutNobody: each of 64 addresses stays below its share, and together they take all places. They are faster than
// a connection can be said to make no progress. An idle connection that was answered before stays, and new ones of another address are
// answered. Those of the crowd make room for each other.
func TestACrowdOfAddressesShutsOutNobody(t *testing.T) {
	t.Parallel()
	for _, half := range []string{"", "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 6000\r\n\r\n{", "GET /fast/ HTTP/1.1\r\nHo",
		preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00", "GET /fast/ HTTP/1.1\r\nHost: x\r\n\r\n"} {
		s := start(t, nil, Options{MaxConns: 256, SilenceTimeout: time.Hour, RequestTimeout: time.Hour})
		ask := func(c net.Conn) error {
			if _, err := io.WriteString(c, "GET /fast/ HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				return err
			}
			_, err := io.ReadAtLeast(c, make([]byte, 1<<10), 20)
			return err
		}
		kept := s.dialFrom("127.0.0.2")
		if err := ask(kept); err != nil {
			t.Fatal(err)
		}
		for i := range 64 * 10 {
			_, _ = io.WriteString(s.dialFrom(fmt.Sprintf("127.0.77.%d", 1+i%64)), half) // it may be closed already
			if i%64 != 63 {
				continue
			}
			settle(s)
			if err := ask(kept); err != nil {
				t.Fatalf("%q %d times: the connection that was open before: %v", half, i+1, err)
			}
			c := s.dialFrom("127.0.0.2")
			if err := ask(c); err != nil {
				t.Fatalf("%q %d times: a client at another address: %v", half, i+1, err)
			}
			c.Close()
		}
		if n := s.count(); n > 256 || n < 250 {
			t.Errorf("%q: %d connections of 256", half, n)
		}
	}
}

// TestWhoMakesRoomForWhom: a connection that lacks progress makes room, from any address. A connection that is young or idle makes room for
// a client of its own address, or of one that has fewer.
func TestWhoMakesRoomForWhom(t *testing.T) {
	a, b, c := at("192.0.2.1"), at("192.0.2.2"), at("192.0.2.3")
	for _, row := range []struct {
		rank   Rank
		of     net.Addr // has 3 connections if it is a, 2 if it is b
		coming net.Addr // c has none
		room   bool
	}{
		{Lacking, a, a, true}, {Lacking, b, a, true}, {Lacking, b, c, true},
		{Crowding, a, a, true}, {Crowding, b, a, false},
		{Young, a, a, true}, {Young, a, c, true}, {Young, b, c, true}, {Young, b, a, true}, // the last one for want of another
		{Idle, a, a, true}, {Idle, b, c, true}, {Idle, a, b, false}, {Idle, b, a, false},
	} {
		l := NewConnLimit(5)
		for _, from := range []net.Addr{a, a, a, b, b} {
			l.force(Site(from))
		}
		l.Join(func(may func(netip.Addr) bool, rank Rank) bool {
			if rank != row.rank || !may(Site(row.of)) {
				return false
			}
			l.Leave(row.of)
			return true
		})
		if room := l.makeRoom(Site(row.coming), false); room != row.room {
			t.Errorf("rank %d of %v for %v: makes room: %t", row.rank, row.of, row.coming, room)
		}
	}
}

// dialFrom connects from an address of this machine.
func (s *stand) dialFrom(addr string) net.Conn {
	s.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}, Timeout: wait.Limit(s.T)}
	c, err := d.Dial("tcp", s.addr)
	if err != nil {
		s.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(wait.Limit(s.T)))
	s.Cleanup(func() { c.Close() })
	return c
}

// crowd is a port with connections at addresses, each of which has an account.
type crowd struct {
	*testing.T
	*Port
	wires []*http2test.Wire
}

func (c *crowd) from(addr string) *From {
	w := http2test.On(nil, 1)
	c.wires = append(c.wires, w)
	return c.newGRPCConn(&located{w, at(addr)}).RemoteAddr().(*From)
}

// open begins a call as the port does, asks whether it may go on and lets it stay; nil: it is refused, and has ended.
func (c *crowd) open(f *From) *Staying {
	f.of.Open(intake.CallCost)
	if !c.Crowded() || !f.Crowded(true) {
		if s, ok := f.Stay(false); ok {
			return s
		}
	}
	f.of.Done(intake.CallCost)
	return nil
}

func (c *crowd) cut() (n int) {
	for _, w := range c.wires {
		if w.Closed.Load() {
			n++
		}
	}
	return n
}

// TestStreamsStay: streams that stay open are never cut. One address has three quarters of the room, on any number of connections, and the
// others share the last quarter. Calls that are answered at once have room when nothing may stay any more.
func TestStreamsStay(t *testing.T) {
	c := &crowd{T: t, Port: New(Options{CallBytes: 640 * intake.CallCost})}
	fill := func(f ...*From) (all []*Staying) {
		for i := 0; ; i++ {
			s := c.open(f[i%len(f)])
			if s == nil {
				return all
			}
			all = append(all, s)
		}
	}
	many := []*From{c.from("192.0.2.1"), c.from("192.0.2.1"), c.from("192.0.2.1")}
	first := fill(many...)
	if len(first) < 479 || len(first) > 480 {
		t.Fatalf("%d of 640 from one address", len(first))
	}
	if !c.callUse().Near() {
		t.Error(c.callUse())
	}
	if requests, calls, answers := c.Held(); requests != 0 || calls != c.callUse().Taken || answers != 0 {
		t.Errorf("%d, %d and %d bytes are said to be held", requests, calls, answers)
	}
	var others []*Staying
	for i := range 100 {
		f := c.from(fmt.Sprintf("192.0.3.%d", i))
		got := fill(f)
		if others = append(others, got...); len(got) > 10 {
			t.Fatalf("%d of 640 for a late address: more than a 64th", len(got))
		}
		if len(got) == 0 {
			break
		}
	}
	if n := len(first) + len(others); n < 598 || n > 600 {
		t.Errorf("%d of 640 stay, and the last sixteenth is for calls that are answered at once", n)
	}
	if c.cut() != 0 {
		t.Fatalf("%d connections were cut", c.cut())
	}
	// Calls that are answered at once: from each, and from a new one.
	for _, f := range append(many, c.from("192.0.4.1")) {
		f.of.Open(intake.CallCost)
		if f.Crowded(false) {
			t.Error("a call that is answered at once is refused")
		}
		f.of.Done(intake.CallCost)
	}
	for _, s := range append(first, others...) {
		s.Left()
		s.of.Done(intake.CallCost)
	}
	if again := fill(many...); len(again) != len(first) {
		t.Errorf("%d the second time, %d the first", len(again), len(first))
	}
}

// TestHalfSentCallsMakeRoom: when nothing is left, the connection that holds the most for incomplete requests is closed, or one whose
// client takes nothing. None with staying streams is closed.
func TestHalfSentCallsMakeRoom(t *testing.T) {
	c := &crowd{T: t, Port: New(Options{CallBytes: 64 * intake.CallCost})}
	c.now.Store(10)
	well := c.from("192.0.2.1")
	for range 47 {
		if c.open(well) == nil {
			t.Fatal("no room to begin with")
		}
	}
	half := func(addr string, n int) *From {
		w := http2test.On(nil, 1)
		c.wires = append(c.wires, w)
		talk := http2test.New()
		for stream := range n {
			talk.Bare(frame.Headers, frame.EndHeaders, uint32(2*stream+1), nil)
		}
		w = http2test.On(talk.Bytes(), 9000)
		c.wires[len(c.wires)-1] = w
		i := c.newGRPCConn(&located{w, at(addr)})
		_, _ = io.Copy(io.Discard, struct{ io.Reader }{i})
		return i.RemoteAddr().(*From)
	}
	half("192.0.2.2", 5)
	half("192.0.2.3", 8)
	late := c.from("192.0.2.4")
	late.of.Open(intake.CallCost)
	if !late.Crowded(true) || c.cut() != 0 {
		t.Fatalf("%d are cut before anybody lacks progress", c.cut())
	}
	c.now.Store(14)
	c.relieved.Store(0)
	if late.Crowded(true) || c.cut() != 1 || !c.wires[2].Closed.Load() {
		t.Fatalf("%d are cut, and not the one with the most calls half sent", c.cut())
	}
	well.of.writing.Store(10 + 1) // since the tenth second
	c.relieved.Store(0)
	if late.Crowded(true) || c.cut() != 2 || !c.wires[0].Closed.Load() {
		t.Fatalf("%d are cut, and not the one whose client takes nothing", c.cut())
	}
}

// TestCallsGiveBackWhatTheyHeld: for calls in any order and twice, a connection, its address and the port agree on the held room. In the
// end nothing is held.
func TestCallsGiveBackWhatTheyHeld(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 7))
		c := &crowd{T: t, Port: New(Options{CallBytes: 200 * intake.CallCost})}
		var conns []*From
		for i := range 9 {
			conns = append(conns, c.from(fmt.Sprintf("192.0.2.%d", i%4)))
		}
		type one struct {
			of      *From
			staying *Staying
			open    int64
			holds   int64
			whole   bool
		}
		var calls []*one
		for range 3000 {
			if rng.IntN(3) > 0 || len(calls) == 0 {
				o := &one{of: conns[rng.IntN(len(conns))], open: intake.CallCost, whole: rng.IntN(2) == 0}
				o.of.of.Open(intake.CallCost)
				if o.whole {
					o.of.of.Done(lingerCost)
					o.open = intake.WholeCost
				}
				if s, ok := o.of.Stay(o.whole); ok {
					o.staying = s
				}
				if n := int64(rng.IntN(5000)); o.of.Hold(n) {
					o.holds = n
				}
				calls = append(calls, o)
			} else {
				n := rng.IntN(len(calls))
				o := calls[n]
				if o.staying != nil && !o.whole && rng.IntN(2) == 0 { // the client ends its side: the port gives back, the handler takes it over
					o.whole, o.open = true, intake.WholeCost
					o.of.of.Done(lingerCost)
					o.staying.Whole()
					o.staying.Whole()
				} else {
					o.of.GiveBack(o.holds)
					o.of.of.Done(o.open)
					o.staying.Left()
					o.staying.Left()
					o.staying.Whole() // too late
					calls = append(calls[:n], calls[n+1:]...)
				}
			}
			var held, want, staying, wantStaying int64
			for _, f := range conns {
				held += f.of.held.Load()
				staying += f.of.staying.Load()
			}
			for _, o := range calls {
				want += o.open + o.holds
				wantStaying += o.holds
				if o.staying != nil {
					wantStaying += intake.CallCost
					if o.whole {
						want += lingerCost
					}
				}
			}
			var ofSites, stayingOfSites int64
			for _, s := range c.sites {
				ofSites += s.held.Load()
				stayingOfSites += s.staying.Load()
			}
			if taken := c.calls.Load(); held != want || taken != want || ofSites != want || staying != wantStaying || stayingOfSites != wantStaying {
				t.Fatalf("seed %d: %d calls hold %d and let %d stay; the connections have %d and %d, the addresses %d and %d, the port %d",
					seed, len(calls), want, wantStaying, held, staying, ofSites, stayingOfSites, taken)
			}
		}
		for _, o := range calls {
			o.staying.Left()
			o.of.GiveBack(o.holds)
			o.of.of.Done(o.open)
		}
		site := Site(conns[0].Addr)
		of := c.sites[site].conns
		for n, f := range conns {
			_ = f.of.Close() // nothing is sent
			_ = f.of.Close()
			if n == 0 && (c.sites[site] == nil || c.sites[site].conns != of-1) {
				t.Fatalf("one of %d connections of an address has ended twice, and %+v are left", of, c.sites[site])
			}
		}
		if c.Owed() != "" {
			t.Fatal(c.Owed())
		}
	}
	var none *Staying
	none.Whole()
	none.Left()
}

// TestABareLineFeedIsRefusedAtOnce: it ends no line, and waiting for one would take until the time for a request is over.
func TestABareLineFeedIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t, nil, Options{})
	for _, request := range []string{
		"GET /fast/ HTTP/1.1\nHost: x\n\n", "GET /fast/ HTTP/1.1\r\nHost: x\n\n", "GET /fast/ HTTP/1.1\nHost: x\r\n\r", "\nGET /fast/ HTTP/1.1\r\n", "GET /fast/ HTTP/1.1\n",
	} {
		wait.Quickly(t, request, 2*time.Second, func() {
			if got := s.ask(request); !strings.HasPrefix(got, "HTTP/1.1 400 ") {
				t.Errorf("%q is answered %q", request, got)
			}
		})
		if request[0] == '\n' {
			continue
		}
		c := s.dial() // byte by byte
		for i := range len(request) {
			if _, err := io.WriteString(c, request[i:i+1]); err != nil {
				break // it has been refused
			}
			time.Sleep(time.Millisecond)
		}
		_ = c.SetReadDeadline(time.Now().Add(wait.Limit(t)))
		if got, err := io.ReadAll(c); !strings.HasPrefix(string(got), "HTTP/1.1 400 ") {
			t.Errorf("%q byte by byte is answered %q, %v", request, got, err)
		}
	}
	// A body may have what it likes, and a head may come in pieces.
	c := s.dial()
	for _, piece := range []string{"POST /echo HTTP/1.1\r", "\nHost: x\r\nContent-Length: 6\r\nConnection: close\r\n", "\r", "\na\n", "b\n\n\n"} {
		_, _ = io.WriteString(c, piece)
		time.Sleep(2 * time.Millisecond)
	}
	if got, _ := io.ReadAll(c); !strings.Contains(string(got), "a\nb\n\n\n") {
		t.Errorf("a body with line feeds is answered %q", got)
	}
}
