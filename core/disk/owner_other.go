//go:build !linux

package disk

import "io/fs"

// CopyOwner does nothing here.
func CopyOwner(fs.FileInfo, string) error { return nil }
