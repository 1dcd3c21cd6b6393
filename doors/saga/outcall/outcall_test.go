package outcall

import (
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// newNet is a Net that is closed with the test. Once its calls have been cancelled it holds nothing.
func newNet(t testing.TB, o Options) *Net {
	n := New(o)
	t.Cleanup(func() {
		n.mu.Lock()
		left := slices.Collect(maps.Keys(n.calls))
		n.mu.Unlock()
		for _, c := range left {
			c.cancel()
		}
		wait.GivenBack(t, n.Owed)
		n.Close()
		wait.GivenBack(t, n.Owed)
	})
	return n
}

// do makes a call and waits for its result.
func do(t testing.TB, n Caller, r *Request) Result {
	t.Helper()
	return result(t, start(n, r))
}

// started is a call under way.
type started struct {
	results chan Result
	cancel  func()
}

func start(n Caller, r *Request) started {
	s := started{results: make(chan Result, 2)} // room for one too many
	s.cancel = n.Go(r, func(r Result) { s.results <- r })
	return s
}

// result waits for the result of a call, and that there is one only.
func result(t testing.TB, s started) Result {
	t.Helper()
	select {
	case r := <-s.results:
		select {
		case again := <-s.results:
			t.Fatalf("done was called twice: %+v, %+v", r, again)
		default:
		}
		return r
	case <-time.After(wait.Limit(t)):
		t.Fatal("no result after 10 s")
		panic("unreachable")
	}
}

// want fails unless a result has the outcome and a message with the text in it.
func want(t testing.TB, r Result, o Outcome, text string) {
	t.Helper()
	if r.Outcome != o || !strings.Contains(r.Message, text) {
		t.Errorf("%v %q, want %v and %q in the message", r.Outcome, r.Message, o, text)
	}
	if len(r.Message) > MaxMessage {
		t.Errorf("a message of %d bytes", len(r.Message))
	}
}

// serve is a service over HTTP that ends with the test.
func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		closed := make(chan struct{})
		go func() {
			s.Close()
			close(closed)
		}()
		for {
			s.CloseClientConnections() // of handlers that hang, and of those that begin meanwhile
			select {
			case <-closed:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	return s
}

// hang is a handler that answers nothing until the client is gone.
func hang(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body) // or the server would not notice that the client is gone
	<-r.Context().Done()
}

// rawService answers what is sent on each of its connections by hand.
type rawService struct {
	net.Listener
	mu    sync.Mutex
	conns int // accepted so far
}

// URL is where it listens.
func (s *rawService) URL() string { return "http://" + s.Addr().String() }

func (s *rawService) accepted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

// listen serves each connection with f, which is told its number from 1 on.
func listen(t testing.TB, f func(c net.Conn, number int)) *rawService {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawService{Listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns++
			number := s.conns
			s.mu.Unlock()
			go func() {
				defer c.Close()
				f(c, number)
			}()
		}
	}()
	return s
}

// replay is a connection that has only a reading side.
type replay struct{ *strings.Reader }

func (replay) Close() error                     { return nil }
func (replay) LocalAddr() net.Addr              { return nil }
func (replay) RemoteAddr() net.Addr             { return nil }
func (replay) SetDeadline(time.Time) error      { return nil }
func (replay) SetReadDeadline(time.Time) error  { return nil }
func (replay) SetWriteDeadline(time.Time) error { return nil }
func (replay) Write(b []byte) (int, error)      { return len(b), nil }
