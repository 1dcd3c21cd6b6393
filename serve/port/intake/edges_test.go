package intake

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/serve/port/frame"
	"github.com/holdfastdb/holdfast/serve/port/http2test"
)

// TestEdges: messages that just fit, or just do not, in any pieces. want are the messages of stream 1 as the server sees them, x for one as
// it was sent, - for one that was turned away.
func TestEdges(t *testing.T) {
	t.Parallel()
	large := http2test.Prefixed(20_000, 'x')
	small := http2test.Prefixed(3, 'x')
	short := prefixLen + len(turnedAway)
	for _, c := range []struct {
		what   string
		room   int64
		talk   func(c *http2test.Talk)
		want   string
		held   int64
		kept   int  // messages that are remembered
		refuse bool // the connection ends
	}{
		{"a large one, whole in its frame", 1 << 20, func(c *http2test.Talk) { c.Frame(frame.Data, 0, 1, large) }, "x", 20_000, 1, false},
		{"a large one, whole in its frame, without room", 0, func(c *http2test.Talk) { c.Frame(frame.Data, 0, 1, large) }, "-", 0, 0, false},
		{"an empty one at the end", 0, func(c *http2test.Talk) { c.Frame(frame.Data, 0, 1, http2test.Prefixed(0, 'x')) }, "x", 0, 0, false},
		{"an empty one in pieces", 0, func(c *http2test.Talk) {
			c.Frame(frame.Data, 0, 1, []byte{0, 0}).Frame(frame.Data, 0, 1, []byte{0, 0, 0})
		}, "x", 0, 0, false},
		{"as much of it in the first frame as stands in for it", 0, func(c *http2test.Talk) {
			c.Frame(frame.Data, 0, 1, large[:short]).Frame(frame.Data, 0, 1, large[short:])
		}, "-", 0, 0, false},
		{"a length alone in its frame, without room", 0, func(c *http2test.Talk) {
			c.Frame(frame.Data, 0, 1, large[:prefixLen])
		}, "", 0, 1, false},
		{"a length in pieces, with room", 1 << 20, func(c *http2test.Talk) {
			c.Frame(frame.Data, 0, 1, large[:2]).Frame(frame.Data, 0, 1, large[2:])
		}, "x", 20_000, 1, false},
		{"a length in pieces, without room", 0, func(c *http2test.Talk) {
			c.Frame(frame.Data, 0, 1, large[:2]).Frame(frame.Data, 0, 1, large[2:])
		}, "", 0, 1, true},
		{"a length in pieces, and another message behind it in the frame", 0, func(c *http2test.Talk) {
			c.Frame(frame.Data, 0, 1, small[:2]).Frame(frame.Data, 0, 1, append(small[2:len(small):len(small)], large...))
		}, "x-", 0, 0, false},
		{"small ones in a row", 0, func(c *http2test.Talk) {
			c.Frame(frame.Data, 0, 1, append(append(small[:len(small):len(small)], small...), small[:4]...)).Frame(frame.Data, 0, 1, small[4:])
		}, "xxx", 0, 0, false},
		{"the largest", largest, func(c *http2test.Talk) { c.Send(1, http2test.Prefixed(largest, 'x'), frame.Max) }, "x", largest, 1, false},
		{"the largest, with a byte too little room", largest - 1, func(c *http2test.Talk) { c.Send(1, http2test.Prefixed(largest, 'x'), frame.Max) }, "-", 0, 0, false},
		{"padding around it", 0, func(c *http2test.Talk) {
			c.Frame(frame.Data, frame.Padded, 1, append(append([]byte{3}, large...), 0, 0, 0)).Frame(frame.Data, 0, 1, small)
		}, "-", 0, 0, false},
		{"padding around it, and room", 1 << 20, func(c *http2test.Talk) {
			c.Frame(frame.Data, frame.Padded, 1, append(append([]byte{3}, large...), 0, 0, 0)).Frame(frame.Data, 0, 1, small)
		}, "xx", 0, 0, false},
		{"a padded frame of no length", 0, func(c *http2test.Talk) {
			c.Frame(frame.Data, frame.Padded, 1, nil).Frame(frame.Data, 0, 1, small)
		}, "x", 0, 0, false},
		{"a padded frame of padding alone", 0, func(c *http2test.Talk) {
			c.Frame(frame.Data, frame.Padded, 1, []byte{2, 0, 0}).Frame(frame.Data, 0, 1, large)
		}, "-", 0, 0, false},
	} {
		for _, part := range []int{1 << 20, 4096, short, prefixLen, 1} {
			if part < 100 && c.room >= largest-1 {
				continue // millions of bytes one by one
			}
			talk := http2test.New()
			c.talk(talk)
			p := &room{left: c.room}
			i := on(p, talk.Bytes(), part)
			out, err := io.ReadAll(i)
			if (err != nil) != c.refuse {
				t.Errorf("%s, %d bytes at a time: %v", c.what, part, err)
			}
			if !c.refuse && len(out) != len(talk.Bytes()) {
				t.Errorf("%s, %d bytes at a time: %d of %d bytes came through", c.what, part, len(out), len(talk.Bytes()))
			}
			var got strings.Builder
			for _, m := range messages(out)[1] {
				switch {
				case TurnedAway([]byte(m)):
					got.WriteByte('-')
				case strings.Trim(m, "x") == "":
					got.WriteByte('x')
				}
			}
			// The rest of a message that was turned away is passed on behind it, and the server's decoder may take it for any frame.
			if !strings.HasPrefix(got.String(), c.want) || !strings.Contains(c.want, "-") && got.String() != c.want {
				t.Errorf("%s, %d bytes at a time: the server sees %q, want %q", c.what, part, got.String(), c.want)
			}
			if held, kept := c.room-p.left, len(i.calls); held != c.held || kept != c.kept {
				t.Errorf("%s, %d bytes at a time: %d bytes are held and %d messages remembered, want %d and %d", c.what, part, held, kept, c.held, c.kept)
			}
			_ = i.Close()
			if p.left != c.room || p.calls != 0 {
				t.Errorf("%s, %d bytes at a time: %d bytes and %d of calls are held after the end", c.what, part, c.room-p.left, p.calls)
			}
		}
	}
}

