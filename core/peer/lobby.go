package peer

import (
	"net"
	"slices"
	"sync"
)

// maxConns is the default bound on accepted connections of a member. Nine members make three channels each, and a few more to ask and to
// send a snapshot.
const maxConns = 128

// lobby bounds accepted connections. Any host may connect, and each connection takes a file descriptor that the log may need. So when all
// places are taken, the connection that has been open longest without an introduction is closed to make room.
type lobby struct {
	max int

	mu      sync.Mutex
	conns   map[net.Conn]struct{}
	waiting []net.Conn // connections without an introduction yet, the oldest first
}

func newLobby(max int) *lobby {
	if max == 0 {
		max = maxConns
	}
	return &lobby{max: max, conns: map[net.Conn]struct{}{}}
}

// enter counts c in; it reports false if every place is taken by a member.
func (l *lobby) enter(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) >= l.max {
		if len(l.waiting) == 0 {
			return false
		}
		l.waiting[0].Close() // its goroutine sees the error and ends
		delete(l.conns, l.waiting[0])
		l.waiting = slices.Delete(l.waiting, 0, 1)
	}
	l.conns[c] = struct{}{}
	l.waiting = append(l.waiting, c)
	return true
}

// known notes that c has introduced itself as a member's.
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

// leave counts c out, unless it was closed to make room.
func (l *lobby) leave(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	l.notWaiting(c)
}
