package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/bucket"
)

// outage is a way in which a store fails for a while.
type outage struct {
	name  string
	fault func(r *http.Request) bucket.Fault
	slow  time.Duration // instead
	down  bool          // nothing can be acknowledged meanwhile
	quick bool
}

func isUpload(r *http.Request) bool { return r.Method == http.MethodPut || r.Method == http.MethodPost }

var outages = []outage{
	{name: "refuses", down: true, quick: true, fault: func(*http.Request) bucket.Fault { return bucket.Refused }},
	{name: "is silent", down: true, fault: func(*http.Request) bucket.Fault { return bucket.Hang }},
	{name: "loses answers", quick: true, fault: func(r *http.Request) bucket.Fault {
		if isUpload(r) && rand.N(10) < 7 {
			return bucket.Lost
		}
		return bucket.None
	}},
	{name: "sends half bodies", fault: func(*http.Request) bucket.Fault { return [...]bucket.Fault{bucket.None, bucket.Cut}[rand.N(2)] }},
	{name: "takes 5 s for an upload", slow: 5 * time.Second, down: true},
	{name: "does everything twice and fails at random", fault: func(*http.Request) bucket.Fault {
		return [...]bucket.Fault{bucket.None, bucket.Twice, bucket.Failed, bucket.Lost, bucket.Cut}[rand.N(5)]
	}},
}

// ackTimeout is the agent's under an outage.
const ackTimeout = 3 * time.Second

func (r *run) faults() []step {
	var l []step
	for _, o := range outages {
		l = append(l, step{name: "the store " + o.name, long: !o.quick, do: func(ctx context.Context, p *place) (string, error) { return r.outage(ctx, p, o) }})
	}
	return l
}

// outage has the store fail under load. A commit that cannot be stored in time is an error and never acknowledged. No more commits are
// taken until everything is stored, and then it goes on.
func (r *run) outage(ctx context.Context, p *place, o outage) (string, error) {
	lasts := 20 * time.Second
	if r.quick {
		lasts = 5 * time.Second
	}
	m, err := p.machine("m")
	if err != nil {
		return "", err
	}
	if err := m.start(p.url("app"), nil, "--ack-timeout", ackTimeout.String(), "--levels", "1s,5s"); err != nil {
		return "", err
	}
	if err := m.write(twenty); err != nil {
		return "", err
	}
	if err := m.waitAcked(ctx, 100, 20*time.Second); err != nil {
		return "", err
	}
	p.bucket.Fail(o.fault)
	if o.slow > 0 {
		p.bucket.Slow(o.slow)
	}
	time.Sleep(upload + 200*time.Millisecond) // what was on its way is answered
	m.app.read()
	before := m.app.oks
	m.app.forget()
	time.Sleep(lasts)
	m.app.read()
	during, failed := m.app.oks, m.app.noes
	var ioerr, readonly int
	for text, n := range m.app.errors {
		switch {
		case strings.Contains(text, "disk I/O error"):
			ioerr += n
		case strings.Contains(text, "readonly"):
			readonly += n
		case strings.Contains(text, "locked"):
		default:
			return "", fmt.Errorf("an error that is none of ours, %d times: %s", n, text)
		}
	}
	if o.down && (during > 0 || ioerr == 0 || readonly == 0) {
		return "", fmt.Errorf("meanwhile %d commits were acknowledged, %d had SQLITE_IOERR, %d writes were refused; %v", during, ioerr, readonly, m.app.errors)
	}
	// The bucket must have every acknowledged commit: its content now, read when it works again, before anything is added.
	if err := m.agent.Pause(); err != nil {
		return "", err
	}
	p.bucket.Fail(nil)
	p.bucket.Slow(upload)
	if _, err := p.judge("app", m); err != nil {
		return "", fmt.Errorf("during the outage: %w", err)
	}
	if err := m.agent.Resume(); err != nil {
		return "", err
	}
	began := time.Now()
	if err := m.waitAcked(ctx, 100, 30*time.Second); err != nil {
		return "", fmt.Errorf("behind the outage: %w", err)
	}
	recovered := m.app.firstOK.Sub(began)
	m.kill()
	if _, err := p.judge("app", m); err != nil {
		return "", err
	}
	return fmt.Sprintf("for %s: %d commits acknowledged before, %d meanwhile, 0 missing; %d SQLITE_IOERR, %d refused, %d failed in all; goes on after %s",
		lasts, before, during, ioerr, readonly, failed, span(max(recovered, 0))), nil
}
