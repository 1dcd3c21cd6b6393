package machine

import (
	"bytes"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// rig drives one machine and keeps what it was given.
type rig struct {
	*machinetest.Rig
	m   *Machine
	log [][]byte // entries applied
}

func newRig(t testing.TB, opt Options) *rig { return openRig(t, store.NewMem(), opt) }

func openRig(t testing.TB, st store.Store, opt Options) *rig {
	t.Helper()
	m := New(opt)
	return &rig{Rig: machinetest.Open(t, st, m), m: m}
}

// reopen is a restart that lost nothing: a new machine over the same store.
func (r *rig) reopen(opt Options) {
	again := openRig(r.T, r.Store, opt)
	again.m.fewDeletes = r.m.fewDeletes
	r.Rig, r.m = again.Rig, again.m
}

// pack builds the data of one entry with one command per part.
func pack(parts ...*kvpart.Part) []byte {
	var commands [][]entry.Part
	for _, p := range parts {
		commands = append(commands, machinetest.Command(entry.MachineKV, kvpart.Append(nil, p)))
	}
	return machinetest.Entry(0, commands...)
}

// apply applies one entry with one command per part.
func (r *rig) apply(parts ...*kvpart.Part) []*entry.Result {
	r.T.Helper()
	data := pack(parts...)
	r.log = append(r.log, bytes.Clone(data))
	results := r.ApplyData(data, true)
	clear(data) // the node reuses it now: the machine's own must be a copy
	return results
}

func (r *rig) must(p *kvpart.Part) any {
	r.T.Helper()
	res := r.apply(p)[0]
	if res.Rejection != nil {
		r.T.Fatalf("%s: %v", p, res.Rejection)
	}
	return res.Of(entry.MachineKV)
}

func putPart(key, value string) *kvpart.Part {
	return &kvpart.Part{Put: &kvpart.Put{Key: []byte(key), Value: []byte(value)}}
}
