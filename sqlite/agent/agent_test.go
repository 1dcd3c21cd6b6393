package agent

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// TestWhatIsCommittedIsStored: an agent that begins before there is a database follows it through writes of several connections. Its stored
// state at the end is the whole database.
func TestWhatIsCommittedIsStored(t *testing.T) {
	r := newRig(t)
	a := r.start(gate.Local)
	db := r.connect()
	r.exec(db, "create table t (id integer primary key, v blob)")
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for range 300 {
				if _, err := db.Exec("insert into t (v) values (randomblob(3000))"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	r.stop(a)
	if n := count(t, r.restored()); n != 1200 {
		t.Errorf("%d of 1200 rows are in the bucket", n)
	}
}

// TestACommitThatWaitedIsInTheBucket: the answer comes after the upload, not before.
func TestACommitThatWaitedIsInTheBucket(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.start(gate.Archive)
	defer r.stop(a)
	db := r.connect()
	r.exec(db, "create table t (id integer primary key)")
	e := r.extension()
	if code := e.commit(); code != gate.Done {
		t.Fatal(code)
	}
	for i := range 20 {
		release := r.store.hold()
		r.exec(db, "insert into t default values")
		done := make(chan gate.Code)
		go func() { done <- e.commit() }()
		select {
		case <-done:
			t.Fatal("answered while the upload was under way")
		case <-time.After(15 * time.Millisecond):
		}
		release()
		if code := <-done; code != gate.Done {
			t.Fatal(code)
		}
		if n := count(t, r.restored()); n != i+1 {
			t.Fatalf("%d rows are in the bucket after the answer to commit %d", n, i+1)
		}
	}
}

// TestUploadsThatOvertake: the upload of a later commit arrives first; it is not answered before the earlier one is there too.
func TestUploadsThatOvertake(t *testing.T) {
	r := newRig(t)
	a := r.start(gate.Archive)
	defer r.stop(a)
	db := r.connect()
	r.exec(db, "create table t (id integer primary key)")
	first, second := r.extension(), r.extension()
	if code := first.commit(); code != gate.Done {
		t.Fatal(code)
	}
	release := r.store.hold()
	before := r.store.creates.Load()
	r.exec(db, "insert into t values (1)")
	done := make(chan gate.Code)
	go func() { done <- first.commit() }()
	for r.store.creates.Load() == before {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond) // it is on its way into the bucket, which holds it up
	r.store.letPass()                 // later uploads are not held up
	r.exec(db, "insert into t values (2)")
	overtaken := make(chan gate.Code)
	go func() { overtaken <- second.commit() }()
	select {
	case <-overtaken:
		t.Fatal("the second commit was answered while the first's upload was under way")
	case <-done:
		t.Fatal("the first commit was answered while its upload was under way")
	case <-time.After(100 * time.Millisecond):
	}
	release()
	if code := <-done; code != gate.Done {
		t.Error(code)
	}
	if code := <-overtaken; code != gate.Done {
		t.Error(code)
	}
	if n := count(t, r.restored()); n != 2 {
		t.Errorf("%d of 2 rows are in the bucket", n)
	}
}

// TestTheOneWhoBeginsLastHasIt: a second agent takes the replica over while the first one's upload is on its way. The first one's commit is
// not answered as stored, earlier answered ones are there, and the first one's database is kept aside.
func TestTheOneWhoBeginsLastHasIt(t *testing.T) {
	r := newRig(t)
	a := r.start(gate.Archive)
	db := r.connect()
	r.exec(db, "create table t (id integer primary key)")
	r.exec(db, "insert into t values (1)")
	e := r.extension()
	if code := e.commit(); code != gate.Done {
		t.Fatal(code)
	}
	release := r.store.hold()
	before := r.store.creates.Load()
	r.exec(db, "insert into t values (2)")
	done := make(chan gate.Code)
	go func() { done <- e.commit() }()
	for r.store.creates.Load() == before {
		time.Sleep(time.Millisecond)
	}

	other := r.another()
	other.store = &bucket{Store: r.store.Store} // its requests are not held up
	b := other.start(gate.Archive)
	otherDB := other.connect()
	if n := count(t, otherDB); n != 1 {
		t.Errorf("the other agent restored %d rows", n)
	}
	other.exec(otherDB, "insert into t values (3)")
	f := other.extension()
	if code := f.commit(); code != gate.Done {
		t.Fatal(code)
	}
	release()
	if code := <-done; code != gate.WasFenced {
		t.Errorf("the first agent answered %d", code)
	}
	if e.state[2] != byte(gate.Fenced) {
		t.Errorf("the first agent's extension is told %v", e.state)
	}
	r.lost(a, "another agent has taken memory over")
	if names, _ := filepath.Glob(r.path + ".fenced-*"); len(names) == 0 {
		t.Error("the first agent's database was not kept aside")
	}
	other.exec(otherDB, "insert into t values (4)")
	if code := f.commit(); code != gate.Done {
		t.Fatal(code)
	}
	other.stop(b)
	got := ""
	rows, err := r.restored().Query("select id from t order by id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		rows.Scan(&id)
		got += id
	}
	if got != "134" {
		t.Errorf("rows %s are in the bucket, not 1, 3 and 4", got)
	}
}

// TestABucketThatIsDown: a commit that is not stored in time is answered so, and writes are refused meanwhile. When the bucket is back
// everything is stored and writes pass again.
func TestABucketThatIsDown(t *testing.T) {
	r := newRig(t)
	r.cfg.AckTimeout = 2 * time.Second
	a := r.start(gate.Archive)
	db := r.connect()
	r.exec(db, "create table t (id integer primary key)")
	e := r.extension()
	if code := e.commit(); code != gate.Done {
		t.Fatal(code)
	}
	r.store.down.Store(true)
	r.exec(db, "insert into t values (1)")
	if code := e.commit(); code != gate.NotStored {
		t.Fatalf("answered %d", code)
	}
	for e.state[2] != byte(gate.InDoubt) {
		e.read(129)
	}
	if s := a.Status()[r.path]; !strings.Contains(s, errDown.Error()) {
		t.Errorf("the status does not say why: %s", s)
	}
	r.store.down.Store(false)
	for e.state[2] != byte(gate.Open) {
		e.read(129)
	}
	if n := count(t, r.restored()); n != 1 {
		t.Errorf("%d rows are in the bucket when writes are let through again", n)
	}
	r.stop(a)
}

// TestAgentsOfOneDisk: after a clean end the next agent goes on without a fence, after a kill with one. After a kill with unstored commits,
// it stores them. A database of another history is refused, with both places named.
func TestAgentsOfOneDisk(t *testing.T) {
	r := newRig(t)
	fences := func() (n int) {
		c, err := r.replica().Read(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range c.Files {
			if f.Fence {
				n++
			}
		}
		return n
	}
	a := r.start(gate.Archive)
	db := r.connect()
	r.exec(db, "create table t (id integer primary key)")
	r.exec(db, "insert into t values (1)")
	r.stop(a)
	a = r.start(gate.Archive)
	r.exec(db, "insert into t values (2)")
	r.stop(a)
	if n := fences(); n != 0 {
		t.Errorf("%d fences after clean ends", n)
	}
	a = r.start(gate.Archive)
	if code := r.extension().commit(); code != gate.Done {
		t.Fatal(code)
	}
	r.kill(a)
	a = r.start(gate.Archive)
	if n := fences(); n != 1 {
		t.Errorf("%d fences after a kill", n)
	}
	r.kill(a)
	r.exec(db, "insert into t values (3)")
	a = r.start(gate.Archive)
	r.stop(a)
	if n := fences(); n != 2 {
		t.Errorf("%d fences after two kills", n)
	}
	if n := count(t, r.restored()); n != 3 {
		t.Errorf("%d of 3 rows are in the bucket", n)
	}

	other := r.another()
	odb := other.connect()
	other.exec(odb, "create table t (id integer primary key)")
	b := other.launch(gate.Archive)
	err := b.Settled(context.Background())
	if err == nil || !strings.Contains(err.Error(), other.path) || !strings.Contains(err.Error(), "different ways") {
		t.Errorf("a database of another history: %v", err)
	}
	other.lost(b, "have gone different ways")
	if n := fences(); n != 2 {
		t.Errorf("a database of another history left a fence: %d", n)
	}
	if n := count(t, r.restored()); n != 3 {
		t.Errorf("%d of 3 rows are in the bucket after another history was refused", n)
	}
}

// TestADiskThatIsBehind: a disk that stored everything and ended, and comes back after another has gone on, gets what that one wrote.
func TestADiskThatIsBehind(t *testing.T) {
	r := newRig(t)
	a := r.start(gate.Archive)
	db := r.connect()
	r.exec(db, "create table t (id integer primary key)")
	r.exec(db, "insert into t values (1)")
	r.stop(a)
	db.Close()
	other := r.another()
	b := other.start(gate.Archive)
	odb := other.connect()
	other.exec(odb, "insert into t values (2)")
	other.stop(b)
	a = r.start(gate.Archive)
	if n := count(t, r.connect()); n != 2 {
		t.Errorf("%d of 2 rows came back", n)
	}
	r.stop(a)
}

// TestCopiesOfOneDisk: a disk that was ended cleanly is copied, and an agent begins on each of the copies at once. One goes on, the other is told, and
// what either was told is stored comes back from a bucket that is whole.
func TestCopiesOfOneDisk(t *testing.T) {
	r := newRig(t)
	a := r.start(gate.Archive)
	db := r.connect()
	r.exec(db, "create table t (id integer primary key)")
	r.exec(db, "insert into t values (1)")
	r.stop(a)
	db.Close()
	other := r.another()
	if err := os.CopyFS(filepath.Dir(other.path), os.DirFS(filepath.Dir(r.path))); err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	var stored, lost atomic.Int64
	for _, m := range []*rig{r, other} {
		a := m.start(gate.Archive)
		defer m.close(a)
	}
	for i, m := range []*rig{r, other} {
		db, e := m.connect(), m.extension()
		work.Go(func() {
			for k := range 20 {
				if _, err := db.Exec("insert into t values (?)", 1000*(i+1)+k); err != nil {
					return // its file was kept aside
				}
				switch e.commit() {
				case gate.Done:
					stored.Add(1)
				case gate.WasFenced:
					lost.Add(1)
					return
				}
			}
		})
	}
	work.Wait()
	if n := int64(count(t, r.restored())) - 1; n < stored.Load() || lost.Load() != 1 || stored.Load() != 20 {
		t.Errorf("%d commits are in the bucket, %d were said to be, and %d agents were told that they have lost it", n, stored.Load(), lost.Load())
	}
}

// TestACopyThatComesLate: of two copies of a disk that was not ended cleanly one reads the replica. Before its fence is there the other has
// taken over and answered commits. The late one is behind then, and gets the other's state, also if its own fence is the last file at a
// second try.
func TestACopyThatComesLate(t *testing.T) {
	for name, lost := range map[string]int64{"at once": 0, "at the second try": 1} { // any order: they are independent
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			a := r.start(gate.Archive)
			db := r.connect()
			r.exec(db, "create table t (id integer primary key)")
			if code := r.extension().commit(); code != gate.Done {
				t.Fatal(code)
			}
			r.kill(a)
			db.Close()
			late := r.another()
			if err := os.CopyFS(filepath.Dir(late.path), os.DirFS(filepath.Dir(r.path))); err != nil {
				t.Fatal(err)
			}
			late.store = &bucket{Store: r.store.Store} // it is held up alone
			late.store.lose.Store(lost)
			release := late.store.hold()
			b := late.launch(gate.Archive)
			wait.Until(t, "the late one has read the replica and makes its fence", func() bool { return late.store.creates.Load() > 0 })
			a = r.start(gate.Archive)
			db, e := r.connect(), r.extension()
			for range 3 {
				r.exec(db, "insert into t default values")
				if code := e.commit(); code != gate.Done {
					t.Fatal(code)
				}
			}
			release()
			ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
			defer cancel()
			if err := b.Settled(ctx); err != nil {
				t.Fatal(err)
			}
			if n := count(t, late.connect()); n != 3 {
				t.Errorf("the late one has %d of 3 commits that were answered as stored", n)
			}
			r.exec(db, "insert into t default values")
			if code := e.commit(); code != gate.WasFenced {
				t.Errorf("the first one answered %d after the late one has taken over", code)
			}
			late.stop(b)
			r.lost(a, "another agent has taken memory over")
			if n := count(t, r.restored()); n != 3 {
				t.Errorf("%d of 3 commits that were answered as stored are in the bucket", n)
			}
		})
	}
}

// TestAMachineThatWasStartedAnew: unsynced data may be gone then. A disk whose WAL reaches behind the replica's end goes on. One that has
// less is kept aside, and acknowledged commits come back from the replica.
func TestAMachineThatWasStartedAnew(t *testing.T) {
	reboot := func(r *rig) {
		name := filepath.Join(filepath.Dir(r.path), ".app.db-holdfast", "state")
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		k, ok := decodeState(b)
		if !ok {
			t.Fatal("no state")
		}
		k.Boot = "another"
		if err := os.WriteFile(name, k.encode(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := newRig(t)
	a := r.start(gate.Archive)
	db := r.connect()
	r.exec(db, "create table t (id integer primary key)")
	r.exec(db, "insert into t values (1)")
	e := r.extension()
	if code := e.commit(); code != gate.Done {
		t.Fatal(code)
	}
	wal, err := os.ReadFile(r.path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	r.exec(db, "insert into t values (2)")
	if code := e.commit(); code != gate.Done {
		t.Fatal(code)
	}
	r.kill(a)
	r.exec(db, "insert into t values (3)")
	reboot(r)
	a = r.start(gate.Archive)
	r.stop(a)
	if n := count(t, r.restored()); n != 3 {
		t.Errorf("a disk with more than the replica: %d of 3 rows are in the bucket", n)
	}
	a = r.start(gate.Archive)
	r.exec(db, "insert into t values (4)")
	if code := r.extension().commit(); code != gate.Done {
		t.Fatal(code)
	}
	r.kill(a)
	db.Close() // copies the WAL into the database and removes it, which the machine that stops has not got to
	if err := os.WriteFile(r.path+"-wal", wal, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(r.path, 4096*2); err != nil {
		t.Fatal(err)
	}
	reboot(r)
	a = r.start(gate.Archive)
	if n := count(t, r.connect()); n != 4 {
		t.Errorf("a disk with less than the replica: %d of 4 rows are back", n)
	}
	r.stop(a)
	if names, _ := filepath.Glob(r.path + ".aside-*"); len(names) == 0 {
		t.Error("what the disk had was not kept aside")
	}
}

// TestAQuietDatabaseAsksNothing: when everything is stored and said, no request is made and nothing runs, until the database changes, also
// by a silent program.
func TestAQuietDatabaseAsksNothing(t *testing.T) {
	r := newRig(t)
	r.cfg.Levels = []time.Duration{time.Hour}
	a := r.start(gate.Archive)
	db := r.connect()
	r.exec(db, "create table t (id integer primary key)")
	if code := r.extension().commit(); code != gate.Done {
		t.Fatal(code)
	}
	d := a.byPath(r.path)
	resting := func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return !d.running
	}
	for end := time.Now().Add(wait.Limit(t)); !resting(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the database does not come to rest: ", d.Status())
		}
	}
	before := r.store.requests.Load()
	time.Sleep(300 * time.Millisecond)
	if n := r.store.requests.Load() - before; n != 0 || !resting() {
		t.Errorf("%d requests while nothing happened", n)
	}
	if _, err := os.Stat(r.path + "-wal"); err != nil {
		t.Error(err)
	}
	r.exec(db, "insert into t values (1)")
	for end := time.Now().Add(wait.Limit(t)); count(t, r.restored()) != 1; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("what was committed after the rest is not stored")
		}
	}
	r.stop(a)
}

// TestGroupsThatNothingReplacesStay: a group is removed because a file of a higher level has what it has, never for its age alone.
func TestGroupsThatNothingReplacesStay(t *testing.T) {
	r := newRig(t)
	r.cfg.Levels, r.cfg.L0Retention = nil, time.Millisecond
	a := r.start(gate.Archive)
	db := r.connect()
	r.exec(db, "create table t (id integer primary key)")
	e := r.extension()
	for range 10 {
		r.exec(db, "insert into t default values")
		if code := e.commit(); code != gate.Done {
			t.Fatal(code)
		}
	}
	time.Sleep(20 * time.Millisecond)
	for range 2 { // the second agent begins with what the first one's manifest names
		r.stop(a)
		if n := count(t, r.restored()); n != 10 {
			t.Errorf("%d of 10 rows", n)
		}
		a = r.start(gate.Archive)
	}
	r.stop(a)
}

// TestLevelsReplaceGroups: files of the levels and snapshots are made from the database, the files they replace go, and any of the kept ones
// restores the earlier content.
func TestLevelsReplaceGroups(t *testing.T) {
	r := newRig(t)
	r.cfg.Levels = []time.Duration{60 * time.Millisecond, 200 * time.Millisecond}
	r.cfg.Snapshot, r.cfg.Retention, r.cfg.L0Retention = 500*time.Millisecond, 700*time.Millisecond, 50*time.Millisecond
	a := r.start(gate.Archive)
	db := r.connect()
	r.exec(db, "create table t (id integer primary key, v blob)")
	e := r.extension()
	var seen [10]bool // levels of which there was a file
	look := func() *replica.Chain {
		c, err := r.replica().Read(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range c.Files {
			seen[f.Level] = true
		}
		return c
	}
	rows := 0
	for began, end := time.Now(), time.Now().Add(wait.Limit(t)); time.Since(began) < 1500*time.Millisecond || !(seen[1] && seen[2] && seen[9]) && time.Now().Before(end); rows++ {
		r.exec(db, "insert into t (v) values (randomblob(?))", rows%5000)
		if code := e.commit(); code != gate.Done {
			t.Fatal(code)
		}
		if rows%20 == 0 {
			var db *sql.DB
			wait.Until(t, "a restore is through before its files have had their time", func() (ok bool) {
				var err error
				db, err = r.tryRestore()
				return err == nil
			})
			if n := count(t, db); n != rows+1 {
				t.Fatalf("%d of %d rows", n, rows+1)
			}
			look()
		}
	}
	r.stop(a)
	c := look()
	if c.Manifest == nil || c.Manifest.Head != c.Head {
		t.Errorf("the manifest is not of the end: %v", c.Manifest)
	}
	var levels [10]int
	for _, f := range c.Files {
		levels[f.Level]++
	}
	if !seen[1] || !seen[2] || !seen[9] || levels[0] > rows/2 {
		t.Errorf("%d groups were made, and there are %v files by level", rows, levels)
	}
	if n := count(t, r.restored()); n != rows {
		t.Errorf("%d of %d rows", n, rows)
	}
}
