package extension

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/extagent"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// held has the agent hold back every DONE until release is called.
func (p *place) held() (release func(code byte)) {
	gate, code := make(chan struct{}), byte(0)
	p.Answer(func(extagent.Commit) (byte, string) {
		<-gate
		return code, "told to"
	})
	p.t.Cleanup(func() {
		select {
		case <-gate:
		default:
			close(gate)
		}
	})
	return func(c byte) {
		code = c
		close(gate)
	}
}

// pending reports whether a statement has no answer yet.
func pending(c chan reply) bool {
	return len(c) == 0
}

func TestACommitWaitsUntilItIsStoredWhileOthersSeeItAndGoOn(t *testing.T) {
	p := newPlace(t, "archive")
	g := p.started()
	a, b := g.open(p.db), g.open(p.db)
	before := len(p.Commits())
	release := p.held()
	first := a.start("exec", "insert into t values(1)")
	wait.Until(t, "the agent is asked", func() bool { return len(p.Commits()) == before+1 })
	b.is("select count(*) from t", 2)
	second := b.start("exec", "insert into t values(2)")
	wait.Until(t, "another commits meanwhile", func() bool { return len(p.Commits()) == before+2 })
	if !pending(first) || !pending(second) {
		t.Error("a commit was acknowledged before it was stored")
	}
	release(0)
	for _, c := range []chan reply{first, second} {
		if r := g.wait(c); r.Error != "" {
			t.Error(r.Error)
		}
	}
	all := p.Commits()
	x, y := all[before], all[before+1]
	if x.Until != extagent.Stored || x.Exclusive || y.Frame <= x.Frame || x.Salt != y.Salt {
		t.Errorf("asked for %+v, then %+v", x, y)
	}
}

func TestTwentyCommitsWaitTogether(t *testing.T) {
	p := newPlace(t, "archive")
	g := p.started()
	var conns []*conn
	for range 20 {
		conns = append(conns, g.open(p.db))
	}
	before := len(p.Commits())
	release := p.held()
	var all []chan reply
	for i, c := range conns {
		all = append(all, c.start("exec", fmt.Sprintf("insert into t values(%d)", i)))
	}
	wait.Until(t, "all twenty wait at the agent", func() bool { return len(p.Commits()) == before+20 })
	release(0)
	frames := map[uint32]bool{}
	for _, m := range p.Commits()[before:] {
		frames[m.Frame] = true
	}
	for _, c := range all {
		if r := g.wait(c); r.Error != "" {
			t.Error(r.Error)
		}
	}
	if len(frames) != 20 {
		t.Errorf("twenty commits asked for %d positions", len(frames))
	}
}

func TestWhatCommitsNothingDoesNotWait(t *testing.T) {
	p := newPlace(t, "archive")
	c := p.started().open(p.db)
	before := len(p.Commits())
	c.exec("begin immediate", "commit")
	c.exec("begin", "insert into t values(1)", "rollback")
	c.exec("begin", "savepoint s", "insert into t values(2)", "rollback to s", "release s", "rollback")
	c.exec("pragma cache_size=5", "begin", "with recursive n(i) as (select 1 union all select i+1 from n where i<3000) insert into t select zeroblob(400) from n", "rollback")
	c.exec("begin immediate", "commit", "select * from t", "pragma wal_checkpoint(passive)", "pragma wal_checkpoint(truncate)")
	if n := len(p.Commits()) - before; n != 0 {
		t.Errorf("the agent was asked %d times", n)
	}
	c.is("select count(*) from t", 1)
}

func TestEveryWayToCommitWaits(t *testing.T) {
	p := newPlace(t, "archive")
	c := p.started().open(p.db)
	last := p.Commits()[len(p.Commits())-1]
	for _, way := range [][]string{
		{"insert into t values(1)"},
		{"begin", "savepoint s", "insert into t values(2)", "rollback to s", "insert into t values(3)", "release s", "commit"},
		{"savepoint s", "insert into t values(4)", "release s"},
		{"pragma cache_size=5", "begin", "with recursive n(i) as (select 1 union all select i+1 from n where i<3000) insert into t select zeroblob(400) from n", "commit"},
		{"update t set a=a||'x'"},
		{"delete from t where rowid>3"},
		{"create index i on t(a)"},
		{"vacuum"},
		{"pragma user_version=7"},
		{"pragma wal_checkpoint(truncate)", "begin exclusive", "insert into t values(5)", "commit"},
	} {
		before := len(p.Commits())
		c.exec(way...)
		all := p.Commits()[before:]
		if len(all) != 1 {
			t.Errorf("%q: the agent was asked %d times", way, len(all))
			continue
		}
		if m := all[0]; m.Frame == 0 || m.Until != extagent.Stored || m.Salt == last.Salt && m.Frame <= last.Frame {
			t.Errorf("%q: %+v after %+v", way, m, last)
		}
		last = all[0]
	}
	c.is("pragma integrity_check", "ok")
}

