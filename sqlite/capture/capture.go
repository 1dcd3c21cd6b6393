// Package capture takes commits out of a SQLite database's files, in groups. A group is the pages that changed since the last group, with
// the database's checksum before and after. It keeps one checksum of every page in memory, so it finds changes also where the WAL does not
// show them.
//
// It knows no bucket and no name, does not decide when to capture, and writes nothing.
package capture

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/place"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// ErrChanged: the pages to be read were overwritten meanwhile; the next Capture reads the new ones. Transient.
var ErrChanged = errors.New("the database changed while it was read")

// State is a committed state of a database.
type State struct {
	Sum      Checksum // of all pages
	Pages    uint32
	PageSize uint32 // bytes
	// Position is where in the WAL the state ends; Frame 0 if it is all in the database file.
	walfile.Position
}

// Database follows one database. One goroutine uses it, but for Group.Each, which any may call until Close.
type Database struct {
	path  string
	by    Opener
	files Files
	lone  bool // one connection has the database for itself

	state   State
	sums    []uint64  // CRC of each page; 0: the lock page, and missing pages
	frames  [2]uint32 // the WAL's running checksum at state
	change  uint32    // the index's count of commits at state; of use if counted
	counted bool      // state was read from the index
	// anew reports that the WAL was empty at state and a mark has been held since. Its first frame then follows state, with any salts.
	// Otherwise the salts decide: a WAL with those of state was not started anew.
	anew   bool
	latest map[uint32]uint32 // page → its newest frame in this WAL, up to state; nil if not known
	pinned bool              // a group has a pin
	loosen bool              // it has none any more, but a reader shared the mark when it was taken back
	// found is what Recover found last, while no connection shares the index.
	found   walfile.Header
	resting bool // Rest was called
}

// Open opens the database at path and reads all of it: the state it has is captured, as if a group had held it. walfile's errors.
func Open(path string) (*Database, error) { return OpenBy(Disk, path) }

// OpenBy is Open with files that are opened by by.
func OpenBy(by Opener, path string) (*Database, error) {
	d := &Database{path: path, by: by}
	if err := d.attach(); err != nil {
		return nil, err
	}
	return d.readAll()
}

// OpenRollback opens a database that is in a mode with a rollback journal (ErrMode of Open), and reads all of it. No other program writes to it
// until Close, readers go on. Only State, Alone, Open, Rollback and Close are of use then. walfile's errors; walfile.ErrHot if SQLite has to play
// a journal back first.
func OpenRollback(path string) (*Database, error) {
	files, err := walfile.OpenRollback(path)
	if err != nil {
		return nil, err
	}
	if hot, err := files.Hot(); err != nil || hot {
		files.Close()
		if err == nil {
			err = walfile.ErrHot
		}
		return nil, err
	}
	d := &Database{path: path, by: Disk, files: files}
	return d.readAll()
}

// Rollback reports whether the database was opened by OpenRollback.
func (d *Database) Rollback() bool { return !d.files.WAL() }

func (d *Database) readAll() (*Database, error) {
	err := ErrChanged
	for tries := 0; (errors.Is(err, ErrChanged) || errors.Is(err, walfile.ErrBusy)) && tries < 100; tries++ {
		d.by.Pause(time.Duration(min(tries, 5)) * time.Millisecond)
		var g *Group
		g, err = d.compare()
		g.Release() // it is not read
	}
	if err != nil {
		d.files.Close()
		return nil, err
	}
	return d, nil
}

// attach opens the files, holding a mark if connections share the index.
func (d *Database) attach() error {
	files, err := d.by.Open(d.path)
	d.lone = false
	if errors.Is(err, walfile.ErrExclusive) {
		d.lone = true
		files, err = d.by.OpenExclusive(d.path)
	}
	if err != nil {
		return err
	}
	if !files.WAL() {
		files.Close()
		return fmt.Errorf("%w: it is not in WAL mode; PRAGMA journal_mode=WAL changes that, for good", ErrMode)
	}
	d.files, d.anew, d.counted, d.pinned, d.loosen, d.resting = files, false, false, false, false, false
	return nil
}

// ErrMode: the database is in a journal mode that leaves nothing to capture.
var ErrMode = errors.New("the database cannot be captured")

