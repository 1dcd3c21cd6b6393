package capture

import (
	"errors"
	"iter"

	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// compare reads all of the database and captures the pages that differ from the last capture; nil if there are none. ErrChanged: it changed
// meanwhile although a mark was held.
func (d *Database) compare() (*Group, error) {
	if err := d.Hold(); err != nil && !errors.Is(err, walfile.ErrBusy) {
		return nil, err
	}
	h, unpin, err := d.still()
	if err != nil {
		return nil, err
	}
	latest, err := d.scan(h)
	if err != nil {
		unpin()
		return nil, changed(err)
	}
	g := &Group{from: d, Before: d.state.Sum, Found: true}
	size := d.files.PageSize()
	if size != d.state.PageSize {
		g.Whole = true
	}
	lock := walfile.LockPage(size)
	page := make([]byte, size)
	kept := make([]byte, 0, 64<<10)
	keep := true
	for number := uint32(1); number <= h.Pages; number++ {
		if number == lock {
			continue
		}
		p := Page{Number: number, Frame: latest[number]}
		if err := d.readPage(p, page); err != nil {
			unpin()
			return nil, err
		}
		p.Sum = pageSum(number, page)
		if !g.Whole && int(number) <= len(d.sums) && d.sums[number-1] == p.Sum {
			continue
		}
		g.Pages = append(g.Pages, p)
		if keep = keep && len(kept)+len(page) <= smallBytes; keep {
			kept = append(kept, page...)
		} else {
			kept = nil
		}
	}
	if keep {
		g.data = kept
	}
	if err := d.unchanged(h); err != nil {
		unpin()
		return nil, err
	}
	before := d.state
	if g.Whole {
		d.sums = nil
		d.state.Sum = 0
	}
	d.latest = latest
	d.apply(g, h)
	g.unpin = unpin
	if g.Kept() {
		g.Release()
	}
	if len(g.Pages) == 0 && before.Pages == g.State.Pages && before.PageSize == g.State.PageSize {
		g.Release()
		return nil, nil
	}
	return g, nil
}

// still reads the last commit and, where a mark is held, pins it: nothing overwrites it until the function is called that still returns.
func (d *Database) still() (walfile.Header, func(), error) {
	nothing := func() {}
	if d.pinned {
		return walfile.Header{}, nothing, walfile.ErrBusy
	}
	for range 20 {
		h, err := d.header()
		if err != nil || !d.files.Held() {
			return h, nothing, err
		}
		if err := d.files.Pin(h.Frame); err != nil {
			return h, nothing, err
		}
		d.pinned = true
		// A checkpoint that began before the pin copies at most up to the last commit at its beginning. If no commit after h exists by now,
		// nothing behind h is copied.
		after, err := d.header()
		if err == nil && after.Position == h.Position {
			return h, d.unpin, nil
		}
		d.unpin()
		if err != nil {
			return h, nothing, err
		}
	}
	return walfile.Header{}, nothing, walfile.ErrBusy
}

// unpin takes the pin back, or remembers to do so if a reader shares the mark.
func (d *Database) unpin() {
	d.pinned = false
	d.loosen = d.files.Held() && d.files.Unpin() != nil
}

// unchanged reports whether what was read without a pin can have been one state.
func (d *Database) unchanged(h walfile.Header) error {
	if d.files.Held() {
		return nil
	}
	if !d.lone {
		live := d.files.Live()
		if err := d.files.Join(); err != nil {
			return err
		}
		if d.files.Live() != live {
			return ErrChanged
		}
	}
	if d.files.Moved() {
		return ErrChanged
	}
	after, err := d.header()
	if err != nil {
		return err
	}
	if after.Position != h.Position || after.Pages != h.Pages || after.Copied != h.Copied {
		return ErrChanged
	}
	return nil
}

// scan finds the newest frame of every page in the WAL up to h.
func (d *Database) scan(h walfile.Header) (map[uint32]uint32, error) {
	latest := make(map[uint32]uint32)
	if h.Frame == 0 {
		return latest, nil
	}
	return latest, d.files.Frames(0, [2]uint32{}, h, func(f walfile.Frame, _ []byte) error {
		latest[f.Page] = f.Number
		return nil
	})
}

// changed turns damage into what it is where nothing was held: a WAL that was started anew.
func changed(err error) error {
	if errors.Is(err, walfile.ErrDamaged) {
		return ErrChanged
	}
	return err
}

// View captures nothing: it returns a group of the pages that each yields, as of the last capture. With a mark held that state stays until
// Release; without one Each may return ErrChanged. Before is 0; the caller knows from where to where the group leads. ErrBusy if something
// was committed since: it works right after a Capture.
func (d *Database) View(each iter.Seq[uint32]) (*Group, error) {
	h, unpin, err := d.still()
	if err != nil {
		return nil, err
	}
	if h.Position != d.state.Position {
		unpin()
		return nil, walfile.ErrBusy
	}
	if d.latest == nil {
		if d.latest, err = d.scan(h); err != nil {
			d.latest = nil
			unpin()
			return nil, changed(err)
		}
	}
	g := &Group{State: d.state, from: d, unpin: unpin}
	for number := range each {
		if number > 0 && int(number) <= len(d.sums) && d.sums[number-1] != 0 {
			g.Pages = append(g.Pages, Page{Number: number, Frame: d.latest[number], Sum: d.sums[number-1]})
		}
	}
	return g, nil
}

// CaptureView captures the rest, in no group of its own, and returns the same as View. It ends also under constant writes. Writers find the
// database locked meanwhile, a few milliseconds at most if Capture was called right before.
func (d *Database) CaptureView(each iter.Seq[uint32]) (*Group, error) {
	if d.files.Held() {
		if err := d.lockWriters(); err != nil {
			return nil, err
		}
		defer d.files.UnlockWriters() // dropping what is held does not fail
	}
	left, err := d.Capture()
	if err != nil {
		return nil, err
	}
	left.Release()
	return d.View(each)
}

// All yields the number of every page of the database.
func (d *Database) All(yield func(number uint32) bool) {
	for i := range d.sums {
		if !yield(uint32(i + 1)) {
			return
		}
	}
}
