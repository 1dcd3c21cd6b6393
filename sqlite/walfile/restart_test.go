package walfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

// restartable is a database whose WAL is copied and may be started anew: a mark is held, writers are locked out.
func restartable(t *testing.T) (string, *connection, *DB) {
	t.Helper()
	path, c := shared(t, 0)
	c.exec("pragma wal_checkpoint(passive)")
	d := live(t, path)
	if err := errors.Join(d.Hold(), d.LockWriters()); err != nil {
		t.Fatal(err)
	}
	return path, c, d
}

// TestAWALIsStartedAnew: it is empty then, its salts are others, and nothing of it is copied. The marks are as SQLite leaves them, except
// the held one. SQLite goes on in it.
func TestAWALIsStartedAnew(t *testing.T) {
	for name, slot := range map[string]int{"with the last mark": 4, "with the first": 1} {
		t.Run(name, func(t *testing.T) {
			path, c, d := restartable(t)
			shm := other(t, path+"-shm")
			if slot == 1 {
				lock(t, shm, shareably, 123+2, 3)
				if err := errors.Join(d.Release(), d.Hold()); err != nil {
					t.Fatal(err)
				}
				lock(t, shm, unlocked, 123+2, 3)
			}
			if d.slot != slot {
				t.Fatalf("mark %d is held", d.slot)
			}
			before := mustHeader(t, d)
			index := read(t, path+"-shm")
			for i := range 4 {
				index[128+i] = 9 // how far a checkpoint has tried
			}
			if _, err := shm.WriteAt(index[128:132], 128); err != nil {
				t.Fatal(err)
			}
			if err := d.Restart(before.Position); err != nil {
				t.Fatal(err)
			}
			after := mustHeader(t, d)
			want := before
			want.Position, want.Copied = Position{Salt: after.Salt}, 0
			if after != want {
				t.Errorf("%+v after %+v", after, before)
			}
			if be := binary.BigEndian; be.Uint32(after.Salt[:]) != be.Uint32(before.Salt[:])+1 || bytes.Equal(after.Salt[4:], before.Salt[4:]) {
				t.Errorf("salts %x after %x", after.Salt, before.Salt)
			}
			for i, want := range []uint32{0, 0, markUnused, markUnused, markUnused} {
				kind := unlocked
				if i == slot {
					want, kind = markUnused, shareably
				}
				if got := mark(t, path, i); got != want {
					t.Errorf("mark %d is %d", i, got)
				}
				if got := locked(t, shm, int64(123+i), 1); got != kind {
					t.Errorf("mark %d is locked %d, want %d", i, got, kind)
				}
			}
			index = read(t, path+"-shm")
			if !bytes.Equal(index[128:132], make([]byte, 4)) || locked(t, shm, 121, 1) != unlocked {
				t.Errorf("a checkpoint has tried %d frames, or has the lock", index[128:132])
			}
			if locked(t, shm, 128, 1) != shareably { // SQLite's own lock went when the index was read above
				t.Error("the index is not shared any more")
			}
			if err := d.UnlockWriters(); err != nil {
				t.Fatal(err)
			}
			c.exec("insert into t values (2)")
			h := mustHeader(t, d)
			if h.Frame != 1 || h.Change != before.Change+1 {
				t.Errorf("after a commit: %+v", h)
			}
			if err := d.Frames(0, [2]uint32{}, h, func(Frame, []byte) error { return nil }); err != nil {
				t.Error(err)
			}
			c.exec("pragma wal_checkpoint(passive)")
			if n := c.rows("t"); n != 2 {
				t.Errorf("%d rows", n)
			}
		})
	}
}

