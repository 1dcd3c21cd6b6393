package agent

import (
	"errors"
	"testing"

	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/gate"
)

// taken is a database that is followed and of which rows 1 and 2 are stored, and whose replica another agent has taken over since.
func taken(t *testing.T) (h *hand, other *rig, b *Agent) {
	r := newRig(t)
	db := r.connect()
	r.exec(db, "create table t (x)")
	r.exec(db, "insert into t values (1), (2)")
	h = r.followed(gate.Archive)
	other = r.another()
	other.store = &bucket{Store: r.store.Store} // its requests are counted for themselves
	b = other.start(gate.Archive)
	other.rows(other.connect(), 3, 3)
	r.exec(db, "insert into t values (1000)")
	db.Close()
	return h, other, b
}

// TestAFencedAgentKeepsItsFileAsideAndRests: it warns of what happened, asks its store nothing more, and looks no more.
func TestAFencedAgentKeepsItsFileAsideAndRests(t *testing.T) {
	h, other, b := taken(t)
	c := h.joins(gate.Hello{})
	h.Commit(c.Conn, gate.Commit{Seq: 1, Stored: true, Lone: true})
	h.turns(func() bool { return len(c.done) > 0 })
	if c.done[0] != gate.WasFenced || !h.in(gate.Fenced) {
		t.Errorf("the commit is answered with %v", c.done)
	}
	before := h.r.store.requests.Load()
	if next := h.turn(); next >= 0 || !h.rest() {
		t.Errorf("the loop wants its next turn after %v", next)
	}
	if n := h.r.store.requests.Load() - before; n != 0 {
		t.Errorf("a fenced agent makes %d requests", n)
	}
	if names := h.r.kept(); len(names) != 1 {
		t.Errorf("kept aside: %v", names)
	}
	if n := h.r.log.count("what the database had is kept aside"); n != 1 {
		t.Errorf("that the file is kept aside is said %d times", n)
	}
	// That the replica was taken over, once in the log and once as an alarm, and where the file is.
	if lines := h.warned(); len(lines) != 3 {
		t.Errorf("the log warns: %q", lines)
	}
	if _, err := h.agent.cfg.FS.ReadFile(h.side + "/state"); err == nil {
		t.Error("the state of the replica that was lost is still there")
	}
	other.stop(b)
}

// TestAFencedAgentAsksNothingWhereNothingOfItsIsLeft: none of its files lies behind the fence.
func TestAFencedAgentAsksNothingWhereNothingOfItsIsLeft(t *testing.T) {
	h, other, b := taken(t)
	before := h.r.store.requests.Load()
	h.fenced()
	h.work()
	if n := h.r.store.requests.Load() - before; n != 0 {
		t.Errorf("an agent that has nothing behind the fence makes %d requests", n)
	}
	other.stop(b)
}

// TestAFencedAgentRemovesWhatIsBehindTheFence: its later upload was there before the earlier one, which found the fence. No chain will have that file.
func TestAFencedAgentRemovesWhatIsBehindTheFence(t *testing.T) {
	r := newRig(t)
	db := r.connect()
	r.exec(db, "create table t (x)")
	h := r.followed(gate.Local)
	r.exec(db, "insert into t values (1)")
	first := h.commit()
	r.exec(db, "insert into t values (2)")
	second := h.commit()
	h.tasks[0], h.tasks[1] = h.tasks[1], h.tasks[0]
	late := h.tasks[1:]
	h.tasks = h.tasks[:1]
	h.work()
	there := func() bool {
		_, _, err := r.store.GetVersion(t.Context(), r.replica().Name(second.file))
		if err != nil && !errors.Is(err, objstore.ErrAbsent) {
			t.Fatal(err)
		}
		return err == nil
	}
	if first.there || !second.there || !there() {
		t.Fatal("the second upload has not overtaken the first")
	}
	other := r.another()
	b := other.start(gate.Archive)
	wait.Until(t, "the other agent has stored its first group", func() bool { return !r.chain().Head.Fence })
	h.tasks = late
	h.work()
	h.work()
	if !h.in(gate.Fenced) || there() {
		t.Errorf("phase %d; the second file is still there: %v", h.phase, there())
	}
	other.stop(b)
}

// TestAFileInUseIsKeptAsideLater: a program has the database open when the agent is fenced. The agent looks again, each interval.
func TestAFileInUseIsKeptAsideLater(t *testing.T) {
	h, other, b := taken(t)
	program := h.r.holder()
	h.fenced()
	h.work()
	if n := h.r.log.count("a program has the database open"); n != 1 {
		t.Errorf("what the agent waits for is said %d times", n)
	}
	if next := h.turn(); next != h.agent.cfg.Interval {
		t.Errorf("the loop wants its next turn after %v", next)
	}
	if names := h.r.kept(); len(names) != 0 {
		t.Errorf("kept aside while a program has it open: %v", names)
	}
	if err := program.Kill(); err != nil {
		t.Fatal(err)
	}
	if next := h.turn(); next >= 0 {
		t.Errorf("the loop wants its next turn after %v", next)
	}
	if names := h.r.kept(); len(names) != 1 {
		t.Errorf("kept aside: %v", names)
	}
	other.stop(b)
}
