package tlog

import (
	"fmt"
	"strconv"
	"strings"

	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
)

// A tile or bundle never changes, so its path suffices as an ETag, behind a number for the log. The number is there because a log that is
// begun anew has the same paths.
func immutableTag(l *tlogmachine.Log, path string) string {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a, 64 bits (RFC 9923)
	h := uint64(offset)
	for _, c := range l.Spec.Key.Key {
		h = (h ^ uint64(c)) * prime
	}
	for _, c := range []byte(l.Spec.Key.Name) {
		h = (h ^ uint64(c)) * prime
	}
	return `"` + strconv.FormatUint(h, 36) + "/" + path + `"`
}

// gzipTag is the ETag of the same thing compressed: it has other bytes.
func gzipTag(tag string) string { return tag[:len(tag)-1] + `;gzip"` }

// matches reports whether an If-None-Match header names tag (RFC 9110, section 13.1.2). No tag of ours has a comma or a quote in it.
func matches(header, tag string) bool {
	return header == "*" || header != "" && strings.Contains(header, tag)
}

// part is a with only the bytes that a Range header asks for (RFC 9110, section 14). A header that is malformed, names several ranges or another unit,
// or whose If-Range is another state's, is passed over, as it may be.
func (a response) part(r *request) response {
	spec, ok := strings.CutPrefix(r.bytes, "bytes=")
	if !ok || a.code != 200 || r.method != "GET" || r.ifRange != "" && r.ifRange != a.etag {
		return a
	}
	from, to, ok := strings.Cut(strings.TrimSpace(spec), "-")
	if !ok {
		return a
	}
	size := uint64(len(a.body))
	first, last := uint64(0), size-1
	switch n, numbered := number(to); {
	case from == "" && numbered: // so many from the end
		if n == 0 {
			return unsatisfiable(size)
		}
		first = size - min(n, size)
	case numbered:
		last = min(n, last)
		fallthrough
	case to == "":
		if first, ok = number(from); !ok || numbered && n < first {
			return a
		}
	default:
		return a
	}
	if first >= size {
		return unsatisfiable(size)
	}
	a.code, a.body = 206, a.body[first:last+1]
	a.contentRange = fmt.Sprintf("bytes %d-%d/%d", first, last, size)
	return a
}

func unsatisfiable(size uint64) response {
	a := fail(416, "it has "+strconv.FormatUint(size, 10)+" bytes")
	a.contentRange = "bytes */" + strconv.FormatUint(size, 10)
	return a
}
