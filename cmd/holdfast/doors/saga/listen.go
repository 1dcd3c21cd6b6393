package saga

import (
	"errors"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/cmd/holdfast/doors"
)

// listen binds a place. Where only outgoing connections take its port it waits for them, and says so once.
func listen(p *doors.Place, log *slog.Logger) (net.Listener, error) {
	l, err := p.Listen()
	for began := time.Now(); err != nil && taken(p) && time.Since(began) < portPatience; l, err = p.Listen() {
		if log != nil {
			log.Warn("waiting for a port that an outgoing connection of this machine has taken; nothing listens there", "flag", p.Flag, "at", p.Addr)
			log = nil
		}
		time.Sleep(portAgain)
	}
	return l, err
}

// taken reports whether the port is in use although nothing answers at it.
func taken(p *doors.Place) bool {
	l, err := net.Listen(p.Network, p.Addr)
	if err == nil {
		l.Close()
		return true // it has just become free
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return false
	}
	c, err := net.DialTimeout(p.Network, p.Addr, time.Second)
	if err == nil {
		c.Close()
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
