package node

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A linearizable read sees what was acknowledged anywhere before it, on every member, and costs one round however many wait.
func TestReadsShareARound(t *testing.T) {
	m := newManual(t, 3)
	o := m.propose(m.nodes[1], "k", "v")
	m.until("applied", func() bool { return o.done })
	for _, n := range m.nodes {
		before := n.reads.counter
		answered := 0
		for range 100 {
			n.LinearizeAsync(0, func(err error) {
				if err != nil {
					t.Error(err)
				}
				if v, _ := read(t, n, "k"); v != "v" {
					t.Errorf("member %x reads %q", n.id, v)
				}
				answered++
			})
		}
		m.until("answered", func() bool { return answered == 100 })
		if rounds := n.reads.counter - before; rounds > 3 { // one, and what a lost tick may cost
			t.Errorf("member %x took %d rounds", n.id, rounds)
		}
	}
}

// A member that is cut off answers no read, not even one that led a moment ago and has not noticed.
func TestCutOffMemberAnswersNoRead(t *testing.T) {
	m := newManual(t, 3)
	old := m.nodes[0]
	m.cutOff(old.id)
	answered := false
	old.LinearizeAsync(0, func(error) { answered = true })
	inTerm := error(nil)
	old.LinearizeAsync(old.Status().Term, func(err error) { inTerm = err })
	m.until("another leader", func() bool { return m.nodes[1].pub.Load().leads != 0 || m.nodes[2].pub.Load().leads != 0 })
	var other *Node
	for _, n := range m.nodes[1:] {
		if n.pub.Load().leads != 0 {
			other = n
		}
	}
	o := m.propose(other, "k", "new")
	m.until("applied", func() bool { return o.done })
	if answered || inTerm != nil {
		t.Fatalf("answered while cut off: %v, %v", answered, inTerm)
	}
	m.lose = nil
	m.until("answered", func() bool { return answered && inTerm != nil })
	if v, _ := read(t, old, "k"); v != "new" {
		t.Fatalf("read %q after a linearizable read was answered", v)
	}
	if !errors.Is(inTerm, ErrSuperseded) {
		t.Fatalf("a read in the old term: %v", inTerm)
	}
}

// Readers that leave while there is no leader leave nothing behind.
func TestReadersThatLeave(t *testing.T) {
	m := newManual(t, 3)
	n := m.nodes[0]
	m.cutOff(n.id)
	m.until("no leader", func() bool { return n.rep.Leader() == 0 })
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for range 1000 {
		if err := n.Linearize(gone); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	for range 10 {
		m.step()
		m.clock.Advance(100 * time.Millisecond)
	}
	if k := len(n.reads.round) + len(n.reads.queue); k != 0 {
		t.Fatalf("%d readers are kept that nobody waits for", k)
	}
}
