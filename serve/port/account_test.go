package port

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/serve/port/frame"
	"github.com/holdfastdb/holdfast/serve/port/http2test"
)

// TestAQueueIsLeftFromAnywhere, and a request that has left it once is not in it.
func TestAQueueIsLeftFromAnywhere(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var q queue
	var in []*place
	var conns []net.Conn // the connections of in
	pop := func() net.Conn {
		e := q.oldest(anySite)
		if e == nil {
			return nil
		}
		c := e.conn
		q.remove(e)
		return c
	}
	for step := range 2000 {
		switch n := rng.IntN(5); {
		case n < 2 || len(in) == 0:
			c := http2test.On(nil, 1)
			in, conns = append(in, q.push(c, netip.Addr{}, uint64(step))), append(conns, c)
			if last := in[len(in)-1]; last.second != uint64(step) || !last.queued {
				t.Fatalf("step %d: its place is %+v", step, last)
			}
		case n < 4:
			i := rng.IntN(len(in))
			e := in[i]
			if !q.remove(e) || q.remove(e) {
				t.Fatalf("step %d: a connection leaves never, or twice", step)
			}
			in, conns = slices.Delete(in, i, i+1), slices.Delete(conns, i, i+1)
		default:
			if c := pop(); c != conns[0] {
				t.Fatalf("step %d: not the oldest", step)
			}
			in, conns = in[1:], conns[1:]
		}
		var forth []net.Conn
		for e := q.first; e != nil; e = e.next {
			forth = append(forth, e.conn)
		}
		back := 0
		for e := q.last; e != nil; e = e.prev {
			back++
		}
		if !slices.Equal(forth, conns) || back != len(conns) || q.len != len(conns) {
			t.Fatalf("step %d: %d forth, %d back, a length of %d, want %d", step, len(forth), back, q.len, len(conns))
		}
	}
	for range conns {
		pop()
	}
	if pop() != nil || q.first != nil || q.last != nil || q.len != 0 {
		t.Errorf("of an empty queue: %+v", q)
	}
}

// TestAConnectionIsLateWhenItsTimeIsOver, a whole second of the clock later, and while a handler has it never.
func TestAConnectionIsLateWhenItsTimeIsOver(t *testing.T) {
	p := &Port{opts: Options{IdleTimeout: 10 * time.Second, RequestTimeout: 5 * time.Second}}
	for _, c := range []struct {
		what, since, now uint64
		late             bool
	}{
		{idle, 100, 100, false}, {idle, 100, 110, false}, {idle, 100, 111, true},
		{reading, 100, 100, false}, {reading, 100, 101, true}, {writing, 100, 105, false}, {writing, 100, 106, true},
		{reading, 110, 100, false}, // what has come has extended its time
		{busy, 0, 1000, false},
	} {
		client := &client{}
		client.mark(c.what, c.since)
		if late := p.late(client, c.now); late != c.late {
			t.Errorf("%d since %d, at %d: late %t", c.what, c.since, c.now, late)
		}
	}
}

// TestRoomIsShared: a connection has three quarters of the room at most, unless one message needs more. A new one leaves the last quarter
// to others. A refused message takes nothing.
func TestRoomIsShared(t *testing.T) {
	for _, c := range []struct {
		name           string
		taken, n, held int64
		settled        bool
		want           bool
	}{
		{"a new one, up to the last quarter", 0, 75, 0, false, true},
		{"a new one, beside others", 50, 25, 0, false, true},
		{"a new one, of the last quarter", 50, 26, 0, false, false},
		{"a new one, of one message that needs more", 0, 76, 0, false, true},
		{"a new one, all in one message", 0, 100, 0, false, true},
		{"more than there is", 0, 101, 0, true, false},
		{"a known one, of the last quarter", 75, 25, 0, true, true},
		{"a known one, beyond it", 75, 26, 0, true, false},
		{"a known one, up to three quarters", 50, 25, 50, true, true},
		{"a known one, with more than three quarters", 50, 26, 50, true, false},
	} {
		p := New(Options{BudgetBytes: 100})
		p.budget.Add(-c.taken)
		if got := p.tryDraw(c.n, c.held, c.settled); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
		left := 100 - c.taken
		if c.want {
			left -= c.n
		}
		if p.budget.Load() != left {
			t.Errorf("%s: %d are left, want %d", c.name, p.budget.Load(), left)
		}
	}
	p := New(Options{})
	p.now.Store(10)
	for _, c := range []struct {
		opened, sent uint64
		want         bool
	}{{10, 0, false}, {9, 0, false}, {8, 0, true}, {10, 1, true}} {
		if got := p.settled(c.opened, c.sent); got != c.want {
			t.Errorf("opened at %d of 10, with %d large requests: settled %t", c.opened, c.sent, got)
		}
	}
}