// Close releases files, locks and marks; State and the checksums stay for Reopen.
func (d *Database) Close() { d.files.Close() }

// Reopen opens the files again after Close, or because another file has taken the database's place. The next Capture finds the changes in
// between.
func (d *Database) Reopen() error {
	d.files.Close()
	d.latest, d.found, d.anew = nil, walfile.Header{}, false
	return d.attach()
}

// State is the last captured state.
func (d *Database) State() State { return d.state }

// Holds reports whether the WAL has, at offset and for size bytes, the frames that a group with these pages was read from. Salts and a
// length do not tell: after a power cut SQLite goes on in the same WAL, over frames that were lost. commit is the size of the database
// behind the group, in pages: the group has none beyond. Pages of the group that are in no frame are not compared.
func (d *Database) Holds(offset, size int64, pages map[uint32][]byte, commit uint32) (bool, error) {
	h, err := d.header()
	if err != nil || h.Salt != d.state.Salt {
		return false, err
	}
	newest, end := map[uint32]uint64{}, uint32(0) // checksums
	err = d.files.Frames(0, [2]uint32{}, h, func(f walfile.Frame, page []byte) error {
		if at := d.files.FrameOffset(f.Number); at >= offset && at < offset+size {
			newest[f.Page] = pageSum(f.Page, page)
			end = f.Commit // of the last one, which ends the group
		}
		return nil
	})
	if err != nil {
		return false, changed(err)
	}
	compared := false                 // frames of pages behind the database's end say nothing
	for number, sum := range newest { // any order: all must be the same
		if number > commit {
			continue
		}
		if page, ok := pages[number]; !ok || pageSum(number, page) != sum {
			return false, nil
		}
		compared = true
	}
	if !compared || end != commit {
		return false, nil
	}
	// Later writes of programs do not matter: a repeated transaction has the same pages.
	return d.files.FrameOffset(d.state.Frame+1) >= offset+size, nil
}

// Awake reports whether connections share the database, so that it may change at any moment, and its files have to be held.
func (d *Database) Awake() bool { return d.files.Live() || d.lone }

// Pending is the number of WAL bytes between a position and the last capture.
func (d *Database) Pending(from walfile.Position) int64 {
	if from.Salt != d.state.Salt || from.Frame > d.state.Frame {
		return int64(d.state.Frame) * int64(d.state.PageSize)
	}
	return int64(d.state.Frame-from.Frame) * int64(d.state.PageSize)
}

// Hold tries to hold a mark, where connections share the index. Without a mark the WAL may be started anew, and the changes are found only
// by reading all of the database.
func (d *Database) Hold() error {
	if err := d.files.Join(); err != nil {
		return err
	}
	if !d.files.Live() || d.files.Held() {
		return nil
	}
	return d.files.Hold()
}

// Rest lets others do with the database what they like, until the next Capture finds out what they did. It is for one of which everything is
// captured.
func (d *Database) Rest() error {
	d.anew, d.resting = false, true
	return d.files.Rest()
}

// Blocks reports whether another program waits for our locks and blocks writers meanwhile. It is a checkpoint that starts the WAL anew, or
// a connection that wants exclusive access.
func (d *Database) Blocks() bool {
	return d.files.Held() && (d.files.Checkpointing() || d.files.Wanted())
}

// Wanted reports whether a connection wants the database for itself: it waits for Close.
func (d *Database) Wanted() bool { return d.files.Wanted() }

// Loose releases the mark, because the WAL has grown too far: commits lost from it are found by reading the database.
func (d *Database) Loose() error {
	d.anew = false
	return d.files.Release()
}

// Lone reports whether one connection has the database for itself (locking_mode=EXCLUSIVE), and shares nothing with us.
func (d *Database) Lone() bool { return d.lone }

// Doubt makes the next Capture read all of the database, because something in it is not as it was captured.
func (d *Database) Doubt() { d.state.Position, d.anew, d.counted = walfile.Position{}, false, false }

// Alone reports whether no connection shares the index any more, so that Close gives nothing away.
func (d *Database) Alone() bool { return !d.files.Live() || d.files.Alone() }

// Held reports whether the WAL can only be started anew by Restart.
func (d *Database) Held() bool { return d.files.Held() }

