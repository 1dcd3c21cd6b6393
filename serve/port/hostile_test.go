package port

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// undisturbed runs attack while a well-behaved client asks on a connection of its own and opens a new one now and then. It
// fails if any of its requests fails, or if each takes a second.
func (s *stand) undisturbed(attack func()) {
	s.Helper()
	stop, done := make(chan struct{}), make(chan struct{})
	var quickest atomic.Int64
	asked := &s.answered
	asked.Store(0)
	quickest.Store(math.MaxInt64)
	go func() {
		defer close(done)
		kept := &http.Client{Transport: &http.Transport{}, Timeout: wait.Limit(s.T)}
		defer kept.CloseIdleConnections()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if i%10 == 9 {
				kept.CloseIdleConnections()
			}
			began := time.Now()
			res, err := kept.Get("http://" + s.addr + "/fast/")
			if err != nil && time.Since(began) >= hasty().RequestTimeout {
				continue // a machine that is busy is as slow as a client that the port does not wait for
			}
			if err != nil {
				s.Errorf("the good client: %v", err)
				return
			}
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if res.StatusCode != 200 {
				s.Errorf("the good client hears %s", res.Status)
			}
			quickest.Store(min(quickest.Load(), int64(time.Since(began))))
			asked.Add(1)
			time.Sleep(2 * time.Millisecond)
		}
	}()
	attack()
	for end := time.Now().Add(wait.Limit(s.T)); asked.Load() < 20 && !s.Failed() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	close(stop)
	<-done
	if n, d := asked.Load(), time.Duration(quickest.Load()); n < 20 || d > time.Second {
		s.Errorf("the good client got %d answers, the quickest after %s", n, d)
	}
}

// hasty are bounds short enough to wait for.
func hasty() Options {
	return Options{SilenceTimeout: time.Second, RequestTimeout: time.Second, IdleTimeout: time.Second, MaxBodyBytes: 1 << 20, BudgetBytes: 4 << 20}
}

// untilClosed waits for the server to close c and returns what it said.
func untilClosed(t *testing.T, c net.Conn) string {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(wait.Limit(t)))
	b, err := io.ReadAll(c)
	if e, ok := err.(net.Error); ok && e.Timeout() {
		t.Errorf("still open; it said %q", b)
	}
	return string(b)
}

func TestHalfRequestsAreCutOff(t *testing.T) {
	t.Parallel()
	s := start(t, nil, hasty())
	s.undisturbed(func() {
		var open []net.Conn
		for _, half := range []string{
			"", "P", "PR", "G", "GET", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: x\r\n",
			"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345",
			"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12",
			"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;",
			"GET /fast/ HTTP/1.1\r\nHost: x\r\n\r\n",      // whole, then idle
			"GET /fast/ HTTP/1.1\r\nHost: x\r\n\r\nGET /", // whole and a half
		} {
			c := s.dial()
			io.WriteString(c, half)
			open = append(open, c)
		}
		for _, c := range open {
			untilClosed(t, c)
		}
	})
}

func TestAByteASecondIsNoProgress(t *testing.T) {
	t.Parallel()
	s := start(t, nil, hasty())
	s.undisturbed(func() {
		c := s.dial()
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nX: ")
		go func() {
			for range 20 {
				time.Sleep(300 * time.Millisecond)
				if _, err := io.WriteString(c, "x"); err != nil {
					return
				}
			}
		}()
		untilClosed(t, c)
	})
}

func TestAnAnswerThatIsNotTakenIsDropped(t *testing.T) {
	t.Parallel()
	opts := hasty()
	opts.MaxBodyBytes = 64 << 20
	opts.BudgetBytes = 256 << 20
	s := start(t, nil, opts)
	s.undisturbed(func() {
		c := s.dial()
		size := 32 << 20
		fmt.Fprintf(c, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", size)
		c.Write(make([]byte, size))
		for end := time.Now().Add(wait.Limit(t)); s.writers() == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the answer does not begin")
			}
		}
		for end := time.Now().Add(wait.Limit(t)); s.writers() > 0; time.Sleep(10 * time.Millisecond) { // it does not read
			if time.Now().After(end) {
				t.Fatal("the server still waits for a client that takes nothing")
			}
		}
	})
}

// writers counts connections in the middle of an answer.
func (s *stand) writers() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.clients {
		if c.state.Load()&3 == writing {
			n++
		}
	}
	return n
}

func TestEndlessHeadersEnd(t *testing.T) {
	t.Parallel()
	s := start(t, nil, hasty())
	s.undisturbed(func() {
		for _, begin := range []string{
			"GET /",
			"GET / HTTP/1.1\r\nHost: x\r\nX: ",
			"GET / HTTP/1.1\r\nHost: x\r\n",
			"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;x=",
			"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
		} {
			c := s.dial()
			io.WriteString(c, begin)
			line := strings.Repeat("x", 1000)
			if strings.HasSuffix(begin, "x\r\n") {
				line = "X-Header: " + line + "\r\n"
			}
			sent := 0
			for sent < 64<<20 {
				n, err := io.WriteString(c, line)
				if sent += n; err != nil {
					break
				}
			}
			if sent >= 64<<20 {
				t.Errorf("%q takes headers without end", begin)
			}
			c.Close()
		}
	})
}

