package store

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fatalFS is the file system of one generation. When a directory cannot be synced, Pebble panics on its own goroutine, where no caller can
// recover. The node must stop with a message instead. Once the generation is open such an error therefore ends as Pebble's own fatal errors
// do. While it is being opened the panic happens on the caller's goroutine and openGeneration turns it into an error.
type fatalFS struct {
	vfs.FS
	g *generation
}

func (f fatalFS) OpenDir(name string) (vfs.File, error) {
	d, err := f.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return fatalDir{d, f.g, name}, nil
}

type fatalDir struct {
	vfs.File
	g    *generation
	name string
}

func (d fatalDir) Sync() error {
	err := d.File.Sync()
	if err != nil && d.g.opened.Load() {
		d.g.s.fail(fmt.Errorf("sync directory %s: %w", d.name, err))
		select {} // never returns, because Pebble would panic
	}
	return err
}
