package kv

import (
	"fmt"
	"testing"

	"github.com/holdfastdb/holdfast/entry"
	ekv "github.com/holdfastdb/holdfast/entry/kv"
	"github.com/holdfastdb/holdfast/machine"
	"github.com/holdfastdb/holdfast/store"
)

// rig drives one machine through its applier, as a node would.
type rig struct {
	t     testing.TB
	st    store.Store
	m     *Machine
	a     *machine.Applier
	index uint64
	log   [][]byte // entries applied
}

func newRig(t testing.TB, opt Options) *rig {
	return openRig(t, store.NewMem(), opt)
}

func openRig(t testing.TB, st store.Store, opt Options) *rig {
	r := &rig{t: t, st: st, m: New(opt)}
	r.a = machine.NewApplier(st, r.m)
	if err := r.a.Load(); err != nil {
		t.Fatal(err)
	}
	r.index = st.Applied()
	return r
}

// reopen is a restart that lost nothing: a new machine over the same store.
func (r *rig) reopen(opt Options) {
	again := openRig(r.t, r.st, opt)
	again.log = r.log
	*r = *again
}

// pack builds the data of one entry.
func pack(term uint64, parts ...*ekv.Part) []byte {
	data := entry.AppendHeader(nil, entry.Header{})
	for i, p := range parts {
		data = entry.AppendPacked(data, entry.AppendCommand(nil, &entry.Command{
			Origin: 1, Seq: uint64(i), Term: term, Parts: []entry.Part{{Machine: entry.MachineKV, Body: ekv.Append(nil, p)}}}))
	}
	return data
}

func (r *rig) applyData(data []byte, wanted bool) []*entry.Result {
	r.t.Helper()
	var out []*entry.Result
	r.index++
	err := r.a.Apply(r.index, 1, data, func(_, _ uint64) bool { return wanted }, func(_, seq uint64, res *entry.Result) {
		if int(seq) != len(out) {
			r.t.Fatalf("answer %d came at place %d", seq, len(out))
		}
		out = append(out, res)
	})
	if err != nil {
		r.t.Fatalf("apply %d: %v", r.index, err)
	}
	return out
}

// apply applies one entry with one command per part.
func (r *rig) apply(parts ...*ekv.Part) []*entry.Result {
	r.t.Helper()
	data := pack(1, parts...)
	r.log = append(r.log, data)
	return r.applyData(data, true)
}

func (r *rig) must(p *ekv.Part) any {
	r.t.Helper()
	res := r.apply(p)[0]
	if res.Rejection != nil {
		r.t.Fatalf("%s: %v", p, res.Rejection)
	}
	return res.Of(entry.MachineKV)
}

func putPart(key, value string) *ekv.Part {
	return &ekv.Part{Put: &ekv.Put{Key: []byte(key), Value: []byte(value)}}
}

// dump prints every row of a store, for comparing two of them.
func dump(t testing.TB, st store.Reader) string {
	it, err := st.NewIter(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	out := ""
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			t.Fatal(err)
		}
		out += fmt.Sprintf("%q %x\n", it.Key(), v)
	}
	return out
}
