package machine

import (
	"bytes"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/store"
	v2part "github.com/holdfastdb/holdfast/doors/kv/v2/part"
)

// model is the machine as a plain map, written without regard to speed: what Machine does must be what it does.
type model struct {
	index uint64
	tick  int64
	nodes map[string]*mnode
}

type mnode struct {
	dir               bool
	created, modified uint64
	deadline          int64
	value             string
}

func (m *model) view(path string, n *mnode) string {
	s := path + "=" + n.value
	if n.dir {
		s = path + "/"
	}
	s += fmt.Sprintf(" %d,%d", n.created, n.modified)
	if n.deadline != 0 {
		s += fmt.Sprintf(" ttl=%d", SecondsLeft(n.deadline, m.tick))
	}
	return s
}

func (m *model) refuse(code int, cause string) string {
	return fmt.Sprintf("%d %s (%d)", code, cause, m.index)
}

// find returns what is at path or why there is nothing.
func (m *model) find(path string) (*mnode, string) {
	for i := 1; i < len(path); i++ {
		end := len(path)
		if j := strings.IndexByte(path[i:], '/'); j >= 0 {
			end = i + j
		}
		n := m.nodes[path[:end]]
		switch {
		case n == nil:
			return nil, m.refuse(100, path[:end])
		case end == len(path):
			return n, ""
		case !n.dir:
			return nil, m.refuse(104, path[:end])
		}
		i = end
	}
	return nil, ""
}

func (m *model) remove(path string) {
	delete(m.nodes, path)
	for p := range m.nodes {
		if strings.HasPrefix(p, path+"/") {
			delete(m.nodes, p)
		}
	}
}

func (m *model) do(p *v2part.Part) string {
	path := string(p.Path)
	if p.Kind == v2part.InOrder {
		path = string(appendInOrder(nil, p.Path, m.index+1))
	}
	old, why := m.find(path)
	deadline := int64(0)
	if p.HasTTL {
		deadline = m.tick + p.TTL/1e6
	}
	was := ""
	if old != nil {
		was = " was " + m.view(path, old)
	}
	quiet := ""
	if p.Refresh {
		quiet = " quietly"
	}
	switch p.Kind {
	case v2part.Set, v2part.Create, v2part.InOrder:
		value, action := string(p.Value), "create"
		if p.Kind == v2part.Set {
			action = "set"
			if strings.HasPrefix(why, "104") || why != "" && p.Refresh {
				return why
			}
			if old != nil && old.dir {
				return m.refuse(102, path)
			}
			if p.Refresh {
				value = old.value
			}
		} else {
			was, quiet = "", ""
			if strings.HasPrefix(why, "104") {
				return why
			}
			if old != nil {
				return m.refuse(105, path)
			}
		}
		if p.Dir {
			value = ""
		}
		m.index++
		for i := 1; i < len(path); i++ {
			if path[i] == '/' && m.nodes[path[:i]] == nil {
				m.nodes[path[:i]] = &mnode{dir: true, created: m.index, modified: m.index}
			}
		}
		n := &mnode{dir: p.Dir, created: m.index, modified: m.index, deadline: deadline, value: value}
		m.nodes[path] = n
		return action + " " + m.view(path, n) + was + quiet
	}
	if why != "" {
		return why
	}
	mismatch := func() string {
		if old.dir {
			return m.refuse(102, path)
		}
		var c []string
		if len(p.PrevValue) > 0 && string(p.PrevValue) != old.value {
			c = append(c, fmt.Sprintf("[%s != %s]", p.PrevValue, old.value))
		}
		if p.PrevIndex != 0 && p.PrevIndex != old.modified {
			c = append(c, fmt.Sprintf("[%d != %d]", p.PrevIndex, old.modified))
		}
		if c != nil {
			return m.refuse(101, strings.Join(c, " "))
		}
		return ""
	}
	action := ""
	switch p.Kind {
	case v2part.Update, v2part.CompareAndSwap:
		action = "update"
		if p.Kind == v2part.CompareAndSwap {
			action = "compareAndSwap"
			if why := mismatch(); why != "" {
				return why
			}
		}
		if old.dir && len(p.Value) > 0 {
			return m.refuse(102, path)
		}
		m.index++
		if !old.dir {
			old.modified = m.index
			if !p.Refresh {
				old.value = string(p.Value)
			}
		}
		old.deadline = deadline
		shown := *old
		shown.modified = m.index
		return action + " " + m.view(path, &shown) + was + quiet
	case v2part.CompareAndDelete:
		action = "compareAndDelete"
		if why := mismatch(); why != "" {
			return why
		}
	case v2part.Delete:
		action = "delete"
		if old.dir && !p.Recursive {
			if !p.Dir {
				return m.refuse(102, path)
			}
			for q := range m.nodes {
				if strings.HasPrefix(q, path+"/") {
					return m.refuse(108, path)
				}
			}
		}
	}
	m.index++
	shown := mnode{dir: old.dir, created: old.created, modified: m.index}
	m.remove(path)
	return action + " " + m.view(path, &shown) + was
}

