// Package rig is one machine with SQLite databases as tests and conformance runs see it from outside. It has the built programs, an
// application that reports its returned inserts, stores that fail and recover, mounts in a namespace, and a restore's content. It judges
// nothing, and knows no package of the product beside the stores' client: it drives processes.
package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/holdfastdb/holdfast/internal/extagent"
	"github.com/holdfastdb/holdfast/internal/proctest"
)

// Tools are the programs. Nothing in it changes.
type Tools struct {
	Root       string // of the repository
	Holdfast   string
	Litestream string // Holdfast under that name
	Extension  string
	Original   string // Litestream 0.5.18; "" where scripts/sqlitepeers.sh has not built it
}

// python is the system's: one that was built by pyenv may not load extensions.
const python = "/usr/bin/python3"

// Find builds what is missing, once for a process: the program as proctest.Binary has it, the extension by its script. It may be called from
// any goroutine.
var Find = sync.OnceValues(func() (*Tools, error) {
	root, err := proctest.Root()
	if err != nil {
		return nil, err
	}
	t := &Tools{Root: root}
	if t.Holdfast, err = proctest.Binary(); err != nil {
		return nil, err
	}
	return t, t.complete()
})

// With is the tools with a program that is built already.
func With(holdfast string) (*Tools, error) {
	root, err := proctest.Root()
	if err != nil {
		return nil, err
	}
	t := &Tools{Root: root, Holdfast: holdfast}
	if !filepath.IsAbs(holdfast) {
		t.Holdfast = filepath.Join(root, holdfast)
	}
	return t, t.complete()
}

func (t *Tools) complete() (err error) {
	for _, f := range []string{t.Holdfast, python} {
		if _, err := os.Stat(f); err != nil {
			return fmt.Errorf("%w; `make build` makes the one, Debian's package python3 has the other", err)
		}
	}
	if _, err := exec.LookPath("unshare"); err != nil {
		return fmt.Errorf("%w; Debian's package util-linux has it", err)
	}
	// A directory of its own, so that processes which build at the same time do not meet.
	dir := filepath.Join(t.Root, "build", "rig", fmt.Sprint(os.Getpid()))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if t.Extension, err = extagent.Build(t.Root, dir); err != nil {
		return err
	}
	t.Litestream = filepath.Join(dir, "litestream")
	if err := os.Remove(t.Litestream); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := os.Symlink(t.Holdfast, t.Litestream); err != nil {
		return err
	}
	if original := filepath.Join(t.Root, "build", "peers", "litestream"); isThere(original) {
		t.Original = original
	}
	return nil
}

// Close removes what was built for this process.
func (t *Tools) Close() error {
	return os.RemoveAll(filepath.Join(t.Root, "build", "rig", fmt.Sprint(os.Getpid())))
}

func isThere(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
