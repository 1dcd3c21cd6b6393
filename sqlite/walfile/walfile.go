// Package walfile is a SQLite database's files, as one more of the processes that share them. It reads commits, and holds a read mark so
// that the WAL is not started anew before it has read it. It also starts the WAL anew itself. The rules are those of
// sqlite.org/walformat.html and of SQLite's wal.c and os_unix.c; the numbers below are theirs.
//
// It runs no SQL, writes neither to the database nor to its WAL, and never makes one of the files. It changes only the wal-index, which is
// memory that processes share. Linux only: it needs locks that belong to an open file, because a process loses SQLite's own whenever it
// closes any descriptor of the file.
package walfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/holdfastdb/holdfast/sqlite/place"
)

var (
	// ErrBusy: another process has a lock that does not allow it at the moment. Transient.
	ErrBusy = errors.New("the database is locked")
	// ErrExclusive: one connection has the database for itself (locking_mode=EXCLUSIVE) and shares no wal-index.
	ErrExclusive = errors.New("the database is locked by locking_mode=EXCLUSIVE")
	// ErrAbsent: there is no database file, or nothing in it.
	ErrAbsent = errors.New("there is no database")
	// ErrNoDatabase: the file is something else than a SQLite database, or an encrypted one.
	ErrNoDatabase = errors.New("it is no SQLite database")
	// ErrMoved: the name has come to mean another file since it was opened.
	ErrMoved = errors.New("another file has taken the database's place")
)

// DB is a database's open files. One goroutine uses it. It has to be closed.
type DB struct {
	path     string
	db       *os.File
	wal, shm *os.File // nil where there is none
	id       place.ID // the file that the name meant when it was opened

	pageSize uint32
	walMode  bool
	live     bool // some connection shares the wal-index, and so do we
	lone     bool // opened by OpenExclusive
	slot     int  // the read mark that is held, 1 to 4; 0: none
	writing  bool // writers are locked out
	buf      []byte
}

// Open opens the database at path. ErrAbsent: there is none yet. ErrExclusive: one connection has it exclusively. ErrBusy: try again. A
// database in WAL mode has a shared lock from then on, so that no connection removes its WAL. Close releases the locks.
func Open(path string) (*DB, error) { return open(path, false) }

// OpenExclusive opens a database without sharing anything with the connection that has it exclusively. Reads are consistent only while that
// connection writes nothing.
func OpenExclusive(path string) (*DB, error) { return open(path, true) }

func open(path string, lone bool) (_ *DB, err error) {
	d := &DB{path: path, lone: lone}
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	if d.db, err = openRegular(path, os.O_RDONLY); err != nil {
		return nil, err
	}
	if err := d.readHeader(); err != nil {
		return nil, err
	}
	if d.walMode && !lone {
		if err := d.shareDatabase(); err != nil {
			return nil, err
		}
		// The mode may have changed while it was not locked.
		if err := d.readHeader(); err != nil {
			return nil, err
		}
	}
	if d.id, err = place.Identify(path); err != nil {
		return nil, ErrMoved
	}
	if own, err := d.db.Stat(); err != nil || !sameFile(own, path) {
		return nil, ErrMoved
	}
	return d, d.Join()
}

// openRegular opens a database file. ErrAbsent: there is none. ErrNoDatabase: a directory, or a file at which an open would block.
func openRegular(path string, flag int) (*os.File, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, ErrAbsent
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%w: %s is a directory", ErrNoDatabase, path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: %s is a special file", ErrNoDatabase, path)
	}
	f, err := os.OpenFile(path, flag, 0)
	if errors.Is(err, os.ErrNotExist) {
		err = ErrAbsent
	}
	return f, err
}

