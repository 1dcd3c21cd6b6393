package port

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"time"
)

// talk is the client's half of a gRPC connection, written frame by frame.
type talk struct {
	bytes.Buffer
	opened map[uint32]bool
}

func newTalk() *talk {
	var c talk
	c.WriteString(preface)
	c.frame(frameSettings, 0, 0, nil)
	return &c
}

// frame writes a frame. The first DATA frame of a stream comes after one that opens it.
func (c *talk) frame(kind, flags byte, stream uint32, payload []byte) *talk {
	if kind == frameData && !c.opened[stream] {
		c.frame(frameHeaders, flagEndHeaders, stream, nil)
	}
	return c.bare(kind, flags, stream, payload)
}

// bare writes a frame, and that is all.
func (c *talk) bare(kind, flags byte, stream uint32, payload []byte) *talk {
	if c.opened == nil {
		c.opened = map[uint32]bool{}
	}
	c.opened[stream] = c.opened[stream] || kind == frameHeaders
	n := len(payload)
	c.Write([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags})
	c.Write(binary.BigEndian.AppendUint32(nil, stream))
	c.Write(payload)
	return c
}

// prefixed is a gRPC message of n bytes, each the given one.
func prefixed(n int, fill byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(n)), bytes.Repeat([]byte{fill}, n)...)
}

// send writes a message in frames of at most part bytes; the last one ends the stream.
func (c *talk) send(stream uint32, message []byte, part int) *talk {
	for len(message) > part {
		c.frame(frameData, 0, stream, message[:part])
		message = message[part:]
	}
	return c.frame(frameData, flagEnd, stream, message)
}

// through reads what the server behind an intake sees of it.
func through(t *testing.T, p *Port, input []byte, part int) (*intake, []byte) {
	t.Helper()
	i := p.newIntake(&wire{in: bytes.NewReader(input), part: part})
	out, err := io.ReadAll(i)
	if err != nil && err != errNoRoom {
		t.Fatal(err)
	}
	return i, out
}

// messages takes the gRPC messages of each stream out of a client's bytes, the slow and obvious way. What is cut off is left out.
func messages(b []byte) map[uint32][]string {
	content := map[uint32][]byte{}
	for b = b[min(len(preface), len(b)):]; len(b) >= frameHead; {
		f := parseFrame(b)
		b = b[frameHead:]
		payload := b[:min(f.length, len(b))]
		b = b[len(payload):]
		if f.kind != frameData {
			continue
		}
		if f.flags&flagPadded != 0 && len(payload) > 0 {
			payload = payload[1 : 1+max(0, len(payload)-1-int(payload[0]))]
		}
		content[f.stream] = append(content[f.stream], payload...)
	}
	found := map[uint32][]string{}
	for stream, c := range content { // any order: each stream is read alone
		for len(c) >= prefixLen {
			size := int(binary.BigEndian.Uint32(c[1:]))
			if size > len(c)-prefixLen {
				break
			}
			found[stream] = append(found[stream], string(c[prefixLen:prefixLen+size]))
			c = c[prefixLen+size:]
		}
	}
	return found
}

// TestALargeMessageCountsFromItsFirstBytes: two halves fill a budget, so a third is turned away, though nothing is whole.
func TestALargeMessageCountsFromItsFirstBytes(t *testing.T) {
	p := New(Options{BudgetBytes: 300_000, MaxMessageBytes: 1 << 20})
	half := prefixed(100_000, 'x')[:50_000]
	c := newTalk()
	for _, stream := range []uint32{1, 3, 5} {
		c.frame(frameHeaders, flagEndHeaders, stream, nil)
		c.frame(frameData, 0, stream, half[:maxFrame])
	}
	c.send(7, prefixed(smallMessage, 's'), maxFrame)
	i, out := through(t, p, c.Bytes(), 1000)
	if got := p.budget.Load(); got != 100_000 {
		t.Errorf("the budget is %d", got)
	}
	found := messages(out)
	if len(found[5]) == 0 || !TurnedAway([]byte(found[5][0])) {
		t.Errorf("the third stream has %d messages and the first of them is not one that was turned away", len(found[5]))
	}
	if len(found[7]) != 1 || found[7][0] != strings.Repeat("s", smallMessage) {
		t.Error("a small message did not come through")
	}
	if len(found[1])+len(found[3]) != 0 {
		t.Error("half messages are whole")
	}
	_ = i.Close()
	if got := p.budget.Load(); got != 300_000 {
		t.Errorf("the budget is %d after the connection is closed", got)
	}
}

