package peer

import (
	"net"
	"slices"
	"sync"
)

// maxConns is how many connections others may have made to a member, unless its options say otherwise: nine members make three
// lanes each, and a few to ask and to send a snapshot.
const maxConns = 128

// lobby bounds accepted connections. Who connects may be anybody, and each takes a descriptor that the log may need; so when
// all places are taken, the connection that has waited longest without saying which member it is makes room.
type lobby struct {
	max int

	mu      sync.Mutex
	conns   map[net.Conn]struct{}
	waiting []net.Conn // those of them that have not said it yet, the oldest first
}

func newLobby(max int) *lobby {
	if max == 0 {
		max = maxConns
	}
	return &lobby{max: max, conns: map[net.Conn]struct{}{}}
}

// enter counts c in, or reports that every place is a member's.
func (l *lobby) enter(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) >= l.max {
		if len(l.waiting) == 0 {
			return false
		}
		l.waiting[0].Close() // whoever serves it notices
		delete(l.conns, l.waiting[0])
		l.waiting = slices.Delete(l.waiting, 0, 1)
	}
	l.conns[c] = struct{}{}
	l.waiting = append(l.waiting, c)
	return true
}

// known says that c is a member's.
func (l *lobby) known(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notWaiting(c)
}

func (l *lobby) notWaiting(c net.Conn) {
	if i := slices.Index(l.waiting, c); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
}

// leave counts c out, unless it made room before.
func (l *lobby) leave(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	l.notWaiting(c)
}
