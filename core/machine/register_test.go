package machine

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/store"
)

// register is a machine of one string: a part "x" sets it, "no" is rejected, "boom" is an error. It writes down what is
// called, in capitals while the gate is open that should be closed.
type register struct {
	id     entry.Machine
	gate   *Gate
	val    string
	calls  []string
	stamps []entry.Stamp
}

func (r *register) note(call string) { r.calls = append(r.calls, string(rune(r.id))+call) }

func (r *register) Spec() *Spec { return &Spec{ID: r.id, Name: string(rune(r.id))} }

// shut notes a call during which no reader may read.
func (r *register) shut(call string) {
	if _, open := r.gate.Version(); open || r.gate.TryRLock() {
		call = strings.ToUpper(call)
	}
	r.note(call)
}

func (r *register) Load(st store.Store, gate *Gate) error {
	v, _, err := st.Get(nil, []byte{byte(r.id)})
	r.val, r.gate = string(v), gate
	r.shut("load")
	return err
}

func (r *register) Check(_ *entry.Stamp, body []byte) (any, *entry.Rejection, error) {
	switch string(body) {
	case "no":
		return nil, &entry.Rejection{Code: 7}, nil
	case "boom":
		return nil, nil, errors.New("boom")
	}
	return string(body), nil, nil
}

func (r *register) Readable(body []byte) error {
	if string(body) == "boom" {
		return errors.New("boom")
	}
	return nil
}

func (r *register) Do(st *entry.Stamp, plan any, b store.Batch, wanted bool) (any, error) {
	r.val = plan.(string)
	r.note("do " + r.val)
	r.stamps = append(r.stamps, *st)
	b.Set([]byte{byte(r.id)}, []byte(r.val))
	if wanted {
		return "did " + r.val, nil
	}
	return nil, nil
}

func (r *register) Finish(*entry.Stamp, store.Batch) error { r.note("finish"); return nil }

func (r *register) Unfinished() bool { return r.val == "much" }

func (r *register) Publish(*entry.Stamp) { r.shut("publish") }

// bench is two registers under one applier.
type bench struct {
	t    *testing.T
	st   *store.Mem
	a    *Applier
	k, m *register
	done []string
}

func newBench(t *testing.T, st *store.Mem) *bench {
	b := &bench{t: t, st: st, k: &register{id: 'k'}, m: &register{id: 'm'}}
	b.a = NewApplier(st, b.k, b.m)
	if err := b.a.Load(); err != nil {
		t.Fatal(err)
	}
	b.k.calls, b.m.calls = nil, nil
	return b
}

func (b *bench) apply(index, term uint64, data []byte) error {
	b.done = nil
	return b.a.Apply(index, term, data, func(_, seq uint64) bool { return seq < 100 }, func(_, seq uint64, r *entry.Result) {
		s := fmt.Sprintf("%d at %s", seq, r.Pos)
		if r.Rejection != nil {
			s += " rejected " + r.Rejection.Error()
		} else {
			var all []any
			for _, b := range r.Bodies {
				all = append(all, r.Of(b.Machine))
			}
			s += fmt.Sprint(" ", all)
		}
		b.done = append(b.done, s)
	})
}

func command(seq, term uint64, parts ...string) []byte {
	c := entry.Command{Origin: 1, Seq: seq, Term: term}
	for _, p := range parts {
		c.Parts = append(c.Parts, entry.Part{Machine: entry.Machine(p[0]), Body: []byte(p[1:])})
	}
	return entry.AppendCommand(nil, &c)
}

func data(h entry.Header, cmds ...[]byte) []byte {
	b := entry.AppendHeader(nil, h)
	for _, c := range cmds {
		b = entry.AppendPacked(b, c)
	}
	return b
}