// TestRoomComesBack: with the answer, with a reset by either side, with a message that ends early, and when the client of a
// stream goes on to the next message.
func TestRoomComesBack(t *testing.T) {
	const budget = 250_000
	large := prefixed(100_000, 'x')
	answer := func(i *intake, flags byte, kind byte) {
		for _, b := range new(talk).frame(kind, flags, 1, []byte("head")).Bytes() { // a byte at a time
			_, _ = i.Write([]byte{b})
		}
	}
	tests := []struct {
		name   string
		client func(c *talk)
		server func(i *intake)
		held   int64
	}{
		{"nothing", func(c *talk) { c.send(1, large, maxFrame) }, func(*intake) {}, 100_000},
		{"answer", func(c *talk) { c.send(1, large, maxFrame) }, func(i *intake) { answer(i, 0, frameHeaders) }, 0},
		{"window update", func(c *talk) { c.send(1, large, maxFrame) }, func(i *intake) { answer(i, 0, 8) }, 100_000},
		{"answer to half a message", func(c *talk) { c.frame(frameData, 0, 1, large[:9000]) }, func(i *intake) { answer(i, 0, frameHeaders) }, 100_000},
		{"end before the message is whole", func(c *talk) { c.frame(frameData, 0, 1, large[:9000]) }, func(i *intake) { answer(i, flagEnd, frameHeaders) }, 0},
		{"reset by the server", func(c *talk) { c.frame(frameData, 0, 1, large[:9000]) }, func(i *intake) { answer(i, 0, frameReset) }, 0},
		{"reset by the client", func(c *talk) { c.send(1, large, maxFrame).frame(frameReset, 0, 1, []byte("code")) }, func(*intake) {}, 0},
		{"cut short", func(c *talk) { c.frame(frameData, flagEnd, 1, large[:9000]) }, func(*intake) {}, 0},
		{"next message", func(c *talk) {
			c.frame(frameData, 0, 1, large[:5000]).frame(frameData, 0, 1, append(large[5000:len(large):len(large)], prefixed(3, 'y')...))
		}, func(*intake) {}, 0},
		{"too large for any room", func(c *talk) { c.send(1, prefixed(300_000, 'x'), maxFrame) }, func(*intake) {}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := New(Options{BudgetBytes: budget, MaxMessageBytes: 200_000})
			c := newTalk()
			test.client(c)
			i, out := through(t, p, c.Bytes(), 700)
			if !bytes.Equal(out, c.Bytes()) {
				t.Error("bytes changed although there was room")
			}
			test.server(i)
			if held := budget - p.budget.Load(); held != test.held {
				t.Errorf("%d bytes held, want %d", held, test.held)
			}
			_ = i.Close()
			if held := budget - p.budget.Load(); held != 0 {
				t.Errorf("%d bytes held after the end", held)
			}
		})
	}
}

// TestAnEndedStreamIsForgotten at once: what still comes on it are no messages.
func TestAnEndedStreamIsForgotten(t *testing.T) {
	p := New(Options{BudgetBytes: 8 << 20})
	c := newTalk()
	c.frame(frameData, 0, 1, prefixed(3<<20, 0xff)[:maxFrame])
	i := p.newIntake(&wire{in: bytes.NewReader(c.Bytes()), part: 5000})
	read := func() {
		if _, err := io.Copy(io.Discard, struct{ io.Reader }{i}); err != nil {
			t.Fatal(err)
		}
	}
	read()
	_, _ = i.Write(new(talk).bare(frameHeaders, flagEnd, 1, nil).Bytes())
	rest := new(talk)
	for range GRPCWindow / maxFrame {
		rest.bare(frameData, 0, 1, bytes.Repeat([]byte{0xff}, maxFrame))
	}
	i.Conn = &wire{in: bytes.NewReader(rest.Bytes()), part: 5000}
	read()
	if held := 8<<20 - p.budget.Load(); held != 0 || len(i.calls) != 0 || len(i.streams) != 0 || i.held.Load() != 0 {
		t.Errorf("%d bytes held by %d messages, %d by %d calls", held, len(i.calls), i.held.Load(), len(i.streams))
	}
}

