// Package disk is the seam to the file system: the real one, one in memory that can lose and tear unsynced writes on a
// crash, and one that injects faults. Everything durable outside Pebble goes through it.
package disk

import "errors"

// ErrLocked: another process, or another part of this one, holds the lock.
var ErrLocked = errors.New("locked by another process")

// FS is the part of a file system Holdfast uses. Safe for concurrent use.
type FS interface {
	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)
	// OpenDirect opens an existing file for reading and for writing past the page cache: WriteAt hands whole blocks (memory
	// from Blocks; offset and length multiples of BlockBytes) straight to the device, and Sync finds nothing left to write. Any
	// other write goes the ordinary way, and so do all where the file system knows no direct writes.
	OpenDirect(name string) (File, error)
	// Create makes or truncates a file.
	Create(name string) (File, error)
	Rename(oldname, newname string) error
	Remove(name string) error
	RemoveAll(name string) error
	// Mkdir makes one directory. It is there after a crash if the directory it is in was synced, and so is what is in it.
	Mkdir(dir string) error
	// MkdirAll makes a directory with all that is missing above it, and makes their names durable. Directories that are there
	// already are synced too: the process that made them may have ended before it synced them.
	MkdirAll(dir string) error
	// List returns the sorted base names in dir.
	List(dir string) ([]string, error)
	// SyncDir makes creations, renames and removals in dir durable.
	SyncDir(dir string) error
	ReadFile(name string) ([]byte, error)
	// WriteFileAtomic writes name by temporary file, fsync, rename and directory sync.
	WriteFileAtomic(name string, data []byte) error
	// Lock takes an exclusive advisory lock on a file, released by Close or process death.
	Lock(name string) (Unlocker, error)
	// Free returns the bytes available to this process on dir's file system.
	Free(dir string) (uint64, error)
}

// File is one open file. WriteAt and ReadAt may run concurrently.
type File interface {
	ReadAt(p []byte, off int64) (int, error)
	WriteAt(p []byte, off int64) (int, error)
	// Preallocate grows the file to size with zeros that are really written, so that later writes there change neither
	// size nor extents and Sync has only data to flush. A file that is as large already is left alone.
	Preallocate(size int64) error
	Truncate(size int64) error
	// Sync is fdatasync: contents, and the size if it changed.
	Sync() error
	Size() (int64, error)
	Close() error
}

// Unlocker releases a Lock.
type Unlocker interface{ Unlock() error }
