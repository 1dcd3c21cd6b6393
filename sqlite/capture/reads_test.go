package capture

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// reads fails if more was read than that: a database of many gigabytes is not read for nothing.
func (f *followed) reads(what string, pages, frames int) {
	f.t.Helper()
	if f.r.pages > pages || f.r.frames > frames {
		f.t.Errorf("%s: %d pages and %d frames were read, want %d and %d at most", what, f.r.pages, f.r.frames, pages, frames)
	}
	f.r.quiet()
}

// TestNothingNewReadsNothing, however often it is looked for. It looks in a WAL that grows, in one that Restart has started anew, and in
// one that another process has.
func TestNothingNewReadsNothing(t *testing.T) {
	f := followOne(t)
	f.nothing()
	f.reads("after Open", 0, 0)
	f.exec("insert into t values (2)")
	f.capture()
	f.r.quiet()
	f.nothing()
	f.reads("after a commit", 0, 0)
	f.exec("pragma wal_checkpoint(passive)")
	if _, err := f.d.Restart(); err != nil {
		t.Fatal(err)
	}
	f.nothing()
	f.reads("after Restart", 0, 0)
	f.exec("insert into t values (3)")
	f.capture()
	f.r.quiet()
	f.loose()
	f.truncate()
	f.nothing()
	f.reads("in a WAL that another process has started anew", 0, 0)
}

// TestCommitsAreCounted: while nothing is held others start the WAL anew. The index counts commits over all WALs. So it is known without
// reading the database whether anything was lost with the last WAL.
func TestCommitsAreCounted(t *testing.T) {
	for name, lost := range map[string]bool{"all of it is there": false, "a commit went with the WAL before": true} {
		t.Run(name, func(t *testing.T) {
			f := followOne(t)
			f.loose()
			if lost {
				f.exec("insert into u values (9)")
			}
			f.truncate()
			f.exec("create table v (v)") // of two frames
			f.exec("insert into v values (zeroblob(20000))")
			f.exec("insert into v values (1)")
			g := f.capture()
			if g.Found != lost {
				t.Errorf("found by reading the database: %v", g.Found)
			}
			if !lost && len(g.Commits) != 3 {
				t.Errorf("it has %d commits", len(g.Commits))
			}
		})
	}
}

// TestAnEmptyWALIsTakenUpWhenAMarkIsFree: as long as others have every mark, the next frames of an empty WAL may be gone before they are
// seen. Once a mark is held, it follows, and no page is read to know that.
func TestAnEmptyWALIsTakenUpWhenAMarkIsFree(t *testing.T) {
	f := followOne(t)
	f.loose()
	f.truncate()
	stop := f.share()
	f.d.Doubt()
	f.nothing() // read, and found to be the same
	if f.d.Held() {
		t.Fatal("a mark was free")
	}
	f.r.quiet()
	stop()
	f.nothing()
	f.reads("with a mark", 0, 0)
	f.exec("update t set v = 2")
	if g := f.capture(); g.Found {
		t.Error("the commit behind it was found by reading the database")
	}
}

// TestWhatWasCommittedWhileNobodyLooked: the last connection has copied all of it into the database and removed the
// WAL, so that there is none before and none after.
func TestWhatWasCommittedWhileNobodyLooked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	commit := func(text string) {
		t.Helper()
		db := connect(t, path)
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path + "-wal"); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("the WAL is there: %v", err)
		}
	}
	commit("create table t (v)")
	f := &followed{t: t, r: &rig{t: t}, path: path}
	f.open()
	if f.d.Awake() || f.d.State().Position != (walfile.Position{}) {
		t.Fatalf("awake %v, at %v", f.d.Awake(), f.d.State().Position)
	}
	f.d.Close()
	commit("insert into t values (1)")
	if err := f.d.Reopen(); err != nil {
		t.Fatal(err)
	}
	if g := f.capture(); !g.Found || g.Whole || len(g.Pages) != 1 {
		t.Errorf("found %v, whole %v, %d pages", g.Found, g.Whole, len(g.Pages))
	}
	f.r.quiet()
	f.nothing()
}

