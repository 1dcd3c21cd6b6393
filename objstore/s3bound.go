package objstore

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

const (
	// maxAnswer is how many bytes of an answer are read that is no object: a page of a thousand names has 4 MB at most.
	maxAnswer = 16 << 20
	// maxIdlePages is how many pages of a list may come in a row without a new name. S3 gives empty pages where many versions were removed.
	maxIdlePages = 1000
	// maxListed is how many names one list has at most.
	maxListed = 1 << 28
)

// bounded keeps a server that is broken or hostile from answering without end. An object itself is bounded by its reader.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if p, ok := r.Context().Value(pagesKey{}).(*pages); ok && isList(r) {
		if p.idle++; p.idle > maxIdlePages {
			return nil, lasting{fmt.Errorf("the store's list has no end: %d pages in a row without a new name", maxIdlePages)}
		}
	}
	res, err := b.RoundTripper.RoundTrip(r)
	if err != nil || r.Method == http.MethodGet && r.URL.RawQuery == "" && res.StatusCode < 300 {
		return res, err
	}
	res.Body = &answer{ReadCloser: res.Body, left: maxAnswer}
	return res, nil
}

func isList(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Query().Has("list-type")
}

// answer is the body of an answer that must end.
type answer struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	if a.left <= 0 {
		return 0, lasting{fmt.Errorf("the store's answer has no end: more than %d bytes", maxAnswer)}
	}
	n, err := a.ReadCloser.Read(p[:min(int64(len(p)), a.left)])
	a.left -= int64(n)
	return n, err
}

type pagesKey struct{}

// pages is how far a list has come. Its fields belong to the goroutine that runs it, which makes the requests as well.
type pages struct {
	last  string // name
	begun bool
	idle  int // pages since the last new name
	names int64
}

// withPages gives a list's requests its account.
func withPages(ctx context.Context) (context.Context, *pages) {
	p := &pages{}
	return context.WithValue(ctx, pagesKey{}, p), p
}

// take judges the next name of a list: an error if it is out of order, or if the list has no end.
func (p *pages) take(name string, most int64) error {
	if p.begun && name <= p.last {
		return fmt.Errorf("the store gives %s after %s: it does not list in the order of names", name, p.last)
	}
	if p.names++; p.names > most {
		return lasting{fmt.Errorf("the store's list has no end: more than %d names", most)}
	}
	p.begun, p.last, p.idle = true, name, 0
	return nil
}
