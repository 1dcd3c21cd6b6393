package walfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// rolled is a database in a mode with a rollback journal, unopened.
func rolled(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "app.db")
	b := aDatabase(512, 2)
	b[18], b[19] = 1, 1
	write(t, path, b)
	return path
}

func mustOpenRollback(t *testing.T, path string) *DB {
	t.Helper()
	d, err := OpenRollback(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// TestAReaderOfARollbackDatabase: it has the lock of a reader, and so others read and no commit succeeds.
func TestAReaderOfARollbackDatabase(t *testing.T) {
	path := rolled(t)
	db := other(t, path)
	d := mustOpenRollback(t, path)
	if d.WAL() || d.Live() || d.PageSize() != 512 || d.Moved() {
		t.Errorf("WAL %v, live %v, pages of %d bytes", d.WAL(), d.Live(), d.PageSize())
	}
	const first, size = 0x40000000 + 2, 510 // of SQLite's SHARED lock
	if locked(t, db, first, 1) != shareably || locked(t, db, first+size-1, 1) != shareably {
		t.Error("it has not the lock of a reader")
	}
	if locked(t, db, first-2, 2) != unlocked || locked(t, db, first+size, 1) != unlocked {
		t.Error("it has more than the lock of a reader")
	}
	if err := d.Join(); err != nil || d.Live() {
		t.Errorf("it has joined a WAL: %v", err)
	}
}

// TestARollbackDatabaseThatIsNotOpened: each with its reason, and no lock stays.
func TestARollbackDatabaseThatIsNotOpened(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(t *testing.T, path string)
		want   error
	}{
		"one in WAL mode":      {func(t *testing.T, path string) { write(t, path, aDatabase(512, 2)) }, ErrWAL},
		"no file":              {func(t *testing.T, path string) { _ = os.Remove(path) }, ErrAbsent},
		"an empty file":        {func(t *testing.T, path string) { write(t, path, nil) }, ErrAbsent},
		"no database":          {func(t *testing.T, path string) { write(t, path, make([]byte, 1024)) }, ErrNoDatabase},
		"a commit that begins": {func(t *testing.T, path string) { lock(t, other(t, path), alone, 0x40000000, 1) }, ErrBusy},
		"a commit":             {func(t *testing.T, path string) { lock(t, other(t, path), alone, 0x40000000+2, 510) }, ErrBusy},
	} {
		path := rolled(t)
		c.damage(t, path)
		if d, err := OpenRollback(path); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
			if d != nil {
				d.Close()
			}
		}
	}
}

// TestAHotJournal: it has a header, and no connection is in the middle of the transaction that it belongs to.
func TestAHotJournal(t *testing.T) {
	const journal = "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
	for name, c := range map[string]struct {
		journal  string // "-": none
		reserved bool   // a connection writes
		hot      bool
	}{
		"no journal":                        {"-", false, false},
		"an empty one":                      {"", false, false},
		"one whose transaction has ended":   {"\x00" + journal[1:], false, false},
		"one whose transaction is going on": {journal, true, false},
		"one that was left":                 {journal, false, true},
	} {
		path := rolled(t)
		if c.journal != "-" {
			write(t, path+"-journal", []byte(c.journal))
		}
		if c.reserved {
			lock(t, other(t, path), alone, 0x40000000+1, 1)
		}
		if hot, err := mustOpenRollback(t, path).Hot(); err != nil || hot != c.hot {
			t.Errorf("%s: %v, %v", name, hot, err)
		}
	}
	path := rolled(t)
	if err := os.Mkdir(path+"-journal", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := mustOpenRollback(t, path).Hot(); err == nil {
		t.Error("a directory is no journal, and there is no error")
	}
	path = rolled(t)
	if err := os.Symlink(filepath.Base(path)+"-journal", path+"-journal"); err != nil {
		t.Fatal(err)
	}
	if _, err := mustOpenRollback(t, path).Hot(); err == nil {
		t.Error("a link to itself is no journal, and there is no error")
	}
}

// TestAReaderIsWaitedFor: once it ends all locks are there, and no new reader comes in meanwhile. A transaction that writes is not waited for.
func TestAReaderIsWaitedFor(t *testing.T) {
	path := rolled(t)
	db := other(t, path)
	d := mustOpenRollback(t, path)
	lock(t, db, shareably, 0x40000000+2, 510)
	got := make(chan error, 1)
	for taken := false; !taken; { // a machine that is busy for 50 ms gets another try
		go func() { got <- d.LockAll() }()
		for waits := true; waits; {
			if locked(t, db, 0x40000000, 1) == alone {
				lock(t, db, unlocked, 0x40000000+2, 510)
			}
			select {
			case err := <-got:
				waits, taken = false, err == nil
				if err != nil && !errors.Is(err, ErrBusy) {
					t.Fatal(err)
				}
			default:
			}
		}
	}
	d.Close()
	d = mustOpenRollback(t, path)
	lock(t, db, alone, 0x40000000+1, 1)
	if err := d.LockAll(); !errors.Is(err, ErrBusy) || locked(t, db, 0x40000000, 1) != unlocked {
		t.Errorf("with a transaction that writes: %v", err)
	}
}

// TestAllLocksOfARollbackDatabase: no process reads or writes then, from the lock of one who begins to the last one of a reader. With a
// reader there is ErrBusy.
func TestAllLocksOfARollbackDatabase(t *testing.T) {
	path := rolled(t)
	db := other(t, path)
	d := mustOpenRollback(t, path)
	if err := d.LockAll(); err != nil {
		t.Fatal(err)
	}
	for at := int64(0x40000000); at < 0x40000000+512; at++ {
		if locked(t, db, at, 1) != alone {
			t.Fatalf("byte %x is not locked", at)
		}
	}
	if locked(t, db, 0x40000000-1, 1) != unlocked || locked(t, db, 0x40000000+512, 1) != unlocked {
		t.Error("more is locked")
	}
	d.Close()
	if locked(t, db, 0x40000000, 512) != unlocked {
		t.Error("after Close it is locked")
	}
	d = mustOpenRollback(t, path)
	lock(t, db, shareably, 0x40000000+511, 1)
	if err := d.LockAll(); !errors.Is(err, ErrBusy) {
		t.Errorf("with a reader: %v", err)
	}
	if locked(t, db, 0x40000000, 2) != unlocked {
		t.Error("after ErrBusy new readers are still kept out")
	}
	lock(t, db, unlocked, 0x40000000+511, 1)
	if err := d.LockAll(); err != nil {
		t.Errorf("without it: %v", err)
	}
	d.Close()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := (&DB{path: path, db: f}).LockAll(); !errors.Is(err, os.ErrPermission) {
		t.Errorf("a file that is open for reading: %v", err)
	}
}
