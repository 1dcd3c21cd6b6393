package snapshot

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// saveStopped writes a snapshot of a stopped member's directory and says how far it goes.
func saveStopped(c *cli.Call, all serve.List, data, walDir, path string) error {
	found, r, err := writeStopped(all, data, walDir, path, c.Stderr)
	if errors.Is(err, node.ErrNoIdentity) {
		err = errors.New("it holds no data of a Holdfast server; give the directory that `holdfast serve --data` was given")
	}
	if err != nil {
		return fmt.Errorf("snapshot save --data %s: %w", data, err)
	}
	fmt.Fprintf(c.Stdout, "%s: index %d, %s%s, %s\n", path, r.Index, r.brief(), r.Holds, cli.SizeString(r.Bytes))
	fmt.Fprintf(c.Stdout, "member %x knew its log to be committed up to index %d; the %d entries behind that are included, up to index %d\n",
		found.Member, found.Committed, found.Last-found.Committed, found.Last)
	if found.Removed {
		fmt.Fprintf(c.Stdout, "this member was removed from its cluster, which went on without it: look for another one\n")
	}
	fmt.Fprintf(c.Stdout, "other members may hold later writes than these: if one of them can still be had, save it as well and take the highest index\n")
	return nil
}

func writeStopped(all serve.List, data, walDir, path string, progress io.Writer) (found *node.Stopped, r *report, err error) {
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
	shown := cli.NewProgress(progress, "saved")
	found, err = node.SaveStopped(all.Equip(node.Config{Dir: data, WALDir: walDir}), io.MultiWriter(f, shown))
	shown.End()
	if err != nil {
		return nil, nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, nil, fmt.Errorf("%s; make room and try again", cli.Reason(err))
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, nil, fmt.Errorf("read %s: %s", part, cli.Reason(err))
	}
	if r, err = readSnapshot(all.Specs(), all.Saved(), cli.NewBuffered(f)); err != nil {
		return nil, nil, fmt.Errorf("read back what was written: %w; try another disk", err)
	}
	if err := os.Rename(part, path); err != nil {
		return nil, nil, fmt.Errorf("%s; give another file", cli.Reason(err))
	}
	return found, r, disk.OS().SyncDir(filepath.Dir(path))
}