// WAL tells how many frames the WAL has, captured or not, and how many of them a checkpoint has copied. 0 where no connection shares the
// index.
func (d *Database) WAL() (frames, copied uint32) {
	if !d.files.Live() {
		return 0, 0
	}
	h, err := d.header()
	if err != nil {
		return 0, 0 // it is being written, or recovered
	}
	return h.Frame, h.Copied
}

// Restart captures the rest and starts the WAL anew, if all of it was copied into the database and it is unused. Otherwise it returns
// walfile.ErrBusy, beside the captured group if there is one. Writers find the database locked meanwhile, a few milliseconds at most.
func (d *Database) Restart() (g *Group, err error) {
	if !d.files.Held() || d.pinned || d.files.Read() {
		return nil, walfile.ErrBusy
	}
	if err := d.lockWriters(); err != nil {
		return nil, err
	}
	defer d.files.UnlockWriters() // dropping what is held does not fail
	if g, err = d.Capture(); err != nil {
		return nil, err
	}
	// The connection that committed last may be copying it.
	for wait := 100 * time.Microsecond; ; wait *= 2 {
		if err = d.files.Restart(d.state.Position); err == nil {
			break
		}
		if !errors.Is(err, walfile.ErrBusy) || wait > time.Millisecond {
			return g, err
		}
		d.by.Pause(wait)
	}
	d.anew, d.loosen, d.latest = true, false, make(map[uint32]uint32)
	h, err := d.header()
	d.state.Position = h.Position
	return g, err
}

// lockWriters keeps others from writing, once the present writer has ended: ErrBusy if that lasts.
func (d *Database) lockWriters() error {
	for wait := 50 * time.Microsecond; ; wait *= 2 {
		err := d.files.LockWriters()
		if !errors.Is(err, walfile.ErrBusy) || wait > time.Millisecond {
			return err
		}
		d.by.Pause(wait)
	}
}

// header is the last commit, from the index or from the WAL itself.
func (d *Database) header() (h walfile.Header, err error) {
	if d.files.Live() {
		h, err = d.files.Header()
	} else {
		d.found, err = d.files.Recover(d.found)
		h = d.found
	}
	if err == nil && h.Frame == 0 {
		// Nothing is in the WAL, and what its index says of the size may be from before.
		h.Pages, err = d.files.Pages()
	}
	return h, err
}

// Capture returns the commits since the last call, or nil. They count as captured then, with any fate of the group. Transient errors are
// walfile.ErrBusy and ErrChanged.
func (d *Database) Capture() (*Group, error) {
	again := d.files.Moved()
	if d.resting && !again {
		err := d.files.Rouse()
		again = errors.Is(err, walfile.ErrMoved) || errors.Is(err, walfile.ErrExclusive)
		if err != nil && !again {
			return nil, err
		}
		d.resting = false
	}
	if again {
		if err := d.Reopen(); err != nil {
			return nil, err
		}
	}
	if err := d.Hold(); err != nil && !errors.Is(err, walfile.ErrBusy) {
		return nil, err
	}
	if d.loosen {
		d.unpin()
	}
	h, err := d.header()
	if err != nil {
		return nil, err
	}
	same := h.Salt == d.state.Salt && h.Frame >= d.state.Frame && (d.state.Frame > 0 || d.anew)
	switch {
	case same && h.Frame == d.state.Frame, d.anew && h.Frame == 0:
		return nil, nil
	case d.files.PageSize() != d.state.PageSize:
		return d.compare()
	case !same && !d.anew:
		follows, err := d.first(h)
		if err != nil {
			return nil, err
		}
		if !follows {
			return d.compare()
		}
		if h.Frame == 0 {
			// Nothing is in it yet. Its later frames follow state only if no program can start it anew before the next call.
			if d.anew = d.files.Held(); d.anew {
				d.state.Position, d.latest = h.Position, make(map[uint32]uint32)
			}
			return nil, nil
		}
		same = false
	}
	from := uint32(0)
	if same && !d.anew {
		from = d.state.Frame
	}
	g, err := d.frameGroup(from, h)
	if errors.Is(err, walfile.ErrDamaged) && !d.files.Held() {
		return d.compare() // started anew between two looks
	}
	return g, err
}

