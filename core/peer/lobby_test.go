package peer

import (
	"io"
	"net"
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

// nobody answers a question with itself.
type nobody struct{ Handler }

func (*nobody) HandleAsk(q []byte) ([]byte, error)   { return q, nil }
func (*nobody) HandleStream(uint64, io.Reader) error { return nil }
func (*nobody) HandleFrame(uint64, Channel, []byte)  {}
func (*nobody) Reconnected(uint64, Channel)          {}
func (*nobody) Refused(uint64)                       {}
func (*nobody) Expelled(uint64)                      {}
