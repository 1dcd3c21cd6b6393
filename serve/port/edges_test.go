package port

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/serve/port/frame"
	"github.com/holdfastdb/holdfast/serve/port/http2test"
)

// onWire is a client of a port whose bytes are all there, so many of them at a time.
func onWire(p *Port, input []byte, part int) (*client, *http2test.Wire) {
	w := http2test.On(input, part)
	return &client{Conn: w, raw: w, port: p}, w
}

// TestWhatAReadMarks: whose turn it is among idle connections, how long the rest of a request may take, and how much of a request comes in.
func TestWhatAReadMarks(t *testing.T) {
	t.Parallel()
	p := New(Options{Conns: NewConnLimit(10)})
	p.accepted.Store(1000)
	c, _ := onWire(p, bytes.Repeat([]byte("x"), 100<<10), 10<<10)
	b := make([]byte, 20<<10)
	for request := range uint64(3) {
		p.now.Store(50)
		if n, err := c.Read(b); err != nil || n != 10<<10 {
			t.Fatal(n, err)
		}
		if c.turn.Load() != 1000+64*request || c.asked != request+1 || c.began != 50 {
			t.Errorf("request %d: turn %d, %d asked, began at %d", request, c.turn.Load(), c.asked, c.began)
		}
		if _, err := c.Write([]byte("answer")); err != nil {
			t.Fatal(err)
		}
	}
	c.asked = 5000
	if _, err := c.Read(b); err != nil || c.turn.Load() != 1000+64*1000 {
		t.Errorf("a connection that has asked often: turn %d, %v", c.turn.Load(), err)
	}
	p.now.Store(60)
	w := &marking{Wire: http2test.On(make([]byte, 40<<10), 40<<10), c: c}
	c.Conn = w
	if _, err := c.Read(b); err != nil || w.state != (50+10+20)<<2|reading || c.arrived != 30<<10 {
		t.Errorf("the rest of a request: it waits as %d, %d bytes have come, %v", w.state, c.arrived, err)
	}
	if _, err := c.Read(b); err != nil || w.state != (50+30+1)<<2|reading {
		t.Errorf("more of it: it waits as %d, %v", w.state, err)
	}
}

// marking notes what its client waits for while it is read.
type marking struct {
	*http2test.Wire
	c     *client
	state uint64
}

func (m *marking) Read(b []byte) (int, error) {
	m.state = m.c.state.Load()
	return m.Wire.Read(b)
}

// TestARequestOfTheLargestLength is read, and not a byte more.
func TestARequestOfTheLargestLength(t *testing.T) {
	t.Parallel()
	p := New(Options{Conns: NewConnLimit(10), MaxBodyBytes: 1 << 20})
	for _, over := range []int{0, 1} {
		c, _ := onWire(p, make([]byte, p.maxRequest+over), 1<<20)
		_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, 32<<10))
		if want := over > 0; errors.Is(err, errTooLong) != want || !want && err != nil {
			t.Errorf("%d bytes too many: %v", over, err)
		}
		c.giveBack()
	}
	if p.budget.Load() != p.opts.BudgetBytes {
		t.Errorf("%d bytes were not given back", p.opts.BudgetBytes-p.budget.Load())
	}
}

