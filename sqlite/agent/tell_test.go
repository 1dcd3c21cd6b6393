package agent

import (
	"slices"
	"testing"

	"github.com/holdfastdb/holdfast/sqlite/gate"
)

// TestExtensionsHearOfChangesAndOfNothingElse: a phase, its reason, and that transactions wait are sent when they change.
func TestExtensionsHearOfChangesAndOfNothingElse(t *testing.T) {
	h := newRig(t).byHand(gate.Archive)
	c := h.joins(gate.Hello{})
	for _, s := range []struct {
		what string
		do   func()
		want []string
	}{
		{"another phase", func() { h.enter(gate.Open, "") }, []string{"\x00\x00"}},
		{"the same phase", func() { h.enter(gate.Open, "") }, nil},
		{"another reason of another phase", func() { h.enter(gate.InDoubt, "late") }, []string{"\x02\x00late"}},
		{"another reason of the same phase", func() { h.enter(gate.InDoubt, "later") }, []string{"\x02\x00later"}},
		{"another phase with the same reason", func() { h.enter(gate.Opening, "later") }, []string{"\x04\x00later"}},
		{"transactions wait", func() { h.setHold(true) }, []string{"\x04\x01later"}},
		{"transactions still wait", func() { h.setHold(true) }, nil},
		{"transactions wait no longer", func() { h.setHold(false) }, []string{"\x04\x00later"}},
		{"transactions have not waited", func() { h.setHold(false) }, nil},
	} {
		c.states = nil
		s.do()
		if !slices.Equal(c.states, s.want) {
			t.Errorf("%s: the extension hears %q, want %q", s.what, c.states, s.want)
		}
	}
}

// TestAConnectionThatLeavesHearsNothingMore, and the others do.
func TestAConnectionThatLeavesHearsNothingMore(t *testing.T) {
	h := newRig(t).byHand(gate.Archive)
	leaves, stays := h.joins(gate.Hello{}), h.joins(gate.Hello{})
	h.Leave(leaves.Conn)
	h.enter(gate.Open, "")
	if len(leaves.states) != 0 || len(stays.states) != 1 {
		t.Errorf("the connection that left hears %q, the other one %q", leaves.states, stays.states)
	}
	if n := h.stands().Connections; n != 1 {
		t.Errorf("%d connections are counted, want 1", n)
	}
}

// TestAConnectionHasTheAckThatItAskedFor, and the database's if it asked for none.
func TestAConnectionHasTheAckThatItAskedFor(t *testing.T) {
	h := newRig(t).byHand(gate.Archive)
	for asked, want := range map[gate.Ack]gate.Ack{gate.Default: gate.Archive, gate.Archive: gate.Archive, gate.Local: gate.Local} { // any order: each alone
		c := gate.NewConn(gate.Hello{Ack: asked}, func([]byte) {})
		if s := h.Join(c); s.Ack != want || !s.Managed {
			t.Errorf("a HELLO with ack %s is answered with %+v", asked, s)
		}
		h.mu.Lock()
		s := h.refusing(c, "why")
		h.mu.Unlock()
		if s.Ack != want || s.Refuse != gate.InDoubt || s.Text != "why" {
			t.Errorf("a HELLO with ack %s is refused with %+v", asked, s)
		}
	}
}
