package port

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// If there is no room and no connection to close, the answer comes at once. A handler that waits does not read, so a client with many
// requests on one connection would wait with all of them. The second request within a moment does not wait either.
func TestNoRoomIsSaidAtOnce(t *testing.T) {
	p := start(t, nil, Options{BudgetBytes: 1 << 20}).Port
	all := p.budget.Load()
	defer p.budget.Store(all)
	for p.budget.Load() > 0 {
		if !p.tryDraw(64<<10, 0, true) {
			t.Fatal("no room to begin with")
		}
	}
	wait.Quickly(t, "20 refusals", 10*evictPatience, func() {
		for range 20 {
			if p.draw(nil, 64<<10, 0, true) {
				t.Fatal("room where there is none")
			}
		}
	})
}

// TestWhatIsDoneIsSaid: where answers have no room, one to a request that changes something is given all the same. A client
// that is told the server was busy would send it again.
func TestWhatIsDoneIsSaid(t *testing.T) {
	t.Parallel()
	s := start(t, nil, Options{AnswerBytes: 12 << 20})
	s.answers.Add(-12 << 20)
	defer s.answers.Add(12 << 20)
	body := strings.Repeat("x", 8<<10)
	if got := s.ask("POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 8192\r\n\r\n" + body); !strings.HasSuffix(got, body) {
		t.Errorf("to a POST: %.200q", got)
	}
	if got := s.ask("GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 503") {
		t.Errorf("to a GET: %.200q", got)
	}
	for end := time.Now().Add(wait.Limit(t)); s.answers.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes too many or too few were given back", s.answers.Load())
		}
	}
}

// TestUntakenBodies: answers over HTTP/1.1 that clients do not take are dropped beyond a bound, and those that are taken are
// not.
func TestUntakenBodies(t *testing.T) {
	t.Parallel()
	s := start(t, nil, Options{AnswerBytes: 32 << 20})
	for range 40 {
		c := s.dial()
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		if _, err := io.WriteString(c, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(wait.Limit(t)); s.writers() < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d write", s.writers())
		}
	}
	time.Sleep(200 * time.Millisecond) // the others, too, have their answers made
	wait.Until(t, "what is held and what is left are all there is", func() bool {
		var held int64
		for _, c := range s.requests() {
			held += c.answers.Load()
		}
		return held > 0 && held <= 32<<20 && s.answers.Load() == 32<<20-held
	})
	wait.Until(t, "a client that takes its answer gets it", func() bool {
		return strings.Contains(s.ask("GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), "200 OK")
	})
}