// TestWhatARequestDraws: nothing up to the size of a small one, then all of it. The request counts as a large one once it is answered.
func TestWhatARequestDraws(t *testing.T) {
	t.Parallel()
	p := New(Options{Conns: NewConnLimit(10)})
	held := func() int64 { return p.opts.BudgetBytes - p.budget.Load() }
	c, _ := onWire(p, make([]byte, 200<<10), 40<<10)
	for _, step := range []struct {
		read, want int
	}{{smallRequest, 0}, {24 << 10, 0}, {1, smallRequest + 1}} {
		if _, err := c.Read(make([]byte, step.read)); err != nil {
			t.Fatal(err)
		}
		if held() != int64(step.want) {
			t.Errorf("%d bytes are held where %d have come and %d are asked for, want %d", held(), c.arrived, step.read, step.want)
		}
	}
	if err := c.draw(smallRequest + 1); err != nil {
		t.Fatal(err)
	}
	c.heard.Store(0)
	if held() != smallRequest+1 || c.room.Load() != smallRequest+1 {
		t.Errorf("%d bytes are held", held())
	}
	if _, err := c.Read(make([]byte, 1)); err != nil || c.heard.Load() == 0 {
		t.Errorf("a part of a large request was not heard of: %v", err)
	}
	if err := c.draw(smallRequest + 1); err != nil || held() != smallRequest+2 {
		t.Errorf("less than it holds: %d, %v", held(), err)
	}
	c.answers.Store(7)
	c.took.Store(0)
	if n, err := c.Write(make([]byte, 2*piece+1)); err != nil || n != 2*piece+1 || c.took.Load() == 0 {
		t.Errorf("%d bytes of an answer were written, %v", n, err)
	}
	if held() != 0 || c.large != 1 || c.arrived != 0 || c.room.Load() != 0 {
		t.Errorf("after the answer %d bytes are held, %d large ones were made, %d bytes have come", held(), c.large, c.arrived)
	}
	c.answers.Store(0)
	c.took.Store(0)
	if _, err := c.Write([]byte("x")); err != nil || c.took.Load() != 0 || c.large != 1 {
		t.Errorf("an answer that holds nothing: taken at %d, %d large ones, %v", c.took.Load(), c.large, err)
	}
	c.heard.Store(0)
	if _, err := c.Read(make([]byte, 1)); err != nil || c.heard.Load() != 0 {
		t.Errorf("a small request is heard of at %d, %v", c.heard.Load(), err)
	}
}

// TestALimitAtItsEdge: as many connections as there are places, and another one once a place is free. Connections without an address have no share.
func TestALimitAtItsEdge(t *testing.T) {
	t.Parallel()
	l := NewConnLimit(2)
	for i, want := range []bool{true, true, false, false} {
		if l.Enter(nil) != want {
			t.Errorf("connection %d", i)
		}
	}
	l.Leave(nil)
	if !l.Enter(nil) || l.Enter(nil) || l.open != 2 {
		t.Errorf("after one has left: %d", l.open)
	}
}

// peek asks what a client's first request is.
func peek(b []byte) (bool, error) { return (&peeker{conn: bytes.NewReader(b)}).run() }

// headersOf is a frame of a header block, with padding and a priority if the flags say so.
func headersOf(kind, flags byte, pad int, block []byte) []byte {
	var payload []byte
	if flags&frame.Padded != 0 {
		payload = append(payload, byte(pad))
	}
	if flags&frame.Priority != 0 {
		payload = append(payload, 0, 0, 0, 0, 16)
	}
	payload = append(append(payload, block...), make([]byte, pad)...)
	n := len(payload)
	b := []byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}
	return append(binary.BigEndian.AppendUint32(b, 1), payload...)
}