// Join looks for a WAL and a wal-index that were not there yet, and shares the index if connections do. It is called again and
// again while Live reports false.
func (d *DB) Join() error {
	if !d.walMode {
		return nil
	}
	if d.wal != nil && !d.live && !sameFileAs(d.wal, d.path+"-wal") {
		d.wal.Close()
		d.wal = nil
	}
	if d.wal == nil {
		f, err := os.OpenFile(d.path+"-wal", os.O_RDONLY, 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err == nil {
			d.wal = f
		}
	}
	if d.live || d.lone {
		return nil
	}
	f, err := os.OpenFile(d.path+"-shm", os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	d.live, err = shareIndex(f)
	if err == nil && d.live && !sameFileAs(f, d.path+"-shm") {
		d.live = false // removed meanwhile; the next call finds its replacement
	}
	if err != nil || !d.live {
		f.Close()
		return err
	}
	d.shm = f
	if d.wal != nil && !sameFileAs(d.wal, d.path+"-wal") {
		d.wal.Close()
		d.wal = nil
	}
	if d.wal == nil {
		if d.wal, err = os.OpenFile(d.path+"-wal", os.O_RDONLY, 0); err != nil {
			d.wal = nil
			if !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// Close releases every lock. It may be called again.
func (d *DB) Close() {
	for _, f := range []*os.File{d.db, d.wal, d.shm} {
		if f != nil {
			f.Close() // nothing was written that could be lost; the locks go with the descriptor
		}
	}
	d.db, d.wal, d.shm, d.live, d.slot, d.writing, d.buf = nil, nil, nil, false, 0, false, nil
}

// PageSize is in bytes.
func (d *DB) PageSize() uint32 { return d.pageSize }

// WAL reports whether the database is in WAL mode.
func (d *DB) WAL() bool { return d.walMode }

// Live reports whether there are connections, whose wal-index is shared.
func (d *DB) Live() bool { return d.live }

// Moved reports whether the name means another file than the open one.
func (d *DB) Moved() bool {
	id, err := place.Identify(d.path)
	return err != nil || id != d.id
}

// ID is device and inode of the file that was opened last.
func (d *DB) ID() place.ID { return d.id }

// LockPage is the page that SQLite leaves empty because its locks lie there: byte 2^30.
func LockPage(pageSize uint32) uint32 { return pendingByte/pageSize + 1 }

// readHeader takes page size and mode from the first page (fileformat2.html, 1.3).
func (d *DB) readHeader() error {
	var h [100]byte
	if n, err := d.db.ReadAt(h[:], 0); errors.Is(err, io.EOF) && n == 0 {
		return ErrAbsent // a connection that opens a new database makes an empty file
	} else if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %s has %d bytes", ErrNoDatabase, filepath.Base(d.path), n)
	} else if err != nil {
		return err
	}
	size := uint32(binary.BigEndian.Uint16(h[16:]))
	if size == 1 {
		size = 1 << 16
	}
	if string(h[:16]) != "SQLite format 3\x00" || size < 512 || size&(size-1) != 0 {
		return fmt.Errorf("%w: %s does not begin as one; an encrypted database cannot be kept", ErrNoDatabase, filepath.Base(d.path))
	}
	d.pageSize, d.walMode = size, h[18] == 2 && h[19] == 2
	return nil
}

// Pages is the size of the database file in pages, without the WAL.
func (d *DB) Pages() (uint32, error) {
	info, err := d.db.Stat()
	if err != nil {
		return 0, err
	}
	return uint32(info.Size() / int64(d.pageSize)), nil
}

// ReadPage reads a page of the database file into p, which is a page long. A page behind the end is zeros: SQLite may not have
// written it yet.
func (d *DB) ReadPage(page uint32, p []byte) error {
	n, err := d.db.ReadAt(p, int64(page-1)*int64(d.pageSize))
	if errors.Is(err, io.EOF) {
		clear(p[n:])
		return nil
	}
	return err
}

// Look is a glance at a database's files: equal ones mean that nothing was written in between.
type Look struct{ DB, WAL Glance }

// Glance is a file's state in its file system; zero: there is none.
type Glance struct {
	Device, Inode uint64
	Size          int64  // bytes
	Time          int64  // when it was written last, in nanoseconds
	Links         uint64 // names that it has; more than 1: hard links
}

// LookAt glances at the files of the database at path, without opening them.
func LookAt(path string) Look {
	return Look{DB: glance(path), WAL: glance(path + "-wal")}
}

func glance(path string) Glance {
	info, err := os.Stat(path)
	if err != nil {
		return Glance{}
	}
	id := place.IDOf(info)
	return Glance{Device: id.Dev, Inode: id.Ino, Size: info.Size(), Time: info.ModTime().UnixNano(), Links: place.LinksOf(info)}
}

// Sync makes durable what the database and its WAL hold, which a connection with synchronous=NORMAL leaves to the next checkpoint.
func (d *DB) Sync() error {
	if d.wal != nil {
		if err := d.wal.Sync(); err != nil {
			return err
		}
	}
	return d.db.Sync()
}

// IsOpen reports whether Close was not called.
func (d *DB) IsOpen() bool { return d.db != nil }
