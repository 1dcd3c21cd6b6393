package extension

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/conformance/sqlite/rig"
	"github.com/holdfastdb/holdfast/internal/extagent"
	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/sqlite/walmode"
)

func TestUnderArchiveADatabaseIsInWALMode(t *testing.T) {
	p := newPlace(t, "archive")
	g := p.python()
	c := g.open(p.db)
	c.fails("create table t(a)", readonly) // a new database begins with a rollback journal
	c.is("pragma journal_mode=wal", "wal")
	c.exec("create table t(a)")
	for _, mode := range []string{"delete", "TRUNCATE", "persist", "memory", "off"} {
		c.fails("pragma journal_mode="+mode, "only WAL")
	}
	c.is("pragma journal_mode", "wal")
	c.is("pragma journal_mode=wal", "wal")
	c.exec("insert into t values(1)")

	c.close()

	// Without a schema it is for every database, and only the main one is told.
	other := g.open(filepath.Join(p.dir, "main.db"))
	other.exec("attach '"+p.db+"' as app", "select * from app.t")
	other.fails("pragma journal_mode=delete", readonly)
	before := len(p.Commits())
	other.exec("insert into app.t values(2)")
	if n := len(p.Commits()) - before; n != 1 {
		t.Errorf("the agent was asked %d times", n)
	}
	other.close()
	c = g.open(p.db)
	c.is("pragma journal_mode", "wal")
	c.is("select count(*) from t", 2)
}

// TestATakeoverSwitchesADatabaseThatAWriterWaitsFor: the switch to WAL mode needs every lock, so a first writer has none while it waits.
func TestATakeoverSwitchesADatabaseThatAWriterWaitsFor(t *testing.T) {
	p := newPlace(t, "archive")
	if err := rig.Make(p.db, "DELETE"); err != nil {
		t.Fatal(err)
	}
	p.Say(func(s *extagent.State) { s.Refuse = extagent.TakingOver })
	c := p.python().open(p.db)
	c.is("select count(*) from entries", 0) // a reader does not wait
	writes := c.start("exec", "insert into entries values(1, 'x')")
	wait.Until(t, "the writer asks the agent", func() bool { return len(p.Hellos()) > 0 })
	wait.Until(t, "the agent has every lock", func() bool { return walmode.Switch(t.Context(), p.db) == nil })
	if !pending(writes) {
		t.Error("a write transaction began while the database was taken over")
	}
	p.Say(func(s *extagent.State) { s.Refuse = extagent.Allowed })
	if r := c.g.wait(writes); r.Error != "" {
		t.Errorf("%+v", r)
	}
	c.is("pragma journal_mode", "wal")
	c.is("select count(*) from entries", 1)
}

func TestARollbackJournalOfAKilledWriterIsRolledBackByAReader(t *testing.T) {
	p := newPlace(t, "local")
	g := p.python()
	c := g.open(p.db)
	c.exec("pragma journal_mode=delete", "create table t(a)", "insert into t values(1)", "pragma cache_size=2", "begin",
		"with recursive n(i) as (select 1 union all select i+1 from n where i<3000) insert into t select zeroblob(400) from n")
	g.kill()
	p.Say(func(s *extagent.State) { s.Ack = extagent.Archive })
	if err := p.Manage(p.db, "archive"); err != nil {
		t.Fatal(err)
	}
	p.Stop()
	c = p.python().open(p.db)
	c.is("select count(*) from t", 1)
	c.fails("insert into t values(1)", readonly)
}

// TestAWALIsRecoveredWithoutAnAgent: the first reader after a crash rebuilds the wal-index, under the lock that writers take.
func TestAWALIsRecoveredWithoutAnAgent(t *testing.T) {
	p := newPlace(t, "archive")
	g := p.started()
	c := g.open(p.db)
	c.exec("insert into t values(1)", "insert into t values(2)", "begin", "insert into t values(3)")
	g.kill()
	p.Stop()
	if err := os.Remove(p.db + "-shm"); err != nil {
		t.Fatal(err)
	}
	c = p.python().open(p.db)
	c.is("select count(*) from t", 3)
	c.fails("insert into t values(3)", readonly)
	if err := p.Restart(); err != nil {
		t.Fatal(err)
	}
	before := len(p.Commits())
	c.exec("insert into t values(4)")
	if n := len(p.Commits()) - before; n != 1 {
		t.Errorf("the agent was asked %d times", n)
	}
}

