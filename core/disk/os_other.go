//go:build !linux

package disk

import "os"

// Sync is a full fsync where there is no fdatasync.
func (f osFile) Sync() error { return f.File.Sync() }

// withDirectWrites has nothing to offer here.
func withDirectWrites(f osFile) File { return f }

// reserve leaves it to the zeros that Preallocate writes.
func reserve(*os.File, int64, int64) error { return nil }