// TestDoubtReadsAll: a page that changed behind everyone's back is found when there is doubt, and if there was no
// reason for it nothing is captured.
func TestDoubtReadsAll(t *testing.T) {
	f := followOne(t)
	f.loose()
	f.truncate()
	f.nothing()
	f.d.Doubt()
	f.nothing()
	if f.r.pages < 3 {
		t.Errorf("%d pages were read", f.r.pages)
	}
	file, err := os.OpenFile(f.path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte{'x'}, int64(3*f.d.State().PageSize)-1); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	f.nothing()
	f.d.Doubt()
	if g := f.capture(); !g.Found || g.Whole || len(g.Pages) != 1 || g.Pages[0].Number != 3 {
		t.Errorf("found %v, whole %v, pages %v", g.Found, g.Whole, g.Pages)
	}
}

// TestTheSizeOfADatabaseWithoutAWAL: the first connection makes an index that knows of no commit, and of no page. The
// database has those of its file.
func TestTheSizeOfADatabaseWithoutAWAL(t *testing.T) {
	f := followOne(t)
	pages := f.d.State().Pages
	copied := filepath.Join(t.TempDir(), "app.db")
	f.exec("vacuum into ?", copied)
	db := connect(t, copied)
	defer db.Close()
	n := 0
	if err := db.QueryRow("select count(*) from t").Scan(&n); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	d, err := Open(copied)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if s := d.State(); !d.Awake() || s.Frame != 0 || s.Pages != pages {
		t.Errorf("awake %v, frame %d, %d pages; the database has %d", d.Awake(), s.Frame, s.Pages, pages)
	}
}

// TestAnotherPageSize: nothing of the state before is of use, and the group is the whole database.
func TestAnotherPageSize(t *testing.T) {
	f := followOne(t)
	before := f.d.State()
	other := filepath.Join(t.TempDir(), "app.db")
	db := connect(t, other)
	for _, text := range []string{"pragma journal_mode=delete", "pragma page_size=8192", "vacuum", "create table t (v)", "pragma journal_mode=wal"} {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	f.replace(other)
	g := f.capture()
	if !g.Whole || !g.Found || g.PageSize != 8192 || len(g.Pages) != int(g.State.Pages) || g.State.Sum == before.Sum {
		t.Errorf("whole %v, found %v, %d of %d pages of %d bytes", g.Whole, g.Found, len(g.Pages), g.State.Pages, g.PageSize)
	}
	f.nothing()
}

// TestAnotherFileTakesTheDatabasesPlace: the next group leads from the one to the other.
func TestAnotherFileTakesTheDatabasesPlace(t *testing.T) {
	for _, resting := range []bool{false, true} {
		f := followOne(t)
		other := filepath.Join(t.TempDir(), "app.db")
		f.exec("vacuum into ?", other)
		db := connect(t, other)
		if _, err := db.Exec("insert into t values ('other')"); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if resting {
			if err := f.d.Rest(); err != nil {
				t.Fatal(err)
			}
		}
		f.replace(other)
		if g := f.capture(); g.Whole || !g.Found {
			t.Errorf("resting %v: whole %v, found %v", resting, g.Whole, g.Found)
		}
		f.nothing()
		if err := os.Remove(f.path); err != nil {
			t.Fatal(err)
		}
		if g, err := f.d.Capture(); g != nil || !errors.Is(err, walfile.ErrAbsent) {
			t.Errorf("resting %v: after it was removed: %v, %v", resting, g, err)
		}
	}
}

// replace puts another, unopened database in the place of f's.
func (f *followed) replace(other string) {
	f.t.Helper()
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Remove(f.path + suffix); err != nil {
			f.t.Fatal(err)
		}
	}
	if err := os.Rename(other, f.path); err != nil {
		f.t.Fatal(err)
	}
}
