package outcall

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestWhatAnAnswerOverHTTPMeans(t *testing.T) {
	n := newNet(t, Options{Timeout: time.Minute})
	long := strings.Repeat("x", 2<<20)
	for _, c := range []struct {
		name    string
		status  int
		body    string
		outcome Outcome
		message string
	}{
		{"done", 200, `{"dtm_result":"SUCCESS"}`, OK, "SUCCESS"},
		{"done without a word", 200, "", OK, ""},
		{"created is not done", 201, "", Transient, "answered 201"},
		{"accepted is not done", 202, "", Transient, "answered 202"},
		{"no content is not done", 204, "", Transient, "answered 204"},
		{"a conflict is a failure", 409, "out of stock", Failure, "out of stock"},
		{"too early is ongoing", 425, "in a minute", Ongoing, "in a minute"},
		{"FAILURE in the body", 200, `{"dtm_result":"FAILURE"}`, Failure, "FAILURE"},
		{"ONGOING in the body", 200, `{"dtm_result":"ONGOING"}`, Ongoing, "ONGOING"},
		{"FAILURE in a server error", 500, "it is a FAILURE", Failure, "it is a FAILURE"},
		{"ONGOING in a server error", 500, "still ONGOING", Ongoing, "still ONGOING"},
		{"ONGOING goes before a conflict", 409, "ONGOING", Ongoing, "ONGOING"},
		{"both words", 200, "FAILURE or ONGOING", Ongoing, ""},
		{"words are upper case", 200, "failure, ongoing", OK, ""},
		{"a server error", 500, "no database", Transient, "answered 500: no database"},
		{"a server error without a word", 503, "", Transient, "answered 503"},
		{"not found", 404, "page not found", Transient, "answered 404: page not found"},
		{"unauthorized", 401, "", Transient, "answered 401"},
		{"a redirect to nowhere", 302, "", Transient, "answered 302"},
		{"not modified", 304, "", Transient, "answered 304"},
		{"a word behind what is kept", 200, long[:70_000] + "FAILURE" + long[:10], Failure, "xxx"},
		{"a word across the border", 200, long[:keptBody-3] + "FAILURE", Failure, "xxx"},
		{"a word across a later border", 200, long[:keptBody+8192-3] + "ONGOING" + long[:20_000], Ongoing, "xxx"},
		{"long and no word", 200, long[:500_000], OK, "xxx"},
		{"as long as what is kept", 200, long[:keptBody], OK, "xxx"},
		{"two megabytes", 200, long, OK, "xxx"},
		{"two megabytes of a server error", 500, long, Transient, "answered 500: xxx"},
		{"two megabytes of a conflict", 409, long, Failure, "xxx"},
		{"a word behind two megabytes", 200, long + "FAILURE", Failure, "xxx"},
		{"a word within four megabytes", 200, long + "ONGOING" + long, Ongoing, "xxx"},
		{"too long to be read", 200, strings.Repeat("x", maxScan+1<<20), Transient, "more than 64 MiB"},
		{"a word far behind it", 200, long[:1_000_000] + "FAILURE", Failure, "xxx"},
		{"a message that is cut in a letter", 409, "x" + strings.Repeat("é", 600), Failure, "éé"},
		{"a message that is cut between letters", 409, strings.Repeat("é", 600) + "x", Failure, "éé"},
		{"a message that is no text", 409, "\xff\xfe", Failure, "\uFFFD"},
		{"a long message that is no text", 409, strings.Repeat("a\xff", 1000), Failure, "a\uFFFDa"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
			})
			r := do(t, n, &Request{URL: s.URL + "/pay"})
			want(t, r, c.outcome, c.message)
			if c.outcome == Transient && !strings.Contains(r.Message, s.URL) {
				t.Errorf("the message does not name the service: %q", r.Message)
			}
			if r.Elapsed <= 0 || r.Elapsed > 5*time.Second {
				t.Errorf("elapsed %v", r.Elapsed)
			}
		})
	}
}

// request is what a service saw.
type request struct {
	method, uri, host, body string
	header                  http.Header
	length                  int64
}

func recorder(t *testing.T) (*request, string) {
	var seen request
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = request{r.Method, r.RequestURI, r.Host, string(body), r.Header, r.ContentLength}
	})
	return &seen, s.URL
}

