package tlog

import (
	"testing"

	"github.com/holdfastdb/holdfast/internal/spent"
)

// FuzzRequests: whatever a client names is taken apart at its price, and is nothing but an answer.
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
			_ = takesGzip(ranges)
		})
	})
}
