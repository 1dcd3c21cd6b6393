package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// footprint writes into a sample what a server that has been stopped left on the disk.
func (b *bench) footprint(name string, s *server, to *Sample) error {
	u, err := use(s.data)
	if err != nil {
		return err
	}
	to.Disk, to.Log, to.Files = u.bytes-u.log, u.log, u.files
	if name != holdfast {
		if u.files > 0 { // none if the log is in a database
			to.Held = to.Size
		}
		return nil
	}
	out, err := exec.Command(b.bin, "inspect", "store", s.data).Output()
	if err != nil {
		return fmt.Errorf("inspect store: %w", err)
	}
	to.Held, err = flushed(string(out))
	return err
}

// flushed reads from `holdfast inspect store` how many entries are in full bundles in the store. A stopped server has the rest in
// its log alone, and dividing by all of them would make the store look smaller than it is.
func flushed(said string) (int, error) {
	for line := range strings.Lines(said) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "tb" {
			rows, err := strconv.Atoi(f[1])
			return rows * tiles.Width, err
		}
	}
	return 0, nil
}

// diskUse is a directory's size on the disk, by blocks and not by the lengths of files: a log in small files pays for each.
type diskUse struct {
	bytes int64 // of all files
	log   int64 // of the files below wal/
	files int   // without directories
}

// use adds up a directory whose server has been stopped.
func use(dir string) (u diskUse, err error) {
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return errors.New("this system does not count blocks")
		}
		bytes := st.Blocks * 512 // at any block size of the file system
		u.bytes += bytes
		if strings.HasPrefix(path, filepath.Join(dir, "wal")+string(filepath.Separator)) {
			u.log += bytes
		}
		if !e.IsDir() {
			u.files++
		}
		return nil
	})
	return u, err
}
