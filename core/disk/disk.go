// Package disk is the seam to the file system. It has the real one, one in memory that can lose and tear unsynced writes on a crash, and
// one that injects faults. Everything durable outside Pebble goes through it.
package disk

import (
	"errors"
	"io/fs"
)

// ErrLocked: another process, or another part of this one, holds the lock.
var ErrLocked = errors.New("locked by another process")

// FS is the part of a file system Holdfast uses. Safe for concurrent use.
type FS interface {
	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)
	// OpenDirect opens an existing file for reading and for writing past the page cache. WriteAt hands whole blocks straight to the device,
	// and Sync finds nothing left to write. The memory must come from Blocks; offset and length must be multiples of BlockBytes. Any other
	// write goes the ordinary way, and so do all where the file system knows no direct writes.
	OpenDirect(name string) (File, error)
	// OpenRead opens a regular file for reading alone, or ErrNotRegular. It never waits, not for a named pipe either. Calls that
	// write to the file fail.
	OpenRead(name string) (File, error)
	// Create makes or truncates a file.
	Create(name string) (File, error)
	// CreateNew makes a file that must not be there (fs.ErrExist), with these permissions less what the umask takes.
	CreateNew(name string, mode fs.FileMode) (File, error)
	Rename(oldname, newname string) error
	// Link gives a file a second name, which must be free (fs.ErrExist).
	Link(oldname, newname string) error
	// Chmod sets permissions, independent of the umask.
	Chmod(name string, mode fs.FileMode) error
	Remove(name string) error
	RemoveAll(name string) error
	// Mkdir makes one directory. It is there after a crash if its parent was synced, and so is its content.
	Mkdir(dir string) error
	// MkdirMode is Mkdir with other permissions, less what the umask takes.
	MkdirMode(dir string, mode fs.FileMode) error
	// MkdirAll makes a directory with all that is missing above it, and makes their names durable. Directories that are there
	// already are synced too: the process that made them may have ended before it synced them.
	MkdirAll(dir string) error
	// List returns the sorted base names in dir.
	List(dir string) ([]string, error)
	// ReadDir is List with types. A link is not followed.
	ReadDir(dir string) ([]fs.DirEntry, error)
	// Stat describes what a name leads to, Lstat a link itself. IDOf tells what they describe from everything else.
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	// OpenDir holds a directory, so that no other one gets its ID meanwhile, and so that its file system is not unmounted unnoticed.
	OpenDir(dir string) (Dir, error)
	// SyncDir makes creations, renames and removals in dir durable.
	SyncDir(dir string) error
	ReadFile(name string) ([]byte, error)
	// WriteFileAtomic writes name by temporary file, fsync, rename and directory sync.
	WriteFileAtomic(name string, data []byte) error
	// Lock takes an exclusive advisory lock on a file, released by Close or process death.
	Lock(name string) (Unlocker, error)
	// LockDir is Lock of a directory. Some network file systems have no such lock.
	LockDir(dir string) (Unlocker, error)
	// Free returns the bytes available to this process on dir's file system.
	Free(dir string) (uint64, error)
}

// ErrNotRegular: under a file's name is a directory, a named pipe, a socket or a device.
var ErrNotRegular = errors.New("not a regular file")

// Dir is a directory that is held open.
type Dir interface {
	Stat() (fs.FileInfo, error)
	Close() error
}

// ID tells a file or a directory from every other on this machine while it is there or held open. The zero ID is none.
type ID struct{ Device, Inode uint64 }

// File is one open file. WriteAt and ReadAt may run concurrently.
type File interface {
	ReadAt(p []byte, off int64) (int, error)
	WriteAt(p []byte, off int64) (int, error)
	// Preallocate grows the file to size with zeros that are really written. Later writes there change neither size nor extents, so Sync
	// only flushes data. A file that is as large already is left alone.
	Preallocate(size int64) error
	Truncate(size int64) error
	// Sync is fdatasync: contents, and the size if it changed.
	Sync() error
	Size() (int64, error)
	Close() error
}

// Unlocker releases a Lock.
type Unlocker interface{ Unlock() error }
