package kv_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/valyala/fasthttp"

	doorkv "github.com/holdfastdb/holdfast/doors/kv"
	kvv2 "github.com/holdfastdb/holdfast/doors/kv/v2"
)

// TestEveryAnswerAllowsThePagesThatMayAsk: for every source of an answer, whole, as a stream, or long after the request.
func TestEveryAnswerAllowsThePagesThatMayAsk(t *testing.T) {
	t.Parallel()
	var handler atomic.Pointer[kvv2.Handler]
	s := serve(t, doorkv.Options{CORS: []string{"http://ui.example"}, V2: func(ctx *fasthttp.RequestCtx) { handler.Load().Handle(ctx) }})
	h := kvv2.New(s.node, s.v2, kvv2.Options{Resume: s.door.Resume})
	t.Cleanup(h.Close)
	handler.Store(h)
	ask := func(method, path, body, origin string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.addr+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if origin != "" {
			req.Header.Set("Origin", origin)
		}
		if strings.HasPrefix(path, "/v2/") && body != "" {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return res
	}
	for _, c := range []struct {
		name, method, path, body string
		line                     bool // it is read up to the end of the line that a put brings
	}{
		{"a v2 read", "GET", "/v2/keys/a", "", false},
		{"a v2 write", "PUT", "/v2/keys/a", "value=1", false},
		{"a v2 watch that waits", "GET", "/v2/keys/w?wait=true", "", true},
		{"a v2 watch that goes on", "GET", "/v2/keys/w?wait=true&stream=true", "", true},
		{"a v2 watch of the past", "GET", "/v2/keys/a?wait=true&waitIndex=1", "", false},
		{"a v2 error", "GET", "/v2/keys/none", "", false},
		{"a v2 path that is none", "GET", "/v2/none", "", false},
		{"a range", "POST", "/v3/kv/range", `{"key":"YQ=="}`, false},
		{"a watch", "POST", "/v3/watch", `{"create_request":{"key":"dw=="}}`, true},
		{"an error of the gateway", "POST", "/v3/kv/put", `{`, false},
		{"health", "GET", "/health", "", false},
		{"version", "GET", "/version", "", false},
		{"a preflight", "OPTIONS", "/v3/kv/range", "", false},
	} {
		for _, origin := range []string{"http://ui.example", ""} {
			res := ask(c.method, c.path, c.body, origin)
			allowed, methods := res.Header.Get("Access-Control-Allow-Origin"), res.Header.Get("Access-Control-Allow-Methods")
			if allowed != origin || (methods != "") != (origin != "") || len(res.Header.Values("Content-Type")) > 1 {
				t.Errorf("%s to %q: %v", c.name, origin, res.Header)
			}
			if c.line {
				ask("PUT", "/v2/keys/w", "value=1", "").Body.Close()
				if line, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil {
					t.Errorf("%s: %q, %v", c.name, line, err)
				}
			} else if _, err := io.ReadAll(res.Body); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			res.Body.Close()
		}
	}
}
