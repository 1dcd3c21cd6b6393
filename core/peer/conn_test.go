package peer

import (
	"net"
	"testing"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// A member that dialled again before its old connection was found dead is connected, whenever the old one goes.
func TestConnectedForSurvivesTheOldConnection(t *testing.T) {
	a, ar := member(t, 1, TCPOptions{})
	b, _ := member(t, 2, TCPOptions{})
	connect(t, a, ar, 2, b.Addr())
	control := hello{kind: byte(ChannelControl), cluster: testCluster, from: 2, to: 1}
	old, _, _ := dialHello(t, a.Addr(), control)
	dialHello(t, a.Addr(), control)
	old.Close()
	wait.Until(t, "old connection released", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.conns) == 1
	})
	if a.ConnectedFor(2) == 0 {
		t.Fatal("the end of the old connection was taken for the end of the new one")
	}
}

// Close must not wait for a silent connection, nor for a dialled address that never answers.
func TestCloseDoesNotWaitForTheSilent(t *testing.T) {
	wait.Quickly(t, "Close", helloTimeout/2, func() {
		silent, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		a, _ := member(t, 1, TCPOptions{})
		c, err := net.Dial("tcp", a.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		a.SetPeer(2, silent.Addr().String())
		s, err := silent.Accept() // its hello is on the way; the answer never comes
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		a.Close()
	})
}
