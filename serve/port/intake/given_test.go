package intake

import (
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/holdfastdb/holdfast/serve/port/frame"
	"github.com/holdfastdb/holdfast/serve/port/http2test"
)

// TestMessagesGiveBackWhatTheyHeld: clients and server act in any order, also while room is being drawn. A connection's messages and calls
// hold exactly the room it has taken. After its end, which comes twice, it holds nothing.
func TestMessagesGiveBackWhatTheyHeld(t *testing.T) {
	const all = 400_000
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 3))
		r := &sudden{room: room{left: all}}
		i := New(http2test.On(nil, 1), r, Options{MaxMessage: largest, Patience: on(&r.room, nil, 1).opt.Patience})
		agree := func(what string) {
			t.Helper()
			var messages, calls int64
			for _, m := range i.calls {
				messages += m.held
			}
			for _, c := range i.streams {
				if calls += c.held; c.held < WholeCost {
					t.Fatalf("seed %d, after %s: an open call holds %d bytes", seed, what, c.held)
				}
			}
			if all-r.left != messages || r.calls != calls {
				t.Fatalf("seed %d, after %s: messages hold %d and have taken %d, calls %d and %d", seed, what, messages, all-r.left, calls, r.calls)
			}
		}
		broken := false
		client := func(b []byte) {
			if !broken {
				i.Conn = http2test.On(b, 1+rng.IntN(20_000))
				_, err := io.Copy(io.Discard, struct{ io.Reader }{i})
				broken = errors.Is(err, errNoRoom)
			}
		}
		server := func(b []byte) { _, _ = i.Write(b) }
		client(http2test.New().Bytes())
		highest := uint32(1)
		for range 60 {
			stream := uint32(1 + 2*rng.IntN(int(highest+1)/2+1))
			highest = max(highest, stream)
			message := http2test.Prefixed(17_000+rng.IntN(90_000), 'x')
			talk, what := new(http2test.Talk), ""
			switch rng.IntN(9) {
			case 0, 1:
				what = "a call begins"
				client(talk.Bare(frame.Headers, frame.EndHeaders, stream, make([]byte, rng.IntN(400))).Bytes())
			case 2:
				what = "a message comes"
				client(talk.Send(stream, message, frame.Max).Bytes())
			case 3:
				what = "half a message comes, its length in pieces"
				cut := 1 + rng.IntN(4)
				client(talk.Frame(frame.Data, 0, stream, message[:cut]).Frame(frame.Data, 0, stream, message[cut:9000]).Bytes())
			case 4:
				what = "the client ends its side"
				client(talk.Frame(frame.Data, frame.End, stream, nil).Bytes())
			case 5:
				what = "the client gives up"
				client(talk.Frame(frame.Reset, 0, stream, []byte("code")).Bytes())
			case 6:
				what = "the server begins its answer"
				server(talk.Bare(frame.Headers, frame.EndHeaders, stream, nil).Bytes())
			case 7:
				what = "the server ends the call"
				server(talk.Bare(frame.Headers, frame.End|frame.EndHeaders, stream, nil).Bytes())
			case 8:
				what = "a call ends, or all, while room is drawn for it"
				r.while = func() {
					if rng.IntN(8) == 0 {
						_ = i.Close()
					} else {
						server(talk.Bare(frame.Headers, frame.End|frame.EndHeaders, stream, nil).Bytes())
					}
				}
				next := new(http2test.Talk)
				if rng.IntN(2) == 0 {
					client(next.Frame(frame.Data, 0, stream, message[:3]).Frame(frame.Data, 0, stream, message[3:9000]).Bytes())
				} else {
					client(next.Frame(frame.Data, 0, stream, message[:9000]).Bytes())
				}
				r.while = nil
			}
			if !i.closed {
				agree(what)
			}
		}
		_ = i.Close()
		_ = i.Close()
		if r.left != all || r.calls != 0 {
			t.Fatalf("seed %d: %d bytes of messages and %d of calls are held after the end", seed, all-r.left, r.calls)
		}
	}
}

// TestWhatEndsTwiceIsGivenBackOnce: messages, calls and connections.
func TestWhatEndsTwiceIsGivenBackOnce(t *testing.T) {
	r := &room{left: 100}
	i := on(r, nil, 1)
	m := &message{held: 40}
	r.left -= 40
	i.release(m)
	i.release(m)
	if r.left != 100 {
		t.Errorf("a message of 40 bytes: %d are left of 100", r.left)
	}
	r.left, r.calls = 70, 2*CallCost
	i.calls[1], i.streams[1], i.streams[3] = &message{held: 30}, call{held: CallCost}, call{held: CallCost}
	for range 2 {
		i.ended(1)
		i.drop(1)
	}
	if r.left != 100 || r.calls != CallCost {
		t.Errorf("a call that ends twice: %d are left of 100, %d are held", r.left, r.calls)
	}
	_ = i.Close()
	_ = i.Close()
	if r.left != 100 || r.calls != 0 {
		t.Errorf("a connection that ends twice: %d are left of 100, %d are held", r.left, r.calls)
	}
}

// sudden is a room where something happens while room is drawn.
type sudden struct {
	room
	while func()
}

func (s *sudden) Draw(n int64) bool {
	if s.while != nil {
		s.while()
	}
	return s.room.Draw(n)
}
