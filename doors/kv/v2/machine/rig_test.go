package machine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/store"
	v2part "github.com/holdfastdb/holdfast/doors/kv/v2/part"
)

// rig drives one machine.
type rig struct {
	*machinetest.Rig
	m *Machine
}

func newRig(t testing.TB) *rig { return openRig(t, store.NewMem(), Options{}) }

func openRig(t testing.TB, st store.Store, opt Options) *rig {
	t.Helper()
	m := New(opt)
	r := &rig{machinetest.Open(t, st, m), m}
	r.Tick = 1000
	return r
}

// reopen is a restart that lost nothing: a new machine over the same store.
func (r *rig) reopen(opt Options) {
	tick := r.Tick
	*r = *openRig(r.T, r.Store, opt)
	r.Tick = tick
}

// apply applies one entry with one command per part.
func (r *rig) apply(parts ...*v2part.Part) []*entry.Result {
	r.T.Helper()
	var commands [][]entry.Part
	for _, p := range parts {
		commands = append(commands, machinetest.Command(entry.MachineEtcd2, v2part.Append(nil, p)))
	}
	return r.Apply(commands...)
}

// say applies one command, given as its line in a story, and returns what a client would care about on one line.
func (r *rig) say(line string) string {
	r.T.Helper()
	return show(r.apply(parse(r.T, line))[0])
}

func show(res *entry.Result) string {
	if res.Rejection != nil {
		ref := v2part.RefusalOf(res.Rejection)
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
func parse(t testing.TB, line string) *v2part.Part {
	t.Helper()
	f := strings.Fields(line)
	kinds := map[string]v2part.Kind{"set": v2part.Set, "create": v2part.Create, "update": v2part.Update, "swap": v2part.CompareAndSwap, "delete": v2part.Delete,
		"cad": v2part.CompareAndDelete, "post": v2part.InOrder, "expire": v2part.Expire}
	p := &v2part.Part{Kind: kinds[f[0]], Limit: 1000}
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
	r.T.Helper()
	var b strings.Builder
	var l Lookup
	_, err := r.m.List([]byte(path), true, r.Tick, 1<<30, func(depth int, n *Node) {
		fmt.Fprintf(&b, "%s%s\n", strings.Repeat("  ", depth), showNode(n))
		k, _, ok, err := r.m.Key(&l, n.Path, func() int64 { return r.Tick })
		if err != nil || ok == n.Dir || ok && showNode(&k) != showNode(n) {
			r.T.Errorf("Key says %s, %v, %v where List says %s", showNode(&k), ok, err, showNode(n))
		}
	})
	if err != nil {
		return err.Error()
	}
	return b.String()
}