// TestStreamsThatWereNeverOpened: a frame on one is nothing to remember.
func TestStreamsThatWereNeverOpened(t *testing.T) {
	p := New(Options{})
	c := newTalk().frame(frameData, 0, 1, prefixed(10, 'a')[:7])
	for stream := uint32(3); stream < 20_000; stream += 2 {
		c.bare(frameData, 0, stream, []byte{0})
		c.bare(frameData, 0, stream+1<<30, prefixed(40_000, 'b')[:6])
	}
	i, out := through(t, p, c.Bytes(), 5000)
	if n := len(i.calls); n != 1 || len(i.streams) != 1 || p.budget.Load() != p.opts.BudgetBytes {
		t.Errorf("%d messages and %d streams are kept, and %d bytes", n, len(i.streams), p.opts.BudgetBytes-p.budget.Load())
	}
	if !bytes.Equal(out, c.Bytes()) {
		t.Error("bytes changed")
	}
}

// TestOpenCallsAreCounted from their headers to the server's last word or the client's reset, and less once they are whole.
func TestOpenCallsAreCounted(t *testing.T) {
	p := New(Options{})
	c := newTalk()
	for stream := uint32(1); stream < 20; stream += 2 {
		c.bare(frameHeaders, 0, stream, make([]byte, 100)).bare(frameContinuation, flagEndHeaders, stream, make([]byte, 5000))
	}
	i, _ := through(t, p, c.Bytes(), 700)
	held := func(what string, want int64) {
		t.Helper()
		if n := i.held.Load(); n != want || p.opts.CallBytes-p.calls.Load() != want {
			t.Errorf("%s: %d bytes held here and %d of all, want %d", what, n, p.opts.CallBytes-p.calls.Load(), want)
		}
	}
	says := func(c *talk) {
		t.Helper()
		i.Conn = &wire{in: bytes.NewReader(c.Bytes()), part: 700}
		if _, err := io.Copy(io.Discard, struct{ io.Reader }{i}); err != nil {
			t.Fatal(err)
		}
	}
	held("ten calls", 10*(callCost+maxHeaderCost))
	says(new(talk).bare(frameData, flagEnd, 1, prefixed(5, 'a')))
	held("one is whole", 10*(callCost+maxHeaderCost)-LingerCost)
	_, _ = i.Write(new(talk).bare(frameHeaders, flagEnd, 1, nil).Bytes())
	held("and answered", 9*(callCost+maxHeaderCost))
	says(new(talk).bare(frameReset, 0, 3, make([]byte, 4)).bare(frameReset, 0, 1, make([]byte, 4)))
	held("one is reset", 8*(callCost+maxHeaderCost))
	_ = i.Close()
	held("the end", 0)
}

