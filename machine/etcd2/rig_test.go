package etcd2

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/entry"
	e2 "github.com/holdfastdb/holdfast/entry/etcd2"
	"github.com/holdfastdb/holdfast/machine"
	"github.com/holdfastdb/holdfast/store"
)

// rig drives one machine through its applier, as a node would, at a tick and wall time of its own.
type rig struct {
	t     testing.TB
	st    store.Store
	m     *Machine
	a     *machine.Applier
	index uint64
	tick  int64
}

const startWall = 1_800_000_000_000_000_000

func newRig(t testing.TB) *rig { return openRig(t, store.NewMem(), Options{}) }

func openRig(t testing.TB, st store.Store, opt Options) *rig {
	r := &rig{t: t, st: st, m: New(opt), tick: 1000}
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
	again.tick = r.tick
	*r = *again
}

// apply applies one entry with one command per part.
func (r *rig) apply(parts ...*e2.Part) []*entry.Result {
	r.t.Helper()
	data := entry.AppendHeader(nil, entry.Header{TickMs: r.tick, WallNs: startWall + r.tick*1e6})
	for i, p := range parts {
		data = entry.AppendPacked(data, entry.AppendCommand(nil, &entry.Command{
			Origin: 1, Seq: uint64(i), Term: 1, Parts: []entry.Part{{Machine: entry.MachineEtcd2, Body: e2.Append(nil, p)}}}))
	}
	var out []*entry.Result
	r.index++
	err := r.a.Apply(r.index, 1, data, func(_, _ uint64) bool { return true }, func(_, _ uint64, res *entry.Result) {
		out = append(out, res)
	})
	if err != nil {
		r.t.Fatalf("apply %d: %v", r.index, err)
	}
	// The entry's memory is somebody else's now: what was kept of it must have been copied.
	for i := range data {
		data[i] = 0xff
	}
	return out
}

// say applies one command, given as its line in a story, and returns what a client would care about on one line.
func (r *rig) say(line string) string {
	r.t.Helper()
	return show(r.apply(parse(r.t, line))[0])
}

func show(res *entry.Result) string {
	if res.Rejection != nil {
		ref := e2.RefusalOf(res.Rejection)
		return fmt.Sprintf("%d %s (%d)", ref.Code, ref.Cause, ref.Index)
	}
	switch v := res.Of(entry.MachineEtcd2).(type) {
	case *Event:
		return showEvent(v)
	default:
		return fmt.Sprint(v)
	}
}

func showEvent(e *Event) string {
	s := e.Action.String() + " " + showNode(&e.Node)
	if e.HasPrev {
		s += " was " + showNode(&e.Prev)
	}
	if e.Refresh {
		s += " quietly"
	}
	return s
}

func showNode(n *Node) string {
	s := string(n.Path)
	if n.Dir {
		s += "/"
	} else {
		s += "=" + string(n.Value)
	}
	s += fmt.Sprintf(" %d,%d", n.Created, n.Modified)
	if n.Expiration != 0 {
		s += fmt.Sprintf(" ttl=%d", n.TTL)
	}
	return s
}

// parse reads a command: kind, path[=value], then dir, recursive, refresh, ttl=S, if=VALUE, at=INDEX, or limit=N.
func parse(t testing.TB, line string) *e2.Part {
	t.Helper()
	f := strings.Fields(line)
	kinds := map[string]e2.Kind{"set": e2.Set, "create": e2.Create, "update": e2.Update, "swap": e2.CompareAndSwap, "delete": e2.Delete,
		"cad": e2.CompareAndDelete, "post": e2.InOrder, "expire": e2.Expire}
	p := &e2.Part{Kind: kinds[f[0]], Limit: 1000}
	for i, w := range f[1:] {
		k, v, _ := strings.Cut(w, "=")
		switch {
		case k == "limit":
			fmt.Sscan(v, &p.Limit)
		case i == 0:
			p.Path = []byte(k)
			if v != "" {
				p.Value = []byte(v)
			}
		case k == "dir":
			p.Dir = true
		case k == "recursive":
			p.Recursive = true
		case k == "refresh":
			p.Refresh = true
		case k == "ttl":
			fmt.Sscan(v, &p.TTL)
			p.HasTTL, p.TTL = true, p.TTL*1e9
		case k == "if":
			p.PrevValue = []byte(v)
		case k == "at":
			fmt.Sscan(v, &p.PrevIndex)
		default:
			t.Fatalf("%s: what is %q", line, w)
		}
	}
	return p
}

// tree prints everything below path, one node a line, indented by depth; it also checks what Key says of each key.
func (r *rig) tree(path string) string {
	r.t.Helper()
	var b strings.Builder
	var l Lookup
	_, err := r.m.List([]byte(path), true, r.tick, 1<<30, func(depth int, n *Node) {
		fmt.Fprintf(&b, "%s%s\n", strings.Repeat("  ", depth), showNode(n))
		k, _, ok, err := r.m.Key(&l, n.Path, func() int64 { return r.tick })
		if err != nil || ok == n.Dir || ok && showNode(&k) != showNode(n) {
			r.t.Errorf("Key says %s, %v, %v where List says %s", showNode(&k), ok, err, showNode(n))
		}
	})
	if err != nil {
		return err.Error()
	}
	return b.String()
}

// dump prints every row of a store, for comparing two of them.
func dump(t testing.TB, st store.Reader) string {
	it, err := st.NewIter(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	var out strings.Builder
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%q %x\n", it.Key(), v)
	}
	return out.String()
}
