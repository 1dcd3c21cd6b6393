package sql

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
	"github.com/holdfastdb/holdfast/serve/port"
)

// serving is what Listen and Shutdown share.
type serving struct {
	mu     sync.Mutex
	closed bool
	from   []net.Listener // guarded by mu
	end    context.CancelFunc
	ctx    context.Context
	conns  sync.WaitGroup
	guests guests
}

// mostRefused bounds the clients that are told at a time why they are not served: each takes a second at most.
const mostRefused = 64

// Listen serves the clients of a listener until Shutdown, in the places of conns, which all doors share. It returns nil then, and otherwise the listener's error.
func (d *Door) Listen(l net.Listener, conns *port.ConnLimit) error {
	s := &d.serving
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return l.Close()
	}
	s.from = append(s.from, l)
	s.mu.Unlock()
	conns.Join(func(may func(netip.Addr) bool, rank port.Rank) bool { return s.guests.evict(conns, may, rank) })
	refused := make(chan struct{}, mostRefused)
	for {
		nc, err := l.Accept()
		if err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.closed {
				return nil
			}
			var ne net.Error
			if errors.As(err, &ne) && ne.Timeout() {
				continue
			}
			return err
		}
		if !conns.Enter(nc.RemoteAddr()) {
			select {
			case refused <- struct{}{}:
				go func() {
					d.server.Refuse(nc, wire.Errorf(wire.ErrTooManyConnections, "Too many connections"))
					<-refused
				}()
			default:
				_ = nc.Close() // a crowd: nobody waits for it
			}
			continue
		}
		s.conns.Add(1)
		go func() {
			defer s.conns.Done()
			g := s.guests.enter(nc)
			defer s.guests.leave(conns, g)
			d.Serve(s.ctx, nc)
		}()
	}
}

// Shutdown takes no more clients, and lets each statement that runs finish until ctx ends. Then it cuts what is left.
func (d *Door) Shutdown(ctx context.Context) error {
	s := &d.serving
	s.mu.Lock()
	s.closed = true
	from := s.from
	s.from = nil
	s.mu.Unlock()
	for _, l := range from {
		_ = l.Close() // Listen returns
	}
	s.end()
	done := make(chan struct{})
	go func() { s.conns.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
