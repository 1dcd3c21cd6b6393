package crash

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestDelayedMessages kills leaders while messages wait for their time. None is lost, and none is early by the clock of the client that sent it; what
// a failover takes makes them late.
func TestDelayedMessages(t *testing.T) {
	processTest(t, false)
	beside(t)
	messages, over := count("DELAYED", 200, 1000), seconds("DELAYED_SECONDS", 2, 20)
	kills := count("DELAYED_KILLS", 1, 5)
	r := rng(t)
	c := startSagas(t, 3)
	steps := serveSteps(t)
	cli := newSagaClient()

	var mu sync.Mutex
	due := map[string]time.Time{} // guarded by mu until all are sent
	var wg sync.WaitGroup
	const senders = 8
	send := func(n int, delay time.Duration) bool {
		gid := fmt.Sprintf("late-%05d", n)
		body := fmt.Sprintf(`{"gid":%q,"trans_type":"msg","retry_interval":1,"steps":[{"action":%q}],"payloads":["{}"],"custom_data":"{\"delay\":%.3f}"}`,
			gid, steps.URL, delay.Seconds())
		at := time.Now().Add(delay)
		if code, answer, _, err := cli.post(c.Nodes[n%3], "/api/dtmsvr/submit", body); err != nil || code != http.StatusOK {
			t.Errorf("%s: %d %s %v", gid, code, answer, err)
			return false
		}
		mu.Lock()
		due[gid] = at
		mu.Unlock()
		return true
	}
	for s := range senders {
		own := rand.New(rand.NewPCG(uint64(seed), uint64(s)))
		wg.Go(func() {
			for n := s; n < messages; n += senders {
				if !send(n, time.Second+time.Duration(own.Int64N(over.Milliseconds()))*time.Millisecond) {
					return
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	k := &killer{r: r, c: c}
	var last time.Time
	killLeader := func() {
		leader, err := c.WaitLeader(wait.Limit(t))
		if err != nil {
			t.Fatal(err)
		}
		k.kill(t, leader)
		k.leaders++
		time.Sleep(between(r, 1, 300*time.Millisecond))
		if err := leader.Start(); err != nil {
			t.Fatal(err)
		}
		last = time.Now()
	}
	for k.kills < kills {
		if k.kills > 0 {
			time.Sleep(between(r, over/time.Duration(2*kills), over/time.Duration(kills)))
		}
		killLeader()
	}
	// The last kill has messages due after it too. On a busy machine all may be due by now: another one is sent, and another leader killed.
	dueLater := func() bool {
		for _, at := range due { // any order
			if at.After(last) {
				return true
			}
		}
		return false
	}
	for extra := 0; !dueLater(); extra++ {
		if err := c.WaitReady(); err != nil {
			t.Fatal(err)
		}
		if !send(messages+extra, over<<(1+extra)) {
			return
		}
		killLeader()
	}
	if err := c.WaitReady(); err != nil {
		t.Fatal(err)
	}
	early, lost, after := 0, 0, 0
	var late []time.Duration
	for gid, at := range due { // any order: each is judged by itself
		status := cli.ends(t, c.Nodes[0], gid)
		came, ok := steps.called(gid)
		switch {
		case !ok || status != "succeed":
			if lost++; lost <= 5 {
				t.Errorf("%s is %q, and whether it was delivered: %t", gid, status, ok)
			}
			continue
		case came.Before(at):
			if early++; early <= 5 {
				t.Errorf("%s came %s early", gid, at.Sub(came))
			}
		}
		late = append(late, came.Sub(at))
		if at.After(last) {
			after++
		}
	}
	steps.mu.Lock()
	repeated := steps.calls - len(steps.first)
	steps.mu.Unlock()
	summary(t, "delayed messages: %d due over %s, %d leaders killed, %d lost, %d early, late by %s (median), %s (p99) and %s (worst), %d calls repeated, "+
		"%d due after the last kill", messages, over, k.leaders, lost, early, tenth(quantile(late, 0.5)), tenth(quantile(late, 0.99)),
		tenth(quantile(late, 1)), repeated, after)
}
