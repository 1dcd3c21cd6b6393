package node

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/holdfastdb/holdfast/core/disk"
)

// A directory that belongs to a cluster has an identity, a log and a store. The identity names the cluster last, once log
// and store are complete and durable (initialise, Restore). No crash leaves it without them, so a missing part was taken
// away. If the identity names no cluster, the other parts are an unfinished attempt, which starts over.

// refuseRemains refuses a directory from which a part was taken away.
func (cfg *Config) refuseRemains(id *Identity) error {
	walDir, storeDir := cfg.walDir(), filepath.Join(cfg.Dir, "store")
	if !walExists(cfg.FS, walDir) {
		return fmt.Errorf("open %s: %s is gone, the log of member %x, and with it the memory of its votes: it may not come back "+
			"under this id; %s", cfg.Dir, walDir, id.Member, beginAgain(id.Member))
	}
	if cfg.Store != nil { // it lies elsewhere
		return nil
	}
	names, err := cfg.FS.List(storeDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("open %s: %w", cfg.Dir, err)
	}
	if len(names) == 0 {
		return fmt.Errorf("open %s: %s is gone, all that member %x had applied; %s", cfg.Dir, storeDir, id.Member, beginAgain(id.Member))
	}
	return nil
}

// refuseGap refuses a store that ends before the log begins: the entries between them are lost.
func (n *Node) refuseGap() error {
	if first := n.wal.FirstIndex(); n.store.Applied() < first-1 {
		return fmt.Errorf("open %s: the store of member %x holds the log up to %d, but the log begins at %d: a part of %s was taken away or "+
			"put back from an older copy; %s", n.cfg.Dir, n.id, n.store.Applied(), first, filepath.Join(n.cfg.Dir, "store"), beginAgain(n.id))
	}
	return nil
}

func beginAgain(id uint64) string {
	return fmt.Sprintf("remove the member (holdfast member remove %x), empty the directory, and start with --join; if there is no other "+
		"member, restore a snapshot (holdfast snapshot restore)", id)
}

// refuseStrayLog refuses to make a member in an empty directory over a log that lies elsewhere: it would be removed.
func (cfg *Config) refuseStrayLog() error {
	walDir := cfg.walDir()
	if _, err := ReadIdentity(cfg.FS, cfg.Dir); !errors.Is(err, ErrNoIdentity) {
		return nil // there is an identity, or an error that is told later
	}
	if cfg.WALDir != "" && walExists(cfg.FS, walDir) {
		return fmt.Errorf("%s has no identity file, but %s holds a log: it belongs to another data directory, or the identity was taken away; "+
			"give another --wal-dir, or remove the log if nobody needs it", cfg.Dir, walDir)
	}
	return nil
}

// walExists reports whether a log lies in dir. A disk of its own may have other things in it, such as lost+found.
func walExists(f disk.FS, dir string) bool {
	names, err := f.List(dir)
	if err != nil {
		return false
	}
	for _, name := range names {
		if name == "START" || strings.HasSuffix(name, ".wal") {
			return true
		}
	}
	return false
}