func TestExclusiveLockingHasNoPosition(t *testing.T) {
	p := newPlace(t, "archive")
	g := p.started()
	early, late := g.open(p.db), g.open(p.db)
	for name, c := range map[string]*conn{"before the WAL is open": early, "after it": late} {
		if c == late {
			c.exec("select * from t")
		}
		c.exec("pragma locking_mode=exclusive")
		before := len(p.Commits())
		c.exec("insert into t values(1)", "begin immediate", "commit", "insert into t values(2)")
		all := p.Commits()[before:]
		if n := len(all); n != 2 && c == early || n < 2 {
			t.Errorf("%s: the agent was asked %d times", name, n)
		}
		for _, m := range all[1:] {
			if !m.Exclusive || m.Until != extagent.Stored {
				t.Errorf("%s: %+v", name, m)
			}
		}
		c.is("pragma holdfast_ack=local", "local")
		before = len(p.Commits())
		c.exec("insert into t values(3)")
		if all := p.Commits()[before:]; len(all) != 1 || !all[0].Exclusive || all[0].Until != extagent.Captured {
			t.Errorf("%s, local: %+v", name, all)
		}
		p.Stop()
		c.exec("insert into t values(4)", "pragma holdfast_ack=archive")
		c.fails("insert into t values(5)", readonly)
		if err := p.Restart(); err != nil {
			t.Fatal(err)
		}
		c.exec("insert into t values(5)")
		c.close()
	}
}

func TestACommitOverTwoDatabasesIsRefused(t *testing.T) {
	p := newPlace(t, "archive")
	second, free := filepath.Join(p.dir, "second.db"), filepath.Join(p.dir, "free.db")
	if err := p.Manage(second, "archive"); err != nil {
		t.Fatal(err)
	}
	g := p.started()
	c := g.open(second)
	c.exec("pragma journal_mode=wal", "create table u(a)")
	c.close()
	c = g.open(p.db)
	c.exec("attach '"+second+"' as two", "attach '"+free+"' as three", "create table three.v(a)")
	c.exec("insert into t values(1)", "insert into two.u values(1)") // each by itself
	c.exec("begin", "insert into t values(2)")
	c.fails("insert into two.u values(2)", readonly)
	c.exec("insert into t values(3)", "insert into three.v values(3)", "commit")
	c.exec("begin", "insert into two.u values(4)", "rollback", "begin", "insert into t values(4)", "rollback")
	c.fails("begin immediate", readonly)
	c.exec("begin", "insert into two.u values(5)", "select * from t", "commit")
	c.is("select count(*) from t", 4)
	c.is("select count(*) from two.u", 2)
	c.exec("pragma main.holdfast_ack=local", "pragma two.holdfast_ack=local", "begin immediate", "insert into t values(6)", "insert into two.u values(6)", "commit")
	c.exec("pragma main.holdfast_ack=archive", "pragma two.locking_mode=exclusive", "insert into two.u values(6)", "insert into t values(6)")
	c.exec("pragma two.locking_mode=normal", "select * from two.u")
	// Another connection of the process is another matter.
	other := g.open(second)
	c.exec("begin", "insert into t values(7)")
	other.exec("insert into u values(7)")
	c.exec("commit")
	// The main database need not be kept, and the name of one that is attached sets its level.
	memory, before := g.open(":memory:"), len(p.Commits())
	memory.exec("attach 'file:"+p.db+"?holdfast_ack=archive' as app", "insert into app.t values(8)")
	memory.is("pragma app.holdfast_ack", "archive")
	if n := len(p.Commits()) - before; n != 1 {
		t.Errorf("the agent was asked %d times", n)
	}
}

