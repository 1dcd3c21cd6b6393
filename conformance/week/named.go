package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/results"
)

// namedWithin is how soon a fault must be named everywhere.
const namedWithin = 5 * time.Second

// sign is where an operator must find a fault, and as what.
type sign struct {
	of    *member
	place place
	want  *regexp.Regexp
}

// place is one of those an operator looks at.
type place string

const (
	inStatus  place = "status"
	inMetrics place = "metrics"
	inLog     place = "log"
	inReady   place = "/readyz"
)

// in is a sign at each of some members.
func in(p place, want string, of ...*member) []sign {
	var all []sign
	for _, m := range of {
		all = append(all, sign{m, p, regexp.MustCompile(want)})
	}
	return all
}

// watchdog is a moment from which on faults are looked for: what a log has from before does not count.
type watchdog struct {
	h     *house
	began time.Time
	logs  map[string]int64 // by member, how long its log was
}

func (h *house) watch() *watchdog {
	w := &watchdog{h: h, began: time.Now(), logs: map[string]int64{}}
	for _, m := range h.members {
		if st, err := os.Stat(m.LogFile()); err == nil {
			w.logs[m.Name] = st.Size()
		}
	}
	return w
}

// from has the five seconds begin now.
func (w *watchdog) from() { w.began = time.Now() }

// named waits until each sign is there and says how long that took, or which are missing.
func (w *watchdog) named(signs ...[]sign) (string, error) {
	var missing []sign
	for _, all := range signs {
		missing = append(missing, all...)
	}
	for {
		var left []sign
		var saw []string
		for _, s := range missing {
			text, err := w.look(s)
			if err != nil || !s.want.MatchString(text) {
				left = append(left, s)
				saw = append(saw, fmt.Sprintf("no %q in %s of %s (%v)", s.want, s.place, s.of.Name, err))
			}
		}
		took := time.Since(w.began)
		if missing = left; len(missing) == 0 {
			if took > namedWithin+time.Second { // a look takes a moment itself
				return "", fmt.Errorf("named after %.1f s", took.Seconds())
			}
			return fmt.Sprintf("named after %.1f s", took.Seconds()), nil
		}
		if took > 3*namedWithin {
			return "", fmt.Errorf("after %.0f s: %s", took.Seconds(), strings.Join(saw, "; "))
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (w *watchdog) look(s sign) (string, error) {
	switch s.place {
	case inLog:
		f, err := os.Open(s.of.LogFile())
		if err != nil {
			return "", err
		}
		defer f.Close()
		if _, err := f.Seek(w.logs[s.of.Name], io.SeekStart); err != nil {
			return "", err
		}
		b, err := io.ReadAll(f)
		return string(b), err
	case inStatus:
		return w.h.run("status", "--admin", s.of.Admin)
	case inMetrics:
		_, text, err := w.h.get(s.of, "/metrics")
		return text, err
	default:
		_, text, err := w.h.get(s.of, "/readyz")
		return text, err
	}
}

// get asks a member's admin port, which is on loopback and has no TLS there.
func (h *house) get(m *member, path string) (code int, text string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.Admin+path, nil)
	if err != nil {
		return 0, "", err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

// day runs one trial as a step. When it has ended, the cluster gets some seconds in which nothing happens.
func (w *week) day(name string, do func() (string, error)) {
	if w.only != nil && !w.only.MatchString(name) {
		return
	}
	w.steps.Do(name, func() (string, error) {
		note, err := do()
		if err != nil {
			err = fmt.Errorf("%w\n%w", err, w.house.tails(12))
		}
		return note, err
	})
	time.Sleep(w.calm)
}

// steps is the table.
type steps = results.Steps
