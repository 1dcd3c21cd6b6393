package walfile

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"syscall"
)

// Restart starts the WAL anew, as a writing connection does when everything was copied into the database (walRestartHdr in wal.c). Frames
// are written from its beginning again. It returns ErrBusy unless the WAL ends at read, which the caller has read, and all of it was
// copied. No other process may checkpoint or read from it. The mark stays held throughout. Writers have to be locked out.
func (d *DB) Restart(read Position) error {
	if d.slot == 0 || !d.writing {
		return errors.New("restart a WAL: a lock is missing")
	}
	if err := set(d.shm, syscall.F_WRLCK, checkLock, 1); err != nil {
		return err
	}
	defer set(d.shm, syscall.F_UNLCK, checkLock, 1)
	h, err := d.Header()
	if err != nil {
		return err
	}
	if h.Position != read || h.Copied != h.Frame || h.Frame == 0 {
		return ErrBusy
	}
	// The own mark becomes exclusive with the others, or none does. A failed attempt leaves every lock as it was.
	if err := set(d.shm, syscall.F_WRLCK, readLock+1, marks-1); err != nil {
		return err
	}
	err = d.writeRestart()
	for i := int64(1); i < marks; i++ {
		kind := int16(syscall.F_UNLCK)
		if i == int64(d.slot) {
			kind = syscall.F_RDLCK
		}
		if e := set(d.shm, kind, readLock+i, 1); err == nil {
			err = e
		}
	}
	return err
}

// writeRestart writes the header of an empty WAL, the second copy first as SQLite does. A reader takes the first, then the second, and
// believes equal ones.
func (d *DB) writeRestart() error {
	var b [headerBytes]byte
	if _, err := d.shm.ReadAt(b[:], 0); err != nil {
		return err
	}
	ne := binary.NativeEndian
	ne.PutUint32(b[atMaxFrame:], 0)
	binary.BigEndian.PutUint32(b[atSalt:], binary.BigEndian.Uint32(b[atSalt:])+1)
	rand.Read(b[atSalt+4 : atSalt+8]) // it never fails
	sum := checksum(ne, [2]uint32{}, b[:atSum])
	ne.PutUint32(b[atSum:], sum[0])
	ne.PutUint32(b[atSum+4:], sum[1])
	if _, err := d.shm.WriteAt(b[:], headerBytes); err != nil {
		return err
	}
	if _, err := d.shm.WriteAt(b[:], 0); err != nil {
		return err
	}
	var info [4 + 4*marks]byte // nothing copied; marks 0 and 1 are 0, the others unused
	for i := 2; i < marks; i++ {
		ne.PutUint32(info[4+4*i:], markUnused)
	}
	if d.slot == 1 {
		ne.PutUint32(info[4+4:], markUnused)
	}
	if _, err := d.shm.WriteAt(info[:], atBackfill); err != nil {
		return err
	}
	_, err := d.shm.WriteAt(make([]byte, 4), atAttempted)
	return err
}

// LockWriters keeps others from writing until UnlockWriters: they find the database locked. ErrBusy if another process writes.
//
// The RECOVER lock is taken first, as no writer does. It tells a writer that finds the database locked that this is brief, and worth a
// second try before its own busy handler decides (sqlite/extension/shm.c). Only recoveries conflict with it; they need the WRITE lock too,
// and begin anew when they find it taken.
func (d *DB) LockWriters() error {
	if err := set(d.shm, syscall.F_WRLCK, recoverLock, 1); err != nil {
		return err
	}
	if err := set(d.shm, syscall.F_WRLCK, writeLock, 1); err != nil {
		return errors.Join(err, set(d.shm, syscall.F_UNLCK, recoverLock, 1))
	}
	d.writing = true
	return nil
}

// UnlockWriters undoes LockWriters.
func (d *DB) UnlockWriters() error {
	d.writing = false
	return errors.Join(set(d.shm, syscall.F_UNLCK, writeLock, 1), set(d.shm, syscall.F_UNLCK, recoverLock, 1))
}
