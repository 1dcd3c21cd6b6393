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
	// From the last: readers begin with the first.
	for i := marks - 1; i > 0; i-- {
		err := set(d.shm, syscall.F_WRLCK, readLock+int64(i), 1)
		if errors.Is(err, ErrBusy) {
			continue
		}
		if err != nil {
			return err
		}
		if err := d.writeMark(i, markUnused); err != nil {
			return err
		}
		if err := set(d.shm, syscall.F_RDLCK, readLock+int64(i), 1); err != nil {
			return err
		}
		d.slot = i
		return nil
	}
	return ErrBusy
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

// Pin gives the mark that is held the value frame: from then on checkpoints copy nothing behind it, and what the database and the WAL up
// to frame say together does not change. frame is that of a Header read while Hold was in force. ErrBusy: a reader shares the mark.
func (d *DB) Pin(frame uint32) error { return d.remark(frame) }

// Unpin takes the value back. ErrBusy: a reader shares the mark; to be called again.
func (d *DB) Unpin() error { return d.remark(markUnused) }

func (d *DB) remark(value uint32) error {
	at := readLock + int64(d.slot)
	// Taking the exclusive lock replaces the shared one without a gap, and failing leaves it.
	if err := set(d.shm, syscall.F_WRLCK, at, 1); err != nil {
		return err
	}
	if err := d.writeMark(d.slot, value); err != nil {
		return err
	}
	return set(d.shm, syscall.F_RDLCK, at, 1)
}

func (d *DB) writeMark(i int, value uint32) error {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], value)
	_, err := d.shm.WriteAt(b[:], atMarks+4*int64(i))
	return err
}