func TestAChildHasASocketOfItsOwn(t *testing.T) {
	p := newPlace(t, "archive")
	g := p.started()
	c := g.open(p.db)
	c.exec("insert into t values(1)")
	before := len(p.Commits())
	r := g.wait(g.send(map[string]any{"op": "fork", "text": p.db, "statements": []string{"insert into t values(2)", "select count(*) from t"}}))
	if r.Error != "" {
		t.Fatal(r.Error)
	}
	c.exec("insert into t values(3)")
	c.is("select count(*) from t", 4)
	if n := len(p.Commits()) - before; n != 2 {
		t.Errorf("the agent was asked %d times", n)
	}
	pids := map[int]bool{}
	for _, h := range p.Hellos() {
		pids[h.PID] = true
	}
	if len(pids) != 2 {
		t.Errorf("%d processes have said hello", len(pids))
	}
}

// held is how long the extension waits at most for an agent that holds transactions.
const held = 2 * time.Second

func TestTransactionsWaitWhileTheAgentHoldsThem(t *testing.T) {
	for _, ack := range []string{"archive", "local"} {
		t.Run(ack, func(t *testing.T) {
			p := newPlace(t, ack)
			g := p.started()
			writer, inside := g.open(p.db), g.open(p.db)
			writer.exec("insert into t values(1)")
			inside.exec("begin", "insert into t values(2)")
			wait.Quickly(t, "a transaction that was held", held, func() {
				p.Say(func(s *extagent.State) { s.Hold = true })
				time.Sleep(20 * time.Millisecond) // a connection looks every 5 ms
				began := time.Now()
				waits := writer.start("exec", "select count(*) from t")
				inside.exec("insert into t values(3)", "commit") // one on its way goes on
				time.Sleep(50 * time.Millisecond)
				if !pending(waits) && time.Since(began) < held {
					t.Error("a transaction began while the agent held them")
				}
				p.Say(func(s *extagent.State) { s.Hold = false })
				if r := g.wait(waits); r.Error != "" {
					t.Errorf("%+v", r)
				}
				inside.exec("begin", "insert into t values(2)")
			})
			inside.exec("rollback")
		})
	}
}

// TestAWriterThatStartsTheWALAnewIsNotHeld: it takes a read mark a second time, while it has the WRITE lock that the agent may wait for.
func TestAWriterThatStartsTheWALAnewIsNotHeld(t *testing.T) {
	p := newPlace(t, "archive")
	c := p.started().open(p.db)
	wait.Quickly(t, "the commit", held, func() {
		c.exec("insert into t values(1)", "pragma wal_checkpoint(passive)", "begin immediate", "insert into t values(2)")
		before := p.Commits()
		p.Say(func(s *extagent.State) { s.Hold = true })
		time.Sleep(20 * time.Millisecond) // a connection looks every 5 ms
		c.exec("commit")
		p.Say(func(s *extagent.State) { s.Hold = false })
		if a, b := before[len(before)-1], p.Commits()[len(before)]; a.Salt == b.Salt {
			t.Errorf("the WAL was not started anew: %+v, %+v", a, b)
		}
	})
}

func TestAReaderThatReadsMuchIsHeldToo(t *testing.T) {
	p := newPlace(t, "archive")
	g := p.started()
	c := g.open(p.db)
	open := p.Open()
	for range 30 {
		c.exec("select count(*) from t")
	}
	wait.Until(t, "it asks for a socket", func() bool { return p.Open() == open+1 })
	p.Say(func(s *extagent.State) { s.Hold = true })
	time.Sleep(20 * time.Millisecond)
	began := time.Now()
	c.exec("select count(*) from t")
	if took := time.Since(began); took < held*3/4 {
		t.Errorf("it waited %v for an agent that never lets go, and %v are the most", took, held)
	}
}

