package port

import (
	"net"
	"net/netip"
)

// queue holds connections in the order they came; each knows its place, so that it can leave from anywhere. Its owner's
// mutex guards it.
type queue struct {
	first, last *place
	len         int
}

type place struct {
	conn       net.Conn
	site       netip.Addr // of its client
	second     uint64     // when it came
	prev, next *place
	queued     bool
}

func (q *queue) push(c net.Conn, site netip.Addr, second uint64) *place {
	e := &place{conn: c, site: site, second: second, prev: q.last, queued: true}
	if q.last == nil {
		q.first = e
	} else {
		q.last.next = e
	}
	q.last = e
	q.len++
	return e
}

// remove takes e out and reports whether it was in still.
func (q *queue) remove(e *place) bool {
	if !e.queued {
		return false
	}
	if e.prev == nil {
		q.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		q.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	*e = place{}
	q.len--
	return true
}

// oldest returns the oldest of the addresses that may make room; nil: there is none.
func (q *queue) oldest(may func(netip.Addr) bool) *place {
	e := q.first
	for e != nil && !may(e.site) {
		e = e.next
	}
	return e
}