func TestHugeBodiesAreRefusedBeforeTheyCome(t *testing.T) {
	t.Parallel()
	s := start(t, nil, hasty())
	s.undisturbed(func() {
		for _, head := range []string{
			"Content-Length: 1073741824\r\n\r\n",
			"Content-Length: 99999999999999999999999999\r\n\r\n",
			"Content-Length: -1\r\n\r\n",
			"Transfer-Encoding: chunked\r\n\r\n40000000\r\n",
			"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
			"Content-Length: 1073741824\r\nExpect: 100-continue\r\n\r\n",
		} {
			got := s.ask("POST /echo HTTP/1.1\r\nHost: x\r\n" + head)
			if !strings.Contains(got, " 413 ") && !strings.Contains(got, " 400 ") {
				t.Errorf("%q: %q", head, got)
			}
		}
		// And one that really comes, in chunks that are each small enough.
		c := s.dial()
		io.WriteString(c, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
		sent, chunk := 0, "8000\r\n"+strings.Repeat("x", 0x8000)+"\r\n"
		for sent < 1<<30 {
			n, err := io.WriteString(c, chunk)
			if sent += n; err != nil {
				break
			}
		}
		if sent > 64<<20 {
			t.Errorf("%d bytes of a body were taken", sent)
		}
	})
}

func TestUnfinishedBodiesShareABudget(t *testing.T) {
	t.Parallel()
	opts := hasty()
	opts.RequestTimeout, opts.RoomPatience = time.Hour, 100*time.Millisecond
	s := start(t, nil, opts)
	var open []net.Conn
	for range 20 { // 20 × 900 KB do not fit 4 MiB
		c := s.dial()
		io.WriteString(c, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\nx")
		open = append(open, c)
	}
	var refused atomic.Int32
	for _, c := range open {
		go func() {
			if line, err := bufio.NewReader(c).ReadString('\n'); err == nil && strings.Contains(line, "503") {
				refused.Add(1)
			}
		}()
	}
	wait.Until(t, "most are refused", func() bool { return refused.Load() >= 14 })
	time.Sleep(300 * time.Millisecond)
	if n := refused.Load(); n > 18 {
		t.Errorf("%d of 20 were refused; 4 fit", n)
	}
	// Small requests do not ask the budget.
	s.undisturbed(func() {})
}

// TestSmuggling: requests whose end two servers could see at different places. Each is followed by a request for /fast/,
// which must not be answered on this connection unless the first one's end was beyond doubt.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	s := start(t, nil, hasty())
	const next = "GET /fast/ HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, head := range []string{
		"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
		"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
		"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
		"Content-Length: 5, 5\r\n\r\nhello",
		"Content-Length: +5\r\n\r\nhello",
		"Content-Length: 0x5\r\n\r\nhello",
		"Content-Length: 5 \x0b\r\n\r\nhello",
		"Content-Length : 5\r\n\r\nhello",
		" Content-Length: 5\r\n\r\nhello",
		"X: y\r\n Content-Length: 5\r\n\r\nhello",
		"X: y\r\n\tTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
		"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
		"Transfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
		"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
		"Transfer_Encoding: chunked\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n",
		"Transfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n",
		"Transfer-Encoding: chunked\r\n\r\n5\r\nhelloX0\r\n\r\n",
		"Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
		"Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
		"Transfer-Encoding: chunked\r\n\r\n5;a\nhello\r\n0\r\n\r\n",
		"Content-Length\r\n\r\n",
		": 5\r\n\r\n",
		"Content-Length: 5\r\nX\x00: y\r\n\r\nhello",
	} {
		got := s.ask("POST /echo HTTP/1.1\r\nHost: x\r\n" + head + next)
		if !strings.HasPrefix(got, "HTTP/1.1 400 ") || strings.Contains(got, "fast") || strings.Count(got, "HTTP/1.1 ") != 1 {
			t.Errorf("%q\nis answered %q", head, got)
		}
	}
	for _, whole := range []string{
		"GET /fast/ HTTP/1.1\r\n\r\n",                       // no host
		"GET /fast/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", // two
		"GET /fast/ HTTP/1.2\r\nHost: x\r\n\r\n",            // no version we know
		"GET /fast/ HTTP/2.0\r\nHost: x\r\n\r\n",            // not this way
		"POST /fast/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"GET  /fast/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"\x00\x01\x02\r\n\r\n",
	} {
		if got := s.ask(whole + next); !strings.HasPrefix(got, "HTTP/1.1 400 ") || strings.Contains(got, "fast") {
			t.Errorf("%q\nis answered %q", whole, got)
		}
	}
	// The same in order passes, the next request behind it too; after a body in chunks the connection ends all the same.
	for _, head := range []string{
		"Content-Length: 5\r\n\r\nhello",
		"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"transfer-encoding: Chunked\r\n\r\n5;ext=1\r\nhello\r\n0\r\n\r\n",
	} {
		got := s.ask("POST /echo HTTP/1.1\r\nHost: x\r\n" + head + "GET /fast/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if chunked := !strings.HasPrefix(head, "Content"); !strings.Contains(got, "hello") || strings.HasSuffix(got, "fast") == chunked {
			t.Errorf("%q\nis answered %q", head, got)
		}
	}
}

// TestSilentConnectionsMakeRoom: three thousand silent connections, on a port with room for a thousand, do not keep any client out. Neither
// do as many that have asked once and are kept alive.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	t.Parallel()
	for _, greeting := range []string{"", "GET /fast/ HTTP/1.1\r\nHost: x\r\n\r\n"} {
		opts := Options{MaxConns: 1000, SilenceTimeout: time.Hour}
		s := start(t, nil, opts)
		s.undisturbed(func() {
			for i := range 3000 {
				c := s.dial()
				io.WriteString(c, greeting)
				if i%100 == 99 { // a thousand later ones take a place from a silent one: the good client speaks several times meanwhile
					before := s.answered.Load()
					wait.Until(t, "the good client is answered", func() bool { return s.answered.Load() > before || t.Failed() })
				}
			}
		})
		if n := s.count(); n > 1000 {
			t.Errorf("after %q three thousand times there are %d connections", greeting, n)
		}
	}
}

func (s *stand) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}
