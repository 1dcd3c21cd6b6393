package walfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestAnOpenDatabaseIsShared: on the database file as on the index, by the locks that SQLite's connections have, so
// that none takes itself for the last one.
func TestAnOpenDatabaseIsShared(t *testing.T) {
	path, _ := shared(t, 0)
	db, shm := other(t, path), other(t, path+"-shm")
	d := live(t, path)
	const first, size = 0x40000000 + 2, 510 // of SQLite's SHARED lock
	for _, at := range []int64{first, first + size - 1} {
		if kind := locked(t, db, at, 1); kind != shareably {
			t.Errorf("byte %x of the database is locked %d", at, kind)
		}
	}
	if locked(t, shm, 128, 1) != shareably || locked(t, db, first-2, 2) != unlocked || locked(t, db, first+size, 1) != unlocked {
		t.Error("the index is not locked, or too much of the database is")
	}
	d.Close()
	d.Close() // which does nothing
	if d.IsOpen() || locked(t, db, first, size) != unlocked {
		t.Error("after Close it is locked")
	}
}

// TestADatabaseThatOneConnectionHas: it is not opened beside it, unless by OpenExclusive, which locks nothing.
func TestADatabaseThatOneConnectionHas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	write(t, path, aDatabase(512, 1))
	write(t, path+"-wal", newWAL(nativeOrder(), 512, "saltsalt").frame(1, 1, 'a').bytes)
	db := other(t, path)
	lock(t, db, alone, 0x40000000+2+100, 1)
	began := time.Now()
	if _, err := Open(path); !errors.Is(err, ErrExclusive) {
		t.Errorf("it is opened: %v", err)
	}
	if took := time.Since(began); took < 10*time.Millisecond {
		t.Errorf("one that closes has the lock for a moment, and is waited for %v", took)
	}
	d, err := OpenExclusive(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if d.Live() || locked(t, db, 0x40000000, 512) != unlocked {
		t.Error("it shares something")
	}
	if h, err := d.Recover(Header{}); err != nil || h.Frame == 0 {
		t.Errorf("its WAL is not read: %v, %v", h, err)
	}
	write(t, path+"-shm", nil)
	lock(t, other(t, path+"-shm"), shareably, 128, 1)
	if err := d.Join(); err != nil || d.Live() {
		t.Errorf("it shares the index of those who come later: %v", err)
	}
}

// TestAnIndexThatNobodySharesIsNotTouched: nor one that is being made. The first connection to come empties it.
func TestAnIndexThatNobodySharesIsNotTouched(t *testing.T) {
	for name, c := range map[string]struct {
		kind int16 // of the lock that others have
		live bool
	}{"nobody shares it": {unlocked, false}, "it is being made": {alone, false}, "others share it": {shareably, true}} {
		w := newWAL(nativeOrder(), 512, "saltsalt").frame(1, 1, 'a')
		d := w.lone(t, 1)
		write(t, d.path+"-shm", nil)
		shm := other(t, d.path+"-shm")
		if c.kind != unlocked {
			lock(t, shm, c.kind, 128, 1)
		}
		if err := d.Join(); err != nil || d.Live() != c.live {
			t.Errorf("%s: live %v, %v", name, d.Live(), err)
		}
		if kind := locked(t, shm, 128, 1); (kind == shareably) != c.live {
			t.Errorf("%s: it is locked %d", name, kind)
		}
		if !c.live {
			continue
		}
		if err := d.Join(); err != nil || !d.Live() {
			t.Errorf("%s: again: %v", name, err)
		}
	}
}

