package sim

import (
	esaga "github.com/holdfastdb/holdfast/entry/saga"
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/machine"
	metcd2 "github.com/holdfastdb/holdfast/machine/etcd2"
	mkv "github.com/holdfastdb/holdfast/machine/kv"
	msaga "github.com/holdfastdb/holdfast/machine/saga"
	mtree "github.com/holdfastdb/holdfast/machine/tree"
	"github.com/holdfastdb/holdfast/node"
)

// The lanes of the doors that the clients here stand for.
const (
	laneKV   node.Lane = 1
	laneTlog node.Lane = 2
	laneSaga node.Lane = 4
)

// lanes are these, and those of plugs.
func (w *World) lanes() []node.LaneSpec {
	all := []node.LaneSpec{{Number: laneKV, Name: "kv"}, {Number: laneTlog, Name: "tlog"}}
	if w.sagas.on {
		all = append(all, node.LaneSpec{Number: laneSaga, Name: "saga", Level: esaga.Level})
	}
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
	saga  *msaga.Machine    // nil: the run has none
	more  []machine.Machine // of plugs
}

func (w *World) newHouse() house {
	s := budget.Of(budget.Default)
	h := house{
		kv: mkv.New(mkv.Options{CacheBytes: int(s.Keys), HotBytes: int(s.Hot), FilterBytes: int(s.Filter), RecentBytes: int(s.Recent),
			BlockBytes: int(s.Blocks), PastBytes: int(s.Past)}),
		etcd2: metcd2.New(metcd2.Options{CacheBytes: int(s.Nodes2), RecentBytes: int(s.Recent2)}),
		tree:  mtree.New(),
	}
	if w.sagas.on {
		h.saga = msaga.New(w.sagas.machine)
	}
	for _, p := range plugs {
		h.more = append(h.more, p.Machine())
	}
	return h
}

func (h *house) machines() []machine.Machine {
	all := []machine.Machine{h.kv, h.etcd2, h.tree}
	if h.saga != nil {
		all = append(all, h.saga)
	}
	return append(all, h.more...)
}
