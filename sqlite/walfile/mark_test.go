package walfile

import (
	"encoding/binary"
	"errors"
	"testing"
)

// mark is the value of read mark i.
func mark(t *testing.T, path string, i int) uint32 {
	t.Helper()
	return binary.NativeEndian.Uint32(read(t, path+"-shm")[100+4*i:])
}

// TestOneMarkIsHeld: the last that is free, which other readers may share, until Release. With none left there is
// ErrBusy.
func TestOneMarkIsHeld(t *testing.T) {
	path, _ := shared(t, 0)
	shm := other(t, path+"-shm")
	var all []*DB
	for _, want := range []int64{4, 3, 2, 1} {
		d := live(t, path)
		if d.Held() {
			t.Fatal("a mark is held that nobody asked for")
		}
		for range 2 { // the second time it has one
			if err := d.Hold(); err != nil || !d.Held() {
				t.Fatalf("mark %d: %v", want, err)
			}
		}
		for i := int64(0); i < marks; i++ {
			kind := unlocked
			if i >= want {
				kind = shareably
			}
			if got := locked(t, shm, 123+i, 1); got != kind {
				t.Errorf("with mark %d, mark %d is locked %d, want %d", want, i, got, kind)
			}
		}
		if v := mark(t, path, int(want)); v != markUnused {
			t.Errorf("mark %d is %d", want, v)
		}
		all = append(all, d)
	}
	d := live(t, path)
	if err := d.Hold(); !errors.Is(err, ErrBusy) || d.Held() {
		t.Errorf("a fifth one: %v", err)
	}
	for range 2 { // the second time it has none
		if err := all[1].Release(); err != nil || all[1].Held() {
			t.Errorf("released: %v", err)
		}
	}
	if locked(t, shm, 123+3, 1) != unlocked || locked(t, shm, 123+2, 1) != shareably || locked(t, shm, 123+4, 1) != shareably {
		t.Error("another mark was released than the one that was held")
	}
	if err := d.Hold(); err != nil {
		t.Errorf("the one that was released: %v", err)
	}
}

// TestACheckpointCopiesNothingBehindAPin: until it is taken back.
func TestACheckpointCopiesNothingBehindAPin(t *testing.T) {
	path, c := shared(t, 0)
	d := live(t, path)
	if err := d.Hold(); err != nil {
		t.Fatal(err)
	}
	pinned := mustHeader(t, d).Frame
	if err := d.Pin(pinned); err != nil || mark(t, path, 4) != pinned {
		t.Fatalf("mark 4 is %d, %v", mark(t, path, 4), err)
	}
	c.exec("insert into t values (2)")
	c.exec("pragma wal_checkpoint(passive)")
	h := mustHeader(t, d)
	if h.Copied != pinned || h.Frame == pinned {
		t.Errorf("%d of %d frames are copied, %d were pinned", h.Copied, h.Frame, pinned)
	}
	if err := d.Unpin(); err != nil || mark(t, path, 4) != markUnused || !d.Held() {
		t.Fatalf("mark 4 is %d, %v", mark(t, path, 4), err)
	}
	c.exec("pragma wal_checkpoint(passive)")
	if h := mustHeader(t, d); h.Copied != h.Frame {
		t.Errorf("%d of %d frames are copied", h.Copied, h.Frame)
	}
}

// TestAMarkThatReadersShare: they keep it and its value, and the pin takes another. If there is none, what was held
// stays.
func TestAMarkThatReadersShare(t *testing.T) {
	path, _ := shared(t, 0)
	d, reader := live(t, path), other(t, path+"-shm")
	if err := d.Hold(); err != nil {
		t.Fatal(err)
	}
	if err := d.Pin(1); err != nil {
		t.Fatal(err)
	}
	lock(t, reader, shareably, 123+4, 1)
	if err := d.Unpin(); err != nil || d.slot != 3 || mark(t, path, 4) != 1 || mark(t, path, 3) != markUnused {
		t.Fatalf("mark %d is held, mark 4 is %d, mark 3 is %d, %v", d.slot, mark(t, path, 4), mark(t, path, 3), err)
	}
	if other := other(t, path+"-shm"); locked(t, reader, 123+4, 1) != unlocked || locked(t, other, 123+3, 1) != shareably {
		t.Error("the mark from before is held, or the new one is not")
	}
	lock(t, reader, shareably, 123+1, 4)
	if err := d.Pin(2); !errors.Is(err, ErrBusy) || d.slot != 3 || mark(t, path, 3) != markUnused {
		t.Errorf("readers have all marks: mark %d is held, %v", d.slot, err)
	}
	lock(t, reader, unlocked, 123+3, 1)
	if locked(t, reader, 123+3, 1) != shareably {
		t.Error("its mark is not held any more")
	}
}
