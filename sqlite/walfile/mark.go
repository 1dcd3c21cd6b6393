package walfile

import (
	"encoding/binary"
	"errors"
	"syscall"
)

// Hold takes a read mark, so that no connection starts the WAL anew; checkpoints go on as they like. ErrBusy if connections have
// all of them. It may be called again.
func (d *DB) Hold() error {
	if d.slot != 0 {
		return nil
	}
	return d.moveMark(markUnused)
}

// moveMark takes a free mark, gives it a value, and releases the held one, if any. ErrBusy if connections have all.
func (d *DB) moveMark(value uint32) error {
	// From the last: readers begin with the first.
	for i := marks - 1; i > 0; i-- {
		if i == d.slot {
			continue
		}
		err := d.takeMark(i, value)
		if errors.Is(err, ErrBusy) {
			continue
		}
		if err != nil {
			return err
		}
		before := d.slot
		d.slot = i
		if before == 0 {
			return nil
		}
		return set(d.shm, syscall.F_UNLCK, readLock+int64(before), 1)
	}
	return ErrBusy
}

// takeMark gives mark i a value and holds it, as every reader does: others may share it.
func (d *DB) takeMark(i int, value uint32) error {
	// Where it is held already, the exclusive lock replaces the shared one without a gap, and failing leaves it.
	if err := set(d.shm, syscall.F_WRLCK, readLock+int64(i), 1); err != nil {
		return err
	}
	if err := d.writeMark(i, value); err != nil {
		return err
	}
	return set(d.shm, syscall.F_RDLCK, readLock+int64(i), 1)
}

// Held reports whether a mark is held.
func (d *DB) Held() bool { return d.slot != 0 }

// Release lets the mark go.
func (d *DB) Release() error {
	if d.slot == 0 {
		return nil
	}
	i := d.slot
	d.slot = 0
	return set(d.shm, syscall.F_UNLCK, readLock+int64(i), 1)
}

// Pin gives the held mark the value frame. From then on checkpoints copy nothing behind it, and the state of the database and the WAL up to
// frame does not change. frame is that of a Header read while Hold was in force. ErrBusy: readers have every mark.
func (d *DB) Pin(frame uint32) error { return d.remark(frame) }

// Unpin takes the value back. ErrBusy: readers have every mark; to be called again.
func (d *DB) Unpin() error { return d.remark(markUnused) }

// remark gives the held mark another value. If readers share it, as those do that come while it has a frame's value, another mark takes its
// place. Waiting for them could last for ever if one comes before the other has left.
func (d *DB) remark(value uint32) error {
	err := d.takeMark(d.slot, value)
	if errors.Is(err, ErrBusy) {
		err = d.moveMark(value)
	}
	return err
}

func (d *DB) writeMark(i int, value uint32) error {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], value)
	_, err := d.shm.WriteAt(b[:], atMarks+4*int64(i))
	return err
}
