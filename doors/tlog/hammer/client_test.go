package hammer

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestAnswersInEveryForm: whole, in chunks, until the connection ends, after a "continue", with the connection kept or closed.
func TestAnswersInEveryForm(t *testing.T) {
	var mu sync.Mutex
	got := make(map[string]bool)
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entry, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if err != nil || r.URL.Path != "/logs/a/add" || r.Method != http.MethodPost || got[string(entry)] || r.Host == "" {
			t.Errorf("%s %s %q %v", r.Method, r.URL, entry, err)
		}
		got[string(entry)] = true
		n++
		switch n % 4 {
		case 1:
			w.Header().Set("Connection", "close")
		case 2:
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush() // from here on in chunks
		case 3:
			w.WriteHeader(http.StatusContinue)
		}
		fmt.Fprint(w, n)
	}))
	defer s.Close()
	c := newClient(&Options{URL: s.URL + "/logs/a/"})
	defer c.close()
	for i := 1; i <= 20; i++ {
		index, again, err := c.add(fmt.Appendf(nil, "entry %2d", i))
		if err != nil || again != 0 || index != uint64(i) {
			t.Fatalf("%d: %d, %v, %v", i, index, again, err)
		}
	}
}

// TestOneConnectionIsKept, and after a get in between the adds are still adds.
func TestOneConnectionIsKept(t *testing.T) {
	var mu sync.Mutex
	from := make(map[string]bool)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		from[r.RemoteAddr] = true
		mu.Unlock()
		if r.Method == http.MethodGet {
			_, _ = w.Write(bytes.Repeat([]byte{'t'}, 8192))
			return
		}
		b, _ := io.ReadAll(r.Body)
		fmt.Fprint(w, len(b))
	}))
	defer s.Close()
	c := newClient(&Options{URL: s.URL})
	defer c.close()
	for range 3 {
		if n, _, err := c.add(make([]byte, 300)); err != nil || n != 300 {
			t.Fatalf("%d, %v", n, err)
		}
		if b, err := c.get("tile/0/000"); err != nil || len(b) != 8192 {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
	}
	if len(from) != 1 {
		t.Errorf("%d connections for one client", len(from))
	}
	c.used = time.Now().Add(-time.Minute) // as if nothing had been sent for long
	if _, _, err := c.add(make([]byte, 300)); err != nil || len(from) != 2 {
		t.Errorf("an idle connection is trusted: %d connections, %v", len(from), err)
	}
}

// TestALostAnswerIsAnError and the entry is not sent again: it may be in the log.
func TestALostAnswerIsAnError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	seen := make(chan string, 10)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 1000)
			n, _ := conn.Read(b)
			seen <- string(b[:n])
			conn.Close()
		}
	}()
	c := newClient(&Options{URL: "http://" + l.Addr().String()})
	if _, again, err := c.add([]byte("once")); err == nil || again != 0 {
		t.Errorf("%v, %v", again, err)
	}
	if got := <-seen; !strings.HasSuffix(got, "\r\nContent-Length: 4\r\n\r\nonce") || len(seen) != 0 {
		t.Errorf("%q, and %d more", got, len(seen))
	}
}
