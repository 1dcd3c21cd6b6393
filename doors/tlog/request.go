package tlog

import (
	"net/url"
	"strings"

	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
)

// request is a client's request over any version of HTTP. Its memory belongs to the request it was read from.
type request struct {
	method  string
	path    string // as sent: no path of a log needs escaping
	query   string
	body    []byte
	gzip    bool   // the client takes gzip
	match   string // If-None-Match
	bytes   string // Range
	ifRange string // If-Range
	auth    string // Authorization, of a POST
	ack     string // Holdfast-Ack
	shown   *tlogmachine.Checkpoint
	refusal string // why a page in a browser is not answered; "": it is
}

// response is its answer.
type response struct {
	code        int
	contentType string
	cache       string // Cache-Control
	etag        string
	allow       string // of a 405 or a preflight
	// contentRange is which bytes of how many body is, of a 206 and a 416; ranges: some may be asked for.
	contentRange string
	ranges       bool
	bearer       bool // of a 401
	retryAfter   bool
	gzipped      bool
	vary         bool // another client might get it compressed, or not
	body         []byte
}

const (
	typeText  = "text/plain; charset=utf-8"
	typeBytes = "application/octet-stream"
	typeProof = "application/vnd.c2sp.tlog-proof"
	typeJSON  = "application/json"

	cacheForever = "max-age=31536000, immutable"
	cacheNever   = "no-store"
	cacheAsk     = "no-cache" // kept, and asked for again with its ETag
)

// fail is an answer that is a sentence.
func fail(code int, text string) response {
	return response{code: code, contentType: typeText, cache: cacheNever, body: []byte(text + "\n")}
}

// later is a 503: the request has provably had no effect and may be sent again.
func later(text string) response {
	a := fail(503, text)
	a.retryAfter = true
	return a
}

// serve answers a request.
func (d *Door) serve(r *request) response {
	if r.refusal != "" {
		return fail(403, r.refusal)
	}
	if d.opts.GetOnly && r.method != "GET" && r.method != "HEAD" {
		a := fail(405, "this address is for reading")
		a.allow = "GET, HEAD"
		return a
	}
	name, path := DefaultLog, strings.TrimPrefix(r.path, "/")
	if rest, ok := strings.CutPrefix(path, "logs/"); ok {
		name, path, ok = strings.Cut(rest, "/")
		if !ok || !tlogpart.ValidName(name) {
			return fail(404, "no such log")
		}
	}
	session, err := d.opts.Ack.Session(r.ack)
	if err != nil {
		return fail(400, err.Error())
	}
	l := d.logs.Find(name)
	if path == "add" && !d.opts.GetOnly {
		return d.add(l, name, r, session.Waits())
	}
	switch r.method {
	case "GET", "HEAD":
	case "OPTIONS":
		return response{code: 204, cache: cacheNever, allow: "GET, HEAD, OPTIONS"}
	default:
		a := fail(405, "read with GET, add with POST /add")
		a.allow = "GET, HEAD, OPTIONS"
		return a
	}
	a := d.read(l, path, r)
	if session.Waits() {
		a = d.archivedRead(l, r, a)
	}
	return a
}

// read answers a GET or HEAD of a path below a log.
func (d *Door) read(l *tlogmachine.Log, path string, r *request) response {
	if l == nil {
		return fail(404, "no such log")
	}
	if l.Checkpoint() == nil {
		return fail(404, "the log has no checkpoint yet")
	}
	if r.shown = d.shown(l); r.shown == nil {
		return later("it is not known yet which checkpoint is published")
	}
	switch {
	case path == "checkpoint":
		return checkpoint(r)
	case strings.HasPrefix(path, "tile/"):
		return d.tile(l, path, r)
	case path == "proof/inclusion":
		return inclusion(l, r)
	case path == "proof/consistency":
		return consistency(l, r)
	case path == "lookup":
		return lookup(l, r)
	}
	return fail(404, "no such path")
}

// shown is the checkpoint that readers of a log get.
func (d *Door) shown(l *tlogmachine.Log) *tlogmachine.Checkpoint {
	if d.opts.Shown == nil {
		return l.Checkpoint()
	}
	return d.opts.Shown(l)
}

// values reads a query that must have only the given parameters, each at most once. ok is false otherwise.
func values(query string, known ...string) (v map[string]string, ok bool) {
	q, err := url.ParseQuery(query)
	if err != nil {
		return nil, false
	}
	v = map[string]string{}
	for _, k := range known {
		switch vs := q[k]; len(vs) {
		case 0:
		case 1:
			v[k] = vs[0]
		default:
			return nil, false
		}
		delete(q, k)
	}
	return v, len(q) == 0
}
