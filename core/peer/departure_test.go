package peer

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestDeparture: what dials come to after a break, and what that says.
func TestDeparture(t *testing.T) {
	refused := fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
	for _, c := range []struct {
		what      string
		broke     bool
		addresses int
		dials     []error
		gone      int // the dial that says so, 0: none
	}{
		{"never up", false, 1, []error{refused, refused}, 0},
		{"refused", true, 1, []error{refused}, 1},
		{"reset first, from the backlog", true, 1, []error{io.ErrUnexpectedEOF, refused}, 2},
		{"the first packet is lost", true, 1, []error{errors.New("i/o timeout"), refused}, 2},
		{"one address refuses, the other is silent", true, 2, []error{refused, errors.New("i/o timeout"), refused, errors.New("i/o timeout")}, 0},
		{"both refuse", true, 2, []error{refused, refused}, 2},
	} {
		d, gone := departure{broke: c.broke}, 0
		for i, err := range c.dials {
			if limit, soon := d.next(c.addresses); c.broke != (limit == soonTimeout) || c.broke != soon {
				t.Errorf("%s: dial %d has %v, another soon: %v", c.what, i+1, limit, soon)
			}
			if d.failed(err, c.addresses) && gone == 0 {
				gone = i + 1
			}
		}
		if gone != c.gone {
			t.Errorf("%s: gone after dial %d, want %d", c.what, gone, c.gone)
		}
	}
	d := departure{broke: true}
	for range redialsSoon {
		d.next(1)
		d.failed(io.EOF, 1)
	}
	if limit, soon := d.next(1); limit != dialTimeout || soon {
		t.Errorf("a member that never refuses is dialled every %v for ever", redialSoon)
	}
}

// TestAProcessThatEndsIsSaidToBeGone: once, and again when it has come back and ended again. Its connections that break, however often, say nothing.
func TestAProcessThatEndsIsSaidToBeGone(t *testing.T) {
	a, ar := member(t, 1, TCPOptions{})
	b, br := member(t, 2, TCPOptions{})
	connect(t, a, ar, 2, b.Addr())
	connect(t, b, br, 1, a.Addr())
	for i := range 20 {
		b.mu.Lock()
		for c := range b.conns {
			c.Close()
		}
		b.mu.Unlock()
		ar.await(t, "connected again", func() bool { return ar.reconns[key(2, ChannelControl)] >= i+2 })
	}
	gone := func() int {
		ar.mu.Lock()
		defer ar.mu.Unlock()
		return ar.gone[2]
	}
	if n := gone(); n != 0 {
		t.Fatalf("a member whose connections broke was said to be gone %d times", n)
	}
	b.Close()
	ar.await(t, "gone", func() bool { return ar.gone[2] == 1 })
	time.Sleep(20 * redialSoon)
	if n := gone(); n != 1 {
		t.Errorf("said %d times", n)
	}
}

// TestRefusalsOfAMemberThatIsHeard: what stands in front of a live member refuses, which says nothing of it while it talks to us.
func TestRefusalsOfAMemberThatIsHeard(t *testing.T) {
	a, ar := member(t, 1, TCPOptions{})
	b, br := member(t, 2, TCPOptions{})
	p := newProxy(t, b.Addr())
	connect(t, b, br, 1, a.Addr())
	connect(t, a, ar, 2, p.l.Addr().String())
	wait.Until(t, "both ways", func() bool { return a.ConnectedFor(2) > 0 })
	p.close()
	time.Sleep(100 * redialSoon)
	ar.mu.Lock()
	n := ar.gone[2]
	ar.mu.Unlock()
	if n != 0 {
		t.Fatal("a member that is connected to us was said to be gone")
	}
	b.Close()
	ar.await(t, "gone", func() bool { return ar.gone[2] == 1 })
}

// proxy passes connections on.
type proxy struct {
	l  net.Listener
	mu sync.Mutex
	cs []net.Conn // guarded by mu
}

func newProxy(t *testing.T, to string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l}
	t.Cleanup(p.close)
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			p.mu.Lock()
			p.cs = append(p.cs, in, out)
			p.mu.Unlock()
			go func() { _, _ = io.Copy(in, out); in.Close() }()
			go func() { _, _ = io.Copy(out, in); out.Close() }()
		}
	}()
	return p
}

func (p *proxy) close() {
	p.l.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.cs {
		c.Close()
	}
}

// TestWhatAMemberHasSentComesBeforeItsEnd: a member is gone once the last of its frames on any channel was handed over. Raft takes an entry
// of a leader as a sign that it lives.
func TestWhatAMemberHasSentComesBeforeItsEnd(t *testing.T) {
	a, ar := member(t, 1, TCPOptions{})
	b, br := member(t, 2, TCPOptions{})
	ar.hold = make(chan struct{})
	connect(t, a, ar, 2, b.Addr())
	connect(t, b, br, 1, a.Addr())
	wait.Until(t, "both ways", func() bool { return a.ConnectedFor(2) > 0 })
	br.await(t, "the channel for entries", func() bool { return br.reconns[key(1, ChannelAppend)] == 1 })
	for range 3 {
		if !b.Send(1, ChannelAppend, []byte("entries")) {
			t.Fatal("not sent")
		}
	}
	wait.Until(t, "sent", func() bool { return a.Traffic(2).Received.Load() > 0 })
	b.Close()
	time.Sleep(40 * redialSoon)
	ar.mu.Lock()
	n := ar.gone[2]
	ar.mu.Unlock()
	if n != 0 {
		t.Error("said to be gone before all that it had sent was handed over")
	}
	close(ar.hold)
	ar.await(t, "gone", func() bool { return ar.gone[2] == 1 })
	if got := ar.got(2, ChannelAppend); len(got) != 3 {
		t.Errorf("%d of 3 frames were handed over when it was said", len(got))
	}
}
