package sim

import (
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/node"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	v2machine "github.com/holdfastdb/holdfast/doors/kv/v2/machine"
	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	"github.com/holdfastdb/holdfast/internal/budget"
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
		all = append(all, node.LaneSpec{Number: laneSaga, Name: "saga", Level: sagapart.Level})
	}
	for _, p := range plugs {
		all = append(all, p.Lanes...)
	}
	return all
}

// house is what one process hands to its node, and reads.
type house struct {
	kv    *kvmachine.Machine
	etcd2 *v2machine.Machine
	tree  *tlogmachine.Machine
	saga  *sagamachine.Machine // nil: the run has none
	more  []machine.Machine    // of plugs
}

func (w *World) newHouse() house {
	s := budget.Of(budget.Default)
	h := house{
		kv: kvmachine.New(kvmachine.Options{CacheBytes: int(s.Keys), HotBytes: int(s.Hot), FilterBytes: int(s.Filter), RecentBytes: int(s.Recent),
			BlockBytes: int(s.Blocks), PastBytes: int(s.Past)}),
		etcd2: v2machine.New(v2machine.Options{CacheBytes: int(s.Nodes2), RecentBytes: int(s.Recent2)}),
		tree:  tlogmachine.New(),
	}
	if w.sagas.on {
		h.saga = sagamachine.New(w.sagas.machine)
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
