// Package machinetest drives machines through their applier as a node does, one raft entry after another, for tests of machines and of
// what reads them. There is no log and no other member: an entry is applied at once, or fails the test.
package machinetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/store"
)

// Epoch is the wall time of tick 0 in nanoseconds.
const Epoch = 1_800_000_000_000_000_000

// Rig is a store, an applier and the machines under it. It stands for the loop, and so belongs to one goroutine at a time.
type Rig struct {
	T       testing.TB
	Store   store.Store
	Applier *machine.Applier
	Index   uint64 // of the last entry that was applied
	Tick    int64  // the cluster tick of the next one, in milliseconds; wall time goes with it
}

// Open loads machines from a store, which may be empty.
func Open(t testing.TB, st store.Store, machines ...machine.Machine) *Rig {
	t.Helper()
	r := &Rig{T: t, Store: st, Applier: machine.NewApplier(st, machines...)}
	if err := r.Applier.Load(); err != nil {
		t.Fatal(err)
	}
	r.Index = st.Applied()
	return r
}

// Command is a command of one part.
func Command(m entry.Machine, body []byte) []entry.Part {
	return []entry.Part{{Machine: m, Body: body}}
}

// Entry packs commands into the data of one raft entry at a tick, all of term 1.
func Entry(tick int64, commands ...[]entry.Part) []byte {
	data := entry.AppendHeader(nil, entry.Header{TickMs: tick, WallNs: Epoch + tick*1e6})
	for i, parts := range commands {
		data = entry.AppendPacked(data, entry.AppendCommand(nil, &entry.Command{Origin: 1, Seq: uint64(i), Term: 1, Parts: parts}))
	}
	return data
}

// TryData applies the data of an entry and returns the result of each command if waits is set, else none.
func (r *Rig) TryData(data []byte, waits bool) (results []*entry.Result, err error) {
	r.Index++
	err = r.Applier.Apply(r.Index, 1, data, func(_, _ uint64) bool { return waits }, func(_, seq uint64, res *entry.Result) {
		if int(seq) != len(results) {
			r.T.Errorf("entry %d: the answer to command %d came at place %d", r.Index, seq, len(results))
		}
		results = append(results, res)
	})
	return results, err
}

// ApplyData is TryData and fails the test where that fails.
func (r *Rig) ApplyData(data []byte, waits bool) []*entry.Result {
	r.T.Helper()
	results, err := r.TryData(data, waits)
	if err != nil {
		r.T.Fatalf("apply %d: %v", r.Index, err)
	}
	return results
}

// Try applies one entry of some commands and returns their results. The entry's memory is overwritten afterwards, because a node reuses it
// by then: a machine must copy the bytes it keeps.
func (r *Rig) Try(commands ...[]entry.Part) ([]*entry.Result, error) {
	data := Entry(r.Tick, commands...)
	results, err := r.TryData(data, true)
	for i := range data {
		data[i] = 0xff
	}
	return results, err
}

// Apply is Try and fails the test where that fails; a rejection is a result.
func (r *Rig) Apply(commands ...[]entry.Part) []*entry.Result {
	r.T.Helper()
	results, err := r.Try(commands...)
	if err != nil {
		r.T.Fatalf("apply %d: %v", r.Index, err)
	}
	return results
}

// Must applies one command of one part and returns the body of its result; a rejection fails the test.
func (r *Rig) Must(m entry.Machine, body []byte) any {
	r.T.Helper()
	res := r.Apply(Command(m, body))[0]
	if res.Rejection != nil {
		r.T.Fatalf("entry %d: %v", r.Index, res.Rejection)
	}
	return res.Bodies[0]
}

// Dump prints every row of the store, for comparing two of them.
func (r *Rig) Dump() string {
	r.T.Helper()
	it, err := r.Store.NewIter(nil, nil)
	if err != nil {
		r.T.Fatal(err)
	}
	defer it.Close()
	var out strings.Builder
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			r.T.Fatal(err)
		}
		fmt.Fprintf(&out, "%q %x\n", it.Key(), v)
	}
	return out.String()
}
