package sim

import (
	"slices"

	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/node"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	v2machine "github.com/holdfastdb/holdfast/doors/kv/v2/machine"
	"github.com/holdfastdb/holdfast/internal/budget"
)

// laneKV is the lane of the door that the clients here stand for.
const laneKV node.Lane = 1

// lanes are that one, and those of plugs.
func (w *World) lanes() []node.LaneSpec {
	all := []node.LaneSpec{{Number: laneKV, Name: "kv"}}
	for _, p := range w.parts {
		all = append(all, p.Lanes...)
	}
	return all
}

// house is what one process hands to its node, and reads.
type house struct {
	kv    *kvmachine.Machine
	etcd2 *v2machine.Machine
	more  []machine.Machine // of plugs
}

func (w *World) newHouse() house {
	s := budget.Of(budget.Small, slices.Concat(kvmachine.Claims(true), v2machine.Claims(true))...)
	h := house{
		kv:    kvmachine.New(kvmachine.OptionsOf(s)),
		etcd2: v2machine.New(v2machine.OptionsOf(s)),
	}
	for _, p := range w.parts {
		h.more = append(h.more, p.Machine())
	}
	return h
}

func (h *house) machines() []machine.Machine {
	return append([]machine.Machine{h.kv, h.etcd2}, h.more...)
}
