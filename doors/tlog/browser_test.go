package tlog

import (
	"net/http"
	"testing"
)

// Any page may read a log; adding is for programs, and for pages whose origin is allowed.
func TestPagesOfOtherSitesDoNotAdd(t *testing.T) {
	for name, c := range map[string]*http.Client{"http1": http1, "http2": http2} {
		t.Run(name, func(t *testing.T) {
			_, _, closed := open(t, Options{}, "default")
			_, _, allowing := open(t, Options{CORS: []string{"http://app.example"}}, "default")
			for _, q := range []struct {
				method, url, origin string
				want                int
			}{
				{"POST", closed + "/add", "", 200},
				{"POST", closed + "/add", "http://evil.example", 403},
				{"GET", closed + "/checkpoint", "http://evil.example", 200},
				{"HEAD", closed + "/checkpoint", "http://evil.example", 200},
				{"POST", allowing + "/add", "http://app.example", 200},
				{"POST", allowing + "/add", "http://evil.example", 403},
			} {
				var headers []string
				if q.origin != "" {
					headers = []string{"Origin", q.origin}
				}
				if res, b := call(t, c, q.method, q.url, nil, headers...); res.StatusCode != q.want {
					t.Errorf("%s %s from %q: %s %q, want %d", q.method, q.url, q.origin, res.Status, b, q.want)
				}
			}
		})
	}
}
