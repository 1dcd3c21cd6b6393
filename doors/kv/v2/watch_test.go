package v2

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// long is a request that waits.
type long struct {
	t   testing.TB
	res *http.Response
	in  *bufio.Reader
}

// long begins a watch; it returns once the server has sent the head of its answer.
func (s *server) long(path string) *long {
	s.t.Helper()
	res, err := s.client.Get("http://" + s.addr + path)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != 200 {
		b, _ := io.ReadAll(res.Body)
		s.t.Fatalf("GET %s: %d %s", path, res.StatusCode, b)
	}
	return &long{s.t, res, bufio.NewReader(res.Body)}
}

// next reads one event.
func (l *long) next() string {
	l.t.Helper()
	timer := time.AfterFunc(wait.Limit(l.t), func() { l.res.Body.Close() })
	defer timer.Stop()
	line, err := l.in.ReadString('\n')
	if err != nil {
		l.t.Fatalf("no event: %v (read %q)", err, line)
	}
	return strings.TrimSpace(line)
}

func (l *long) want(part string) {
	l.t.Helper()
	if got := l.next(); !strings.Contains(got, part) {
		l.t.Errorf("event %s\nwant %s", got, part)
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	s.do("PUT /v2/keys/a/b value=1")
	for _, w := range []struct{ path, change, want string }{
		{"/a/b?wait=true", "PUT /v2/keys/a/b value=2", `{"action":"set","node":{"key":"/a/b","value":"2"`},
		{"/a?wait=true&recursive=true", "PUT /v2/keys/a/c value=2", `{"action":"set","node":{"key":"/a/c"`},
		{"/?wait=true&recursive=true", "PUT /v2/keys/a/_h/x value=2", ""},
		{"/a/_h?wait=true&recursive=true", "PUT /v2/keys/a/_h/x value=3", `"prevNode":{"key":"/a/_h/x","value":"2"`},
		{"/a?wait=true", "PUT /v2/keys/a/c value=3", ""},
		{"/a/c?wait=true", "PUT /v2/keys/a/c?prevExist=true&refresh=true&ttl=50", ""},
		{"/a/c?wait=true", "DELETE /v2/keys/a?recursive=true", `{"action":"delete","node":{"key":"/a","dir":true`},
	} {
		l := s.long("/v2/keys" + w.path)
		s.do(w.change)
		if w.want == "" {
			time.Sleep(20 * time.Millisecond)
			if n := s.handler.hub.waiting(); n != 1 {
				t.Errorf("%s heard of %s", w.path, w.change)
			}
			l.res.Body.Close()
			for s.handler.hub.waiting() != 0 {
				time.Sleep(time.Millisecond) // a client that leaves is noticed
			}
			continue
		}
		l.want(w.want)
		if rest, err := io.ReadAll(l.in); len(rest) > 0 || err != nil {
			t.Errorf("after the event: %q, %v", rest, err)
		}
	}
	// The history.
	s.want("GET /v2/keys/a/b?wait=true&waitIndex=4", `200 {"action":"set","node":{"key":"/a/b","value":"1","modifiedIndex":4,"createdIndex":4}}`)
	a := s.do("GET /v2/keys/a/b?wait=true&waitIndex=5")
	if !strings.Contains(a.body, `"value":"2"`) || a.header.Get("X-Etcd-Index") == "5" {
		t.Errorf("the event at 5: %v, %v", a, a.header)
	}
	// A directory that is gone is told to watches at all paths that begin with its name, as by etcd.
	s.do("PUT /v2/keys/h/1 value=1")
	gone := s.handler.machine.Index() + 1
	s.do("DELETE /v2/keys/h?recursive=true")
	for _, path := range []string{"/h/1", "/hi", "/hi/j"} {
		s.want(fmt.Sprintf("GET /v2/keys%s?wait=true&waitIndex=%d", path, gone), fmt.Sprintf(`200 {"action":"delete","node":{"key":"/h","dir":true,`+
			`"modifiedIndex":%d,"createdIndex":%d},"prevNode":{"key":"/h","dir":true,"modifiedIndex":%d,"createdIndex":%d}}`, gone, gone-1, gone-1, gone-1))
	}
	for i := range 1100 {
		s.do(fmt.Sprintf("PUT /v2/keys/x value=%d", i))
	}
	index := s.handler.machine.Index()
	s.want("GET /v2/keys/x?wait=true&waitIndex=7", fmt.Sprintf(`400 {"errorCode":401,"message":"The event in requested index is outdated and cleared",`+
		`"cause":"the requested history has been cleared [%d/7]","index":%d}`, index-999, index))
}

func TestStreamMissesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	s.do("PUT /v2/keys/s/0 value=first")
	early := s.long("/v2/keys/s?wait=true&recursive=true&stream=true")
	late := s.long("/v2/keys/s?wait=true&recursive=true&stream=true&waitIndex=4")
	var wg sync.WaitGroup
	for c := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 50 {
				s.do(fmt.Sprintf("PUT /v2/keys/s/%d value=%d", c, i))
			}
		}()
	}
	for i := range 200 {
		early.want(fmt.Sprintf(`"modifiedIndex":%d,`, 5+i))
	}
	for i := range 201 {
		late.want(fmt.Sprintf(`"modifiedIndex":%d,`, 4+i))
	}
	wg.Wait()
	s.do("DELETE /v2/keys/s/0")
	s.do("DELETE /v2/keys/s?recursive=true")
	early.want(`"key":"/s/0"`)
	early.want(`"key":"/s"`)
}

