package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// every is the time from one healthy transaction to the next, also while its predecessor runs.
	every = 10 * time.Millisecond
	// patience is how long a healthy transaction may take before it counts as failed.
	patience = 10 * time.Second
)

// healthy is the client whose transactions go to services that answer. Its methods belong to one goroutine.
type healthy struct {
	client   *http.Client
	submit   string // URL
	services []*http.Server
	made     int

	// known are services that were called before anything hung, news some that were not: each a pair of base URLs for two steps.
	known, news [2]string
}

func newHealthy(saga string) (*healthy, error) {
	h := &healthy{submit: "http://" + saga + "/api/dtmsvr/submit",
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 200}, Timeout: patience}}
	for _, url := range []*string{&h.known[0], &h.known[1], &h.news[0], &h.news[1]} {
		l, err := net.Listen("tcp", "127.0.0.2:0")
		if err != nil {
			h.close()
			return nil, err
		}
		*url = "http://" + l.Addr().String()
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"dtm_result":"SUCCESS"}`) })}
		h.services = append(h.services, s)
		go s.Serve(l)
	}
	return h, nil
}

func (h *healthy) close() {
	for _, s := range h.services {
		s.Close()
	}
	h.client.CloseIdleConnections()
}

// load is what some seconds of healthy transactions came to.
type load struct {
	mu    sync.Mutex
	took  []time.Duration // guarded by mu, as the rest, until the load has ended
	wrong int
	first error
}

// load submits transactions to the given services by turns for so long.
func (h *healthy) load(lasts time.Duration, to ...[2]string) *load {
	ctx, cancel := context.WithTimeout(context.Background(), lasts)
	defer cancel()
	return h.until(ctx.Done(), to...)
}

// until is load until a channel is closed. It returns when each transaction has ended.
func (h *healthy) until(end <-chan struct{}, to ...[2]string) *load {
	l := &load{}
	var wg sync.WaitGroup
	next := time.NewTicker(every)
	defer next.Stop()
	for {
		select {
		case <-end:
			wg.Wait()
			slices.Sort(l.took)
			return l
		case <-next.C:
		}
		h.made++
		gid, services := fmt.Sprintf("healthy-%d", h.made), to[h.made%len(to)]
		wg.Go(func() {
			began := time.Now()
			err := h.one(gid, services)
			took := time.Since(began)
			l.mu.Lock()
			defer l.mu.Unlock()
			if err != nil {
				l.wrong++
				if l.first == nil {
					l.first = err
				}
				return
			}
			l.took = append(l.took, took)
		})
	}
}

// one submits a transaction and waits until it has succeeded.
func (h *healthy) one(gid string, services [2]string) error {
	body := fmt.Sprintf(`{"gid":%q,"trans_type":"saga","steps":[{"action":"%s/a","compensate":"%s/b"},{"action":"%s/a","compensate":"%s/b"}],`+
		`"payloads":["{}","{}"],"wait_result":true}`, gid, services[0], services[0], services[1], services[1])
	res, err := h.client.Post(h.submit, "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || !strings.Contains(string(text), "SUCCESS")) {
		err = errors.New(res.Status + ": " + string(text))
	}
	return err
}

// at is a percentile; 0: there was none.
func (l *load) at(percent int) time.Duration {
	if len(l.took) == 0 {
		return 0
	}
	return l.took[(len(l.took)-1)*percent/100]
}