// TestTheConnectionThatHoldsTheMostYields: no client is refused a call because another has many open.
func TestTheConnectionThatHoldsTheMostYields(t *testing.T) {
	p := New(Options{CallBytes: 1 << 20})
	many := p.newIntake(&wire{in: bytes.NewReader(nil), part: 1})
	many.headers(frame{kind: frameHeaders, stream: 1})
	few := p.newIntake(&wire{in: bytes.NewReader(nil), part: 1})
	few.headers(frame{kind: frameHeaders, stream: 1})
	greedy, modest := many.RemoteAddr().(*From), few.RemoteAddr().(*From)
	n := int64(0)
	for greedy.Hold(1000) {
		n += 1000
	}
	if n < p.opts.CallBytes/3 || n > p.opts.CallBytes/2 {
		t.Errorf("one connection may hold %d of %d", n, p.opts.CallBytes)
	}
	others := p.newIntake(&wire{in: bytes.NewReader(nil), part: 1}).RemoteAddr().(*From)
	for range 1000 {
		others.Hold(1000)
	}
	for range 20 {
		if !modest.Hold(100) {
			t.Fatal("a client that holds next to nothing is refused")
		}
		if modest.Crowded() {
			t.Fatal("a client that holds next to nothing is told it is crowded")
		}
	}
	if !greedy.Crowded() && !others.Crowded() {
		t.Error("all is taken, and nobody hears of it")
	}
	if !many.Conn.(*wire).closed.Load() && !others.of.Conn.(*wire).closed.Load() || few.Conn.(*wire).closed.Load() {
		t.Error("it is not one of the two that hold nearly all who has yielded")
	}
}

// TestAMessageThatStopsComing ends its connection, since the room it holds is everybody's.
func TestAMessageThatStopsComing(t *testing.T) {
	p := New(Options{})
	i, _ := through(t, p, newTalk().frame(frameData, 0, 1, prefixed(1<<20, 'x')[:9000]).Bytes(), 9000)
	if i.stalled(30 + 64) {
		t.Error("cut off while it had time")
	}
	if !i.stalled(30 + 64 + 1) {
		t.Error("not cut off")
	}
	_ = i.Close()
	if i.stalled(1000) {
		t.Error("cut off after its end")
	}
}

// TestAnnouncedBytesKeepNobodyOut: room held for announced bytes that do not come goes to clients that send.
func TestAnnouncedBytesKeepNobodyOut(t *testing.T) {
	p := New(Options{BudgetBytes: 1 << 20})
	announce := func(streams int) (*intake, *wire) {
		c := newTalk()
		for n := range streams {
			c.frame(frameData, 0, uint32(2*n+1), prefixed(100_000, 'x')[:prefixLen])
		}
		w := &wire{in: bytes.NewReader(c.Bytes()), part: 9000}
		i := p.newIntake(w)
		p.now.Add(settledAfter)
		_, _ = io.Copy(io.Discard, struct{ io.Reader }{i})
		return i, w
	}
	greedy, w := announce(20)
	if held := greedy.room.Load(); held < p.opts.BudgetBytes/2 || held > p.opts.BudgetBytes/4*3 {
		t.Errorf("one connection has %d of %d bytes", held, p.opts.BudgetBytes)
	}
	sender := p.newIntake(&wire{in: bytes.NewReader(nil), part: 9000})
	sender.skip = 0 // it is greeted already
	send := func(stream uint32) bool {
		sender.Conn = &wire{in: bytes.NewReader(new(talk).send(stream, prefixed(100_000, 'y'), maxFrame).Bytes()), part: 9000}
		out, err := io.ReadAll(struct{ io.Reader }{sender})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = sender.Write(new(talk).bare(frameHeaders, flagEnd, stream, nil).Bytes())
		return !bytes.Contains(out, turnedAway[:])
	}
	p.now.Add(settledAfter)
	if !send(1) {
		t.Error("a client that sends gets nothing of the last quarter")
	}
	announce(9)
	if p.budget.Load() > 100_000 {
		t.Fatalf("%d bytes are left", p.budget.Load())
	}
	go func() { // as the gRPC server does
		for !w.closed.Load() {
			time.Sleep(time.Millisecond)
		}
		_ = greedy.Close()
	}()
	time.Sleep(stallGrace + 10*time.Millisecond) // that is what is tested
	if !send(3) {
		t.Error("a client that sends is turned away because of clients that do not")
	}
	if !w.closed.Load() {
		t.Error("the connection that held the most has not made room")
	}
}

