package main

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
)

// script is one random sequence of steps below a directory of its own.
type script struct {
	r     *rand.Rand
	dir   string
	steps int
	did   []string // for people: what was sent
}

func newScript(r *rand.Rand, i int) *script {
	return &script{r: r, dir: fmt.Sprintf("/v2/keys/s%d", i), steps: 15 + r.IntN(30)}
}

// step is one request. "{3}" in path and parameters stands for the index three after the script's first, "{in 3}" for the name of an
// in-order node of that index. The two servers need not be at the same one.
type step struct {
	method, path string
	query, form  url.Values
	contentType  string
	origin       string // of the page that asks, "": a program does
	encoding     string // Accept-Encoding, "": nothing is said
	watch        watchKind
}

type watchKind int

const (
	noWatch   watchKind = iota
	history             // wait with an index that has passed: answered at once, or not at all
	live                // a wait that begins before another step and is looked at after it
	untilGone           // a read that is repeated until the key is no longer there
)

func (s *step) String() string {
	text := s.method + " " + s.path
	if len(s.query) > 0 {
		text += "?" + s.query.Encode()
	}
	if s.form != nil {
		text += " [" + s.contentType + "] " + s.form.Encode()
	}
	if s.origin != "" {
		text += " from " + s.origin
	}
	if s.encoding != "" {
		text += " accepts " + s.encoding
	}
	return text
}

// crossed has a request come from a page of some origin, or from a client that takes compressed answers.
func (s *script) crossed(st *step) *step {
	if s.chance(25) {
		st.origin = s.one("http://ui.example", "https://other.example:8443", "null", "http://127.0.0.1:1")
	}
	if s.chance(25) {
		st.encoding = s.one("gzip", "identity", "deflate, gzip;q=0.5", "*")
	}
	return st
}

func (s *script) one(of ...string) string { return of[s.r.IntN(len(of))] }
func (s *script) chance(percent int) bool { return s.r.IntN(100) < percent }

// path draws a path below the script's directory; there are few, so that steps meet.
func (s *script) path() string {
	p := s.dir
	for range s.r.IntN(4) {
		p += "/" + s.one("a", "b", "c", "a", "b", "_h", "ab", "a%20b", "%C3%BC", "x")
	}
	switch {
	case s.chance(2):
		p += "/"
	case s.chance(1):
		p += "//a"
	case s.chance(1):
		p += "/../b"
	case s.chance(4):
		p += fmt.Sprintf("/{in %d}", s.r.IntN(20))
	}
	return p
}

func (s *script) value() string {
	return s.one("v1", "v2", "v3", "", "<a href=\"x\">&amp;</a>", "\x00\x01\x1f\x7f\n\t\\", "\xff\xfe", "ünï\u2028\u2029", "a+b c%20d", strings.Repeat("x", 300))
}

func (s *script) index() string { return fmt.Sprintf("{%d}", s.r.IntN(s.steps)) }

// truth draws a truth value, rarely one that is none.
func (s *script) truth() string {
	if s.chance(3) {
		return s.one("", "yes", "2")
	}
	return s.one("true", "true", "1", "t", "false", "TRUE")
}

func (s *script) next() *step {
	switch k := s.r.IntN(100); {
	case k < 40:
		return s.put()
	case k < 48:
		return s.send("POST", s.path(), s.values(30))
	case k < 63:
		return s.delete()
	case k < 88:
		return s.get()
	case k < 96:
		return s.historyWatch()
	default:
		return &step{method: s.one("HEAD", "PATCH", "HEAD", "OPTIONS"), path: s.path()}
	}
}

// send puts parameters into the query, a form, or some into each.
func (s *script) send(method, path string, v url.Values) *step {
	st := &step{method: method, path: path, query: url.Values{}}
	if s.chance(30) {
		st.query = v
		return st
	}
	st.form, st.contentType = v, "application/x-www-form-urlencoded"
	switch {
	case s.chance(5):
		st.contentType += "; charset=utf-8"
	case s.chance(2):
		st.contentType = s.one("text/plain", "", "application/json", "a/b/c")
	}
	if s.chance(10) {
		for k := range v {
			st.query.Set(k, s.value())
			break
		}
	}
	return st
}

