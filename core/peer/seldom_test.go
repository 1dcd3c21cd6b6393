package peer

import (
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/certtest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// said is a log.
type said struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// A member with an expired certificate and one that dials it: each says why. The dialled one logs at most one line a second, the dialling
// one shows it in its contact.
func TestFailedHandshakesAreNamedOnBothSides(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority("members")
	logs := [2]*said{{}, {}}
	var nets [2]*TCP
	for i := range nets {
		cert := ca.Issue("m")
		if i == 1 {
			cert = ca.Issue("m", certtest.NotAfter(time.Now().Add(-time.Minute)))
		}
		n, err := ListenTCP("127.0.0.1:0", TCPOptions{TLS: ca.Config(cert), Logger: slog.New(slog.NewTextHandler(logs[i], nil))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		n.Start(newRecorder())
		n.Identify(1, uint64(i+1))
		nets[i] = n
	}
	nets[0].SetPeer(2, nets[1].Addr())
	nets[1].SetPeer(1, nets[0].Addr())
	why := func(of *TCP, id uint64) string {
		c, ok := of.Contact(id)
		if !ok || c.Err == nil {
			return ""
		}
		return c.Err.Error()
	}
	wait.Until(t, "the good one says what it does not take", func() bool { return strings.Contains(why(nets[0], 2), "expired") })
	wait.Until(t, "the other one hears why it is refused", func() bool { return strings.Contains(why(nets[1], 1), "expired") })
	wait.Until(t, "lines", func() bool {
		return strings.Contains(logs[0].String(), "certificate has expired") && strings.Contains(logs[1].String(), "own=\"expired at ")
	})
	for range 50 { // a stranger
		if c, err := net.Dial("tcp", nets[0].Addr()); err == nil {
			c.Write([]byte("hello hello"))
			c.Close()
		}
	}
	wait.Until(t, "a line with how many were kept back", func() bool { return strings.Contains(logs[0].String(), "suppressed=") })
	for i := range logs {
		lines := strings.Count(logs[i].String(), "TLS handshake")
		if took := time.Since(began).Seconds(); float64(lines) > took+2 {
			t.Errorf("%d lines in %.1f s", lines, took)
		}
	}
}