// first reports whether the WAL of h, another one than the state's, is its successor and begins behind the state. The index counts commits
// over all WALs, and this WAL must have as many as came since. A recovery begins to count at 0, and so does the index of the first
// connection. Sharing the index keeps both from happening unseen, and we never continue from 0.
func (d *Database) first(h walfile.Header) (bool, error) {
	if !d.counted || d.change == 0 || h.Change < d.change || !d.files.Live() || h.Salt == d.state.Salt && h.Frame > 0 {
		return false, nil
	}
	commits := uint32(0)
	if h.Frame > 0 {
		err := d.files.Frames(0, [2]uint32{}, h, func(f walfile.Frame, _ []byte) error {
			if f.Commit != 0 {
				commits++
			}
			return nil
		})
		if errors.Is(err, walfile.ErrDamaged) {
			return false, nil // started anew since h was read
		}
		if err != nil {
			return false, err
		}
	}
	return h.Change-d.change == commits, nil
}

// frameGroup captures the frames behind from.
func (d *Database) frameGroup(from uint32, h walfile.Header) (*Group, error) {
	newest := make(map[uint32]uint32)
	var commit uint32
	var commits []uint32
	least := d.state.Pages // the smallest size that the database had since
	err := d.files.Frames(from, d.frames, h, func(f walfile.Frame, _ []byte) error {
		newest[f.Page] = f.Number
		if commit = f.Commit; commit != 0 {
			commits, least = append(commits, f.Number), min(least, commit)
		}
		return nil
	})
	if err == nil && commit != h.Pages {
		err = walfile.ErrDamaged
	}
	if err != nil {
		return nil, err
	}
	g := &Group{from: d, Before: d.state.Sum, Offset: d.files.FrameOffset(from + 1), Salt: h.Salt, Commits: commits}
	g.Size = d.files.FrameOffset(h.Frame+1) - g.Offset
	for page, frame := range newest {
		if page <= h.Pages {
			g.Pages = append(g.Pages, Page{Number: page, Frame: frame})
		}
	}
	// A page that was taken and freed in one transaction is in no frame. Its content in the database, most likely zeros, belongs to the
	// commit too. A database that became smaller in between and grew again has such pages where it had others: a checkpoint may have cut
	// them off.
	lock := walfile.LockPage(d.files.PageSize())
	for page := least + 1; page <= h.Pages; page++ {
		if newest[page] == 0 && page != lock {
			g.Pages = append(g.Pages, Page{Number: page})
		}
	}
	g.sort()
	if err := g.read(); err != nil {
		return nil, err
	}
	if from == 0 {
		d.latest = make(map[uint32]uint32, len(newest))
	}
	if d.latest != nil {
		maps.Copy(d.latest, newest)
	}
	d.apply(g, h)
	return g, nil
}

// apply makes g what was captured last: the one place where the state changes.
func (d *Database) apply(g *Group, h walfile.Header) {
	sum := d.state.Sum
	size := int(h.Pages)
	for i := size; i < len(d.sums); i++ {
		sum ^= Checksum(d.sums[i])
	}
	if size <= len(d.sums) {
		d.sums = d.sums[:size]
	} else {
		d.sums = append(d.sums, make([]uint64, size-len(d.sums))...)
	}
	for _, p := range g.Pages {
		sum ^= Checksum(d.sums[p.Number-1] ^ p.Sum)
		d.sums[p.Number-1] = p.Sum
	}
	d.state = State{Sum: sum | Flag, Pages: h.Pages, PageSize: d.files.PageSize(), Position: h.Position}
	d.frames, d.anew = h.Sum, h.Frame == 0 && d.files.Held()
	d.change, d.counted = h.Change, d.files.Live()
	g.State = d.state
}

func (g *Group) sort() {
	slices.SortFunc(g.Pages, func(a, b Page) int { return int(int64(a.Number) - int64(b.Number)) })
}

// Sync makes durable what the database's files hold.
func (d *Database) Sync() error { return d.files.Sync() }

// ID is device and inode of the file that was captured last.
func (d *Database) ID() place.ID { return d.files.ID() }

// Open reports whether the files are open.
func (d *Database) Open() bool { return d.files.IsOpen() }
