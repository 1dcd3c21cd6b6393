package peer

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestStrangersDoNotFillTheLobby: connections that do not say who they are make room, so descriptors stay for the log and
// members still reach each other.
func TestStrangersDoNotFillTheLobby(t *testing.T) {
	t.Parallel()
	a, err := ListenTCP("127.0.0.1:0", TCPOptions{MaxConns: 20})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	a.Start(&nobody{})
	a.Identify(7, 1)
	for range 200 {
		c, err := net.Dial("tcp", a.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	b, err := ListenTCP("", TCPOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.Start(&nobody{})
	if answer, err := b.Ask(t.Context(), a.Addr(), []byte("q")); err != nil || string(answer) != "q" {
		t.Errorf("a question among strangers: %q, %v", answer, err)
	}
	for end := time.Now().Add(wait.Limit(t)); ; time.Sleep(5 * time.Millisecond) {
		a.mu.Lock()
		n := len(a.conns)
		a.mu.Unlock()
		if n <= 20 {
			break
		}
		if time.Now().After(end) { // before strangers are cut off for saying nothing
			t.Fatalf("%d connections are open", n)
		}
	}
}

// nobody is a handler that answers a question with the question.
type nobody struct{ Handler }

func (*nobody) HandleAsk(q []byte) ([]byte, error)   { return q, nil }
func (*nobody) HandleStream(uint64, io.Reader) error { return nil }
func (*nobody) HandleFrame(uint64, Channel, []byte)  {}
func (*nobody) Reconnected(uint64, Channel)          {}
func (*nobody) Refused(uint64)                       {}
func (*nobody) Expelled(uint64)                      {}

// TestBadFramesDoNotFillTheLog: a connection that sends what no member sends is cut each time, and is a line of the log once a second.
func TestBadFramesDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	var lines atomic.Int64
	a, err := ListenTCP("127.0.0.1:0", TCPOptions{Logger: slog.New(counting{slog.DiscardHandler, &lines})})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	a.Start(&nobody{})
	a.Identify(testCluster, 1)
	began := time.Now()
	const strangers = 300
	for range strangers {
		c, err := net.Dial("tcp", a.Addr())
		if err != nil {
			t.Fatal(err)
		}
		h := hello{kind: byte(ChannelControl), cluster: testCluster, from: 2, to: 1}
		var frame bytes.Buffer
		w := bufio.NewWriter(&frame)
		writeFrame(w, h.append(nil))
		writeFrame(w, []byte("a frame"))
		w.Flush()
		b := frame.Bytes()
		b[len(b)-1] ^= 1
		c.SetDeadline(time.Now().Add(wait.Limit(t)))
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, c) // until it is cut
		c.Close()
	}
	if n, most := lines.Load(), 2+int64(time.Since(began)/complaintInterval); n == 0 || n > most {
		t.Errorf("%d strangers are %d lines, at most %d wanted", strangers, n, most)
	}
}

// counting counts lines.
type counting struct {
	slog.Handler
	n *atomic.Int64
}

func (counting) Enabled(context.Context, slog.Level) bool { return true }

func (c counting) Handle(context.Context, slog.Record) error {
	c.n.Add(1)
	return nil
}
