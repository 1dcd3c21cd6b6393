package capture

import (
	"errors"
	"testing"

	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// TestOneGroupIsPinnedAtATime: until it is released there is no other, and the WAL is not started anew.
func TestOneGroupIsPinnedAtATime(t *testing.T) {
	f := followOne(t)
	f.exec("pragma wal_checkpoint(passive)")
	g, err := f.d.View(f.d.All)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.d.View(f.d.All); !errors.Is(err, walfile.ErrBusy) {
		t.Errorf("a second view: %v", err)
	}
	if _, err := f.d.Restart(); !errors.Is(err, walfile.ErrBusy) {
		t.Errorf("starting the WAL anew: %v", err)
	}
	g.Release()
	g.Release() // which does nothing, and not to the next one either
	if g, err = f.d.View(f.d.All); err != nil {
		t.Fatalf("a second view after the first: %v", err)
	}
	g.Release()
	if _, err := f.d.Restart(); err != nil {
		t.Errorf("starting the WAL anew after it: %v", err)
	}
}

// TestAPinIsTakenBackOnce: by Release, and if a reader shares the mark then, by the next Capture.
func TestAPinIsTakenBackOnce(t *testing.T) {
	for name, shared := range map[string]int{"alone": 0, "with a reader": 1, "with readers": 3} {
		t.Run(name, func(t *testing.T) {
			f := followOne(t)
			g, err := f.d.View(f.d.All)
			if err != nil {
				t.Fatal(err)
			}
			calls, busy := 0, times(shared, walfile.ErrBusy)
			f.r.unpin = func() error { calls++; return busy() }
			g.Release()
			for range 5 {
				f.nothing()
			}
			if calls != shared+1 {
				t.Errorf("it was taken back %d times", calls)
			}
		})
	}
}

// TestAPinThatComesLate: a commit between the look at the index and the pin belongs to the group. Without that a
// checkpoint that is under way could change what the group reads.
func TestAPinThatComesLate(t *testing.T) {
	f := followOne(t)
	late := true
	f.r.pin = func() error {
		if late {
			late = false
			f.exec("update t set v = 2")
		}
		return nil
	}
	f.d.Doubt()
	if f.capture(); late {
		t.Error("nothing was pinned")
	}
	f.nothing()
}

// TestWhatCannotBePinnedIsNotViewed: the error is told, and the next try begins from the beginning.
func TestWhatCannotBePinnedIsNotViewed(t *testing.T) {
	for name, rig := range map[string]func(r *rig){
		"the pin":            func(r *rig) { r.pin = times(1, walfile.ErrBusy) },
		"the look before it": func(r *rig) { r.header = times(1, walfile.ErrBusy) },
		"the look behind it": func(r *rig) {
			n := 0
			r.header = func() error {
				if n++; n == 2 {
					return walfile.ErrBusy
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := followOne(t)
			rig(f.r)
			if g, err := f.d.View(f.d.All); g != nil || !errors.Is(err, walfile.ErrBusy) {
				t.Errorf("%v, %v", g, err)
			}
			g, err := f.d.View(f.d.All)
			if err != nil {
				t.Fatal(err)
			}
			g.Release()
		})
	}
}

// TestWhatChangesWhileItIsReadIsNotCaptured: nothing is held, because others have every mark or because there was no
// connection when it began. Pages of two states are no state.
func TestWhatChangesWhileItIsReadIsNotCaptured(t *testing.T) {
	f := followOne(t)
	f.loose()
	f.truncate()
	f.nothing()
	f.loose()
	f.r.hold = times(1<<20, walfile.ErrBusy)
	before := f.d.State()
	f.r.readPage = func() error {
		f.r.readPage = nil
		f.exec("update t set v = 2")
		return nil
	}
	f.d.Doubt()
	if g, err := f.d.Capture(); g != nil || !errors.Is(err, ErrChanged) {
		t.Errorf("%v, %v", g, err)
	}
	if f.d.State().Sum != before.Sum {
		t.Error("it is captured")
	}
	f.capture()
}

// TestAConnectionThatComesWhileItIsRead: it shares an index that was not there, and may write from then on.
func TestAConnectionThatComesWhileItIsRead(t *testing.T) {
	f := followOne(t)
	path := f.t.TempDir() + "/app.db"
	f.exec("vacuum into ?", path)
	db := connect(t, path) // in WAL mode from then on
	db.Close()
	o := &followed{t: t, r: &rig{t: t}, path: path}
	o.open()
	if o.d.Awake() {
		t.Fatal("a connection is there")
	}
	o.d.Doubt()
	o.r.readPage = func() error {
		o.r.readPage = nil
		db = connect(t, path)
		t.Cleanup(func() { db.Close() })
		_, err := db.Exec("update t set v = 2")
		return err
	}
	if g, err := o.d.Capture(); g != nil || !errors.Is(err, ErrChanged) {
		t.Errorf("%v, %v", g, err)
	}
	o.capture()
}

// TestAViewOfWhatWasOpenedAgain: where the newest frame of each page is was forgotten, and is found again.
func TestAViewOfWhatWasOpenedAgain(t *testing.T) {
	f := followOne(t)
	f.exec("update t set v = 2")
	f.capture()
	if err := f.d.Reopen(); err != nil {
		t.Fatal(err)
	}
	f.nothing()
	for i := range 2 {
		g, err := f.d.View(f.d.All)
		if err != nil || g == nil {
			t.Fatal(g, err)
		}
		g.Whole = true
		copied := &image{pages: make(map[uint32][]byte)}
		copied.take(t, g)
		g.Release()
		if i > 0 && f.r.frames > 0 {
			t.Errorf("%d frames were read to find what is known", f.r.frames)
		}
		f.r.quiet()
	}
}

// TestAViewHasPagesOfTheDatabase: what is asked for beside them, page 0 or one behind the end, is left out.
func TestAViewHasPagesOfTheDatabase(t *testing.T) {
	f := followOne(t)
	g, err := f.d.View(func(yield func(uint32) bool) {
		for number := range uint32(9) {
			if !yield(number) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Release()
	if len(g.Pages) != 3 || g.Pages[0].Number != 1 || g.Pages[2].Number != 3 {
		t.Errorf("it has %v", g.Pages)
	}
}
