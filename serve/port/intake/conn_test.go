package intake

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/serve/port/frame"
	"github.com/holdfastdb/holdfast/serve/port/http2test"
)

// room is a Room with a budget for messages and any number of calls. It belongs to one goroutine.
type room struct {
	left, calls         int64
	came, first, leaves int // what it was told, counted
}

func (r *room) Draw(n int64) bool {
	if n > r.left {
		return false
	}
	r.left -= n
	return true
}

func (r *room) Return(n int64) { r.left += n }
func (r *room) Open(n int64)   { r.calls += n }
func (r *room) Done(n int64)   { r.calls -= n }
func (r *room) Came()          { r.came++ }
func (r *room) First()         { r.first++ }
func (r *room) Leaves(n int)   { r.leaves += n }

// largest is what messages may have at most here, patience how long one of any size may take.
const (
	largest  = 4 << 20
	patience = 10 * time.Second
)

// on puts a Conn in front of a client's bytes.
func on(r *room, input []byte, part int) *Conn {
	return New(http2test.On(input, part), r, Options{MaxMessage: largest, Patience: func(int) time.Duration { return patience }})
}

// through reads what the server behind an intake sees of it.
func through(t *testing.T, r *room, input []byte, part int) (*Conn, []byte) {
	t.Helper()
	i := on(r, input, part)
	out, err := io.ReadAll(i)
	if err != nil && err != errNoRoom {
		t.Fatal(err)
	}
	return i, out
}