// expire removes everything whose time is up; which of several that are up goes first does not show in the tree.
func (m *model) expire() string {
	var due []string
	for p, n := range m.nodes {
		if n.deadline != 0 && n.deadline <= m.tick {
			due = append(due, p)
		}
	}
	slices.SortFunc(due, func(a, b string) int {
		if d := m.nodes[a].deadline - m.nodes[b].deadline; d != 0 {
			return int(d)
		}
		return bytes.Compare(appendPath(nil, []byte(a)), appendPath(nil, []byte(b)))
	})
	n := 0
	for _, p := range due {
		if m.nodes[p] != nil {
			m.index++
			n++
			m.remove(p)
		}
	}
	return fmt.Sprint(n)
}

func (m *model) tree() string {
	var paths []string
	for p := range m.nodes {
		paths = append(paths, p)
	}
	slices.SortFunc(paths, func(a, b string) int { return bytes.Compare(appendPath(nil, []byte(a)), appendPath(nil, []byte(b))) })
	s := "// 0,0\n"
	for _, p := range paths {
		s += strings.Repeat("  ", strings.Count(p, "/")) + m.view(p, m.nodes[p]) + "\n"
	}
	return s
}

func randomPart(r *rand.Rand, m *model) *v2part.Part {
	names := []string{"a", "b", "c", "a\x00", "a!"}
	path := ""
	for range 1 + r.Intn(4) {
		path += "/" + names[r.Intn(len(names))]
	}
	value := []byte(fmt.Sprint("v", r.Intn(3)))
	p := &v2part.Part{Path: []byte(path)}
	if r.Intn(4) == 0 {
		p.HasTTL, p.TTL = true, int64(r.Intn(5))*1e9
	}
	switch r.Intn(12) {
	case 0, 1, 2:
		p.Kind, p.Value = v2part.Set, value
	case 3:
		p.Kind, p.Dir = v2part.Set, true
	case 4:
		p.Kind, p.Value, p.Dir = v2part.Create, value, r.Intn(3) == 0
	case 5:
		p.Kind, p.Value = v2part.Update, value
		if r.Intn(3) == 0 {
			p.Value = nil
		}
	case 6:
		p.Kind, p.Value, p.PrevValue = v2part.CompareAndSwap, value, []byte("v1")
	case 7:
		p.Kind, p.Value, p.PrevIndex = v2part.CompareAndDelete, value, m.index-uint64(r.Intn(5))
	case 8, 9:
		p.Kind, p.Dir, p.Recursive = v2part.Delete, r.Intn(2) == 0, r.Intn(3) > 0
	case 10:
		p.Kind, p.Value = v2part.InOrder, value
		if r.Intn(4) == 0 {
			p.Path = []byte("/")
		}
	case 11:
		p.Kind, p.Refresh, p.HasTTL, p.TTL = []v2part.Kind{v2part.Set, v2part.Update}[r.Intn(2)], true, true, 2e9
	}
	return p
}

// TestAgainstModel feeds machine and model the same random commands, many to an entry. A second machine with next to no cache must come to
// the same rows, byte for byte: its writes may not depend on its memory.
func TestAgainstModel(t *testing.T) {
	for seed := range int64(40) {
		rnd := rand.New(rand.NewSource(seed))
		r := newRig(t)
		other := openRig(t, store.NewMem(), Options{CacheBytes: 1, RecentBytes: 1})
		m := &model{index: freshIndex, nodes: map[string]*mnode{}}
		for step := range 150 {
			r.Tick += int64(rnd.Intn(800))
			other.Tick, m.tick = r.Tick, r.Tick
			if rnd.Intn(8) == 0 {
				e := &v2part.Part{Kind: v2part.Expire, Limit: 1 << 20}
				got, want := show(r.apply(e)[0]), m.expire()
				other.apply(e)
				if got != want {
					t.Fatalf("seed %d step %d: expired %s, want %s", seed, step, got, want)
				}
			}
			var parts []*v2part.Part
			var want []string
			for range 1 + rnd.Intn(12) {
				p := randomPart(rnd, m)
				parts = append(parts, p)
				want = append(want, m.do(p))
			}
			other.apply(parts...)
			for i, res := range r.apply(parts...) {
				if got := show(res); got != want[i] {
					t.Fatalf("seed %d step %d: %s\n got %s\nwant %s", seed, step, parts[i], got, want[i])
				}
			}
			if got, want := r.tree("/"), m.tree(); got != want {
				t.Fatalf("seed %d step %d:\n%s\nwant\n%s", seed, step, got, want)
			}
			if rnd.Intn(40) == 0 {
				r.reopen(Options{})
			}
		}
		if a, b := r.Dump(), other.Dump(); a != b {
			t.Fatalf("seed %d: two members differ:\n%s\n%s", seed, a, b)
		}
	}
}
