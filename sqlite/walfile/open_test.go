package walfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func nativeOrder() binary.ByteOrder {
	if nativeIsLittle {
		return binary.LittleEndian
	}
	return binary.BigEndian
}

// TestWhatIsNoDatabaseIsNotOpened: each with its reason. A name behind which an open would wait for ever is among them.
func TestWhatIsNoDatabaseIsNotOpened(t *testing.T) {
	changed := func(at int, b ...byte) []byte {
		db := aDatabase(512, 1)
		copy(db[at:], b)
		return db
	}
	for name, c := range map[string]struct {
		content []byte
		want    error
	}{
		"an empty file":        {nil, ErrAbsent},
		"a short one":          {aDatabase(512, 1)[:99], ErrNoDatabase},
		"text":                 {[]byte(strings.Repeat("text ", 100)), ErrNoDatabase},
		"a page that is small": {changed(16, 1, 0), ErrNoDatabase},
		"a page of odd size":   {changed(16, 3, 0), ErrNoDatabase},
		"another first byte":   {changed(0, 's'), ErrNoDatabase},
		"a database":           {changed(0), nil},
		"one of large pages":   {aDatabase(1<<16, 1), nil},
		"only its header":      {aDatabase(512, 1)[:100], nil},
	} {
		path := filepath.Join(t.TempDir(), "app.db")
		write(t, path, c.content)
		d, err := Open(path)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if d != nil {
			d.Close()
		}
	}
	dir := t.TempDir()
	fifo, loop := filepath.Join(dir, "fifo"), filepath.Join(dir, "loop")
	if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.Symlink("loop", loop)); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(dir, "none")
	for path, want := range map[string]error{dir: ErrNoDatabase, fifo: ErrNoDatabase, loop: syscall.ELOOP, none: ErrAbsent} {
		if _, err := Open(path); !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestTheModeIsThatOfTheHeader: readers and writers have to agree on it, or it is none that has a WAL.
func TestTheModeIsThatOfTheHeader(t *testing.T) {
	for _, c := range []struct {
		write, read byte
		wal         bool
	}{{1, 1, false}, {2, 1, false}, {1, 2, false}, {2, 2, true}} {
		path := filepath.Join(t.TempDir(), "app.db")
		b := aDatabase(512, 1)
		b[18], b[19] = c.write, c.read
		write(t, path, b)
		d := mustOpen(t, path)
		kind := unlocked
		if c.wal {
			kind = shareably
		}
		if d.WAL() != c.wal || locked(t, other(t, path), 0x40000000, 512) != kind {
			t.Errorf("versions %d and %d: WAL %v", c.write, c.read, d.WAL())
		}
	}
}

// TestThePagesOfTheFile: whole ones are counted, and one that SQLite has not written yet is zeros.
func TestThePagesOfTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	b := aDatabase(512, 3)
	for i := 512; i < len(b); i++ {
		b[i] = byte(i / 512)
	}
	write(t, path, b[:3*512-100])
	d := mustOpen(t, path)
	if n, err := d.Pages(); err != nil || n != 2 {
		t.Errorf("%d pages, %v", n, err)
	}
	half := append(bytes.Clone(b[1024:1536-100]), make([]byte, 100)...)
	for number, want := range map[uint32][]byte{1: b[:512], 2: b[512:1024], 3: half, 4: make([]byte, 512)} {
		page := bytes.Repeat([]byte{'x'}, 512)
		if err := d.ReadPage(number, page); err != nil || !bytes.Equal(page, want) {
			t.Errorf("page %d is another, %v", number, err)
		}
	}
	d.db.Close()
	if _, err := d.Pages(); err == nil {
		t.Error("a file that is closed has a size")
	}
	if err := d.ReadPage(1, make([]byte, 512)); err == nil {
		t.Error("a file that is closed is read")
	}
}

// TestTheLockPage: it has byte 2^30, and that of no other size.
func TestTheLockPage(t *testing.T) {
	for size := uint32(512); size <= 1<<16; size *= 2 {
		n := int64(LockPage(size))
		if first := (n - 1) * int64(size); first > 1<<30 || first+int64(size) <= 1<<30 {
			t.Errorf("with pages of %d bytes it is page %d", size, n)
		}
	}
}

