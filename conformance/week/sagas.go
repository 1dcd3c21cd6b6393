package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// sagaPause is between two transactions: a hundred a second.
const sagaPause = 10 * time.Millisecond

// sagas submits transactions of one step to one member after another, and is the service that they call.
type sagas struct {
	h       *house
	http    *http.Client
	service *httptest.Server
	stop    chan struct{}
	wg      sync.WaitGroup
	done    atomic.Int64

	mu     sync.Mutex
	called map[string]bool // guarded by mu: by gid
	acked  []string        // guarded by mu: gids
}

func newSagas(h *house) *sagas {
	s := &sagas{h: h, stop: make(chan struct{}), called: map[string]bool{},
		http: &http.Client{Timeout: writePatience, Transport: &http.Transport{TLSClientConfig: h.client(), MaxIdleConnsPerHost: 64}}}
	s.service = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.called[r.URL.Query().Get("gid")] = true
	}))
	return s
}

// begin submits until end.
func (s *sagas) begin(r *roster) {
	s.wg.Go(func() {
		every := time.NewTicker(sagaPause)
		defer every.Stop()
		var inFlight sync.WaitGroup
		defer inFlight.Wait()
		room := make(chan struct{}, 256)
		for n := 0; ; n++ {
			select {
			case <-s.stop:
				return
			case <-every.C:
			}
			member, addr := r.pickSaga(n)
			room <- struct{}{}
			inFlight.Go(func() {
				s.submit(member, addr, fmt.Sprintf("week-%d", n))
				<-room
			})
		}
	})
}

func (s *sagas) submit(member, addr, gid string) {
	f := failure{client: "saga", member: member, began: time.Now()}
	body := fmt.Sprintf(`{"gid":%q,"trans_type":"saga","steps":[{"action":"%s/do","compensate":"%s/undo"}],"payloads":["{}"]}`, gid, s.service.URL, s.service.URL)
	res, err := s.http.Post("https://"+addr+"/api/dtmsvr/submit", "application/json", strings.NewReader(body))
	if err == nil {
		var b []byte
		b, err = io.ReadAll(res.Body)
		res.Body.Close()
		if err == nil && res.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", res.Status, b)
		}
	}
	if err != nil {
		f.text = strings.ReplaceAll(err.Error(), gid, "GID")
		s.h.journal.fail(f)
		return
	}
	s.done.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked = append(s.acked, gid)
}

func (s *sagas) end() {
	close(s.stop)
	s.wg.Wait()
}

// check waits until every transaction that was acknowledged has called its service, and asks each member about some of them.
func (s *sagas) check(members []*member) (note string, err error) {
	deadline := time.Now().Add(3 * time.Minute)
	for {
		missing := ""
		n := 0
		s.mu.Lock()
		for _, gid := range s.acked {
			if !s.called[gid] {
				n++
				missing = gid
			}
		}
		all := len(s.acked)
		s.mu.Unlock()
		if n == 0 {
			note = fmt.Sprintf("%d transactions acknowledged, each called its service", all)
			break
		}
		if time.Now().After(deadline) {
			return "", fmt.Errorf("%d of %d transactions that were acknowledged have never called their service, one of them is %s", n, all, missing)
		}
		time.Sleep(200 * time.Millisecond)
	}
	s.mu.Lock()
	acked := s.acked
	s.mu.Unlock()
	asked := 0
	for i := 0; i < len(acked); i += max(1, len(acked)/1000) {
		m := members[i%len(members)]
		status, err := s.status(m, acked[i], deadline)
		if err != nil {
			return note, fmt.Errorf("%s: %w", m.Name, err)
		}
		if status != "succeed" {
			return note, fmt.Errorf("%s says that %s is %q", m.Name, acked[i], status)
		}
		asked++
	}
	return fmt.Sprintf("%s; %d asked about have succeeded", note, asked), nil
}

// status asks a member about a transaction until it has ended.
func (s *sagas) status(m *member, gid string, deadline time.Time) (string, error) {
	for {
		res, err := s.http.Get("https://" + m.Addr("saga") + "/api/dtmsvr/query?gid=" + gid)
		if err != nil {
			return "", err
		}
		var answer struct {
			Transaction struct{ Status string }
		}
		err = json.NewDecoder(res.Body).Decode(&answer)
		res.Body.Close()
		if err != nil {
			return "", err
		}
		if status := answer.Transaction.Status; status != "submitted" && status != "" || time.Now().After(deadline) {
			return status, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}