func TestACallSaysWhatItIsOf(t *testing.T) {
	seen, base := recorder(t)
	n := newNet(t, Options{})
	for _, c := range []struct{ url, uri string }{
		{"/pay", "/pay?branch_id=01&gid=g+1%2F%26&op=action&trans_type=saga"},
		{"", "/?branch_id=01&gid=g+1%2F%26&op=action&trans_type=saga"},
		{"/pay?to=7&gid=mine", "/pay?to=7&gid=mine&branch_id=01&gid=g+1%2F%26&op=action&trans_type=saga"},
		{"/pay?", "/pay?branch_id=01&gid=g+1%2F%26&op=action&trans_type=saga"},
		{"/a%2Fb?", "/a%2Fb?branch_id=01&gid=g+1%2F%26&op=action&trans_type=saga"},
		{"/ü x?q=ü x%20#part", "/%C3%BC%20x?q=%C3%BC%20x%20&branch_id=01&gid=g+1%2F%26&op=action&trans_type=saga"},
		{"?q", "/?q&branch_id=01&gid=g+1%2F%26&op=action&trans_type=saga"},
	} {
		want(t, do(t, n, &Request{URL: base + c.url, Gid: "g 1/&", Mode: "saga", BranchID: "01", Op: "action"}), OK, "")
		if seen.uri != c.uri {
			t.Errorf("%q was called as %q, want %q", c.url, seen.uri, c.uri)
		}
	}
	if seen.method != "GET" || seen.body != "" || seen.length != 0 || "http://"+seen.host != base {
		t.Errorf("without a payload: %+v", seen)
	}
	if want(t, do(t, n, &Request{URL: base + "/alert?token=7"}), OK, ""); seen.uri != "/alert?token=7" {
		t.Errorf("a call that is of no transaction: %q", seen.uri)
	}
}

func TestWithAPayloadOrForXAItIsAPOST(t *testing.T) {
	seen, base := recorder(t)
	n := newNet(t, Options{})
	want(t, do(t, n, &Request{URL: base, Payload: []byte(`{"amount":30}`)}), OK, "")
	if seen.method != "POST" || seen.body != `{"amount":30}` || seen.header.Get("Content-Type") != "application/json" {
		t.Errorf("with a payload: %+v", seen)
	}
	want(t, do(t, n, &Request{URL: base, Post: true}), OK, "")
	if seen.method != "POST" || seen.body != "" || seen.length != 0 {
		t.Errorf("for xa: %+v", seen)
	}
	large := strings.Repeat("0123456789", 300_000)
	want(t, do(t, n, &Request{URL: base, Payload: []byte(large)}), OK, "")
	if seen.body != large {
		t.Errorf("of %d bytes of payload %d came", len(large), len(seen.body))
	}
}

func TestHeadersGoOutWithACall(t *testing.T) {
	seen, base := recorder(t)
	n := newNet(t, Options{})
	headers := []Header{{"X-Trace", "7"}, {"Authorization", "Bearer 1"}, {"content-type", "application/x"}, {"Host", "elsewhere"},
		{"Content-Length", "1"}, {"Transfer-Encoding", "chunked"}, {"Connection", "close"}, {"Expect", "100-continue"}}
	want(t, do(t, n, &Request{URL: base, Headers: headers, Payload: []byte("{}")}), OK, "")
	h := seen.header
	if h.Get("X-Trace") != "7" || h.Get("Authorization") != "Bearer 1" || h.Get("Content-Type") != "application/x" || len(h.Values("Content-Type")) != 1 {
		t.Errorf("headers: %v", h)
	}
	if "http://"+seen.host != base || seen.length != 2 || seen.body != "{}" || h.Get("Connection") != "" || h.Get("Expect") != "" {
		t.Errorf("a header framed the message: %+v", seen)
	}
	for _, bad := range []Header{{"X\r\nY", "1"}, {"", "1"}, {"X Y", "1"}, {"X:", "1"}, {"X", "1\r\nY: 2"}, {"X", "1\n"}, {"X", "\x00"}} {
		want(t, do(t, n, &Request{URL: base, Headers: []Header{bad}}), Refused, "header")
	}
	user := strings.Replace(base, "http://", "http://me:secret@", 1)
	want(t, do(t, n, &Request{URL: user}), OK, "")
	if seen.header.Get("Authorization") != "Basic bWU6c2VjcmV0" {
		t.Errorf("a name and password in the URL: %v", seen.header)
	}
}

func TestAnEmptyURLIsDoneAtOnce(t *testing.T) {
	want(t, do(t, newNet(t, Options{}), &Request{Payload: []byte("{}")}), OK, "")
}

