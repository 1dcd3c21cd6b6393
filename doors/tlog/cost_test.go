package tlog

import (
	"strings"
	"testing"

	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/internal/spent"
	"github.com/holdfastdb/holdfast/serve/ack"
)

// FuzzRequests: any request of a client is parsed at its price, and gets an answer.
func FuzzRequests(f *testing.F) {
	for _, path := range []string{"/checkpoint", "/tile/0/x001/x234/067.p/255", "/tile/entries/000", "/log/a/tile/3/000", "/proof/inclusion", "/x"} {
		for _, query := range []string{"", "index=1&size=9", "index=18446744073709551616", "hash=%zz", "from=1&size=2&from=3"} {
			f.Add(path, query, "bytes=0-9,20-")
		}
	}
	f.Fuzz(func(t *testing.T, path, query, ranges string) {
		if len(path)+len(query)+len(ranges) > 16<<10 { // the port's limit of a head
			return
		}
		spent.Within(t, "a request", len(path)+len(query)+len(ranges), func() {
			_, _ = values(query, "index", "size", "hash", "from", "proof")
			_, _ = number(path)
			_ = tlogpart.ValidName(path)
			_, _ = tiles.ParsePath(strings.TrimPrefix(path, "/"))
			_ = takesGzip(ranges)
			_ = matches(ranges, `"abc/tile/0/000"`)
			_, _ = ack.Dial{}.Session(ranges)
			whole := response{code: 200, body: make([]byte, 8192)}
			if a := whole.part(&request{method: "GET", bytes: ranges, ifRange: query}); a.code == 206 && (len(a.body) == 0 || len(a.body) > len(whole.body)) {
				t.Errorf("%q: %d bytes", ranges, len(a.body))
			}
		})
	})
}