// TestRoomForAnswersIsShared in the same way over HTTP/1.1 and over gRPC: by thirds.
func TestRoomForAnswersIsShared(t *testing.T) {
	const third = 3 << 20
	for _, c := range []struct {
		name            string
		taken, held, n  int64
		settled         bool
		want, wantHTTP1 bool
	}{
		{"a new one, up to the last third", 0, 0, 2 * third, false, true, true},
		{"a new one, of the last third", 0, 0, third, false, true, true},
		{"a new one, beside others", third, 0, third, false, true, true},
		{"a new one, beyond", third, 0, third + 1, false, false, false},
		{"one answer that needs more", 0, 0, 2*third + 1, false, true, true},
		{"more than there is", 0, 0, 3*third + 1, true, false, false},
		{"a known one, of the last third", 2 * third, 0, third, true, true, false}, // over HTTP/1.1 large ones never
		{"a known one, a small one of it", 2 * third, 0, largeBody, true, true, true},
		{"a known one, up to two thirds", 0, third, third, true, true, true},
		{"a known one, with more than two thirds", 0, third, third + 1, true, false, false},
	} {
		for kind, want := range map[string]bool{"gRPC": c.want, "HTTP/1.1": c.wantHTTP1} {
			p := New(Options{AnswerBytes: 3 * third})
			var from *From
			if kind == "gRPC" {
				from = p.newGRPCConn(http2test.On(nil, 1)).RemoteAddr().(*From)
			} else {
				from = &From{asker: &client{port: p}}
			}
			if c.settled {
				p.now.Store(settledAfter)
			}
			p.answers.Add(-c.taken)
			if c.held > 0 && !p.tryAnswer(from, c.held) {
				t.Fatalf("%s, %s: no room to begin with", kind, c.name)
			}
			if got := p.tryAnswer(from, c.n); got != want {
				t.Errorf("%s, %s: %t", kind, c.name, got)
			}
			left := 3*third - c.taken - c.held
			if want {
				left -= c.n
			}
			if p.answers.Load() != left {
				t.Errorf("%s, %s: %d are left, want %d", kind, c.name, p.answers.Load(), left)
			}
		}
	}
}

// TestSmallAnswersOverHTTP1HaveTwoThirds as those over gRPC.
func TestSmallAnswersOverHTTP1HaveTwoThirds(t *testing.T) {
	p := New(Options{AnswerBytes: 900})
	p.now.Store(settledAfter)
	from := &From{asker: &client{port: p}}
	if !p.TakeAnswer(from, 300) || p.TakeAnswer(from, 301) || !p.TakeAnswer(from, 300) || p.TakeAnswer(from, 1) {
		t.Errorf("%d of 900 are left", p.answers.Load())
	}
}

