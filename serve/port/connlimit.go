package port

import (
	"slices"
	"sync"
	"sync/atomic"
)

// ConnLimit bounds the connections of several ports together: each of them takes a descriptor and memory of the same process,
// which needs some for its log and its store. Its methods may be called from several goroutines.
type ConnLimit struct {
	max  int64
	open atomic.Int64
	// Failed hears of TLS handshakes that failed, from any goroutine; nil: nobody does. It is set before the first connection.
	Failed func(from string, err error)

	mu    sync.Mutex
	ports []*Port
}

// NewConnLimit makes one for so many connections.
func NewConnLimit(max int) *ConnLimit { return &ConnLimit{max: int64(max)} }

func (l *ConnLimit) join(p *Port) {
	l.mu.Lock()
	l.ports = append(l.ports, p)
	l.mu.Unlock()
}

// Enter counts a connection in, or reports that all places are taken.
func (l *ConnLimit) Enter() bool {
	if l.open.Add(1) > l.max {
		l.open.Add(-1)
		return false
	}
	return true
}

// Leave counts a connection out.
func (l *ConnLimit) Leave() { l.open.Add(-1) }

// makeRoom has a port other than p close a silent connection and reports whether one did. No port's mutex is held.
func (l *ConnLimit) makeRoom(p *Port) bool {
	if l.open.Load() < l.max {
		return false // the connection was refused for another reason than places
	}
	l.mu.Lock()
	others := slices.Clone(l.ports)
	l.mu.Unlock()
	for _, o := range others {
		if o == p {
			continue
		}
		o.mu.Lock()
		made := o.evict()
		o.mu.Unlock()
		if made {
			return true
		}
	}
	return false
}
