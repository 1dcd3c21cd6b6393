package walfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/place"
)

// ErrHot: a program ended in the middle of a transaction. SQLite has to play its rollback journal back before the database file is a
// committed state.
var ErrHot = errors.New("the rollback journal of an interrupted transaction lies beside the database")

// ErrWAL: the database is in WAL mode, and not in one with a rollback journal.
var ErrWAL = errors.New("the database is in WAL mode")

const reservedByte = pendingByte + 1

// OpenRollback opens a database that is in a mode with a rollback journal, and holds the shared lock that readers have in that mode. No
// process writes to the file until Close. ErrAbsent and ErrMoved are as Open's; ErrWAL says that the mode is another, ErrBusy that a
// transaction is being committed. A journal that has to be played back is no error here: Hot reports it.
func OpenRollback(path string) (_ *DB, err error) {
	d := &DB{path: path}
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	d.db, err = openRegular(path, os.O_RDWR)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) {
		d.db, err = openRegular(path, os.O_RDONLY) // LockAll is refused then
	}
	if err != nil {
		return nil, err
	}
	// As a reader does (os_unix.c, unixLock): the PENDING lock is shared for as long as it takes to share the other.
	if err := set(d.db, syscall.F_RDLCK, pendingByte, 1); err != nil {
		return nil, err
	}
	err = set(d.db, syscall.F_RDLCK, sharedFirst, sharedSize)
	if err := errors.Join(err, set(d.db, syscall.F_UNLCK, pendingByte, 1)); err != nil {
		return nil, err
	}
	if err := d.readHeader(); err != nil {
		return nil, err
	}
	if d.walMode {
		return nil, ErrWAL
	}
	if d.id, err = place.Identify(path); err != nil {
		return nil, ErrMoved
	}
	if own, err := d.db.Stat(); err != nil || !sameFile(own, path) {
		return nil, ErrMoved
	}
	return d, nil
}

// Hot reports whether a rollback journal has to be played back, by SQLite's rule (pager.c, hasHotJournal). It has a header, and no
// connection has a writer's lock.
func (d *DB) Hot() (bool, error) {
	f, err := os.Open(d.path + "-journal")
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	defer f.Close() // it was read
	var first [1]byte
	if _, err := f.ReadAt(first[:], 0); errors.Is(err, io.EOF) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	if first[0] == 0 {
		return false, nil
	}
	kind, err := held(d.db, reservedByte, 1)
	return kind == syscall.F_UNLCK, err
}

// LockAll takes every lock of a database in a mode with a rollback journal: ErrBusy if another process has one. No other process reads or
// writes it until Close or Share. It waits up to 50 ms for readers, and lets no new ones in meanwhile, as SQLite does. Without that,
// programs that read by turns would leave no free moment. A transaction that writes is not waited for. The file of a database that cannot
// be written to cannot be locked so.
func (d *DB) LockAll() error {
	kind, err := held(d.db, reservedByte, 1)
	if err == nil && kind != syscall.F_UNLCK {
		return ErrBusy
	}
	err = set(d.db, syscall.F_WRLCK, pendingByte, 1)
	if errors.Is(err, syscall.EBADF) {
		return fmt.Errorf("lock %s: %w", d.path, os.ErrPermission)
	}
	if err != nil {
		return err
	}
	for range 25 {
		err = set(d.db, syscall.F_WRLCK, pendingByte, sharedFirst+sharedSize-pendingByte)
		if !errors.Is(err, ErrBusy) {
			return err
		}
		time.Sleep(2 * time.Millisecond)
	}
	return errors.Join(err, set(d.db, syscall.F_UNLCK, pendingByte, 1))
}