// TestRoomForAnswersGoesByTheOrder: a connection that has to take an answer first keeps no other waiting, and a new one keeps only new ones waiting.
// Without the last rule four new clients that read lists got room when they looked at the right moment, and one waited for 400 ms.
func TestRoomForAnswersGoesByTheOrder(t *testing.T) {
	p := New(Options{AnswerBytes: 900})
	p.now.Store(10)
	grpc := func(opened uint64, holds int64) *From {
		i := p.newGRPCConn(http2test.On(nil, 1))
		i.opened = opened
		i.answers.Store(holds)
		return i.RemoteAddr().(*From)
	}
	http := func(opened uint64, holds int64) *From {
		c := &client{port: p, opened: opened}
		c.answers.Store(holds)
		return &From{asker: c}
	}
	old, other, young, younger, holds := grpc(1, 0), grpc(8, 0), grpc(9, 0), grpc(10, 0), grpc(1, 1)
	web, webYoung, webHolds := http(1, 0), http(9, 0), http(1, 1)
	for _, c := range []struct {
		name          string
		first, second *From
		want          bool
	}{
		{"two of this process", nil, nil, true},
		{"this process, a connection", nil, young, true},
		{"a connection, this process", old, nil, true},
		{"two old ones", old, other, true},
		{"an old one, a new one", old, young, true},
		{"a new one, an old one", young, old, false},
		{"a new one, this process", young, nil, false},
		{"two new ones", young, younger, true},
		{"one that holds an answer", holds, old, false},
		{"one that holds an answer, a new one", holds, young, false},
		{"one that holds an answer, its own next", holds, holds, true},
		{"new and holds, its own next", webHolds, webHolds, true},
		{"two over HTTP", web, http(1, 0), true},
		{"a new one over HTTP, a new one", webYoung, young, true},
		{"a new one over HTTP, an old one", webYoung, web, false},
		{"one over HTTP that holds an answer", webHolds, old, false},
	} {
		if got := c.first.GoesBefore(c.second); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

// TestAnAnswerIsGivenBackOnce, however it ends: it is written, it was smaller than thought, or its connection has ended.
func TestAnAnswerIsGivenBackOnce(t *testing.T) {
	p := New(Options{AnswerBytes: 1000})
	p.now.Store(settledAfter)
	left := func(step string, want int64) {
		t.Helper()
		if got := p.answers.Load(); got != want {
			t.Errorf("%s: %d of 1000 are left, want %d", step, got, want)
		}
	}
	c := &client{port: p}
	from := &From{asker: c}
	if !from.Asks() || (&From{}).Asks() || (*From)(nil).Asks() {
		t.Error("an account is of another kind than it says")
	}
	if !p.TakeAnswer(from, 400) {
		t.Fatal("no room to begin with")
	}
	p.AnswerSent(from, 400) // the gRPC server's part of it: the client has nothing yet
	left("the transport is done", 600)
	p.AnswerGone(from, 100)
	left("it was smaller", 700)
	c.oweAnswer(900)
	left("what has happened is said", -200)
	if p.TakeAnswer(&From{asker: &client{port: p}}, 1) {
		t.Error("an answer where more than all is taken")
	}
	c.answered(false)
	left("it is written", 1000)
	c.answered(false)
	left("and once more", 1000)
	if !p.TakeAnswer(from, 10) {
		t.Error("no room for the next one")
	}
	p.AnswerGone(from, 500)
	left("more is given back than was taken", 1000)
	p.TakeAnswer(from, 10)
	c.answered(true)
	left("the client has left", 1000)
	if p.TakeAnswer(from, 1) {
		t.Error("an answer for a client that has left")
	}
	left("for a client that has left", 1000)
}

// TestAConnectionOfTheGRPCServerGivesBackWhatItHad: it may take as much the second time as the first, of every kind.
func TestAConnectionOfTheGRPCServerGivesBackWhatItHad(t *testing.T) {
	p := New(Options{AnswerBytes: 900, CallBytes: 1600, BudgetBytes: 1000, RequestTimeout: 7 * time.Second})
	p.now.Store(settledAfter)
	i := p.newGRPCConn(http2test.On(nil, 1))
	from := i.RemoteAddr().(*From)
	for round := range 3 {
		if !p.TakeAnswer(from, 400) || !p.TakeAnswer(from, 200) || p.TakeAnswer(from, 1) {
			t.Fatalf("round %d: answers", round)
		}
		p.AnswerSent(from, 400)
		p.AnswerGone(from, 200)
		if !from.Hold(700) || !from.Hold(499) || from.Hold(1) || from.Crowded(false) || p.calls.Load() != 1199 || i.at.held.Load() != 1199 {
			t.Fatalf("round %d: open calls", round)
		}
		from.GiveBack(700)
		from.GiveBack(499)
		if !i.Draw(400) || !i.Draw(350) || i.Draw(1) || i.room.Load() != 750 {
			t.Fatalf("round %d: requests", round)
		}
		i.Return(750)
		if i.room.Load() != 0 || i.held.Load() != 0 || i.staying.Load() != 0 || i.at.held.Load() != 0 || i.answers.Load() != 0 {
			t.Fatalf("round %d: it holds %d, %d and %d bytes", round, i.room.Load(), i.held.Load(), i.answers.Load())
		}
	}
	_ = i.Close() // nothing is sent
	if p.Owed() != "" {
		t.Error(p.Owed())
	}
	// A large message has a second more for each 16 KiB.
	if short, long := p.patience(slowest-1), p.patience(10*slowest); short != 7*time.Second || long != 17*time.Second {
		t.Errorf("a small message may take %v, a large one %v", short, long)
	}
}

// waits is a connection over HTTP/1.1 of a port, and what lies below it.
func waits(p *Port, what uint64) (*client, *http2test.Wire) {
	w := http2test.On(nil, 1)
	c := &client{Conn: w, raw: w, port: p}
	c.mark(what, 0)
	p.clients[c] = struct{}{}
	return c, w
}

// TestAStalledRequestMakesRoom: of the clients over HTTP/1.1 with stalled requests, the one that holds the most is closed. None is closed
// that sends, or has a whole request.
func TestAStalledRequestMakesRoom(t *testing.T) {
	p := New(Options{})
	long := time.Now().Add(-stallGrace - time.Second).UnixNano()
	var wires []*http2test.Wire
	for _, c := range []struct {
		what       uint64
		room, from int64
	}{{reading, 200, long}, {reading, 100, long}, {reading, 900, time.Now().Add(time.Minute).UnixNano()}, {busy, 900, long}, {writing, 900, long}, {reading, 0, long}} {
		client, w := waits(p, c.what)
		client.room.Store(c.room)
		client.heard.Store(c.from)
		wires = append(wires, w)
	}
	for n := range 3 { // the third time there is none left
		p.evicted.Store(0)
		if made := p.evictStalled(nil); made != (n < 2) {
			t.Errorf("look %d: room was made %t", n, made)
		}
		for i, w := range wires {
			if closed := w.Closed.Load(); closed != (i <= min(n, 1)) {
				t.Errorf("look %d: connection %d is closed %t", n, i, closed)
			}
		}
		for c := range p.clients { // any order: the server forgets those that are closed
			if c.raw.(*http2test.Wire).Closed.Load() {
				delete(p.clients, c)
			}
		}
	}
	// After a recent look a second caller does not look at once, and waits only where that look has closed a connection.
	for _, just := range []bool{true, false} {
		now := time.Now().UnixNano()
		p.evicted.Store(now + int64(time.Hour))
		if p.cut.Store(now); !just {
			p.cut.Store(now - int64(evictPatience))
		}
		if wait := p.evictStalled(nil); wait != just {
			t.Errorf("a connection was closed just now %t, and its room is waited for %t", just, wait)
		}
	}
}

// TestAnAnswerThatIsNotTakenMakesRoom over HTTP/1.1: of those that are being written and of which nothing is taken the largest.
func TestAnAnswerThatIsNotTakenMakesRoom(t *testing.T) {
	p := New(Options{AnswerBytes: 1000})
	p.now.Store(settledAfter)
	long := time.Now().Add(-stallGrace - time.Second).UnixNano()
	var wires []*http2test.Wire
	for _, c := range []struct {
		what          uint64
		answers, took int64
	}{{writing, 200, long}, {writing, 100, long}, {writing, 300, time.Now().UnixNano()}, {busy, 300, long}} {
		client, w := waits(p, c.what)
		if !p.TakeAnswer(&From{asker: client}, c.answers) {
			t.Fatal("no room to begin with")
		}
		if since := time.Since(time.Unix(0, client.took.Load())); since < 0 || since > time.Minute {
			t.Errorf("an answer's time began %v ago", since)
		}
		client.took.Store(c.took)
		wires = append(wires, w)
	}
	last, _ := waits(p, busy)
	if p.TakeAnswer(&From{asker: last}, 200) {
		t.Error("there is room for one more")
	}
	for i, w := range wires {
		if closed := w.Closed.Load(); closed != (i == 0) {
			t.Errorf("connection %d is closed %t", i, closed)
		}
	}
}

// TestAnAskerIsKnownWhileItsRequestIsHandled, by a number that no other request has.
func TestAnAskerIsKnownWhileItsRequestIsHandled(t *testing.T) {
	p := New(Options{})
	if _, ok := AskerOf(context.Background()); ok {
		t.Error("a request of no port has a number")
	}
	one, two := &client{Conn: http2test.On(nil, 1), port: p}, &client{Conn: http2test.On(nil, 1), port: p}
	first, _, endFirst := p.askers.begin(context.Background(), &Streamed{port: p, of: one})
	second, _, endSecond := p.askers.begin(context.Background(), &Streamed{port: p, of: two})
	a, okA := AskerOf(first)
	b, okB := AskerOf(second)
	if !okA || !okB || a == b || p.Asker(a).asker != one || p.Asker(b).asker != two {
		t.Errorf("the requests have the numbers %d and %d", a, b)
	}
	endFirst()
	if p.Asker(a) != nil || p.Asker(b).asker != two {
		t.Error("a request that has ended is known, or another is not")
	}
	endSecond()
	if p.Owed() != "" {
		t.Error(p.Owed())
	}
}

// TestWhoTakesNothingIsSeen: an answer is being written, and its client has taken none of it since. Less than a piece is nothing to speak of.
func TestWhoTakesNothingIsSeen(t *testing.T) {
	p := New(Options{})
	now := time.Now().UnixNano()
	c := &client{port: p}
	c.mark(writing, 0)
	if c.untaken(now) {
		t.Error("a client without an answer takes none")
	}
	c.oweAnswer(10)
	if c.untaken(now) || !c.untaken(time.Now().UnixNano()+1) {
		t.Error("the time of an answer does not begin with it")
	}
	c.took.Store(now - 10)
	c.oweAnswer(10)
	if !c.untaken(now) {
		t.Error("a second answer begins the time of the first anew")
	}
	c.mark(busy, 0)
	if c.untaken(now) {
		t.Error("an answer that is being made is not taken")
	}

	i := p.newGRPCConn(http2test.On(nil, 1))
	if i.untaken(now) {
		t.Error("a client of gRPC without an answer takes none")
	}
	if !p.TakeAnswer(i.RemoteAddr().(*From), 10) {
		t.Fatal("no room to begin with")
	}
	i.took.Store(now - 10)
	i.Leaves(untakenPiece - 1)
	if !i.untaken(now) {
		t.Error("less than a piece counts as taken")
	}
	i.Leaves(1)
	if i.untaken(now) {
		t.Error("a piece in two parts does not count")
	}
}

// TestWhoMakesRoomFirst: of the connections that say nothing the oldest, then those without a call. Then come those whose requests come too
// slowly or whose clients take nothing. Then those that have just come and were never answered, and only then the idle one whose turn it
// is. One with an open call never makes room, and neither does one that was answered and sends its next request.
func TestWhoMakesRoomFirst(t *testing.T) {
	p := New(Options{MaxConns: 100})
	closed := func(c net.Conn) bool { return c.(*http2test.Wire).Closed.Load() }
	silent := func(second uint64) net.Conn {
		c := http2test.On(nil, 1)
		p.silent.push(c, netip.Addr{}, second)
		return c
	}
	uncalled := func(second uint64) net.Conn {
		c := http2test.On(nil, 1)
		i := p.newGRPCConn(c)
		i.unused.second = second
		return c
	}
	kept := func(state, second, turn uint64) net.Conn {
		c := http2test.On(nil, 1)
		client := &client{Conn: c, raw: c, port: p}
		client.mark(state, second)
		client.turn.Store(turn)
		p.clients[client] = struct{}{}
		return c
	}
	call := func(second uint64, also func(i *grpcConn)) net.Conn {
		p.now.Store(second)
		c := http2test.On(http2test.New().Bare(frame.Headers, frame.EndHeaders, 1, nil).Bytes(), 1)
		i := p.newGRPCConn(c)
		if _, err := io.Copy(io.Discard, struct{ io.Reader }{i}); err != nil {
			t.Fatal(err)
		}
		also(i)
		return c
	}
	answered := func(i *grpcConn) {
		_, _ = i.Write(new(http2test.Talk).Bare(frame.Headers, frame.EndHeaders, 1, nil).Bytes())
	}
	stuck := call(16, func(*grpcConn) {})
	begun := call(19, func(*grpcConn) {})
	call(19, func(i *grpcConn) { i.Leaves(1) }) // it was answered before
	call(10, answered)
	blocked := call(10, func(i *grpcConn) {
		answered(i)
		i.Open(1 << 20)
		i.writing.Store(16 + 1)
	})
	ended := call(17, func(i *grpcConn) {
		_, _ = i.Write(new(http2test.Talk).Bare(frame.Headers, frame.End|frame.EndHeaders, 1, nil).Bytes())
	})
	p.now.Store(20)
	order := []net.Conn{silent(17), silent(18), uncalled(17), uncalled(18)}
	uncalledYoung, silentYoung := uncalled(19), silent(19) // a second has not gone by
	kept(busy, 0, 1)
	next := kept(reading, 28, 2)
	for c := range p.clients { // any order: one is looked for
		if c.raw == next {
			c.replied.Store(true)
		}
	}
	kept(writing, 17, 3)
	order = append(order, kept(reading, 26, 7), kept(reading, 27, 6), blocked, stuck)
	order = append(order, silentYoung, uncalledYoung, kept(reading, 28, 8), kept(reading, 29, 1), begun)
	order = append(order, kept(idle, 0, 4), kept(idle, 0, 5), ended)
	p.conns = len(order)
	p.opts.Conns.open = int64(len(order))
	for n, c := range order {
		made := p.opts.Conns.makeRoom(netip.Addr{}, false)
		if !made || !closed(c) || p.conns != len(order)-n-1 || int(p.opts.Conns.open) != p.conns {
			t.Fatalf("number %d: made room %t, is closed %t, %d and %d are counted", n, made, closed(c), p.conns, p.opts.Conns.open)
		}
		for _, later := range order[n+1:] {
			if closed(later) {
				t.Fatalf("number %d: another one is closed", n)
			}
		}
	}
	if p.opts.Conns.makeRoom(netip.Addr{}, false) {
		t.Error("a connection in use makes room")
	}
}

// TestAClientThatIgnoresRefusalsIsClosed: its calls are refused from a quarter of the room on, and it begins more. A call that stays open does not
// count, however much it is.
func TestAClientThatIgnoresRefusalsIsClosed(t *testing.T) {
	p := New(Options{CallBytes: 1600})
	w := http2test.On(nil, 1)
	i := p.newGRPCConn(w)
	f := i.RemoteAddr().(*From)
	if !f.Hold(600) {
		t.Fatal("no room to begin with")
	}
	i.Open(400)
	if f.Crowded(false) || !p.Crowded() {
		t.Error("a quarter of what there is is too much")
	}
	if i.Open(1); !f.Crowded(false) {
		t.Error("more than a quarter is not refused")
	}
	if i.Open(399); w.Closed.Load() {
		t.Error("half is cut")
	}
	if i.Open(1); !w.Closed.Load() {
		t.Error("a client that goes on is not cut")
	}
	i.Done(801)
	f.GiveBack(600)
	if p.calls.Load() != 0 || i.held.Load() != 0 {
		t.Errorf("%d are taken, %d are held", p.calls.Load(), i.held.Load())
	}
}

// hiccup is a listener whose first Accepts fail, and whose last one ends it.
type hiccup struct {
	net.Listener
	errs []error
}

type temporary struct{ error }

func (temporary) Temporary() bool { return true }

func (h *hiccup) Accept() (net.Conn, error) {
	err := h.errs[0]
	h.errs = h.errs[1:]
	return nil, err
}

func (*hiccup) Close() error { return nil }

// TestAListenerThatFailsForAMomentGoesOn: too many open files are a matter of a moment. Any other error ends Serve, and is its error.
func TestAListenerThatFailsForAMomentGoesOn(t *testing.T) {
	p := New(Options{})
	broken := errors.New("broken")
	h := &hiccup{errs: []error{temporary{broken}, temporary{broken}, temporary{broken}, broken}}
	began := time.Now()
	if err := p.Serve(h, Protocols{}); !errors.Is(err, broken) || len(h.errs) != 0 {
		t.Errorf("%v, and %d more would have come", err, len(h.errs))
	}
	if took := time.Since(began); took < 35*time.Millisecond { // 5, 10 and 20 ms
		t.Errorf("it tries again without a pause: three times in %v", took)
	}
	if err := p.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := p.Serve(&hiccup{errs: []error{broken}}, Protocols{}); err != nil {
		t.Errorf("behind Shutdown: %v", err)
	}
}
