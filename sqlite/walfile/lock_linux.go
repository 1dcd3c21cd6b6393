package walfile

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// Where SQLite's locks lie: in the database file (os.h), and in the wal-index (wal.c, os_unix.c).
const (
	pendingByte = 0x40000000
	sharedFirst = pendingByte + 2
	sharedSize  = 510

	writeLock   = 120
	checkLock   = 121
	recoverLock = 122
	readLock    = 123 // of mark 0; mark i is behind it
	deadManLock = 128

	ofdGetLock = 36 // F_OFD_GETLK, F_OFD_SETLK of fcntl.h
	ofdSetLock = 37
)

// set takes (F_RDLCK, F_WRLCK) or drops (F_UNLCK) a lock that belongs to the open file, without waiting: ErrBusy.
func set(f *os.File, kind int16, first, n int64) error {
	l := syscall.Flock_t{Type: kind, Whence: io.SeekStart, Start: first, Len: n}
	for {
		err := syscall.FcntlFlock(f.Fd(), ofdSetLock, &l)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EACCES):
			return ErrBusy
		default:
			return err
		}
	}
}

// held reports what kind of lock others have that would be in the way of an exclusive one: F_UNLCK if none.
func held(f *os.File, first, n int64) (int16, error) {
	l := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: first, Len: n}
	err := syscall.FcntlFlock(f.Fd(), ofdGetLock, &l)
	return l.Type, err
}

// shareDatabase takes what every connection in WAL mode has: a shared lock on the database file. The last one to close finds
// that it is not the last, and leaves the WAL.
func (d *DB) shareDatabase() error {
	// A closing connection has the other kind of lock for a moment, one with locking_mode=EXCLUSIVE for as long as it likes. Whether it
	// shares a wal-index says nothing, because it may have begun in the other mode.
	for range 10 {
		err := set(d.db, syscall.F_RDLCK, sharedFirst, sharedSize)
		if !errors.Is(err, ErrBusy) {
			return err
		}
		time.Sleep(2 * time.Millisecond)
	}
	return ErrExclusive
}

// shareIndex reports whether connections share the wal-index f, and joins them. The first process to come finds the lock free and empties
// the file, so every process that has it open must hold the lock.
func shareIndex(f *os.File) (bool, error) {
	kind, err := held(f, deadManLock, 1)
	if err != nil || kind == syscall.F_UNLCK {
		return false, err
	}
	if kind == syscall.F_WRLCK {
		return false, nil // it is being made
	}
	if err := set(f, syscall.F_RDLCK, deadManLock, 1); err != nil {
		if errors.Is(err, ErrBusy) {
			return false, nil
		}
		return false, err
	}
	return true, nil
}

// Checkpointing reports whether another process blocks writers for its checkpoint: it waits for readers of the WAL, to start it anew.
func (d *DB) Checkpointing() bool {
	for _, at := range []int64{checkLock, writeLock} {
		if kind, err := held(d.shm, at, 1); err != nil || kind == syscall.F_UNLCK {
			return false
		}
	}
	return true
}

// Wanted reports whether a process waits for exclusive access: for another journal mode, or locking_mode=EXCLUSIVE.
func (d *DB) Wanted() bool {
	kind, err := held(d.db, pendingByte, 1)
	return err == nil && kind == syscall.F_WRLCK
}

// Rest releases the mark and the lock on the database, but keeps sharing the wal-index. Other processes may use the WAL freely, and the
// index counts their commits.
func (d *DB) Rest() error {
	if err := d.Release(); err != nil {
		return err
	}
	return set(d.db, syscall.F_UNLCK, sharedFirst, sharedSize)
}

// Rouse takes the lock on the database again: ErrMoved if database, WAL or index are others by now, and Open has to begin anew.
func (d *DB) Rouse() error {
	if err := d.shareDatabase(); err != nil {
		return err
	}
	if d.Moved() || !sameFileAs(d.shm, d.path+"-shm") || d.wal != nil && !sameFileAs(d.wal, d.path+"-wal") {
		return ErrMoved
	}
	return nil
}

// Alone reports whether no other process shares the wal-index.
func (d *DB) Alone() bool {
	kind, err := held(d.shm, deadManLock, 1)
	return err == nil && kind == syscall.F_UNLCK
}

// Read reports whether another process reads from the WAL, or holds a mark of it.
func (d *DB) Read() bool {
	kind, err := held(d.shm, readLock+1, marks-1)
	return err != nil || kind != syscall.F_UNLCK
}

func sameFile(info os.FileInfo, path string) bool {
	other, err := os.Stat(path)
	return err == nil && os.SameFile(info, other)
}

func sameFileAs(f *os.File, path string) bool {
	info, err := f.Stat()
	return err == nil && sameFile(info, path)
}