// TestFilesThatComeLater: a database without connections is joined when the first has come, and its WAL is the one that
// is there then.
func TestFilesThatComeLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	first := connect(t, path, 0)
	first.exec("create table t (v)")
	first.close()
	d := mustOpen(t, path)
	if d.Live() || d.wal != nil {
		t.Fatal("a connection is there")
	}
	old := newWAL(nativeOrder(), 4096, "saltsalt")
	write(t, path+"-wal", old.bytes)
	if err := d.Join(); err != nil || d.Live() || d.wal == nil {
		t.Fatalf("a WAL without an index: %v", err)
	}
	before := d.wal
	if err := d.Join(); err != nil || d.wal != before {
		t.Errorf("the same WAL was opened again: %v", err)
	}
	write(t, path+".new", old.frame(1, 1, 'x').bytes)
	if err := os.Rename(path+".new", path+"-wal"); err != nil {
		t.Fatal(err)
	}
	if err := d.Join(); err != nil || d.wal == nil || !sameFileAs(d.wal, path+"-wal") {
		t.Errorf("another WAL without an index: %v", err)
	}
	if err := os.Remove(path + "-wal"); err != nil {
		t.Fatal(err)
	}
	if err := d.Join(); err != nil || d.wal != nil {
		t.Errorf("the WAL is gone: %v", err)
	}
	c := connect(t, path, 0)
	c.exec("insert into t values (1)")
	if err := d.Join(); err != nil || !d.Live() || d.wal == nil || !sameFileAs(d.wal, path+"-wal") || !sameFileAs(d.shm, path+"-shm") {
		t.Fatalf("live %v, %v", d.Live(), err)
	}
	if h := mustHeader(t, d); h.Frame == 0 {
		t.Errorf("it has %+v", h)
	}
	if err := d.Sync(); err != nil {
		t.Error(err)
	}
}

// TestWhatCannotBeMadeDurable: neither the WAL nor the database is passed over.
func TestWhatCannotBeMadeDurable(t *testing.T) {
	for _, which := range []string{"the WAL", "the database"} {
		d := newWAL(nativeOrder(), 512, "saltsalt").lone(t, 1)
		if err := d.Sync(); err != nil {
			t.Fatal(err)
		}
		file := d.db
		if which == "the WAL" {
			file = d.wal
		}
		if err := file.Close(); err != nil { // as if the disk had failed
			t.Fatal(err)
		}
		if err := d.Sync(); err == nil {
			t.Errorf("%s cannot be synced, and there is no error", which)
		}
	}
}

// TestAnIndexWithoutAWAL: a connection that has not written yet has made the index only.
func TestAnIndexWithoutAWAL(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	write(t, path, aDatabase(512, 1))
	write(t, path+"-shm", nil)
	lock(t, other(t, path+"-shm"), shareably, 128, 1)
	d := live(t, path)
	if d.wal != nil {
		t.Fatal("it has a WAL")
	}
	if err := d.Sync(); err != nil {
		t.Error(err)
	}
	write(t, path+"-wal", nil)
	if err := d.Join(); err != nil || d.wal == nil {
		t.Errorf("the WAL has come: %v", err)
	}
	if err := d.Rest(); err != nil {
		t.Fatal(err)
	}
	if err := d.Rouse(); err != nil {
		t.Error(err)
	}
}

// TestWhatCannotBeOpenedBesideTheDatabase: the error is told, and no WAL or index is taken for absent.
func TestWhatCannotBeOpenedBesideTheDatabase(t *testing.T) {
	for _, suffix := range []string{"-wal", "-shm"} {
		path := filepath.Join(t.TempDir(), "app.db")
		write(t, path, aDatabase(512, 1))
		if err := os.Symlink(filepath.Base(path)+suffix, path+suffix); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); !errors.Is(err, syscall.ELOOP) {
			t.Errorf("%s is a link to itself: %v", suffix, err)
		}
	}
}

// TestAnotherFileUnderTheName: it is not the one that is open, and neither is none.
func TestAnotherFileUnderTheName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	write(t, path, aDatabase(512, 1))
	d := mustOpen(t, path)
	id := d.ID()
	if d.Moved() || !d.IsOpen() {
		t.Error("it is as it was")
	}
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	if !d.Moved() {
		t.Error("it was moved")
	}
	write(t, path, aDatabase(512, 1))
	if !d.Moved() || d.ID() != id || mustOpen(t, path).ID() == id {
		t.Error("another file has its name")
	}
}