func TestConnectionsAreKept(t *testing.T) {
	var conns atomic.Int64
	s := listen(t, func(c net.Conn, _ int) {
		conns.Add(1)
		for r := bufio.NewReader(c); ; {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			io.WriteString(c, benchAnswer)
		}
	})
	n := newNet(t, Options{})
	for range 50 {
		want(t, do(t, n, &Request{URL: s.URL()}), OK, "SUCCESS")
	}
	if s.accepted() != 1 {
		t.Errorf("50 calls, one after another, made %d connections", s.accepted())
	}
}

func TestAnswersInEveryForm(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	io.WriteString(z, "it is a FAILURE")
	z.Close()
	n := newNet(t, Options{Timeout: time.Minute})
	endless := strings.Repeat("x", 64<<10)
	for _, c := range []struct {
		name, answer string // an answer that ends in … goes on without end
		outcome      Outcome
		message      string
		reused       bool
	}{
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nFAI\r\n4\r\nLURE\r\n0\r\n\r\n", Failure, "FAILURE", true},
		{"chunked with a trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nA: b\r\n\r\n", OK, "ok", true},
		{"until the end", "HTTP/1.1 200 OK\r\n\r\nit is a FAILURE", Failure, "FAILURE", false},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", OK, "ok", false},
		{"close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", OK, "ok", false},
		{"1xx before it", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", OK, "ok", true},
		{"nothing but 1xx", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 100), Transient, "answered 100", false},
		{"another protocol", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", Transient, "answered 101", false},
		{"gzip", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: " + fmt.Sprint(zipped.Len()) + "\r\n\r\n" + zipped.String(), Failure, "it is a FAILURE", false},
		{"gzip that is none", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 12\r\n\r\n123456789012", Transient, "gzip", false},
		{"an unknown encoding", "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\nok", Transient, `"br"`, true},
		{"half of it", "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok", Transient, "middle", false},
		{"half of a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nok", Transient, "middle", false},
		{"half of a conflict", "HTTP/1.1 409 Conflict\r\nContent-Length: 20\r\n\r\nok", Transient, "middle", false},
		{"more than it says", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n", OK, "ok", false},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokk", Transient, "Content-Length", false},
		{"no HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n", Transient, "malformed", false},
		{"nothing", "", Transient, "", false},
		{"a body without end", "HTTP/1.1 200 OK\r\n\r\n" + endless + "…", Transient, "more than 64 MiB", false},
		{"chunks without end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + "10000\r\n" + endless + "\r\n…", Transient, "", false},
		{"a head without end", "HTTP/1.1 200 OK\r\nA: " + endless + "…", Transient, "longer than", false},
		{"headers without end", "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 10_000) + "…", Transient, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int64
			s := listen(t, func(conn net.Conn, _ int) {
				text, goesOn := strings.CutSuffix(c.answer, "…")
				for r := bufio.NewReader(conn); ; {
					if _, err := http.ReadRequest(r); err != nil {
						return
					}
					io.WriteString(conn, text)
					for goesOn {
						n, err := io.WriteString(conn, text[len(text)-6000:])
						sent.Add(int64(n))
						if err != nil {
							return
						}
					}
					if !c.reused {
						return
					}
				}
			})
			r := do(t, n, &Request{URL: s.URL()})
			want(t, r, c.outcome, c.message)
			do(t, n, &Request{URL: s.URL()})
			if conns := 2; s.accepted() != conns && !c.reused || s.accepted() != 1 && c.reused {
				t.Errorf("two calls made %d connections, reused should be %v", s.accepted(), c.reused)
			}
			if sent.Load() > 3*maxScan {
				t.Errorf("%d MiB were taken of an answer without end", sent.Load()>>20)
			}
		})
	}
}

func TestACallOnAConnectionThatWasClosedIsMadeAgain(t *testing.T) {
	// Each connection serves one call as if it would serve more.
	s := listen(t, func(c net.Conn, _ int) {
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, benchAnswer)
	})
	n := newNet(t, Options{})
	for range 20 {
		want(t, do(t, n, &Request{URL: s.URL(), Payload: []byte("{}")}), OK, "SUCCESS")
	}
	if s.accepted() != 20 {
		t.Errorf("%d connections for 20 calls", s.accepted())
	}
}

func TestAnAnswerNobodyAskedForIsNotTakenForTheNext(t *testing.T) {
	answered, more := make(chan bool), make(chan bool)
	s := listen(t, func(c net.Conn, number int) {
		r := bufio.NewReader(c)
		http.ReadRequest(r)
		io.WriteString(c, benchAnswer)
		if number == 1 {
			<-answered
			io.WriteString(c, "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
			more <- true
		}
		http.ReadRequest(r)
	})
	n := newNet(t, Options{})
	want(t, do(t, n, &Request{URL: s.URL()}), OK, "SUCCESS")
	answered <- true
	<-more
	want(t, do(t, n, &Request{URL: s.URL()}), OK, "SUCCESS")
}

func TestAConnectionWithMoreOnItIsNotKept(t *testing.T) {
	s := listen(t, func(c net.Conn, _ int) {
		for r := bufio.NewReader(c); ; {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			io.WriteString(c, benchAnswer+"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n")
		}
	})
	n := newNet(t, Options{})
	for range 3 {
		want(t, do(t, n, &Request{URL: s.URL()}), OK, "SUCCESS")
	}
	if s.accepted() != 3 {
		t.Errorf("%d connections for 3 calls", s.accepted())
	}
}

func TestANewConnectionThatBreaksIsNotTriedAgain(t *testing.T) {
	s := listen(t, func(c net.Conn, _ int) { http.ReadRequest(bufio.NewReader(c)) })
	want(t, do(t, newNet(t, Options{}), &Request{URL: s.URL()}), Transient, "EOF")
	if s.accepted() != 1 {
		t.Errorf("a call that may have been served was made %d times", s.accepted())
	}
}

func TestAServiceThatAnswersBeforeItHasReadEverythingIsHeard(t *testing.T) {
	s := listen(t, func(c net.Conn, _ int) {
		c.Read(make([]byte, 10))
		io.WriteString(c, "HTTP/1.1 409 Conflict\r\nContent-Length: 9\r\nConnection: close\r\n\r\ntoo large")
		c.(*net.TCPConn).CloseWrite()
		io.CopyN(io.Discard, c, 1<<20)
	})
	r := do(t, newNet(t, Options{}), &Request{URL: s.URL(), Payload: bytes.Repeat([]byte("x"), 4<<20)})
	if r.Outcome != Failure && !strings.Contains(r.Message, "reset") { // the reset may overtake the answer
		t.Errorf("%+v", r)
	}
}

func TestATimeoutEndsACall(t *testing.T) {
	s := serve(t, hang)
	n := newNet(t, Options{Timeout: 50 * time.Millisecond})
	r := do(t, n, &Request{URL: s.URL})
	want(t, r, Transient, "no answer in time (50ms)")
	if r.Elapsed < 50*time.Millisecond {
		t.Errorf("it took %v", r.Elapsed)
	}
	want(t, do(t, n, &Request{URL: s.URL, Timeout: 80 * time.Millisecond}), Transient, "(80ms)")
	drip := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			io.WriteString(w, "x")
			w.(http.Flusher).Flush()
			time.Sleep(5 * time.Millisecond)
		}
	})
	if r := do(t, n, &Request{URL: drip.URL}); r.Outcome != Transient {
		t.Errorf("an answer that comes drop by drop: %+v", r)
	}
}

