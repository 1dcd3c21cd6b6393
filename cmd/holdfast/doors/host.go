package doors

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/holdfastdb/holdfast/cmd/holdfast/cli"
	"github.com/holdfastdb/holdfast/door/port"
	"github.com/holdfastdb/holdfast/entry"
	ekv "github.com/holdfastdb/holdfast/entry/kv"
	"github.com/holdfastdb/holdfast/internal/meter"
	"github.com/holdfastdb/holdfast/machine"
	"github.com/holdfastdb/holdfast/node"
)

// Host is the server that a door's Service runs in. Its functions may be called from any goroutine.
type Host struct {
	// Node is this member, nil before Service.Work.
	Node *node.Node
	// Machines are the node's, of all doors: Machine finds one.
	Machines []machine.Machine
	// Dir is the data directory. Founder: this member begins a cluster of its own if the directory is empty.
	Dir     string
	Founder bool
	// Conns bounds the connections of all doors together. SideConns is how many there may be on ports that only operators' programs ask.
	Conns     *port.ConnLimit
	SideConns int
	// Reserved are addresses that no door may have its server connect to for a client: the admin and peer ports of this member, and those
	// of the others as far as this one knows them.
	Reserved func() []netip.AddrPort
	// Steps are where each step of a write is counted.
	Steps *meter.Steps
	Log   *slog.Logger

	// Keys makes the parts of a change of keys that another door commits in one command with its own (door/kv, Door.Beside). Nil: there is no
	// door to keys here. It is set by the time the doors behind that one in the list open.
	Keys func(ctx context.Context, token string, t *ekv.Txn) (parts []entry.Part, code int, text string)

	// Go runs what ends by itself when the node stops.
	Go func(fn func())
	// Serve runs what returns when Service.Shutdown was called; name is for its error, which ends the server.
	Serve func(name string, serve func() error)
	// Fail ends the server with an error.
	Fail func(err error)
	// Bound notes what listens now, "kv=127.0.0.1:2379", for people; Aside notes it behind all others.
	Bound, Aside func(at ...string)
	// Serving reports whether every door accepts clients.
	Serving func() bool
}

// Machine returns the machine of that type. All machines of the program's doors are there, whichever are on.
func Machine[M machine.Machine](h *Host) M {
	for _, m := range h.Machines {
		if found, ok := m.(M); ok {
			return found
		}
	}
	panic(fmt.Sprintf("no door brings the machine %T", *new(M))) // the program's own list is wrong
}

// Place is somewhere to listen.
type Place struct {
	Network string // tcp or unix
	Addr    string // host:port, or the path of a socket file
	Flag    string // the flag that named it, with its dashes
	// Patient: connections that this machine makes may take the port for a while, and the door waits for them when it opens. Try then
	// refuses nothing.
	Patient bool
	// TLS nil is cleartext. The others are of the kv door alone.
	port.Protocols
}

// Listen binds the place or says in one line why not.
func (p Place) Listen() (net.Listener, error) {
	if p.Network == "unix" { // it may be left from a killed process; it cannot be told from one in use
		if err := os.Remove(p.Addr); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("listen on %s %s: %s; give a file this user can make", p.Flag, p.Addr, cli.Reason(err))
		}
	}
	l, err := net.Listen(p.Network, p.Addr)
	if err == nil {
		return l, nil
	}
	why, next := err.Error(), "give another "+p.Flag
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		why, next = "the port is in use", fmt.Sprintf("stop what listens there or give another %s", p.Flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		why, next = "this machine has no such address", fmt.Sprintf("give %s an address of this machine", p.Flag)
	case errors.Is(err, syscall.EACCES):
		why, next = "ports below 1024 need a privilege", fmt.Sprintf("give %s a higher port", p.Flag)
	}
	return nil, fmt.Errorf("listen on %s %s: %s; %s", p.Flag, p.Addr, why, next)
}

// Try binds the place and lets it go again, to refuse early what cannot be bound.
func (p Place) Try() error {
	if p.Network == "unix" || p.Patient {
		return nil // the file is nobody's until it is bound
	}
	l, err := p.Listen()
	if err != nil {
		return err
	}
	return l.Close()
}