// TestTheFirstRequestAtItsEdges: padding, priorities, continuations and frames of the largest size, to the byte.
func TestTheFirstRequestAtItsEdges(t *testing.T) {
	t.Parallel()
	// :method POST, :scheme http, :path /, then content-type: application/grpc, written out.
	grpc := append([]byte{0x83, 0x86, 0x84, 0x40}, "\x0ccontent-type\x10application/grpc"...)
	other := []byte{0x82, 0x86, 0x84}
	settings := []byte{0, 0, 0, frame.Settings, 0, 0, 0, 0, 0}
	large := append([]byte{0, 0x40, 0, frame.Settings, 0, 0, 0, 0, 0}, make([]byte, frame.Max)...)
	tooLarge := append([]byte{0, 0x40, 1, frame.Settings, 0, 0, 0, 0, 0}, make([]byte, frame.Max+1)...)
	join := func(all ...[]byte) []byte { return append([]byte(preface), bytes.Join(all, nil)...) }
	end := byte(frame.EndHeaders)
	full := bytes.Repeat(large, 5)
	for _, c := range []struct {
		what string
		b    []byte
		grpc bool
		fail bool
	}{
		{"gRPC", join(settings, headersOf(frame.Headers, end, 0, grpc)), true, false},
		{"another", join(settings, headersOf(frame.Headers, end, 0, other)), false, false},
		{"padding", join(headersOf(frame.Headers, end|frame.Padded, 7, grpc)), true, false},
		{"padding of no length", join(headersOf(frame.Headers, end|frame.Padded, 0, grpc)), true, false},
		{"padding alone", join([]byte{0, 0, 3, frame.Headers, end | frame.Padded, 0, 0, 0, 1, 2, 0, 0}), false, false},
		{"more padding than frame", join([]byte{0, 0, 3, frame.Headers, end | frame.Padded, 0, 0, 0, 1, 3, 0, 0}), false, true},
		{"the length of no padding, and nothing else", join([]byte{0, 0, 1, frame.Headers, end | frame.Padded, 0, 0, 0, 1, 0}), false, false},
		{"padding without its length", join([]byte{0, 0, 0, frame.Headers, end | frame.Padded, 0, 0, 0, 1}), false, true},
		{"a priority", join(headersOf(frame.Headers, end|frame.Priority, 0, grpc)), true, false},
		{"a priority and padding", join(headersOf(frame.Headers, end|frame.Priority|frame.Padded, 3, grpc)), true, false},
		{"a priority that is cut", join([]byte{0, 0, 4, frame.Headers, end | frame.Priority, 0, 0, 0, 1, 0, 0, 0, 0}), false, true},
		{"in pieces", join(headersOf(frame.Headers, 0, 0, grpc[:9]), headersOf(frame.Continuation, 0, 0, grpc[9:12]), headersOf(frame.Continuation, end, 0, grpc[12:])), true, false},
		{"another frame between the pieces", join(headersOf(frame.Headers, 0, 0, grpc[:9]), settings, headersOf(frame.Continuation, end, 0, grpc[9:])), false, true},
		{"pieces that end", join(headersOf(frame.Headers, 0, 0, grpc[:9])), false, true},
		{"data before it", join(headersOf(frame.Data, 0, 0, grpc)), false, true},
		{"a piece before it", join(headersOf(frame.Continuation, end, 0, grpc)), false, true},
		{"a frame of the largest size before it", join(large, headersOf(frame.Headers, end, 0, grpc)), true, false},
		{"a larger one", join(tooLarge, headersOf(frame.Headers, end, 0, grpc)), false, true},
		{"nothing", nil, false, true},
		{"another preface", []byte(strings.Repeat("x", 100)), false, true},
		{"as much before it as is looked at", func() []byte {
			head := headersOf(frame.Headers, end, 0, grpc)
			rest := maxPeeked - len(preface) - len(full) - len(head) - frame.HeadLen
			filler := append([]byte{byte(rest >> 16), byte(rest >> 8), byte(rest), frame.Settings, 0, 0, 0, 0, 0}, make([]byte, rest)...)
			return join(full, filler, head)
		}(), true, false},
		{"a byte more", func() []byte {
			head := headersOf(frame.Headers, end, 0, grpc)
			rest := maxPeeked - len(preface) - len(full) - len(head) - frame.HeadLen + 1
			filler := append([]byte{byte(rest >> 16), byte(rest >> 8), byte(rest), frame.Settings, 0, 0, 0, 0, 0}, make([]byte, rest)...)
			return join(full, filler, head)
		}(), false, true},
	} {
		is, err := peek(c.b)
		if is != c.grpc || (err != nil) != c.fail {
			t.Errorf("%s: gRPC %v, %v", c.what, is, err)
		}
	}
}
