package refine

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/worker/workertest"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// pieces is a machine that has some pieces of work.
type pieces struct {
	mu     sync.Mutex
	wanted chan struct{}
	left   int
	asked  int
	fails  error // once
}

func (p *pieces) RefineWanted() <-chan struct{} { return p.wanted }

func (p *pieces) Refine(int) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if err := p.fails; err != nil {
		p.fails = nil
		return false, err
	}
	if p.left > 0 {
		p.left--
	}
	return p.left > 0, nil
}

func (p *pieces) more(n int, err error) {
	p.mu.Lock()
	p.left, p.fails = n, err
	p.mu.Unlock()
	p.wanted <- struct{}{}
}

func (p *pieces) state() (left, asked int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left, p.asked
}

// lines is what was logged.
type lines struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// TestAllPiecesAreDone: the worker sleeps until it is told of work, does all of it, and goes on after a piece that failed.
func TestAllPiecesAreDone(t *testing.T) {
	m, n := &pieces{wanted: make(chan struct{}, 1)}, workertest.New()
	var out lines
	n.Run(t, func() { run(n, m, time.Millisecond, slog.New(slog.NewTextHandler(&out, nil))) })
	done := func(want int) {
		t.Helper()
		wait.Until(t, "all pieces are done", func() bool { left, asked := m.state(); return left == 0 && asked == want })
	}
	m.more(5, nil)
	done(5)
	m.more(0, kvmachine.ErrMiscounted)
	done(6)
	m.more(3, errors.New("disk"))
	wait.Until(t, "a piece fails", func() bool { _, asked := m.state(); return asked == 7 })
	m.wanted <- struct{}{}
	done(10)
	if s := out.String(); !strings.Contains(s, "level=ERROR") || !strings.Contains(s, "level=WARN") {
		t.Errorf("logged: %s", s)
	}
}
