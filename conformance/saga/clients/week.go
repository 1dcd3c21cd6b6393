package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dtm-labs/client/dtmcli"
)

// weekStories are cases of an ordinary week: services that are slow, large payloads, answers that are lost. They run one after another, because one
// measures how long sagas take.
func weekStories(a *at) []story {
	w := &week{at: a, hanging: make(chan struct{}), seen: map[string]int{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fatal(err)
	}
	w.url = "http://" + l.Addr().String()
	go func() { fatal(http.Serve(l, w)) }() // until the program ends
	return []story{
		{"a path that hangs beside one that answers", w.beside},
		{"a service that is late", w.late},
		{"sixty submits of a megabyte at a time", w.sixty},
		{"a body over the limit", w.tooLarge},
		{"an answer of five megabytes", w.largeAnswer},
		{"an answer of five megabytes that ends with FAILURE", w.largeFailure},
		{"the same saga sent again after its end", w.again},
		{"another saga under an open gid", w.other},
		{"a payload of four megabytes is read back", w.readBack},
		{"who waits for what goes on hears no FAILURE", w.goesOn},
		{"a name of a service discovery", w.discovery},
	}
}

// week is one address with several services behind it, as behind an ingress.
type week struct {
	*at
	url     string
	hanging chan struct{}

	mu   sync.Mutex
	seen map[string]int // calls by path and gid
}

// ServeHTTP answers by the first segment of the path.
func (w *week) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	gid := r.URL.Query().Get("gid")
	w.mu.Lock()
	w.seen[r.URL.Path+" "+gid]++
	nth := w.seen[r.URL.Path+" "+gid]
	w.mu.Unlock()
	switch {
	case strings.HasPrefix(r.URL.Path, "/stuck/"):
		select {
		case <-r.Context().Done():
		case <-w.hanging:
		}
	case strings.HasPrefix(r.URL.Path, "/late/") && nth == 1:
		time.Sleep(4 * time.Second) // a second longer than a call may take; a repeated request is answered at once
	case strings.HasPrefix(r.URL.Path, "/large/"):
		_, _ = rw.Write(bytes.Repeat([]byte("x"), 5<<20))
		if strings.HasSuffix(r.URL.Path, "/bad") {
			_, _ = io.WriteString(rw, "FAILURE")
		}
	case strings.HasPrefix(r.URL.Path, "/ongoing/"):
		rw.WriteHeader(http.StatusTooEarly)
	}
}

func (w *week) calls(path, gid string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[path+" "+gid]
}

func (w *week) saga(gid, path string, payload any) *dtmcli.Saga {
	s := dtmcli.NewSaga(w.http, gid).Add(w.url+path, w.url+"/undo/it", payload)
	s.RetryInterval = 1
	return s
}

// run submits sagas of one path at a rate for a time, each waiting for its end, and returns how long they took, in order.
func (w *week) run(name string, rate int, d time.Duration) (took []time.Duration, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for i := range int(d.Seconds()) * rate {
		<-tick.C
		wg.Go(func() {
			s := w.saga(fmt.Sprintf("%s-%d", name, i), "/orders/pay", thirty)
			s.WaitResult = true
			began := time.Now()
			fail := s.Submit()
			mu.Lock()
			defer mu.Unlock()
			if fail != nil {
				err = fail
			}
			took = append(took, time.Since(began))
		})
	}
	wg.Wait()
	slices.Sort(took)
	return took, err
}

func p99(took []time.Duration) time.Duration { return took[len(took)*99/100] }

func (w *week) beside() (string, error) {
	const rate, lasts, stuck = 100, 8 * time.Second, 30
	if _, err := w.run("warm", rate, 2*time.Second); err != nil {
		return "", err
	}
	alone, err := w.run("alone", rate, lasts)
	if err != nil {
		return "", fmt.Errorf("alone: %w", err)
	}
	for i := range stuck {
		if err := w.saga(fmt.Sprint("stuck-", i), "/stuck/pay", thirty).Submit(); err != nil {
			return "", err
		}
	}
	beside, err := w.run("beside", rate, lasts)
	if err != nil {
		return "", fmt.Errorf("beside %d that hang: %w", stuck, err)
	}
	// Twice as long, but nothing that a machine with other work does by itself.
	if most := max(2*p99(alone), p99(alone)+10*time.Millisecond); p99(beside) > most {
		return "", fmt.Errorf("the 99th percentile is %v beside %d that hang, %v alone", p99(beside).Round(time.Millisecond), stuck, p99(alone).Round(time.Millisecond))
	}
	for i := range stuck {
		var t transaction
		if err := w.get("/query?gid="+fmt.Sprint("stuck-", i), &t); err != nil || t.Transaction.Status != "submitted" {
			return "", fmt.Errorf("one that hangs is %s, %v", t.Transaction.Status, err)
		}
	}
	close(w.hanging)
	for i := range stuck {
		if _, err := w.ended(fmt.Sprint("stuck-", i), "succeed"); err != nil {
			return "", fmt.Errorf("once it answers: %w", err)
		}
	}
	return fmt.Sprintf("all %d succeed, the 99th percentile %v, alone %v; those that hung do when their service answers", len(beside),
		p99(beside).Round(time.Millisecond/10), p99(alone).Round(time.Millisecond/10)), nil
}