func TestReadStored(t *testing.T) {
	p := newPlace(t, "archive")
	g := p.started()
	reader, writer := g.open(p.db), g.open(p.db)
	reader.is("pragma holdfast_read", "any")
	reader.is("pragma holdfast_read=stored", "stored")
	reader.is("select count(*) from t", 1)
	before := len(p.Commits())
	reader.exec("select * from t") // nothing new: nothing is asked
	if n := len(p.Commits()) - before; n != 0 {
		t.Errorf("asked %d times for what is known to be stored", n)
	}
	release := p.held()
	commit := writer.start("exec", "insert into t values(1)")
	wait.Until(t, "the commit waits", func() bool { return len(p.Commits()) == before+1 })
	read := reader.start("exec", "select count(*) from t")
	wait.Until(t, "the reader waits for the same", func() bool { return len(p.Commits()) == before+2 })
	x, y := p.Commits()[before], p.Commits()[before+1]
	if x.Salt != y.Salt || x.Frame != y.Frame || y.Until != extagent.Stored {
		t.Errorf("committed %+v, read %+v", x, y)
	}
	if !pending(read) {
		t.Error("what is not stored was handed out")
	}
	release(0)
	if r := g.wait(read); r.Error != "" || r.Rows[0][0] != 2.0 {
		t.Errorf("%+v", r)
	}
	if r := g.wait(commit); r.Error != "" {
		t.Error(r.Error)
	}
	// A mapped database is read by other calls.
	reader.exec("pragma mmap_size=1000000")
	writer.exec("pragma wal_checkpoint(truncate)")
	before = len(p.Commits())
	reader.exec("select * from t")
	if len(p.Commits()) == before {
		t.Error("a database that is mapped was read without asking")
	}
	p.Stop()
	writer.exec("pragma holdfast_ack=local", "insert into t values(2)")
	reader.fails("select count(*) from t", ioerr)
	reader.is("pragma holdfast_read=any", "any")
	reader.is("select count(*) from t", 3)
}

// TestReadStoredWhereverThePagesAre: in the WAL, in the database, or in a mapping of it; a reader that is new has none in memory.
func TestReadStoredWhereverThePagesAre(t *testing.T) {
	p := newPlace(t, "local")
	g := p.python()
	writer := g.open(p.db)
	writer.exec("pragma journal_mode=wal", "create table t(a)", "insert into t values(1)")
	for _, where := range []struct{ name, before, setting string }{
		{"WAL", "select 1", "select 1"},
		{"database", "pragma wal_checkpoint(truncate)", "select 1"},
		{"mapping", "select 1", "pragma mmap_size=1000000"},
	} {
		writer.exec(where.before)
		reader := g.open(p.db)
		reader.exec(where.setting, "pragma holdfast_read=stored")
		before := len(p.Commits())
		reader.is("select count(*) from t", 1)
		if n := len(p.Commits()) - before; n != 1 {
			t.Errorf("%s: the agent was asked %d times", where.name, n)
		}
		reader.close()
	}
}

// TestNobodyWaitsToReadWithTheLockOfWriters: others go on committing while a writer waits for what it read.
func TestNobodyWaitsToReadWithTheLockOfWriters(t *testing.T) {
	p := newPlace(t, "archive")
	g := p.started()
	c, other := g.open(p.db), g.open(p.db)
	c.exec("pragma holdfast_read=stored", "select * from t")
	other.exec("pragma holdfast_ack=local", "insert into t values(1)")
	before := len(p.Commits())
	release := p.held()
	writer := c.start("exec", "insert into t values(2)")
	wait.Until(t, "the writer waits for what it read", func() bool { return len(p.Commits()) == before+1 })
	other.exec("insert into t values(3)")
	release(0)
	if r := g.wait(writer); r.Error != "" {
		t.Error(r.Error)
	}
	c.is("select count(*) from t", 4)
}

