package doors

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/holdfastdb/holdfast/door/ack"
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
	// Ack is the durability dial, for the options of every door.
	Ack ack.Dial
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
	// Starting ends when the start is called off.
	Starting context.Context
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
