package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/serve/cli"
	"github.com/holdfastdb/holdfast/serve/port"
)

// Place is somewhere to listen.
type Place struct {
	Network string // tcp or unix
	Addr    string // host:port, or the path of a socket file
	Flag    string // its source: a flag with its dashes, or a setting
	// Patience is how long Wait waits until outgoing connections of this machine release the port. The kernel may have given them the port,
	// and an ended connection keeps it for a minute. Try refuses nothing for them.
	Patience time.Duration
	// Yields: where the place cannot be bound, its door is off. Try refuses nothing.
	Yields bool
	// TLS nil is cleartext. The others are of the kv door alone.
	port.Protocols
}

// portAgain is the time between two tries to bind a port that is waited for.
const portAgain = 250 * time.Millisecond

// Listen binds the place or says in one line why not.
func (p Place) Listen() (net.Listener, error) {
	l, err := p.bind()
	if err != nil {
		return nil, p.refused(err)
	}
	return l, nil
}

// Wait is Listen for a place with Patience. It says once that it waits.
func (p Place) Wait(ctx context.Context, log *slog.Logger) (net.Listener, error) {
	until := time.Now().Add(p.Patience)
	for told := false; ; told = true {
		l, err := p.bind()
		if err == nil {
			return l, nil
		}
		if !p.passing(err) {
			return nil, p.refused(err)
		}
		if time.Now().After(until) {
			return nil, fmt.Errorf("listen on %s %s: outgoing connections of this machine have held the port for %v and nothing listens there; "+
				"keep it from them (sysctl net.ipv4.ip_local_reserved_ports) or give another %s", p.Flag, p.Addr, p.Patience, p.Flag)
		}
		if !told {
			log.Warn("waiting for a port that outgoing connections of this machine hold; nothing listens there",
				"flag", p.Flag, "at", p.Addr, "for", p.Patience)
		}
		select {
		case <-time.After(portAgain):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Try binds the place and lets it go again, to refuse early what cannot be bound.
func (p Place) Try() error {
	if p.Yields {
		return nil
	}
	if p.Network == "unix" {
		return nil // the file has no owner until it is bound
	}
	l, err := p.bind()
	switch {
	case err == nil:
		return l.Close()
	case p.Patience > 0 && p.passing(err):
		return nil
	}
	return p.refused(err)
}

func (p Place) bind() (net.Listener, error) {
	if p.Network == "unix" { // it may be left from a killed process; it cannot be told from one in use
		if err := os.Remove(p.Addr); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return net.Listen(p.Network, p.Addr)
}

// passing reports whether what is in the way of binding the port is connections and no listener.
func (p Place) passing(err error) bool {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return false
	}
	listens, err := listened(p.Addr, procTables...)
	return err == nil && !listens // if the kernel does not name the listener, it is taken to be a lasting one
}

// refused says why the place cannot be bound.
func (p Place) refused(err error) error {
	why, next := err.Error(), "give another "+p.Flag
	var path *fs.PathError
	switch {
	case errors.As(err, &path):
		why, next = cli.Reason(err), "give a file this user can make"
	case errors.Is(err, syscall.EADDRINUSE):
		why, next = "the port is in use", fmt.Sprintf("stop what listens there or give another %s", p.Flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		why, next = "this machine has no such address", fmt.Sprintf("give %s an address of this machine", p.Flag)
	case errors.Is(err, syscall.EACCES):
		why, next = "ports below 1024 need a privilege", fmt.Sprintf("give %s a higher port", p.Flag)
	}
	return fmt.Errorf("listen on %s %s: %s; %s", p.Flag, p.Addr, why, next)
}