func TestCancelEndsACall(t *testing.T) {
	reached := make(chan bool, 10)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { reached <- true; hang(w, r) })
	n := newNet(t, Options{Timeout: time.Minute, PerEndpoint: 1})
	first, second := start(n, &Request{URL: s.URL}), start(n, &Request{URL: s.URL})
	<-reached
	second.cancel() // it waits for its place
	want(t, result(t, second), Transient, "cancelled before it was sent")
	first.cancel()
	first.cancel()
	want(t, result(t, first), Transient, "cancelled")
	first.cancel()
	lookup := &Request{URL: "http://nobody.test"}
	n.o.Lookup = hangingLookup
	third := start(n, lookup)
	third.cancel()
	want(t, result(t, third), Transient, "cancelled")
	if running := n.Meter().Running.Load(); running != 0 {
		t.Errorf("%d calls are under way", running)
	}
}

func TestNoServiceAtAll(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	l.Close()
	n := newNet(t, Options{})
	want(t, do(t, n, &Request{URL: url}), Transient, "refused")
	n.o.Lookup = names(nil)
	want(t, do(t, n, &Request{URL: "http://nobody.test/"}), Transient, "resolve nobody.test")
}

func TestCloseEndsEveryCall(t *testing.T) {
	reached := make(chan bool, 10)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { reached <- true; hang(w, r) })
	n := New(Options{Timeout: time.Minute, PerEndpoint: 1})
	first, second := start(n, &Request{URL: s.URL}), start(n, &Request{URL: s.URL})
	<-reached
	n.Close()
	want(t, result(t, first), Transient, "cancelled")
	want(t, result(t, second), Transient, "cancelled")
	want(t, do(t, n, &Request{URL: s.URL}), Transient, "stopping")
	n.Close()
}
