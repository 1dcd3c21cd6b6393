package capture

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// TestOpenTriesAHundredTimes: a database under constant writes is opened when it is quiet at the last try. The tries take long enough for a
// program to finish its work: a third of a second. Then Open ends with the reason.
func TestOpenTriesAHundredTimes(t *testing.T) {
	f := followOne(t)
	for busy, want := range map[int]error{0: nil, 1: nil, 99: nil, 100: walfile.ErrBusy, 1 << 20: walfile.ErrBusy} {
		r := &rig{t: t, header: times(busy, walfile.ErrBusy)}
		d, err := OpenBy(r, f.path)
		if !errors.Is(err, want) {
			t.Errorf("busy %d times: %v", busy, err)
		}
		if d != nil {
			d.Close()
		}
		waited := time.Duration(0)
		for _, p := range r.pauses {
			waited += p
		}
		if busy >= 99 && waited < time.Second/3 {
			t.Errorf("busy %d times: it has waited %v in all", busy, waited)
		}
	}
}

// TestOpenDoesNotTryWhatLasts: an error that is not transient ends Open at once.
func TestOpenDoesNotTryWhatLasts(t *testing.T) {
	f := followOne(t)
	broken := errors.New("the disk is broken")
	r := &rig{t: t, header: times(1<<20, broken)}
	if _, err := OpenBy(r, f.path); !errors.Is(err, broken) || len(r.pauses) > 1 {
		t.Errorf("%v after %d tries", err, len(r.pauses))
	}
}

// TestStartingAnewWaitsForWhoWrites: a present writer or copier ends soon, and Restart waits for that; who goes
// on and on is not waited for.
func TestStartingAnewWaitsForWhoWrites(t *testing.T) {
	broken := errors.New("the disk is broken")
	for name, c := range map[string]struct {
		restart, lock func() error
		want          error
		waits         bool
	}{
		"nobody":                    {},
		"one who copies":            {restart: times(2, walfile.ErrBusy), waits: true},
		"one who writes":            {lock: times(2, walfile.ErrBusy), waits: true},
		"one who copies for ever":   {restart: times(1<<20, walfile.ErrBusy), want: walfile.ErrBusy, waits: true},
		"one who writes for ever":   {lock: times(1<<20, walfile.ErrBusy), want: walfile.ErrBusy, waits: true},
		"a disk that fails":         {restart: times(1<<20, broken), want: broken},
		"a disk that fails to lock": {lock: times(1<<20, broken), want: broken},
	} {
		t.Run(name, func(t *testing.T) {
			f := followOne(t)
			f.exec("pragma wal_checkpoint(passive)")
			f.r.restart, f.r.lockWriters = c.restart, c.lock
			if g, err := f.d.Restart(); g != nil || !errors.Is(err, c.want) {
				t.Fatalf("%v, %v", g, err)
			}
			waited := time.Duration(0)
			for _, p := range f.r.pauses {
				waited += p
			}
			if (waited > 0) != c.waits || waited > 10*time.Millisecond {
				t.Errorf("writers were kept waiting for %v", waited)
			}
			frames, _ := f.d.WAL()
			if (frames == 0) != (c.want == nil) {
				t.Errorf("the WAL has %d frames", frames)
			}
			f.exec("insert into t values (2)") // nothing keeps writers out any more
			if g := f.capture(); g.Found {
				t.Error("the commit behind it was found by reading the database")
			}
		})
	}
}

// TestAWALThatIsNotCopiedIsNotStartedAnew: Restart returns what was committed, beside walfile.ErrBusy, and the WAL is
// as it was.
func TestAWALThatIsNotCopiedIsNotStartedAnew(t *testing.T) {
	f := followOne(t)
	f.exec("insert into t values (2)")
	before, _ := f.d.WAL()
	g, err := f.d.Restart()
	if g == nil || !errors.Is(err, walfile.ErrBusy) {
		t.Fatalf("%v, %v", g, err)
	}
	f.m.take(t, g)
	if frames, copied := f.d.WAL(); frames != before || copied != 0 {
		t.Errorf("the WAL has %d frames, %d of them copied; it had %d", frames, copied, before)
	}
	f.exec("pragma wal_checkpoint(passive)")
	if frames, copied := f.d.WAL(); frames != before || copied != before {
		t.Errorf("after a checkpoint the WAL has %d frames, %d of them copied", frames, copied)
	}
	if g, err := f.d.Restart(); g != nil || err != nil {
		t.Errorf("after a checkpoint: %v, %v", g, err)
	}
}