func TestACommitThatIsNotStoredIsAnErrorAndStopsTheNext(t *testing.T) {
	for name, fails := range map[string]func(p *place, release func(byte)){
		"not in time":     func(_ *place, release func(byte)) { release(extagent.CodeLate) },
		"fenced":          func(_ *place, release func(byte)) { release(extagent.CodeFenced) },
		"the agent's end": func(p *place, _ func(byte)) { p.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, "archive")
			g := p.started()
			c, other := g.open(p.db), g.open(p.db)
			other.exec("select * from t")
			before := len(p.Commits())
			release := p.held()
			commit := c.start("exec", "insert into t values(1)")
			wait.Until(t, "the agent is asked", func() bool { return len(p.Commits()) == before+1 })
			fails(p, release)
			if r := g.wait(commit); r.Error != "OperationalError: "+ioerr {
				t.Errorf("the commit: %+v", r)
			}
			other.is("select count(*) from t", 2) // it cannot be taken back
			c.fails("insert into t values(2)", readonly)
			c.is("select count(*) from t", 2)
			p.Answer(nil)
			if name == "the agent's end" {
				if err := p.Restart(); err != nil {
					t.Fatal(err)
				}
			} else {
				p.Say(func(s *extagent.State) {})
			}
			wait.Until(t, "writing is allowed once the agent says so", func() bool { return c.do("exec", "insert into t values(3)").Error == "" })
			c.is("select count(*) from t", 3)
		})
	}
}

// TestAnAgentThatSaysNothingMoreIsAskedAgain: its state may be the one it was before the commit.
func TestAnAgentThatSaysNothingMoreIsAskedAgain(t *testing.T) {
	p := newPlace(t, "archive")
	c := p.started().open(p.db)
	p.Answer(func(extagent.Commit) (byte, string) { return extagent.CodeRefused, "" })
	c.fails("insert into t values(1)", ioerr)
	p.Answer(nil)
	c.fails("insert into t values(2)", readonly)
	wait.Until(t, "it is asked by another HELLO", func() bool { return c.do("exec", "insert into t values(3)").Error == "" })
}

func TestAnAgentThatHangsIsWaitedForAsLongAsItSaid(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes six seconds; make test has it in the full run")
	}
	p := newPlace(t, "archive")
	p.Say(func(s *extagent.State) { s.Timeout = time.Second })
	c := p.started().open(p.db)
	c.exec("select * from t")
	p.held()
	began := time.Now()
	c.fails("insert into t values(1)", ioerr)
	if took := time.Since(began); took < 5*time.Second {
		t.Errorf("it took %v, told was 1 s and 5 s for the answer", took)
	}
}

func TestLocalNeverWaits(t *testing.T) {
	p := newPlace(t, "local")
	p.held()
	g := p.python()
	c := g.open(p.db)
	c.exec("pragma journal_mode=wal", "create table t(a)")
	for i := range 50 {
		c.exec(fmt.Sprintf("insert into t values(%d)", i))
	}
	wait.Until(t, "the agent hears that something was committed", func() bool { return p.Notes() > 0 })
	if n := len(p.Commits()); n != 0 {
		t.Errorf("%d COMMITs", n)
	}
	p.Stop()
	for i := range 50 {
		c.exec(fmt.Sprintf("insert into t values(%d)", i))
	}
	c.is("select count(*) from t", 100)
	if err := p.Restart(); err != nil {
		t.Fatal(err)
	}
	notes := p.Notes()
	wait.Until(t, "an agent that comes back is found", func() bool {
		c.exec("insert into t values(0)")
		return p.Notes() > notes
	})
	c.exec("pragma journal_mode=delete", "insert into t values(1)", "pragma journal_mode=wal", "insert into t values(1)")
}

func TestAHungAgentDoesNotStopLocal(t *testing.T) {
	p := newPlace(t, "local")
	p.Mute(true)
	c := p.python().open(p.db)
	c.exec("pragma journal_mode=wal", "create table t(a)")
	wait.Quickly(t, "a commit beside an agent that hangs", time.Second, func() { c.exec("insert into t values(1)", "select * from t") })
}

func TestWithoutAnAgentArchiveReadsAndDoesNotWrite(t *testing.T) {
	p := newPlace(t, "archive")
	g := p.started()
	p.Stop()
	c := g.open(p.db)
	c.is("select count(*) from t", 1)
	for _, s := range []string{"insert into t values(1)", "begin immediate", "create table u(a)", "vacuum", "pragma user_version=3"} {
		c.fails(s, readonly)
	}
	c.exec("begin")
	c.is("select count(*) from t", 1)
	c.fails("insert into t values(1)", readonly)
	c.exec("rollback")
	c.is("pragma holdfast_ack=local", "local")
	c.exec("insert into t values(1)")
	c.is("pragma holdfast_ack=archive", "archive")
	c.fails("insert into t values(1)", readonly)
	if err := p.Restart(); err != nil {
		t.Fatal(err)
	}
	c.exec("insert into t values(1)")
	c.is("select count(*) from t", 3)
}

func TestWritingIsRefusedAsTheAgentSays(t *testing.T) {
	p := newPlace(t, "archive")
	c := p.started().open(p.db)
	for _, why := range []byte{extagent.Fenced, extagent.InDoubt, extagent.Stops} {
		p.Say(func(s *extagent.State) { s.Refuse = why })
		c.fails("insert into t values(1)", readonly)
		c.is("select count(*) from t", 1)
	}
	p.Say(func(s *extagent.State) { s.Refuse = extagent.TakingOver })
	var commits atomic.Int32
	p.Answer(func(extagent.Commit) (byte, string) { commits.Add(1); return 0, "" })
	taking := c.start("exec", "insert into t values(1)")
	time.Sleep(50 * time.Millisecond) // it has begun to wait, or will: either way it has no answer
	if !pending(taking) || commits.Load() != 0 {
		t.Error("a write transaction began while the database was taken over")
	}
	p.Say(func(s *extagent.State) { s.Refuse = extagent.Allowed })
	if r := c.g.wait(taking); r.Error != "" || commits.Load() != 1 {
		t.Errorf("%+v, %d commits", r, commits.Load())
	}
}
