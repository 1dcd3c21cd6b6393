package agent

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/objstore"
	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/restore"
)

// rows commits rows with the numbers from and up, each stored before the next.
func (r *rig) rows(db *sql.DB, from, to int) {
	r.t.Helper()
	e := r.extension()
	for i := from; i <= to; i++ {
		r.exec(db, "insert into t values (?)", i)
		if code := e.commit(); code != gate.Done {
			r.t.Fatal(code)
		}
	}
	e.conn.Close()
}

// lived is a disk whose agent has stored rows 1 to n and ended, and whose database is closed.
func lived(t *testing.T, n int) *rig {
	t.Helper()
	r := newRig(t)
	db := r.connect()
	r.exec(db, "create table t (id integer primary key)") // before the agent begins: the first state in the bucket has it
	a := r.start(gate.Archive)
	r.rows(db, 1, n)
	r.stop(a)
	db.Close()
	return r
}

func (r *rig) chain() *replica.Chain {
	r.t.Helper()
	c, err := r.replica().Read(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// asOf restores a state by its TXID and counts its rows.
func (r *rig) asOf(id replica.TXID) int {
	r.t.Helper()
	path := filepath.Join(r.t.TempDir(), "as-of.db")
	if _, err := restore.Restore(context.Background(), r.replica(), restore.Options{From: "memory", To: path, Target: restore.Target{TXID: id}}); err != nil {
		r.t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer db.Close()
	return count(r.t, db)
}

func (r *rig) restoreHere(to restore.Target) {
	r.t.Helper()
	if _, err := restore.Restore(context.Background(), r.replica(), restore.Options{From: "memory", To: r.path, Target: to, Overwrite: true, Record: true}); err != nil {
		r.t.Fatal(err)
	}
}

// kept are the files that were put aside, without what lies beside them.
func (r *rig) kept() (names []string) {
	r.t.Helper()
	all, err := filepath.Glob(r.path + ".*-2*Z")
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// TestARestoredDatabaseGoesOn: restored to before a bad change, to the newest state and then written to, and twice in a row. The file stays as it
// is, the replica follows it, and what it leaves behind can be restored.
func TestARestoredDatabaseGoesOn(t *testing.T) {
	t.Parallel()
	r := lived(t, 5)
	good := r.chain().Head.TXID
	a := r.start(gate.Archive)
	db := r.connect()
	r.exec(db, "delete from t")
	if code := r.extension().commit(); code != gate.Done {
		t.Fatal(code)
	}
	r.stop(a)
	db.Close()
	bad := r.chain().Head.TXID
	for turn := range 2 {
		r.restoreHere(restore.Target{TXID: good})
		a = r.start(gate.Archive)
		db = r.connect()
		if n := count(t, db); n != 5 {
			t.Fatalf("turn %d: %d rows of 5 are in the file", turn, n)
		}
		r.rows(db, 100+turn, 100+turn)
		if rec, err := restore.ReadRecord(a.cfg.FS, r.path); rec != nil || err != nil {
			t.Errorf("turn %d: the record is %+v, %v", turn, rec, err)
		}
		r.stop(a)
		db.Close()
		if n := count(t, r.restored()); n != 6 {
			t.Errorf("turn %d: %d rows of 6 are in the bucket", turn, n)
		}
		if g, b := r.asOf(good), r.asOf(bad); g != 5 || b != 0 {
			t.Errorf("turn %d: the states behind the branch have %d and %d rows", turn, g, b)
		}
	}
	r.restoreHere(restore.Target{})
	db = r.connect()
	r.exec(db, "create table migration (x)")
	db.Close()
	r.stop(r.start(gate.Archive))
	if _, err := r.restored().Exec("select x from migration"); err != nil {
		t.Error(err)
	}
	if names := r.kept(); len(names) != 0 {
		t.Errorf("kept aside: %v", names)
	}
}

// TestARestoredDatabaseWhoseReplicaWentOn is refused, the owner goes on, and each of the two commands decides.
func TestARestoredDatabaseWhoseReplicaWentOn(t *testing.T) {
	t.Parallel()
	for _, choice := range []string{"branch", "restore"} {
		r := lived(t, 2)
		other := r.another()
		other.restoreHere(restore.Target{TXID: 1})
		earlier := r.asOf(1)
		a := r.start(gate.Archive)
		db := r.connect()
		r.rows(db, 3, 3)
		b := other.launch(gate.Archive)
		ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
		defer cancel()
		if err := b.Settled(ctx); err == nil || !strings.Contains(err.Error(), "holdfast sqlite branch "+other.path) ||
			!strings.Contains(err.Error(), "holdfast sqlite restore --overwrite --to "+other.path) {
			t.Fatalf("it is answered %v", err)
		}
		other.lost(b, "has gone on since")
		r.rows(db, 4, 4)
		r.stop(a)
		db.Close()
		want := 4
		if choice == "branch" {
			want = earlier
			if _, err := restore.Choose(context.Background(), other.replica(), b.cfg.FS, other.path, "memory"); err != nil {
				t.Fatal(err)
			}
		} else {
			other.restoreHere(restore.Target{})
		}
		before := r.chain().Head.TXID
		b = other.start(gate.Archive)
		if n := count(t, other.connect()); n != want {
			t.Errorf("%s: %d rows of %d are in the file", choice, n, want)
		}
		other.stop(b)
		if n, m := count(t, r.restored()), r.asOf(before); n != want || m != 4 {
			t.Errorf("%s: %d rows are in the bucket, and %d in the state before", choice, n, m)
		}
	}
}

// TestADamagedReplicaIsStoredAnew: the newest file is empty, cut short or gone, or a level's file is gone whose groups were removed. A commit that is
// acknowledged afterwards can be restored.
func TestADamagedReplicaIsStoredAnew(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{"empty": {}, "short": []byte("LTX1"), "gone": nil} { // any order: each alone
		for _, killed := range []bool{false, true} {
			r := lived(t, 3)
			if killed {
				a := r.start(gate.Archive)
				db := r.connect()
				r.rows(db, 4, 4)
				r.kill(a)
				db.Close()
			}
			c := r.chain()
			last := c.Files[0]
			for _, f := range c.Files {
				if f.Level == 0 && f.Max > last.Max {
					last = f
				}
			}
			object := r.replica().Name(last)
			if err := r.store.Delete(context.Background(), object); err != nil {
				t.Fatal(err)
			}
			if b != nil {
				if err := r.store.Put(context.Background(), objstore.Object{Name: object, Data: b}); err != nil {
					t.Fatal(err)
				}
			}
			if killed && name == "gone" {
				continue // its existence is unknown: the chain ends before it
			}
			a := r.start(gate.Archive)
			db := r.connect()
			r.rows(db, 10, 10)
			want := count(t, db)
			if n := count(t, r.restored()); n != want {
				t.Errorf("%s, killed %v: %d rows of %d are in the bucket while the agent runs", name, killed, n, want)
			}
			r.stop(a)
			if n := count(t, r.restored()); n != want {
				t.Errorf("%s, killed %v: %d rows of %d are in the bucket", name, killed, n, want)
			}
		}
	}
}

// TestADatabaseThatIsOpenElsewhereFencesNobody: it is behind, and a program has it open. Its agent waits, the owner goes on, and when the program
// has ended the file is brought up to date and its old copy kept.
func TestADatabaseThatIsOpenElsewhereFencesNobody(t *testing.T) {
	r := lived(t, 1)
	other := r.another()
	other.restoreHere(restore.Target{})
	a := r.start(gate.Archive)
	if err := restore.RemoveRecord(a.cfg.FS, other.path); err != nil {
		t.Fatal(err)
	}
	db := r.connect()
	r.rows(db, 2, 2)
	holder := other.holder()
	before := r.chain().Head.TXID
	b := other.launch(gate.Archive)
	wait.Until(t, "the agent says what it waits for", func() bool { return strings.Contains(b.Status()[other.path], "is open in another program") })
	r.rows(db, 3, 3)
	if n := r.chain().Head.TXID - before; n != 1 {
		t.Errorf("the chain went on by %d TXIDs: the owner was fenced", n)
	}
	r.stop(a)
	db.Close()
	if err := holder.Kill(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
	defer cancel()
	if err := b.Settled(ctx); err != nil {
		t.Fatal(err)
	}
	if n := count(t, other.connect()); n != 3 || len(other.kept()) != 1 {
		t.Errorf("%d rows of 3, kept aside: %v", n, other.kept())
	}
	other.stop(b)
}

// holds names the variable that makes this test program one that has a database open.
const holds = "AGENT_TEST_HOLDS"

// TestHoldsADatabase is the other program of holder, and nothing by itself.
func TestHoldsADatabase(t *testing.T) {
	path := os.Getenv(holds)
	if path == "" {
		return
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)") // the agent takes each lock for a moment to find its holder
	if err != nil {
		t.Fatal(err)
	}
	count(t, db)
	if err := os.WriteFile(path+".held", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for { // until it is killed; with nothing to wait for the runtime would end it as a deadlock
		time.Sleep(time.Hour)
	}
}

// holder is another process that has the database open. Locks of this one would go when the agent closes the file.
func (r *rig) holder() *proctest.Process {
	r.t.Helper()
	log := filepath.Join(r.t.TempDir(), "log")
	p := proctest.NewProcess(log, os.Args[0], "-test.run=TestHoldsADatabase")
	p.Setenv(holds + "=" + r.path)
	if err := p.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = p.Kill() }) // it may have ended
	r.t.Cleanup(func() {
		if b, err := os.ReadFile(log); r.t.Failed() && err == nil {
			r.t.Logf("the other program: %s", b)
		}
	})
	wait.Until(r.t, "the other program has the database open", func() bool {
		_, err := os.Stat(r.path + ".held")
		return err == nil
	})
	return p
}

// TestAFencedOwnerIsRenamedWhenNoProgramHasIt: writes are refused at once. The files keep their name while a program has them open. This
// agent renames them when it has ended, at its own end at the latest, or the next agent does.
func TestAFencedOwnerIsRenamedWhenNoProgramHasIt(t *testing.T) {
	const soon, atEnd, next = "soon", "at the agent's end", "by the next agent"
	for _, when := range []string{soon, atEnd, next} {
		r := lived(t, 1)
		r.log = &journal{}
		if when == atEnd {
			r.cfg.Interval = time.Minute // it does not look again before its end
		}
		a := r.start(gate.Archive)
		db := r.connect()
		r.rows(db, 2, 2)
		other := r.another()
		b := other.start(gate.Archive)
		odb := other.connect()
		other.rows(odb, 3, 3)
		e := r.extension()
		program := r.holder() // it has the file open before the agent hears of the other one
		r.exec(db, "insert into t values (1000)")
		db.Close()
		if code := e.commit(); code != gate.WasFenced {
			t.Fatal(code)
		}
		wait.Until(t, "the agent says what it waits for", func() bool { return r.log.count("a program has the database open") > 0 })
		if names := r.kept(); len(names) != 0 {
			t.Errorf("renamed while a program has it open: %v", names)
		}
		switch when {
		case next:
			r.lost(a, "another agent")
			other.stop(b)
			odb.Close()
			if err := program.Kill(); err != nil {
				t.Fatal(err)
			}
			a = r.start(gate.Archive)
			if n := count(t, r.connect()); n != 3 {
				t.Errorf("%d rows of 3 are back", n)
			}
			r.stop(a)
		default:
			if err := program.Kill(); err != nil {
				t.Fatal(err)
			}
			if when == soon {
				wait.Until(t, "the files are renamed", func() bool { return len(r.kept()) == 1 })
			}
			r.lost(a, "another agent")
			other.stop(b)
		}
		names := r.kept()
		if len(names) != 1 {
			t.Fatalf("%s, kept aside: %v", when, names)
		}
		old, err := sql.Open("sqlite", "file:"+names[0])
		if err != nil {
			t.Fatal(err)
		}
		if n := count(t, old); n != 3 {
			t.Errorf("what was kept aside has %d rows of 3", n)
		}
		old.Close()
	}
}

// TestAPlaceThatWasEmptied: a bucket that lost its files is not begun anew, one that was never used is.
func TestAPlaceThatWasEmptied(t *testing.T) {
	r := lived(t, 2)
	for l, err := range r.store.List(context.Background(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		if err := r.store.Delete(context.Background(), l.Name); err != nil {
			t.Fatal(err)
		}
	}
	a := r.launch(gate.Archive)
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
	defer cancel()
	if err := a.Settled(ctx); err == nil || !strings.Contains(err.Error(), "memory is empty, and this database was stored there") {
		t.Errorf("an emptied bucket: %v", err)
	}
	r.lost(a, "is empty")
	r.cfg.Databases = []Target{{Path: r.path, Replica: r.replica(), URL: "elsewhere", Ack: gate.Archive}}
	r.stop(r.start(gate.Archive))
	if n := count(t, r.restored()); n != 2 {
		t.Errorf("a new place has %d rows of 2", n)
	}
}

// TestALostFileOfALevelIsMadeUpFor: the next agent notices it, and a snapshot takes its place.
func TestALostFileOfALevelIsMadeUpFor(t *testing.T) {
	r := newRig(t)
	r.cfg.Levels = []time.Duration{30 * time.Millisecond}
	a := r.start(gate.Archive)
	db := r.connect()
	r.exec(db, "create table t (id integer primary key)")
	r.rows(db, 1, 3)
	of := func(level int) (files []replica.File) {
		for _, f := range r.chain().Files {
			if f.Level == level {
				files = append(files, f)
			}
		}
		return files
	}
	wait.Until(t, "there is a file of level 1", func() bool { return len(of(1)) > 0 })
	r.stop(a)
	db.Close()
	r.cfg.Levels = []time.Duration{time.Hour}
	lost := of(1)[0]
	if err := r.store.Delete(context.Background(), r.replica().Name(lost)); err != nil {
		t.Fatal(err)
	}
	before := len(of(replica.SnapshotLevel))
	a = r.start(gate.Archive)
	db = r.connect()
	r.rows(db, 4, 4)
	wait.Until(t, "there is another snapshot, and the manifest does without the file", func() bool {
		c := r.chain()
		for _, f := range c.Files {
			if f.Level == 1 && f.Max == lost.Max {
				return false
			}
		}
		return len(of(replica.SnapshotLevel)) > before
	})
	r.stop(a)
	db.Close()
	if n := count(t, r.restored()); n != 4 {
		t.Errorf("%d rows of 4 are in the bucket", n)
	}
}