// TestAWALThatIsInUseStays: it is as it was, and so are the locks.
func TestAWALThatIsInUseStays(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, path string, c *connection, d *DB) (read Position){
		"another commit was read last": func(t *testing.T, path string, c *connection, d *DB) Position {
			p := mustHeader(t, d).Position
			p.Frame--
			return p
		},
		"not all of it is copied": func(t *testing.T, path string, c *connection, d *DB) Position {
			if err := d.UnlockWriters(); err != nil {
				t.Fatal(err)
			}
			c.exec("insert into t values (2)")
			if err := d.LockWriters(); err != nil {
				t.Fatal(err)
			}
			return mustHeader(t, d).Position
		},
		"somebody checkpoints": func(t *testing.T, path string, c *connection, d *DB) Position {
			lock(t, other(t, path+"-shm"), alone, 121, 1)
			return mustHeader(t, d).Position
		},
		"somebody reads": func(t *testing.T, path string, c *connection, d *DB) Position {
			lock(t, other(t, path+"-shm"), shareably, 123+1, 1)
			return mustHeader(t, d).Position
		},
		"somebody shares the mark": func(t *testing.T, path string, c *connection, d *DB) Position {
			lock(t, other(t, path+"-shm"), shareably, 123+4, 1)
			return mustHeader(t, d).Position
		},
		"nothing is in it": func(t *testing.T, path string, c *connection, d *DB) Position {
			if err := d.Restart(mustHeader(t, d).Position); err != nil {
				t.Fatal(err)
			}
			return mustHeader(t, d).Position
		},
		"the index cannot be read": func(t *testing.T, path string, c *connection, d *DB) Position {
			h := mustHeader(t, d)
			if _, err := other(t, path+"-shm").WriteAt([]byte{'x'}, 8); err != nil {
				t.Fatal(err)
			}
			return h.Position
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, c, d := restartable(t)
			p := use(t, path, c, d)
			before := read(t, path+"-shm")
			if err := d.Restart(p); !errors.Is(err, ErrBusy) {
				t.Errorf("it ends with %v", err)
			}
			if !bytes.Equal(read(t, path+"-shm"), before) {
				t.Error("the index has changed")
			}
			if kind := locked(t, other(t, path+"-shm"), 123+4, 1); kind != shareably {
				t.Errorf("the mark is locked %d", kind)
			}
		})
	}
}

// TestAWALIsNotStartedAnewWithoutLocks: a caller that has none is refused.
func TestAWALIsNotStartedAnewWithoutLocks(t *testing.T) {
	_, _, d := restartable(t)
	p := mustHeader(t, d).Position
	if err := d.UnlockWriters(); err != nil {
		t.Fatal(err)
	}
	if err := d.Restart(p); err == nil {
		t.Error("others write meanwhile")
	}
	if err := errors.Join(d.LockWriters(), d.Release()); err != nil {
		t.Fatal(err)
	}
	if err := d.Restart(p); err == nil {
		t.Error("no mark is held")
	}
	if h := mustHeader(t, d); h.Position != p {
		t.Errorf("the WAL is at %v", h.Position)
	}
}

// TestWritersAreLockedOut: by two locks, of which both go again, and none stays where one is not to be had.
func TestWritersAreLockedOut(t *testing.T) {
	path, c := shared(t, 0)
	d, shm := live(t, path), other(t, path+"-shm")
	for range 2 {
		if err := d.LockWriters(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.db.Exec("insert into t values (2)"); err == nil {
			t.Error("a commit while writers are locked out")
		}
		if locked(t, shm, 120, 1) != alone || locked(t, shm, 122, 1) != alone {
			t.Error("a lock is missing")
		}
		if err := d.UnlockWriters(); err != nil {
			t.Fatal(err)
		}
		c.exec("insert into t values (2)")
		if locked(t, shm, 120, 3) != unlocked {
			t.Error("a lock is left")
		}
	}
	for _, busy := range []int64{120, 122} {
		lock(t, shm, alone, busy, 1)
		if err := d.LockWriters(); !errors.Is(err, ErrBusy) || d.writing {
			t.Errorf("with lock %d: %v", busy, err)
		}
		lock(t, shm, unlocked, busy, 1)
		if locked(t, shm, 120, 3) != unlocked {
			t.Errorf("with lock %d: a lock is left", busy)
		}
	}
}