// TestWhatOthersDo: another process checkpoints and locks writers out, waits for exclusive access, or reads; or there is none at all.
func TestWhatOthersDo(t *testing.T) {
	w := newWAL(nativeOrder(), 512, "saltsalt").frame(1, 1, 'a')
	d := w.lone(t, 1)
	write(t, d.path+"-shm", nil)
	db, shm := other(t, d.path), other(t, d.path+"-shm")
	lock(t, shm, shareably, 128, 1)
	if err := d.Join(); err != nil || !d.Live() {
		t.Fatal(err)
	}
	type sight struct{ checkpointing, wanted, read, alone bool }
	type taken struct {
		f        *os.File
		kind     int16
		first, n int64
	}
	for name, c := range map[string]struct {
		locks []taken
		want  sight
	}{
		"nothing":                  {nil, sight{}},
		"a checkpoint":             {[]taken{{shm, alone, 121, 1}}, sight{}},
		"a writer":                 {[]taken{{shm, alone, 120, 1}}, sight{}},
		"a checkpoint of a writer": {[]taken{{shm, alone, 120, 2}}, sight{checkpointing: true}},
		"a recovery":               {[]taken{{shm, alone, 122, 1}}, sight{}},
		"a reader of the database": {[]taken{{shm, shareably, 123, 1}}, sight{}},
		"the first reader":         {[]taken{{shm, shareably, 124, 1}}, sight{read: true}},
		"the last reader":          {[]taken{{shm, shareably, 127, 1}}, sight{read: true}},
		"a mark that is moved":     {[]taken{{shm, alone, 125, 1}}, sight{read: true}},
		"one who comes":            {[]taken{{db, shareably, 0x40000000, 1}}, sight{}},
		"one who wants it":         {[]taken{{db, alone, 0x40000000, 1}}, sight{wanted: true}},
		"nobody":                   {[]taken{{shm, unlocked, 128, 1}}, sight{alone: true}},
	} {
		for _, l := range c.locks {
			lock(t, l.f, l.kind, l.first, l.n)
		}
		if got := (sight{d.Checkpointing(), d.Wanted(), d.Read(), d.Alone()}); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		lock(t, db, unlocked, 0x40000000, 1)
		lock(t, shm, unlocked, 120, 8)
		lock(t, shm, shareably, 128, 1)
	}
}

// TestRestLetsOthersDoWhatTheyLike: with the WAL and with the database, but the index stays shared. Rouse finds out
// whether the files are still the same.
func TestRestLetsOthersDoWhatTheyLike(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	write(t, path, aDatabase(512, 1))
	write(t, path+"-wal", nil)
	write(t, path+"-shm", nil)
	db, shm := other(t, path), other(t, path+"-shm")
	lock(t, shm, shareably, 128, 1)
	d := live(t, path)
	lock(t, shm, unlocked, 128, 1)
	if err := errors.Join(d.Hold(), d.Rest()); err != nil || d.Held() {
		t.Fatal(err)
	}
	if locked(t, db, 0x40000000, 512) != unlocked || locked(t, shm, 123, 5) != unlocked || locked(t, shm, 128, 1) != shareably {
		t.Error("at rest it has another lock than that of the index")
	}
	if err := d.Rouse(); err != nil || locked(t, db, 0x40000000, 512) != shareably {
		t.Errorf("it has no lock on the database: %v", err)
	}
	if err := d.Rest(); err != nil {
		t.Fatal(err)
	}
	lock(t, db, alone, 0x40000000+2, 510)
	if err := d.Rouse(); !errors.Is(err, ErrExclusive) {
		t.Errorf("another one has the database: %v", err)
	}
	lock(t, db, unlocked, 0x40000000+2, 510)
	for _, suffix := range []string{"", "-shm", "-wal"} {
		if err := os.Rename(path+suffix, path+".away"); err != nil {
			t.Fatal(err)
		}
		if err := d.Rouse(); !errors.Is(err, ErrMoved) {
			t.Errorf("without %q: %v", suffix, err)
		}
		write(t, path+suffix, read(t, path+".away"))
		if err := d.Rouse(); !errors.Is(err, ErrMoved) {
			t.Errorf("with another file as %q: %v", suffix, err)
		}
		if err := errors.Join(os.Rename(path+".away", path+suffix), d.Rouse()); err != nil {
			t.Errorf("with its own file as %q again: %v", suffix, err)
		}
	}
}
