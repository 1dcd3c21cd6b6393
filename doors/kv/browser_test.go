package kv_test

import (
	"net/http"
	"strings"
	"testing"

	doorkv "github.com/holdfastdb/holdfast/doors/kv"
	"github.com/valyala/fasthttp"
)

// A page of another site may not write through the gateway or v2, nor read under a name that it made resolve to loopback. A program may,
// and a page whose origin is allowed.
func TestPagesOfOtherSitesDoNotWrite(t *testing.T) {
	t.Parallel()
	v2 := func(ctx *fasthttp.RequestCtx) { ctx.SetStatusCode(200) }
	closed, open := serve(t, doorkv.Options{V2: v2}), serve(t, doorkv.Options{V2: v2, CORS: []string{"http://app.example"}})
	for _, c := range []struct {
		name, method, path, host, origin string
		at                               *server
		want                             int
	}{
		{"a program", "POST", "/v3/kv/put", "", "", closed, 200},
		{"another site's page", "POST", "/v3/kv/put", "", "http://evil.example", closed, 403},
		{"another site's page on v2", "PUT", "/v2/keys/a", "", "http://evil.example", closed, 403},
		{"a program on v2", "PUT", "/v2/keys/a", "", "", closed, 200},
		{"another name", "POST", "/v3/kv/range", "evil.example:2379", "", closed, 403},
		{"another name on v2", "GET", "/v2/keys/a", "evil.example:2379", "", closed, 403},
		{"another name, and its own origin", "POST", "/v3/kv/put", "evil.example:2379", "http://evil.example:2379", closed, 403},
		{"localhost", "POST", "/v3/kv/put", "localhost:2379", "", closed, 200},
		{"a probe under another name", "GET", "/health", "probe.example", "", closed, 200},
		{"an allowed origin", "POST", "/v3/kv/put", "", "http://app.example", open, 200},
		{"another beside it", "POST", "/v3/kv/put", "", "http://evil.example", open, 403},
	} {
		req, err := http.NewRequest(c.method, "http://"+c.at.addr+c.path, strings.NewReader(`{"key":"YQ=="}`))
		if err != nil {
			t.Fatal(err)
		}
		if c.method == "GET" {
			req.Body = nil
			req.ContentLength = 0
		}
		req.Host = c.host
		if c.origin != "" {
			req.Header.Set("Origin", c.origin)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != c.want {
			t.Errorf("%s: %s, want %d", c.name, res.Status, c.want)
		}
	}
}
