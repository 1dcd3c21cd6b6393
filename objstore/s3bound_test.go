package objstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// listPage writes a page of a list.
func listPage(w http.ResponseWriter, token string, keys ...string) {
	var b strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&b, "<Contents><Key>%s</Key><Size>1</Size><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>", k)
	}
	w.Header().Set("Content-Type", "application/xml")
	fmt.Fprintf(w, "<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>%t</IsTruncated><NextContinuationToken>%s</NextContinuationToken>%s</ListBucketResult>",
		token != "", token, &b)
}

// hostileLists are servers whose lists have no end, or are of something else.
var hostileLists = map[string]func(n int64, w http.ResponseWriter, r *http.Request){
	"empty pages":            func(n int64, w http.ResponseWriter, _ *http.Request) { listPage(w, fmt.Sprint(n)) },
	"empty pages, one token": func(_ int64, w http.ResponseWriter, _ *http.Request) { listPage(w, "t") },
	"one page again and again": func(_ int64, w http.ResponseWriter, _ *http.Request) {
		listPage(w, "t", "below/a", "below/b")
	},
	"one page of what is passed over": func(_ int64, w http.ResponseWriter, _ *http.Request) {
		listPage(w, "t", "below/0", "below/1")
	},
	"keys of others":        func(_ int64, w http.ResponseWriter, _ *http.Request) { listPage(w, "", "below/a", "other/b") },
	"keys above the prefix": func(_ int64, w http.ResponseWriter, _ *http.Request) { listPage(w, "", "../../etc/passwd") },
	"a page without an end": func(_ int64, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		fmt.Fprint(w, "<?xml version=\"1.0\"?><ListBucketResult>")
		// Long keys: the bound is in bytes, and the time that the client takes for them is in elements.
		floods(w, r, "<Contents><Key>below/"+strings.Repeat("a", 1000)+"</Key></Contents>")
	},
	"an error without an end": func(_ int64, w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		floods(w, r, "no")
	},
	"truncated without a token": func(_ int64, w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>")
	},
}

// floods writes until the reader stops.
func floods(w http.ResponseWriter, r *http.Request, text string) {
	text = strings.Repeat(text, 1000)
	for r.Context().Err() == nil {
		if _, err := fmt.Fprint(w, text); err != nil {
			return
		}
	}
}

// TestAListWithoutAnEndIsAnError, of one line and soon, and what lies outside the prefix is neither listed nor removed.
func TestAListWithoutAnEndIsAnError(t *testing.T) {
	for name, answer := range hostileLists {
		t.Run(name, func(t *testing.T) {
			var n, removed atomic.Int64
			s, err := Open(serveS3Behind(t, func(http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch {
					case isList(r):
						answer(n.Add(1), w, r)
					case r.Method == http.MethodDelete || r.Method == http.MethodPost:
						removed.Add(1)
						fmt.Fprint(w, "<?xml version=\"1.0\"?><DeleteResult></DeleteResult>")
					default:
						http.NotFound(w, r)
					}
				})
			}, "bucket") + "/below")
			do(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), wait.Limit(t))
			defer cancel()
			for _, after := range []string{"", "5"} {
				names := 0
				var end error
				for l, err := range s.List(ctx, "", after) {
					if end = err; err == nil && (names > 1000 || strings.HasPrefix(l.Name, "..")) {
						t.Fatalf("%d names, the last is %s", names, l.Name)
					}
					names++
				}
				if end == nil || strings.Contains(end.Error(), "\n") || ctx.Err() != nil || len(end.Error()) > 2000 {
					t.Errorf("after %q: %.300v", after, end)
				}
			}
			if strings.HasPrefix(name, "keys") {
				if err := s.DeleteAll(ctx, "probe"); err == nil || removed.Load() != 0 {
					t.Errorf("%d removals: %v", removed.Load(), err)
				}
			}
		})
	}
}

// TestAListOfTooManyNamesEnds: names in order without an end are an error as well.
func TestAListOfTooManyNamesEnds(t *testing.T) {
	_, p := withPages(t.Context())
	for i := range 10 {
		do(t, p.take(fmt.Sprint(i), 10))
	}
	if err := p.take("a", 10); !Final(err) {
		t.Errorf("%v", err)
	}
}

// TestEmptyPagesAreNoEnd: a bucket with many removed versions gives some.
func TestEmptyPagesAreNoEnd(t *testing.T) {
	var n atomic.Int64
	s, err := Open(serveS3Behind(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			switch n := n.Add(1); {
			case n%700 != 0:
				listPage(w, fmt.Sprint(n))
			case n < 2000:
				listPage(w, fmt.Sprint(n), fmt.Sprintf("o%04d", n))
			default:
				listPage(w, "", "z")
			}
		})
	}, "bucket"))
	do(t, err)
	if found, err := list(s, "", ""); err != nil || strings.Join(found, " ") != "o0700:1 o1400:1 z:1" {
		t.Errorf("%q, %v", found, err)
	}
}

// TestAnObjectWithoutAnEndIsBounded: no reader of a whole object takes more than it said.
func TestAnObjectWithoutAnEndIsBounded(t *testing.T) {
	var sent atomic.Int64
	s, err := Open(serveS3Behind(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"x"`)
			w.Header().Set("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
			for r.Context().Err() == nil {
				n, err := fmt.Fprint(w, strings.Repeat("x", 1<<16))
				if sent.Add(int64(n)); err != nil {
					return
				}
			}
		})
	}, "bucket"))
	do(t, err)
	if _, err := s.Get(t.Context(), "o"); !errors.Is(err, ErrTooLarge) || !Final(err) {
		t.Errorf("get: %v", err)
	}
	sent.Store(0)
	if _, err := GetMost(t.Context(), s, "o", 1000); !errors.Is(err, ErrTooLarge) || sent.Load() > 16<<20 {
		t.Errorf("get of 1,000 bytes at most: %v after %d", err, sent.Load())
	}
}