// TestReadStoredWaitsForPagesInMemory: what a connection wrote itself, or has read before, is handed out without a call to any file.
func TestReadStoredWaitsForPagesInMemory(t *testing.T) {
	p := newPlace(t, "local")
	g := p.started()
	c := g.open(p.db)
	c.exec("insert into t values(1)", "select * from t", "pragma holdfast_read=stored")
	before := len(p.Commits())
	c.is("select count(*) from t", 2)
	if n := len(p.Commits()) - before; n != 1 {
		t.Errorf("pages read before were handed out: asked %d times", n)
	}
	c.exec("insert into t values(2)")
	before = len(p.Commits())
	for range 2 {
		c.is("select count(*) from t", 3)
		if n := len(p.Commits()) - before; n != 1 {
			t.Errorf("what it wrote itself: asked %d times", n)
		}
	}
}

// TestReadStoredGoesOnBesideWriters: one that waited for the newest of all would never end.
func TestReadStoredGoesOnBesideWriters(t *testing.T) {
	p := newPlace(t, "archive")
	g := p.started()
	p.Answer(func(extagent.Commit) (byte, string) { time.Sleep(5 * time.Millisecond); return 0, "" })
	reader := g.open(p.db)
	reader.exec("pragma holdfast_read=stored")
	stop := make(chan struct{})
	ended := make(chan int)
	for range 3 {
		w := g.open(p.db)
		go func() {
			n := 0
			for {
				select {
				case <-stop:
					ended <- n
					return
				default:
				}
				if r := <-w.start("exec", "insert into t values(1)"); r.Error == "" {
					n++
				}
			}
		}()
	}
	for range 20 {
		reader.exec("select count(*) from t")
	}
	close(stop)
	total := 1
	for range 3 {
		total += <-ended
	}
	reader.is("select count(*) from t", total)
}

func TestPragmasAnswerWithText(t *testing.T) {
	p := newPlace(t, "archive")
	g := p.started()
	c := g.open(p.db)
	c.is("pragma holdfast_status", "stored up to here")
	c.is("pragma holdfast_ack", "archive")
	c.is("pragma holdfast_ack=local", "local")
	c.is("pragma holdfast_ack", "local")
	c.is("pragma holdfast_ack='archive'", "archive")
	c.fails("pragma holdfast_ack=sometimes", "say local or archive")
	c.fails("pragma holdfast_read=everything", "say any or stored")
	c.fails("pragma holdfast_acks", "no PRAGMA holdfast_acks")
	p.Stop()
	if got := c.one("pragma holdfast_status").(string); !strings.HasPrefix(got, "none: no agent at") {
		t.Error(got)
	}
	if err := p.Restart(); err != nil {
		t.Fatal(err)
	}
	c.is("pragma holdfast_status", "stored up to here") // the same statement, prepared before

	free := g.open(filepath.Join(p.dir, "free.db"))
	free.is("pragma holdfast_ack", "none")
	free.is("pragma holdfast_read=stored", "none")
	free.is("pragma holdfast_status", "none: no agent has this database")
	free.exec("create table t(a)", "insert into t values(1)", "pragma journal_mode=wal", "insert into t values(2)", "pragma journal_mode=delete")
	if n := len(p.Hellos()); n != 3 {
		t.Errorf("%d connections, of three that concern the agent", n)
	}
	g.open(":memory:").exec("create table t(a)", "insert into t values(1)")
}

