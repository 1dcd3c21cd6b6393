package capture

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// rig opens files on disk, and does what a test says in between. It counts what is read from the database and from its
// WAL.
type rig struct {
	t      *testing.T
	pauses []time.Duration // what was waited, without waiting
	pages  int             // that were read from the database or from a frame
	frames int             // that were looked through

	// Each is called before what it is named for; an error takes its place. nil: nothing.
	open, header, hold, pin, unpin, rouse, restart, lockWriters func() error
	readPage                                                    func() error
	// look changes what Header has read.
	look func(h *walfile.Header)
	// without is a page whose frames Frames leaves out.
	without uint32
}

// pausesAtMost is more than any wait that ends has: a wait that goes on is one without an end.
const pausesAtMost = 1000

func (r *rig) Pause(d time.Duration) {
	if r.pauses = append(r.pauses, d); len(r.pauses) > pausesAtMost {
		r.t.Fatal("it waits without an end")
	}
}

func (r *rig) Open(path string) (Files, error) {
	if err := say(r.open); err != nil {
		return nil, err
	}
	files, err := walfile.Open(path)
	if err != nil {
		return nil, err
	}
	return rigged{files, r}, nil
}

func (r *rig) OpenExclusive(path string) (Files, error) {
	files, err := walfile.OpenExclusive(path)
	if err != nil {
		return nil, err
	}
	return rigged{files, r}, nil
}

func say(f func() error) error {
	if f == nil {
		return nil
	}
	return f()
}

// times is what fails so often, and then does not.
func times(n int, err error) func() error {
	return func() error {
		if n--; n >= 0 {
			return err
		}
		return nil
	}
}

type rigged struct {
	Files
	r *rig
}

func (f rigged) Header() (walfile.Header, error) {
	if err := say(f.r.header); err != nil {
		return walfile.Header{}, err
	}
	h, err := f.Files.Header()
	if err == nil && f.r.look != nil {
		f.r.look(&h)
	}
	return h, err
}

func (f rigged) Hold() error {
	if err := say(f.r.hold); err != nil {
		return err
	}
	return f.Files.Hold()
}

func (f rigged) Pin(frame uint32) error {
	return errors.Join(say(f.r.pin), f.Files.Pin(frame))
}

func (f rigged) Unpin() error {
	if err := say(f.r.unpin); err != nil {
		return err
	}
	return f.Files.Unpin()
}

func (f rigged) Rouse() error {
	if err := say(f.r.rouse); err != nil {
		return err
	}
	return f.Files.Rouse()
}

func (f rigged) Restart(read walfile.Position) error {
	if err := say(f.r.restart); err != nil {
		return err
	}
	return f.Files.Restart(read)
}

func (f rigged) LockWriters() error {
	if err := say(f.r.lockWriters); err != nil {
		return err
	}
	return f.Files.LockWriters()
}

func (f rigged) ReadPage(page uint32, p []byte) error {
	f.r.pages++
	if err := say(f.r.readPage); err != nil {
		return err
	}
	return f.Files.ReadPage(page, p)
}

func (f rigged) ReadFrame(n uint32, p []byte) error {
	f.r.pages++
	return f.Files.ReadFrame(n, p)
}

func (f rigged) Frames(from uint32, sum [2]uint32, h walfile.Header, each func(walfile.Frame, []byte) error) error {
	return f.Files.Frames(from, sum, h, func(frame walfile.Frame, page []byte) error {
		if f.r.frames++; frame.Page == f.r.without {
			return nil
		}
		return each(frame, page)
	})
}

// quiet forgets what was read and waited so far.
func (r *rig) quiet() { r.pauses, r.pages, r.frames = nil, 0, 0 }

// followed is a database that a connection and a Database have open.
type followed struct {
	t    *testing.T
	r    *rig
	path string
	db   *sql.DB
	d    *Database
	m    *image // of what was captured
}

// followOne opens a database with the tables t and u, of one page each.
func followOne(t *testing.T) *followed {
	t.Helper()
	f := &followed{t: t, r: &rig{t: t}, path: filepath.Join(t.TempDir(), "app.db")}
	f.db = connect(t, f.path)
	t.Cleanup(func() { f.db.Close() })
	f.exec("create table t (v)")
	f.exec("create table u (v)")
	f.exec("insert into t values (1)")
	f.exec("insert into u values (1)")
	f.open()
	return f
}

func (f *followed) exec(text string, args ...any) {
	f.t.Helper()
	if _, err := f.db.Exec(text, args...); err != nil {
		f.t.Fatal(err)
	}
}

// truncate has the connection copy all of the WAL into the database and empty it, which nothing may be in the way of.
func (f *followed) truncate() {
	f.t.Helper()
	var busy, frames, copied int
	if err := f.db.QueryRow("pragma wal_checkpoint(truncate)").Scan(&busy, &frames, &copied); err != nil || busy != 0 {
		f.t.Fatalf("the WAL is in use: %d, %v", busy, err)
	}
}

// loose releases the mark.
func (f *followed) loose() {
	f.t.Helper()
	if err := f.d.Loose(); err != nil {
		f.t.Fatal(err)
	}
}

func (f *followed) open() {
	f.t.Helper()
	d, err := OpenBy(f.r, f.path)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(d.Close)
	f.d, f.m = d, &image{pages: make(map[uint32][]byte)}
	first, err := d.View(d.All)
	if err != nil {
		f.t.Fatal(err)
	}
	first.Whole = true
	f.m.take(f.t, first)
	first.Release()
	f.r.quiet()
}

// capture captures the pending commits, of which there must be some. It checks whether the groups so far are the database, as a new reader
// reads it.
func (f *followed) capture() *Group {
	f.t.Helper()
	g, err := f.d.Capture()
	if err != nil || g == nil {
		f.t.Fatalf("captured: %v, %v", g, err)
	}
	f.m.take(f.t, g)
	f.same()
	g.Release()
	return g
}

// nothing captures, and there has to be nothing.
func (f *followed) nothing() {
	f.t.Helper()
	if g, err := f.d.Capture(); g != nil || err != nil {
		f.t.Fatalf("captured: %v, %v", g, err)
	}
}

// same compares what was captured with the database.
func (f *followed) same() {
	f.t.Helper()
	fresh, err := Open(f.path)
	if err != nil {
		f.t.Fatal(err)
	}
	defer fresh.Close()
	if was := fresh.State(); was.Sum != f.m.state.Sum || was.Pages != f.m.state.Pages {
		f.t.Fatalf("the groups give %d pages with checksum %x, the database has %d with %x", f.m.state.Pages, f.m.state.Sum, was.Pages, was.Sum)
	}
}

// share has other processes hold every mark that is free, until the function is called that it returns.
func (f *followed) share() (stop func()) {
	f.t.Helper()
	var others []*walfile.DB
	for range 4 {
		o, err := walfile.Open(f.path)
		if err != nil {
			f.t.Fatal(err)
		}
		f.t.Cleanup(o.Close)
		if err := o.Hold(); err != nil && !errors.Is(err, walfile.ErrBusy) {
			f.t.Fatal(err)
		}
		others = append(others, o)
	}
	return func() {
		for _, o := range others {
			o.Close()
		}
	}
}