// messages takes the gRPC messages of each stream out of a client's bytes, the slow and obvious way. A message that is cut off is left out.
func messages(b []byte) map[uint32][]string {
	content := map[uint32][]byte{}
	for b = b[min(len(frame.Preface), len(b)):]; len(b) >= frame.HeadLen; {
		f := frame.Parse(b)
		b = b[frame.HeadLen:]
		payload := b[:min(f.Length, len(b))]
		b = b[len(payload):]
		if f.Kind != frame.Data {
			continue
		}
		if f.Flags&frame.Padded != 0 && len(payload) > 0 {
			payload = payload[1 : 1+max(0, len(payload)-1-int(payload[0]))]
		}
		content[f.Stream] = append(content[f.Stream], payload...)
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
	p := &room{left: 290_000}
	half := http2test.Prefixed(100_000, 'x')[:50_000]
	c := http2test.New()
	for _, stream := range []uint32{1, 3, 5} {
		c.Frame(frame.Headers, frame.EndHeaders, stream, nil)
		c.Frame(frame.Data, 0, stream, half[:frame.Max])
	}
	c.Send(7, http2test.Prefixed(smallMessage, 's'), frame.Max)
	i, out := through(t, p, c.Bytes(), 1000)
	if got := p.left; got != 90_000 {
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
	if got := p.left; got != 290_000 {
		t.Errorf("the budget is %d after the connection is closed", got)
	}
}

// TestRoomComesBack: with the answer, with a reset by either side, and with a message that ends early. It also comes back when a stream's
// client sends the next message.
func TestRoomComesBack(t *testing.T) {
	const budget = 250_000
	large := http2test.Prefixed(100_000, 'x')
	answer := func(i *Conn, flags byte, kind byte) {
		for _, b := range new(http2test.Talk).Frame(kind, flags, 1, []byte("head")).Bytes() { // a byte at a time
			_, _ = i.Write([]byte{b})
		}
	}
	tests := []struct {
		name   string
		client func(c *http2test.Talk)
		server func(i *Conn)
		held   int64
	}{
		{"nothing", func(c *http2test.Talk) { c.Send(1, large, frame.Max) }, func(*Conn) {}, 100_000},
		{"answer", func(c *http2test.Talk) { c.Send(1, large, frame.Max) }, func(i *Conn) { answer(i, 0, frame.Headers) }, 0},
		{"window update", func(c *http2test.Talk) { c.Send(1, large, frame.Max) }, func(i *Conn) { answer(i, 0, 8) }, 100_000},
		{"answer to half a message", func(c *http2test.Talk) { c.Frame(frame.Data, 0, 1, large[:9000]) }, func(i *Conn) { answer(i, 0, frame.Headers) }, 100_000},
		{"end before the message is whole", func(c *http2test.Talk) { c.Frame(frame.Data, 0, 1, large[:9000]) }, func(i *Conn) { answer(i, frame.End, frame.Headers) }, 0},
		{"reset by the server", func(c *http2test.Talk) { c.Frame(frame.Data, 0, 1, large[:9000]) }, func(i *Conn) { answer(i, 0, frame.Reset) }, 0},
		{"reset by the client", func(c *http2test.Talk) { c.Send(1, large, frame.Max).Frame(frame.Reset, 0, 1, []byte("code")) }, func(*Conn) {}, 0},
		{"cut short", func(c *http2test.Talk) { c.Frame(frame.Data, frame.End, 1, large[:9000]) }, func(*Conn) {}, 0},
		{"next message", func(c *http2test.Talk) {
			c.Frame(frame.Data, 0, 1, large[:5000]).Frame(frame.Data, 0, 1, append(large[5000:len(large):len(large)], http2test.Prefixed(3, 'y')...))
		}, func(*Conn) {}, 0},
		{"too large for any room", func(c *http2test.Talk) { c.Send(1, http2test.Prefixed(largest+1, 'x'), frame.Max) }, func(*Conn) {}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := &room{left: budget}
			c := http2test.New()
			test.client(c)
			i, out := through(t, p, c.Bytes(), 700)
			if !bytes.Equal(out, c.Bytes()) {
				t.Error("bytes changed although there was room")
			}
			test.server(i)
			if held := budget - p.left; held != test.held {
				t.Errorf("%d bytes held, want %d", held, test.held)
			}
			_ = i.Close()
			if held := budget - p.left; held != 0 {
				t.Errorf("%d bytes held after the end", held)
			}
		})
	}
}

// TestAnEndedStreamIsForgotten at once: what still comes on it are no messages.
func TestAnEndedStreamIsForgotten(t *testing.T) {
	p := &room{left: 8 << 20}
	c := http2test.New()
	c.Frame(frame.Data, 0, 1, http2test.Prefixed(3<<20, 0xff)[:frame.Max])
	i := on(p, c.Bytes(), 5000)
	read := func() {
		if _, err := io.Copy(io.Discard, struct{ io.Reader }{i}); err != nil {
			t.Fatal(err)
		}
	}
	read()
	_, _ = i.Write(new(http2test.Talk).Bare(frame.Headers, frame.End, 1, nil).Bytes())
	rest := new(http2test.Talk)
	for range 2 << 20 / frame.Max {
		rest.Bare(frame.Data, 0, 1, bytes.Repeat([]byte{0xff}, frame.Max))
	}
	i.Conn = http2test.On(rest.Bytes(), 5000)
	read()
	if held := 8<<20 - p.left; held != 0 || len(i.calls) != 0 || len(i.streams) != 0 || p.calls != 0 {
		t.Errorf("%d bytes held by %d messages, %d by %d calls", held, len(i.calls), p.calls, len(i.streams))
	}
}

// TestStreamsThatWereNeverOpened: a frame on one is nothing to remember.
func TestStreamsThatWereNeverOpened(t *testing.T) {
	p := &room{left: math.MaxInt64}
	c := http2test.New().Frame(frame.Data, 0, 1, http2test.Prefixed(10, 'a')[:7])
	for stream := uint32(3); stream < 20_000; stream += 2 {
		c.Bare(frame.Data, 0, stream, []byte{0})
		c.Bare(frame.Data, 0, stream+1<<30, http2test.Prefixed(40_000, 'b')[:6])
	}
	i, out := through(t, p, c.Bytes(), 5000)
	if n := len(i.calls); n != 1 || len(i.streams) != 1 || p.left != math.MaxInt64 {
		t.Errorf("%d messages and %d streams are kept, and %d bytes", n, len(i.streams), math.MaxInt64-p.left)
	}
	if !bytes.Equal(out, c.Bytes()) {
		t.Error("bytes changed")
	}
}

// TestOpenCallsAreCounted from their headers to the server's last word or the client's reset, and less once they are whole.
func TestOpenCallsAreCounted(t *testing.T) {
	p := &room{left: math.MaxInt64}
	c := http2test.New()
	for stream := uint32(1); stream < 20; stream += 2 {
		c.Bare(frame.Headers, 0, stream, make([]byte, 100)).Bare(frame.Continuation, frame.EndHeaders, stream, make([]byte, 5000))
	}
	i, _ := through(t, p, c.Bytes(), 700)
	held := func(what string, want int64) {
		t.Helper()
		if p.calls != want {
			t.Errorf("%s: %d bytes held, want %d", what, p.calls, want)
		}
	}
	says := func(c *http2test.Talk) {
		t.Helper()
		i.Conn = http2test.On(c.Bytes(), 700)
		if _, err := io.Copy(io.Discard, struct{ io.Reader }{i}); err != nil {
			t.Fatal(err)
		}
	}
	held("ten calls", 10*(CallCost+MaxHeaderCost))
	says(new(http2test.Talk).Bare(frame.Data, frame.End, 1, http2test.Prefixed(5, 'a')))
	held("one is whole", 10*(CallCost+MaxHeaderCost)-(CallCost-WholeCost))
	_, _ = i.Write(new(http2test.Talk).Bare(frame.Headers, frame.End, 1, nil).Bytes())
	held("and answered", 9*(CallCost+MaxHeaderCost))
	says(new(http2test.Talk).Bare(frame.Reset, 0, 3, make([]byte, 4)).Bare(frame.Reset, 0, 1, make([]byte, 4)))
	held("one is reset", 8*(CallCost+MaxHeaderCost))
	_ = i.Close()
	held("the end", 0)
}

// TestAMessageThatStopsComing ends its connection, since the room it holds is everybody's.
func TestAMessageThatStopsComing(t *testing.T) {
	p := &room{left: math.MaxInt64}
	i, _ := through(t, p, http2test.New().Frame(frame.Data, 0, 1, http2test.Prefixed(1<<20, 'x')[:9000]).Bytes(), 9000)
	if i.Stalled(time.Now().Add(patience - time.Second)) {
		t.Error("cut off while it had time")
	}
	if !i.Stalled(time.Now().Add(patience)) {
		t.Error("not cut off")
	}
	_ = i.Close()
	if i.Stalled(time.Now().Add(time.Hour)) {
		t.Error("cut off after its end")
	}
}

// FuzzIntake lets any bytes through with and without room. With room nothing may change. Without, a message may come through
// as it was, or be turned away; no other may be touched, and none may appear.
func FuzzIntake(f *testing.F) {
	f.Add(http2test.New().Send(1, http2test.Prefixed(10, 'a'), 4).Send(3, http2test.Prefixed(40_000, 'b'), frame.Max).Bytes(), 100, 0)
	f.Add(http2test.New().Send(1, http2test.Prefixed(40_000, 'a'), frame.Max).Send(3, http2test.Prefixed(40_000, 'b'), 20_000).Bytes(), 7, 50_000)
	f.Add(http2test.New().Frame(frame.Data, frame.Padded, 1, append([]byte{3}, append(http2test.Prefixed(20_000, 'p')[:9000], 0, 0, 0)...)).Bytes(), 1, 0)
	f.Add(http2test.New().Frame(frame.Data, 0, 1, []byte{0, 0}).Frame(frame.Data, 0, 1, []byte{1, 0, 0, 7}).Frame(frame.Reset, 0, 1, nil).Bytes(), 3, 100_000)
	f.Add(http2test.New().Frame(frame.Data, 0, 1, http2test.Prefixed(20_000, 'x')[:10]).Frame(frame.Data, frame.End, 1, http2test.Prefixed(20_000, 'x')[10:]).Bytes(), 64, 0)
	f.Add(http2test.New().Bare(frame.Data, 0, 1, http2test.Prefixed(40_000, 'x')[:90]).Frame(frame.Headers, frame.End, 3, nil).Bare(frame.Continuation, frame.EndHeaders, 3, nil).Bytes(), 5, 0)
	f.Fuzz(func(t *testing.T, input []byte, part, budget int) {
		input = opening(input)
		part = max(part, len(input)/256) // a byte at a time is for short ones
		wide := &room{left: 1 << 60}
		i, out := through(t, wide, input, part)
		// A head that never becomes whole stays with us, as does a length.
		if !bytes.HasPrefix(input, out) || len(input)-len(out) > frame.HeadLen+1+prefixLen+len(turnedAway) {
			t.Fatalf("%d of %d bytes came through", len(out), len(input))
		}
		_ = i.Close()
		if wide.left != 1<<60 || wide.calls != 0 {
			t.Fatal("room is lost")
		}

		budget = min(max(budget, 0), 1<<20) + 1
		narrow := &room{left: int64(budget)}
		i, out = through(t, narrow, input, part)
		_ = i.Close()
		if left := narrow.left; left != int64(budget) {
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
	b, at := sent, min(len(frame.Preface), len(sent))
	for at+frame.HeadLen <= len(b) {
		f := frame.Parse(b[at:])
		at += frame.HeadLen
		end := min(at+f.Length, len(b))
		if f.Kind != frame.Data {
			if f.Ends() {
				delete(streams, f.Stream)
			}
			at = end
			continue
		}
		from, to := at, at+f.Length
		if f.Flags&frame.Padded != 0 && f.Length > 0 && at < len(b) {
			from, to = at+1, max(at+1, to-int(b[at]))
		}
		s := streams[f.Stream]
		if s == nil {
			s = &place{}
			streams[f.Stream] = s
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
		if f.Ends() {
			delete(streams, f.Stream)
		}
		at = end
	}
	for at := range sent {
		if sent[at] != seen[at] && !free[at] {
			t.Fatalf("byte %d was changed from %x to %x", at, sent[at], seen[at])
		}
	}
}

// opening puts an opening frame before the first DATA frame of every other unopened stream. The fuzzed input is mostly about messages, and
// a message on an unopened stream is none.
func opening(b []byte) []byte {
	at := min(len(frame.Preface), len(b))
	out := new(http2test.Talk)
	out.Write(b[:at])
	highest := uint32(0)
	for at+frame.HeadLen <= len(b) {
		f := frame.Parse(b[at:])
		if f.Kind == frame.Headers {
			highest = max(highest, f.Stream)
		}
		if f.Kind == frame.Data && f.Stream > highest && f.Stream%4 != 0 {
			highest = f.Stream | 1
			out.Bare(frame.Headers, frame.EndHeaders, highest, nil)
		}
		end := min(at+frame.HeadLen+f.Length, len(b))
		out.Write(b[at:end])
		at = end
	}
	out.Write(b[at:])
	return out.Bytes()
}
