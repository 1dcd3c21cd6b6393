package kv

import (
	"slices"
	"sync"

	"github.com/holdfastdb/holdfast/serve/port"
)

// line is the reads that wait for room for large answers, in the order in which they came. Without a line, room goes to the read that looks
// at the right moment. Of four clients that read lists, one waited five times as long as the others. Its methods may be called from any
// goroutine.
type line struct {
	mu    sync.Mutex
	waits []*place // guarded by mu
}

// place is one read that waits.
type place struct {
	turn chan struct{} // capacity 1: room has come, or a place before this one has gone
	from *port.From    // the read's account, nil: of this process itself; it never changes
}

// enter takes the last place.
func (l *line) enter(from *port.From) *place {
	p := &place{turn: make(chan struct{}, 1), from: from}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waits = append(l.waits, p)
	return p
}

// empty reports whether no read waits.
func (l *line) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waits) == 0
}

// may reports whether it is p's turn: no place before it keeps it waiting.
func (l *line) may(p *place) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, before := range l.waits {
		if before == p {
			return true
		}
		if before.from.GoesBefore(p.from) {
			return false
		}
	}
	return true
}

// leave gives a place up, and the next one looks.
func (l *line) leave(p *place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waits, p); i >= 0 {
		l.waits = slices.Delete(l.waits, i, i+1)
	}
	l.next()
}

// came says that there is room again.
func (l *line) came() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next()
}

// next wakes those whose turn it may be. A place behind one that keeps all others waiting sleeps on. The caller holds mu.
func (l *line) next() {
	for _, p := range l.waits {
		select {
		case p.turn <- struct{}{}:
		default:
		}
		if p.from.GoesBefore(nil) {
			return
		}
	}
}
