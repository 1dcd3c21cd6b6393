package node

import (
	"slices"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	v2machine "github.com/holdfastdb/holdfast/doors/kv/v2/machine"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	"github.com/holdfastdb/holdfast/internal/budget"
)

// The lanes of the doors, as the wiring gives them.
const (
	LaneKV   Lane = 1
	LaneTlog Lane = 2
)

// house adds to a configuration what the wiring hands to a node: machines and lanes.
func house(cfg Config) Config {
	s := budget.Of(max(cfg.MemoryBytes, 64<<20), slices.Concat(kvmachine.Claims(true), v2machine.Claims(true))...)
	cfg.Machines = []machine.Machine{
		kvmachine.New(kvmachine.OptionsOf(s)),
		v2machine.New(v2machine.OptionsOf(s)),
		tlogmachine.New(),
	}
	cfg.Lanes = []LaneSpec{{Number: LaneKV, Name: "kv"}, {Number: LaneTlog, Name: "tlog", Bytes: 4 << 20}}
	return cfg
}

// machineOf finds the machine of a letter among those that a node was handed.
func machineOf[M machine.Machine](n *Node, id entry.Machine) M {
	for _, m := range n.cfg.Machines {
		if m.Spec().ID == id {
			return m.(M)
		}
	}
	panic("no such machine")
}

func (n *Node) kv() *kvmachine.Machine { return machineOf[*kvmachine.Machine](n, entry.MachineKV) }
func (n *Node) etcd2() *v2machine.Machine {
	return machineOf[*v2machine.Machine](n, entry.MachineEtcd2)
}
