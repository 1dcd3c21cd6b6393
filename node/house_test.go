package node

import (
	"github.com/holdfastdb/holdfast/entry"
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/machine"
	metcd2 "github.com/holdfastdb/holdfast/machine/etcd2"
	mkv "github.com/holdfastdb/holdfast/machine/kv"
	mtree "github.com/holdfastdb/holdfast/machine/tree"
)

// The lanes of the doors, as the wiring gives them.
const (
	LaneKV   Lane = 1
	LaneTlog Lane = 2
)

// house adds to a configuration what the wiring hands to a node: machines and lanes.
func house(cfg Config) Config {
	s := budget.Of(max(cfg.MemoryBytes, 64<<20))
	cfg.Machines = []machine.Machine{
		mkv.New(mkv.Options{CacheBytes: int(s.Keys), HotBytes: int(s.Hot), FilterBytes: int(s.Filter), RecentBytes: int(s.Recent),
			BlockBytes: int(s.Blocks), PastBytes: int(s.Past)}),
		metcd2.New(metcd2.Options{CacheBytes: int(s.Nodes2), RecentBytes: int(s.Recent2)}),
		mtree.New(),
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

func (n *Node) kv() *mkv.Machine       { return machineOf[*mkv.Machine](n, entry.MachineKV) }
func (n *Node) etcd2() *metcd2.Machine { return machineOf[*metcd2.Machine](n, entry.MachineEtcd2) }
