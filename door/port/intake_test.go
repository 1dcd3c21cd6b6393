package port

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
)

// talk is the client's half of a gRPC connection, written frame by frame.
type talk struct{ bytes.Buffer }

func newTalk() *talk {
	var c talk
	c.WriteString(preface)
	c.frame(frameSettings, 0, 0, nil)
	return &c
}

func (c *talk) frame(kind, flags byte, stream uint32, payload []byte) *talk {
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
	p := New(Options{BudgetBytes: 250_000, MaxMessageBytes: 1 << 20})
	half := prefixed(100_000, 'x')[:50_000]
	c := newTalk()
	for _, stream := range []uint32{1, 3, 5} {
		c.frame(frameHeaders, flagEndHeaders, stream, nil)
		c.frame(frameData, 0, stream, half[:maxFrame])
	}
	c.send(7, prefixed(smallMessage, 's'), maxFrame)
	i, out := through(t, p, c.Bytes(), 1000)
	if got := p.budget.Load(); got != 50_000 {
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
	if got := p.budget.Load(); got != 250_000 {
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

// TestAnEndedStreamIsForgotten, but not before the last of its bytes can have come: they would be taken for messages.
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
	_, _ = i.Write(new(talk).frame(frameHeaders, flagEnd, 1, nil).Bytes())
	rest := new(talk)
	for range GRPCWindow / maxFrame {
		rest.frame(frameData, 0, 1, bytes.Repeat([]byte{0xff}, maxFrame))
	}
	i.Conn = &wire{in: bytes.NewReader(rest.Bytes()), part: 5000}
	read()
	if held := 8<<20 - p.budget.Load(); held != 0 || len(i.calls) != 1 {
		t.Errorf("%d bytes held by %d calls", held, len(i.calls))
	}
	later := new(talk)
	for stream := uint32(3); stream < 9; stream += 2 {
		later.send(stream, prefixed(smallMessage, 's'), 10_000)
	}
	i.Conn = &wire{in: bytes.NewReader(later.Bytes()), part: 5000}
	read()
	if len(i.calls) != 0 || len(i.over) != 0 {
		t.Errorf("%d calls, %d of them ended", len(i.calls), len(i.over))
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

// bare is a port that serves nothing: two of New's take longer than what is fuzzed.
func bare(budget int64) *Port {
	p := &Port{opts: Options{BudgetBytes: budget}, intakes: map[*intake]struct{}{}}
	p.opts.fill()
	p.budget.Store(budget)
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
	f.Fuzz(func(t *testing.T, input []byte, part, budget int) {
		part = max(part, len(input)/256) // a byte at a time is for short ones
		wide := bare(1 << 60)
		i, out := through(t, wide, input, part)
		// A head that never becomes whole stays with us, as does a length.
		if !bytes.HasPrefix(input, out) || len(input)-len(out) > frameHead+1+prefixLen+len(turnedAway) {
			t.Fatalf("%d of %d bytes came through", len(out), len(input))
		}
		_ = i.Close()
		if wide.budget.Load() != 1<<60 {
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
