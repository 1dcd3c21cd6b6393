package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/internal/meter"
	"github.com/holdfastdb/holdfast/serve/ack"
	"github.com/holdfastdb/holdfast/serve/port"
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
	// Reserved returns addresses to which no door may have its server connect for a client. They are the admin and peer ports of this
	// member, and the known ones of other members.
	Reserved func() []netip.AddrPort
	// Doors are addresses at which this member serves clients, and those at which the others are taken to.
	Doors func() []netip.AddrPort
	// Ack is the durability dial, for the options of every door.
	Ack ack.Dial
	// Steps are where each step of a write is counted.
	Steps *meter.Steps
	Log   *slog.Logger

	// offers are what doors have for those behind them in the list. The goroutine that opens the doors owns it.
	offers []any

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

// Offer has the doors behind this one in the list find v, by its type (Offered). It is called from Service.Open.
func (h *Host) Offer(v any) { h.offers = append(h.offers, v) }

// Offered returns the value of a type that an earlier door in the list offers. It is the type's zero value if there is none: that door is
// off. It is called from Service.Open.
func Offered[T any](h *Host) (v T) {
	for _, o := range h.offers {
		if found, ok := o.(T); ok {
			return found
		}
	}
	return v
}

// Machine returns the machine of that type. The machines of all the program's doors are there, on or off.
func Machine[M machine.Machine](h *Host) M {
	for _, m := range h.Machines {
		if found, ok := m.(M); ok {
			return found
		}
	}
	panic(fmt.Sprintf("no door brings the machine %T", *new(M))) // the program's own list is wrong
}