// TestAnswersThatNobodyTakes: a connection has two thirds of what answers may hold, and is closed when others need it and its client
// has taken nothing for a while; one whose client takes is not.
func TestAnswersThatNobodyTakes(t *testing.T) {
	p := New(Options{AnswerBytes: 9 << 20})
	conn := func() (*From, *wire) {
		w := &wire{in: bytes.NewReader(nil), part: 1}
		return p.newIntake(w).RemoteAddr().(*From), w
	}
	greedy, w := conn()
	other, slow := conn()
	if p.TakeAnswer(greedy, 3<<20); p.TakeAnswer(greedy, 4<<20) {
		t.Error("a new connection takes the last third")
	}
	p.now.Store(settledAfter)
	if !p.TakeAnswer(greedy, 3<<20) || p.TakeAnswer(greedy, 1) {
		t.Error("not two thirds for one connection")
	}
	if !p.TakeAnswer(other, 3<<20) {
		t.Error("the last third is gone")
	}
	reader, _ := conn()
	if p.TakeAnswer(reader, 1) || w.closed.Load() {
		t.Error("somebody was not given any time")
	}
	time.Sleep(stallGrace + 10*time.Millisecond) // that is what is tested
	_, _ = other.of.Write(new(talk).bare(frameData, 0, 1, make([]byte, untakenPiece)).Bytes())
	if p.TakeAnswer(reader, 1); !w.closed.Load() || slow.closed.Load() {
		t.Errorf("closed: the one that takes nothing %t, the one that takes %t", w.closed.Load(), slow.closed.Load())
	}
	p.AnswerGone(greedy, 6<<20)
	if !p.TakeAnswer(reader, 3<<20) {
		t.Error("room does not come back")
	}
	_ = reader.of.Close()
	p.AnswerGone(reader, 3<<20) // the transport is late
	if n := p.answers.Load(); n != 6<<20 {
		t.Errorf("%d bytes are left when a connection has ended", n)
	}
	if p.TakeAnswer(reader, 1) {
		t.Error("an answer for a connection that has ended")
	}
}

// bare is a port that serves nothing: two of New's take longer than what is fuzzed.
func bare(budget int64) *Port {
	p := &Port{opts: Options{BudgetBytes: budget}, intakes: map[*intake]struct{}{}}
	p.opts.fill()
	p.budget.Store(budget)
	p.calls.Store(p.opts.CallBytes)
	return p
}

// FuzzIntake lets any bytes through with and without room. With room nothing may change. Without, a message may come through
// as it was, or be turned away; no other may be touched, and none may appear.
func FuzzIntake(f *testing.F) {
	f.Add(newTalk().send(1, prefixed(10, 'a'), 4).send(3, prefixed(40_000, 'b'), maxFrame).Bytes(), 100, 0)
	f.Add(newTalk().send(1, prefixed(40_000, 'a'), maxFrame).send(3, prefixed(40_000, 'b'), 20_000).Bytes(), 7, 50_000)
	f.Add(newTalk().frame(frameData, flagPadded, 1, append([]byte{3}, append(prefixed(20_000, 'p')[:9000], 0, 0, 0)...)).Bytes(), 1, 0)
	f.Add(newTalk().frame(frameData, 0, 1, []byte{0, 0}).frame(frameData, 0, 1, []byte{1, 0, 0, 7}).frame(frameReset, 0, 1, nil).Bytes(), 3, 100_000)
	f.Add(newTalk().frame(frameData, 0, 1, prefixed(20_000, 'x')[:10]).frame(frameData, flagEnd, 1, prefixed(20_000, 'x')[10:]).Bytes(), 64, 0)
	f.Add(newTalk().bare(frameData, 0, 1, prefixed(40_000, 'x')[:90]).frame(frameHeaders, flagEnd, 3, nil).bare(frameContinuation, flagEndHeaders, 3, nil).Bytes(), 5, 0)
	f.Fuzz(func(t *testing.T, input []byte, part, budget int) {
		input = opening(input)
		part = max(part, len(input)/256) // a byte at a time is for short ones
		wide := bare(1 << 60)
		i, out := through(t, wide, input, part)
		// A head that never becomes whole stays with us, as does a length.
		if !bytes.HasPrefix(input, out) || len(input)-len(out) > frameHead+1+prefixLen+len(turnedAway) {
			t.Fatalf("%d of %d bytes came through", len(out), len(input))
		}
		_ = i.Close()
		if wide.budget.Load() != 1<<60 || wide.calls.Load() != wide.opts.CallBytes || i.held.Load() != 0 {
			t.Fatal("room is lost")
		}

		budget = min(max(budget, 0), 1<<20) + 1
		narrow := bare(int64(budget))
		i, out = through(t, narrow, input, part)
		_ = i.Close()
		if left := narrow.budget.Load(); left != int64(budget) {
			t.Fatalf("%d of %d bytes are left after the end", left, budget)
		}
		if len(out) > len(input) {
			t.Fatal("bytes were added")
		}
		compare(t, input[:len(out)], out)
	})
}