func (w *week) late() (string, error) {
	const n = 12
	for i := range n {
		if err := w.saga(fmt.Sprint("late-", i), "/late/pay", thirty).Submit(); err != nil {
			return "", err
		}
	}
	for i := range n {
		if _, err := w.ended(fmt.Sprint("late-", i), "succeed"); err != nil {
			return "", err
		}
	}
	return "each succeeds when it is asked again", nil
}

// text is a payload of some length.
type text struct {
	Text string `json:"text"`
}

func (w *week) sixty() (string, error) {
	const n = 60
	payload := text{strings.Repeat("x", 1<<20)}
	var wg sync.WaitGroup
	var refused atomic.Int64
	var last atomic.Pointer[error]
	for i := range n {
		wg.Go(func() {
			s := w.saga(fmt.Sprint("sixty-", i), "/orders/pay", payload)
			s.RequestTimeout = 30 // of the client; its own default is shorter than a busy machine takes
			if err := s.Submit(); err != nil {
				refused.Add(1)
				last.Store(&err)
			}
		})
	}
	wg.Wait()
	if refused.Load() > 0 {
		return "", fmt.Errorf("%d of %d were refused: %w", refused.Load(), n, *last.Load())
	}
	for i := range n {
		if _, err := w.ended(fmt.Sprint("sixty-", i), "succeed"); err != nil {
			return "", err
		}
	}
	return "all are taken, and succeed", nil
}

func (w *week) tooLarge() (string, error) {
	res, err := http.Post(w.http+"/submit", "application/json", bytes.NewReader(bytes.Repeat([]byte(" "), 30<<20)))
	if err != nil {
		return "", fmt.Errorf("no answer: %w", err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode == http.StatusOK {
		return "", fmt.Errorf("%s %s, %v", res.Status, b, err)
	}
	return "refused, and the client hears it", nil
}

func (w *week) largeAnswer() (string, error) {
	s := w.saga("large-good", "/large/good", thirty)
	if err := s.Submit(); err != nil {
		return "", err
	}
	if _, err := w.ended("large-good", "succeed"); err != nil {
		return "", err
	}
	if n := w.calls("/large/good", "large-good"); n != 1 {
		return "", fmt.Errorf("called %d times", n)
	}
	return "it counts", nil
}

func (w *week) largeFailure() (string, error) {
	if err := w.saga("large-bad", "/large/bad", thirty).Submit(); err != nil {
		return "", err
	}
	if _, err := w.ended("large-bad", "failed"); err != nil {
		return "", err
	}
	return "it counts", nil
}

func (w *week) again() (string, error) {
	s := w.saga("again", "/orders/pay", thirty)
	s.WaitResult = true
	for i := range 2 {
		if err := s.Submit(); err != nil {
			return "", fmt.Errorf("time %d: %w", i+1, err)
		}
	}
	if n := w.calls("/orders/pay", "again"); n != 1 {
		return "", fmt.Errorf("called %d times", n)
	}
	return "success, and no second call", nil
}

func (w *week) other() (string, error) {
	if err := w.saga("other", "/ongoing/pay", thirty).Submit(); err != nil {
		return "", err
	}
	err := refused(w.saga("other", "/ongoing/pay", amount{31}).Submit(), "payload")
	if err != nil {
		return "", err
	}
	return "409, with what differs", w.stop("other")
}

func (w *week) readBack() (string, error) {
	payload := strings.Repeat("y", 4<<20-64)
	s := w.saga("four", "/ongoing/pay", text{payload})
	s.RequestTimeout = 30
	if err := s.Submit(); err != nil {
		return "", err
	}
	var t struct {
		Branches []struct {
			Data []byte `json:"bin_data"`
		} `json:"branches"`
	}
	if err := w.get("/query?gid=four", &t); err != nil {
		return "", err
	}
	if len(t.Branches) != 2 || !bytes.Contains(t.Branches[1].Data, []byte(payload)) {
		return "", fmt.Errorf("%d branches, and not the payload", len(t.Branches))
	}
	return "all of it", w.stop("four")
}

func (w *week) goesOn() (string, error) {
	s := w.saga("goes-on", "/ongoing/pay", thirty)
	s.WaitResult = true
	err := s.Submit()
	if err == nil || strings.Contains(err.Error(), "FAILURE") {
		return "", fmt.Errorf("it hears %v", err)
	}
	return "it hears that the transaction is still going on", w.stop("goes-on")
}

func (w *week) discovery() (string, error) {
	s := dtmcli.NewSaga(w.http, "discovery").Add("discovery:///stock/deduct", "", thirty)
	if err := refused(s.Submit(), "service discovery"); err != nil {
		return "", err
	}
	return "refused when it is submitted", nil
}

// stop ends a transaction that would go on for ever.
func (w *week) stop(gid string) error {
	res, err := http.Post(w.http+"/forceStop", "application/json", strings.NewReader(`{"gid":"`+url.PathEscape(gid)+`"}`))
	if err == nil {
		err = res.Body.Close()
	}
	return err
}
