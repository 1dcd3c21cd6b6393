package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/holdfastdb/holdfast/disk"
	"github.com/holdfastdb/holdfast/node"
)

// saveStopped writes a snapshot of a stopped member's directory and says how far it goes.
func saveStopped(c *call, data, walDir, path string) error {
	found, r, err := writeStopped(data, walDir, path, c.stderr)
	if errors.Is(err, node.ErrNoIdentity) {
		err = errors.New("it holds no data of a Holdfast server; give the directory that `holdfast serve --data` was given")
	}
	if err != nil {
		return fmt.Errorf("snapshot save --data %s: %w", data, err)
	}
	fmt.Fprintf(c.stdout, "%s: index %d, revision %d, %d keys, %s\n", path, r.Index, r.Revision, r.Keys, sizeString(r.Bytes))
	fmt.Fprintf(c.stdout, "member %x knew its log to be committed up to index %d; the %d entries behind that are included, up to index %d\n",
		found.Member, found.Committed, found.Last-found.Committed, found.Last)
	if found.Removed {
		fmt.Fprintf(c.stdout, "this member was removed from its cluster, which went on without it: look for another one\n")
	}
	fmt.Fprintf(c.stdout, "other members may hold later writes than these: if one of them can still be had, save it as well and take the highest index\n")
	return nil
}

func writeStopped(data, walDir, path string, progress io.Writer) (found *node.Stopped, r *snapshotReport, err error) {
	part := path + ".part"
	f, err := createPart(part)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		f.Close()
		if err != nil {
			os.Remove(part)
		}
	}()
	shown := newProgress(progress, "saved")
	cfg, _ := housed(node.Config{Dir: data, WALDir: walDir})
	found, err = node.SaveStopped(cfg, io.MultiWriter(f, shown))
	shown.end()
	if err != nil {
		return nil, nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, nil, fmt.Errorf("%s; make room and try again", reason(err))
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, nil, fmt.Errorf("read %s: %s", part, reason(err))
	}
	if r, err = readSnapshot(newBuffered(f)); err != nil {
		return nil, nil, fmt.Errorf("read back what was written: %w; try another disk", err)
	}
	if err := os.Rename(part, path); err != nil {
		return nil, nil, fmt.Errorf("%s; give another file", reason(err))
	}
	return found, r, disk.OS().SyncDir(filepath.Dir(path))
}