// values draws what makes a node.
func (s *script) values(dirs int) url.Values {
	v := url.Values{}
	if s.chance(dirs) {
		v.Set("dir", s.truth())
	}
	if s.chance(85) {
		v.Set("value", s.value())
	}
	if s.chance(15) {
		v.Set("ttl", s.one("1000", "500", "100000", "", "x", "-1", "1.5"))
	}
	if s.chance(3) {
		v.Set("noValueOnSuccess", s.truth())
	}
	return v
}

func (s *script) put() *step {
	v := s.values(15)
	s.compare(v, 12)
	if s.chance(25) {
		v.Set("prevExist", s.truth())
	}
	if s.chance(6) {
		v.Set("refresh", s.truth())
		if s.chance(80) {
			v.Del("value")
			v.Set("ttl", "700")
		}
	}
	return s.send("PUT", s.path(), v)
}

func (s *script) compare(v url.Values, percent int) {
	if s.chance(percent) {
		v.Set("prevValue", s.value())
	}
	if s.chance(percent) {
		v.Set("prevIndex", s.index())
		if s.chance(5) {
			v.Set("prevIndex", s.one("x", "", "-1", "0", "99999999999999999999"))
		}
	}
}

func (s *script) delete() *step {
	v := url.Values{}
	if s.chance(35) {
		v.Set("recursive", s.truth())
	}
	if s.chance(25) {
		v.Set("dir", s.truth())
	}
	s.compare(v, 10)
	return &step{method: "DELETE", path: s.path(), query: v}
}

func (s *script) get() *step {
	v := url.Values{}
	for _, k := range []string{"recursive", "sorted", "quorum"} {
		if s.chance(40) {
			v.Set(k, s.truth())
		}
	}
	p := s.path()
	if s.chance(30) {
		p = s.dir
	}
	return &step{method: "GET", path: p, query: v}
}

func (s *script) historyWatch() *step {
	v := url.Values{"wait": {"true"}, "waitIndex": {s.index()}}
	if s.chance(60) {
		v.Set("recursive", "true")
	}
	return &step{method: "GET", path: s.path(), query: v, watch: history}
}

func (s *script) liveWatch() *step {
	v := url.Values{"wait": {"true"}}
	if s.chance(60) {
		v.Set("recursive", "true")
	}
	p := s.path()
	for strings.Contains(p, "//") || strings.Contains(p, "..") {
		p = s.path()
	}
	return &step{method: "GET", path: p, query: v, watch: live}
}

// play sends the script to both and returns how many requests it sent and the first difference.
func (s *script) play(a, b *side) (requests int, diff string, err error) {
	for _, x := range []*side{a, b} {
		if err := x.begin(); err != nil {
			return 0, "", err
		}
	}
	both := func(st *step) error {
		if st.watch != live { // which has been sent already
			s.crossed(st)
		}
		requests++
		s.did = append(s.did, st.String())
		ra, err := a.send(st)
		if err != nil {
			return fmt.Errorf("%s: %w", st, err)
		}
		rb, err := b.send(st)
		if err != nil {
			return fmt.Errorf("%s: %w", st, err)
		}
		if d := compare(st, ra, rb); d != "" && diff == "" {
			diff = strings.Join(s.did, "\n") + "\n" + d
		}
		return nil
	}
	for range s.steps {
		if diff != "" {
			break
		}
		if s.chance(8) {
			w := s.crossed(s.liveWatch())
			s.did = append(s.did, "(begin) "+w.String())
			if err := a.watch(w); err != nil {
				return requests, "", fmt.Errorf("%s: %w", w, err)
			}
			if err := b.watch(w); err != nil {
				return requests, "", fmt.Errorf("%s: %w", w, err)
			}
			for range 1 + s.r.IntN(2) {
				if err := both(s.next()); err != nil {
					return requests, "", err
				}
			}
			if err := both(w); err != nil {
				return requests, "", err
			}
			continue
		}
		if s.chance(1) { // a key whose time runs out while the script waits
			p := s.dir + s.one("/short", "/a/short", "/_h/short")
			v := url.Values{"value": {"v"}, "ttl": {"1"}}
			if s.chance(30) {
				v = url.Values{"dir": {"true"}, "ttl": {"1"}}
			}
			for _, st := range []*step{{method: "PUT", path: p, query: v}, {method: "GET", path: p, watch: untilGone}} {
				if err := both(st); err != nil {
					return requests, "", err
				}
			}
			continue
		}
		if err := both(s.next()); err != nil {
			return requests, "", err
		}
	}
	err = both(&step{method: "DELETE", path: s.dir, query: url.Values{"recursive": {"true"}}})
	return requests, diff, err
}