// TestStreamOfLargeEvents: those that are written by themselves and those that are put together arrive in order, over HTTP/1.1 and 1.0.
func TestStreamOfLargeEvents(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	sizes := []int{1, longestCopy, 2, 300_000, 3, longestCopy - 500, longestCopy + 1, 4}
	for i, n := range sizes {
		s.do(fmt.Sprintf("PUT /v2/keys/s/%d value=%s", i, strings.Repeat("x", n)))
	}
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(wait.Limit(t)))
	fmt.Fprintf(c, "GET /v2/keys/s?wait=true&recursive=true&stream=true&waitIndex=4 HTTP/1.0\r\n\r\n")
	old := bufio.NewReader(c)
	res, err := http.ReadResponse(old, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []*long{s.long("/v2/keys/s?wait=true&recursive=true&stream=true&waitIndex=4"), {t, res, bufio.NewReader(res.Body)}} {
		for i, n := range sizes {
			l.want(fmt.Sprintf(`"node":{"key":"/s/%d","value":"%s","modifiedIndex":%d,`, i, strings.Repeat("x", n), 4+i))
		}
	}
}

func TestManyWatchers(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{MaxWatchers: 500})
	var conns []net.Conn
	for i := range 500 {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET /v2/keys/k?wait=true HTTP/1.1\r\nHost: x\r\n\r\n")
		conns = append(conns, c)
		for s.handler.hub.waiting() != i+1 {
			time.Sleep(100 * time.Microsecond)
		}
	}
	s.want("GET /v2/keys/k?wait=true", `500 {"errorCode":300,"message":"Raft Internal Error","cause":"`+errTooManyWatchers.Error()+`","index":0}`)
	s.do("PUT /v2/keys/k value=v")
	for _, c := range conns {
		c.SetDeadline(time.Now().Add(wait.Limit(t)))
		in := bufio.NewReader(c)
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(res.Body); err != nil || !bytes.Contains(b, []byte(`"value":"v"`)) {
			t.Fatalf("%s, %v", b, err)
		}
		// The connection serves the next request.
		fmt.Fprintf(c, "GET /v2/keys/k HTTP/1.1\r\nHost: x\r\n\r\n")
		if res, err = http.ReadResponse(in, nil); err != nil || res.StatusCode != 200 {
			t.Fatalf("the next request: %v", err)
		}
	}
}

// A stream that asks for more of the history than a watch holds is refused, and pins nothing of it.
func TestRefusedStreamPinsNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	for i := range maxQueued + 10 {
		s.do(fmt.Sprintf("PUT /v2/keys/k value=%d", i))
	}
	if a := s.do("GET /v2/keys/k?wait=true&stream=true&waitIndex=4"); a.status != 500 {
		t.Errorf("a stream of all: %s", a)
	}
	if n := s.handler.hub.pinned.Load(); n != 0 {
		t.Errorf("%d bytes stay pinned", n)
	}
}

func TestWatchesThatAreAskedForAreCounted(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{})
	s.do("PUT /v2/keys/k value=v")
	for range 3 { // answered at once, from the history
		s.do("GET /v2/keys/k?wait=true&waitIndex=1")
	}
	if n := s.handler.machine.Stats().WatchRequests.Load(); n != 3 {
		t.Errorf("%d watches were asked for, want 3", n)
	}
}
