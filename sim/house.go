package sim

import (
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/machine"
	metcd2 "github.com/holdfastdb/holdfast/machine/etcd2"
	mkv "github.com/holdfastdb/holdfast/machine/kv"
	mtree "github.com/holdfastdb/holdfast/machine/tree"
	"github.com/holdfastdb/holdfast/node"
)

// The lanes of the doors that the clients here stand for.
const (
	laneKV   node.Lane = 1
	laneTlog node.Lane = 2
)

// lanes are these, and those of plugs.
func lanes() []node.LaneSpec {
	all := []node.LaneSpec{{Number: laneKV, Name: "kv"}, {Number: laneTlog, Name: "tlog"}}
	for _, p := range plugs {
		all = append(all, p.Lanes...)
	}
	return all
}

// house is what one process hands to its node, and reads.
type house struct {
	kv    *mkv.Machine
	etcd2 *metcd2.Machine
	tree  *mtree.Machine
	more  []machine.Machine // of plugs
}

func newHouse() house {
	s := budget.Of(budget.Default)
	h := house{
		kv:    mkv.New(mkv.Options{CacheBytes: int(s.Keys), FilterBytes: int(s.Filter), RecentBytes: int(s.Recent)}),
		etcd2: metcd2.New(metcd2.Options{CacheBytes: int(s.Nodes2), RecentBytes: int(s.Recent2)}),
		tree:  mtree.New(),
	}
	for _, p := range plugs {
		h.more = append(h.more, p.Machine())
	}
	return h
}

func (h *house) machines() []machine.Machine {
	return append([]machine.Machine{h.kv, h.etcd2, h.tree}, h.more...)
}