func TestURIAndEnvironment(t *testing.T) {
	p := newPlace(t, "")
	uri := func(options string) string { return "file:" + p.db + "?" + options }

	g := p.python()
	c := g.open(uri("holdfast_ack=archive"))
	c.fails("pragma journal_mode=wal", readonly)
	if got := c.one("pragma holdfast_status"); got != "none: no agent has this database" {
		t.Error(got)
	}
	if r := g.open(":memory:").do("exec", "attach '"+uri("holdfast_ack=maybe")+"' as x"); !strings.Contains(r.Error, "unable to open") {
		t.Errorf("%+v", r)
	}
	c = g.open(uri("holdfast_ack=local&holdfast_socket=" + p.Socket))
	c.exec("pragma journal_mode=wal", "create table t(a)", "insert into t values(1)")
	c.is("pragma holdfast_ack", "local")
	if len(p.Commits()) != 0 || len(p.Hellos()) != 1 || p.Hellos()[0] != (extagent.Hello{Ack: extagent.Local, PID: g.cmd.Process.Pid, Path: p.db,
		File: extagent.Identify(p.db), Dir: extagent.Identify(p.dir)}) {
		t.Errorf("%+v, %+v", p.Commits(), p.Hellos())
	}

	p.env = []string{"HOLDFAST_SQLITE_SOCKET=" + p.Socket}
	g = p.python()
	c = g.open(p.db)
	c.exec("select * from t")
	if n := len(p.Hellos()); n != 1 {
		t.Errorf("the agent was asked about a database that is only read: %d", n)
	}
	c.exec("insert into t values(2)")
	if len(p.Commits()) != 1 || p.Hellos()[1].Ack != 0 {
		t.Errorf("%+v, %+v", p.Commits(), p.Hellos())
	}
	p.Say(func(s *extagent.State) { s.Managed = false })
	free := g.open(filepath.Join(p.dir, "free.db"))
	free.exec("create table t(a)", "insert into t values(1)")
	free.is("pragma holdfast_ack", "none")
	wait.Until(t, "one that is not the agent's lets go of its socket", func() bool { return p.Open() < 3 })
	asked := g.open(uri("holdfast_ack=archive"))
	asked.fails("insert into t values(3)", readonly)
	p.Stop()
	free.exec("insert into t values(1)")
	g.open(filepath.Join(p.dir, "another.db")).fails("create table t(a)", readonly) // it may be the agent's
	p.env = append(p.env, "HOLDFAST_SQLITE_ACK=local")
	p.python().open(filepath.Join(p.dir, "another.db")).exec("create table t(a)")
}

func TestAnAgentFileThatIsNoneRefusesWriting(t *testing.T) {
	p := newPlace(t, "archive")
	g := p.started()
	file := filepath.Join(p.dir, ".app.db-holdfast", "agent")
	for _, text := range []string{"", "socket\n", "socket " + p.Socket + "\nack perhaps\n", "ack local\n", "socket " + p.Socket + "\nack archive", "socket /" + strings.Repeat("x", 200) + "\nack archive\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := g.open(p.db)
		c.is("select count(*) from t", 1)
		c.fails("insert into t values(1)", readonly)
		c.close()
	}
}

func TestPageSizeAndCheckpoints(t *testing.T) {
	p := newPlace(t, "local")
	g := p.started()
	c, other := g.open(p.db), g.open(p.db)
	c.exec("pragma journal_mode=delete", "pragma page_size=8192", "vacuum", "pragma journal_mode=wal")
	c.is("pragma page_size", 8192)
	c.exec("pragma holdfast_ack=archive")
	for _, mode := range []string{"passive", "full", "restart", "truncate"} {
		before := len(p.Commits())
		c.exec("insert into t values(1)")
		if rows := other.exec("pragma wal_checkpoint(" + mode + ")"); rows[0][0] != 0.0 {
			t.Errorf("%s: %v", mode, rows)
		}
		if all := p.Commits()[before:]; len(all) != 1 || all[0].Frame == 0 {
			t.Errorf("%s: %+v", mode, all)
		}
	}
	c.is("pragma integrity_check", "ok")
	c.is("select count(*) from t", 5)
}

func TestTheShellLoadsIt(t *testing.T) {
	p := newPlace(t, "archive")
	path, err := so()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sqlite3")
	cmd.Stdin = strings.NewReader(".load " + path + "\n.open " + p.db + `
pragma journal_mode=wal;
create table t(a);
insert into t values(1);
pragma holdfast_status;
.filectrl vfsname
`)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v (apt-get install sqlite3)\n%s", err, out)
	}
	if want := "wal\nstored up to here\n"; !strings.HasPrefix(string(out), want) || len(p.Commits()) != 2 {
		t.Errorf("it said %q, and the agent was asked %d times", out, len(p.Commits()))
	}
}
