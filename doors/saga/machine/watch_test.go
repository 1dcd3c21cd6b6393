package machine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/store"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// heard notes what a watcher hears.
type heard []string

func (h *heard) f(s sagapart.State, passes uint32, ended bool) {
	*h = append(*h, fmt.Sprintf("%d %d→%d passes %d %v", s.Number, s.Was, s.Status, passes, ended))
}

// TestWhoWatchesHearsEveryChange: of status, and of the end of a pass; in order, several in one entry each, and of its own gid alone.
func TestWhoWatchesHearsEveryChange(t *testing.T) {
	r := newRig(t)
	var a, b, both heard
	cancels := []func(){r.m.Watch("a", a.f), r.m.Watch("b", b.f), r.m.Watch("a", both.f), r.m.Watch("b", both.f)}
	r.must("begin a saga prepared", "begin a saga prepared", "register a branch=1,cancel,u", "begin a saga submitted", "change a next=5",
		"change a next=5 pass", "begin a saga submitted", "change a to=submitted")
	r.say("change a from=prepared to=failed")
	r.apply(parse(t, "begin b saga submitted"), parse(t, "change a to=aborting pass"), parse(t, "change b to=succeed"), parse(t, "change a to=failed"))
	if want := (heard{"1 0→1 passes 0 false", "1 1→2 passes 0 false", "1 2→2 passes 1 true", "1 2→4 passes 2 true", "1 4→5 passes 2 false"}); !slices.Equal(a, want) {
		t.Errorf("of a: %q", a)
	}
	if want := (heard{"2 0→2 passes 0 false", "2 2→3 passes 0 false"}); !slices.Equal(b, want) {
		t.Errorf("of b: %q", b)
	}
	if want := append(slices.Clone(a[:3]), b[0], a[3], b[1], a[4]); !slices.Equal(both, want) {
		t.Errorf("of both: %q", both)
	}
	for _, cancel := range cancels {
		cancel()
		cancel() // once more changes nothing
	}
	if n := len(r.m.watches.of); n != 0 {
		t.Errorf("%d gids are still watched", n)
	}
}

// TestAWatchMayEndItself: one that has heard enough cancels where it stands, and the others hear on.
func TestAWatchMayEndItself(t *testing.T) {
	r := newRig(t)
	var first, second heard
	var cancel func()
	cancel = r.m.Watch("g", func(s sagapart.State, passes uint32, ended bool) {
		first.f(s, passes, ended)
		cancel()
	})
	r.m.Watch("g", second.f)
	r.must("begin g saga submitted", "change g to=failed")
	if len(first) != 1 || len(second) != 2 {
		t.Errorf("the first heard %q, the second %q", first, second)
	}
}

// TestWhatIsHeardCanBeRead: when a watcher is called the rows say what it hears, though readers are let in only afterwards.
func TestWhatIsHeardCanBeRead(t *testing.T) {
	st := &machinetest.Watched{Mem: store.NewMem()}
	r := openRig(t, st, Options{})
	called := false
	r.m.Watch("g", func(s sagapart.State, _ uint32, _ bool) {
		called = true
		if _, open := r.m.gate.Version(); open {
			t.Error("readers are let in")
		}
		if got, err := Read(st, "g"); err != nil || got == nil || got.Status != s.Status {
			t.Errorf("the rows say %v, %v", got, err)
		}
	})
	st.During = func() {
		if called {
			t.Error("it was called before the entry was visible")
		}
	}
	if r.must("begin g saga submitted"); !called {
		t.Error("nobody was told")
	}
}