// compare walks over what a client sent and what the server saw of it.
func compare(t *testing.T, sent, seen []byte) {
	t.Helper()
	type place struct {
		left   int    // of a message
		prefix []byte // of one whose length comes in pieces
	}
	streams := map[uint32]*place{}
	changed := 0
	for at := range sent {
		if sent[at] != seen[at] {
			changed++
		}
	}
	if changed == 0 {
		return
	}
	// Every change lies in the first bytes of a message that is too large to be free.
	free := map[int]bool{} // offsets that may have changed
	b, at := sent, min(len(preface), len(sent))
	for at+frameHead <= len(b) {
		f := parseFrame(b[at:])
		at += frameHead
		end := min(at+f.length, len(b))
		if f.kind != frameData {
			if f.ends() {
				delete(streams, f.stream)
			}
			at = end
			continue
		}
		from, to := at, at+f.length
		if f.flags&flagPadded != 0 && f.length > 0 && at < len(b) {
			from, to = at+1, max(at+1, to-int(b[at]))
		}
		s := streams[f.stream]
		if s == nil {
			s = &place{}
			streams[f.stream] = s
		}
		for from < min(to, len(b)) {
			switch {
			case s.left > 0:
				n := min(s.left, to-from)
				s.left, from = s.left-n, from+n
			case len(s.prefix) > 0 || to-from < prefixLen: // a length in pieces, which cannot be changed
				n := min(prefixLen-len(s.prefix), to-from, len(b)-from)
				s.prefix, from = append(s.prefix, b[from:from+n]...), from+n
				if len(s.prefix) == prefixLen {
					s.left, s.prefix = int(binary.BigEndian.Uint32(s.prefix[1:])), nil
				}
			case from+prefixLen > len(b):
				from = len(b)
			default:
				size := int(binary.BigEndian.Uint32(b[from+1:]))
				if size > smallMessage {
					for o := range min(prefixLen+len(turnedAway), to-from) {
						free[from+o] = true
					}
				}
				s.left, from = size, from+prefixLen
			}
		}
		if f.ends() {
			delete(streams, f.stream)
		}
		at = end
	}
	for at := range sent {
		if sent[at] != seen[at] && !free[at] {
			t.Fatalf("byte %d was changed from %x to %x", at, sent[at], seen[at])
		}
	}
}

// opening puts a frame that opens it before the first DATA frame of every other stream that nothing else opens: what is fuzzed is
// mostly about messages, and those of streams that are not open are none.
func opening(b []byte) []byte {
	at := min(len(preface), len(b))
	out := new(talk)
	out.Write(b[:at])
	highest := uint32(0)
	for at+frameHead <= len(b) {
		f := parseFrame(b[at:])
		if f.kind == frameHeaders {
			highest = max(highest, f.stream)
		}
		if f.kind == frameData && f.stream > highest && f.stream%4 != 0 {
			highest = f.stream | 1
			out.bare(frameHeaders, flagEndHeaders, highest, nil)
		}
		end := min(at+frameHead+f.length, len(b))
		out.Write(b[at:end])
		at = end
	}
	out.Write(b[at:])
	return out.Bytes()
}