// TestALengthThatHasNoRoom: the server is made to refuse a message whose length stands alone in its frame.
func TestALengthThatHasNoRoom(t *testing.T) {
	t.Parallel()
	talk := http2test.New().Frame(frame.Data, 0, 1, http2test.Prefixed(20_000, 'x')[:prefixLen])
	_, out := through(t, &room{}, talk.Bytes(), 3)
	if !bytes.HasSuffix(out, []byte("\x00\xff\xff\xff\xff")) {
		t.Errorf("the server sees %x", out[len(out)-prefixLen:])
	}
}

// TestWhatARoomIsTold: of the first call once, of a large message once it has come whole, of bytes that leave.
func TestWhatARoomIsTold(t *testing.T) {
	t.Parallel()
	large := http2test.Prefixed(40_000, 'x')
	p := &room{left: 1 << 20}
	talk := http2test.New().Frame(frame.Data, 0, 1, large[:16_000]).Frame(frame.Data, 0, 1, large[16_000:32_000])
	i, _ := through(t, p, talk.Bytes(), 5000)
	if p.came != 0 || p.first != 1 {
		t.Errorf("half a message: %d have come, %d first calls", p.came, p.first)
	}
	heard := i.calls[1].heard
	i.Conn = http2test.On(new(http2test.Talk).Bare(frame.Data, 0, 1, large[32_000:]).Bare(frame.Headers, frame.EndHeaders, 3, nil).
		Bare(frame.Data, 0, 3, http2test.Prefixed(5, 'y')).Bytes(), 5000)
	if _, err := io.ReadAll(i); err != nil {
		t.Fatal(err)
	}
	if p.came != 1 || p.first != 1 || i.calls[1].heard < heard {
		t.Errorf("a whole message: %d have come, %d first calls", p.came, p.first)
	}
	if i.Stalled(time.Now().Add(time.Hour)) || i.Stuck(time.Now().Add(time.Hour).UnixNano()) != 0 {
		t.Error("a message that has come is late")
	}
	_, _ = i.Write(new(http2test.Talk).Bare(frame.Headers, frame.EndHeaders, 1, []byte("head")).Bare(frame.Data, 0, 1, make([]byte, 100)).Bytes())
	if p.leaves != 100 {
		t.Errorf("%d bytes of answers have left", p.leaves)
	}
}

// TestLate: a message is late a nanosecond after its time, and one that holds no room never is.
func TestLate(t *testing.T) {
	t.Parallel()
	i, _ := through(t, &room{left: 1 << 20}, http2test.New().Frame(frame.Data, 0, 1, http2test.Prefixed(40_000, 'x')[:9000]).Bytes(), 9000)
	m := i.calls[1]
	if at := time.Unix(0, m.late); i.Stalled(at) || !i.Stalled(at.Add(1)) {
		t.Error("late too early, or too late")
	}
	if i.Stuck(m.heard) != 0 || i.Stuck(m.heard+1) != 40_000 {
		t.Errorf("stuck: %d and %d", i.Stuck(m.heard), i.Stuck(m.heard+1))
	}
	i, _ = through(t, &room{}, http2test.New().Frame(frame.Data, 0, 1, http2test.Prefixed(100, 'x')[:50]).Bytes(), 9000)
	if _, kept := i.Pending(); kept != 1 || i.Stalled(time.Now().Add(time.Hour)) || i.Stuck(time.Now().Add(time.Hour).UnixNano()) != 0 {
		t.Errorf("a small message that does not come: %d are remembered", kept)
	}
}

// TestCallsAtTheirEdges: a call without headers costs as much as every call and is whole with its last frame. The number of an ended one
// does not begin another.
func TestCallsAtTheirEdges(t *testing.T) {
	t.Parallel()
	p := &room{left: 1 << 20}
	i, _ := through(t, p, http2test.New().Bare(frame.Headers, frame.EndHeaders, 5, nil).Bytes(), 100)
	if p.calls != CallCost {
		t.Errorf("a call without headers holds %d", p.calls)
	}
	says := func(c *http2test.Talk, want int64) {
		t.Helper()
		i.Conn = http2test.On(c.Bytes(), 100)
		if _, err := io.ReadAll(i); err != nil || p.calls != want {
			t.Errorf("%d bytes are held, want %d; %v", p.calls, want, err)
		}
	}
	says(new(http2test.Talk).Bare(frame.Data, frame.End, 5, http2test.Prefixed(5, 'a')), WholeCost)
	_, _ = i.Write(new(http2test.Talk).Bare(frame.Headers, frame.End, 5, nil).Bytes())
	says(new(http2test.Talk).Bare(frame.Headers, frame.EndHeaders, 5, nil), 0)
	says(new(http2test.Talk).Bare(frame.Headers, frame.EndHeaders, 3, nil), 0)
	says(new(http2test.Talk).Bare(frame.Headers, frame.EndHeaders, 6, nil), 0)
	says(new(http2test.Talk).Bare(frame.Headers, frame.EndHeaders, 7, nil), CallCost)
}
