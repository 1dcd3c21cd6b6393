package node

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/holdfastdb/holdfast/core/clock"
	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/core/wal"
)

// Stopped is what SaveStopped found.
type Stopped struct {
	Name            string
	Cluster, Member uint64
	// Committed is the last index that this member knew to be committed, Last the last one in its log, which is included.
	Committed, Last uint64
	// Removed: somewhere in its log this member is removed from the cluster, which then went on without it.
	Removed bool
}

// stoppedName is where SaveStopped works, below the data directory. It is removed at the end, and at start after a crash.
const stoppedName = "snapshot-save"

func stoppedDir(dir string) string { return filepath.Join(dir, stoppedName) }

// SaveStopped writes a snapshot of the member in cfg.Dir, which must not run, as if all that its log holds had been committed. It treats
// all entries in the log as committed. It is for a cluster that has lost its majority for good. Each member of a majority has every
// acknowledged entry in its log, but perhaps beyond the commit index that it knew. Entries that were acknowledged by others only are not
// here.
//
// It works on a copy below cfg.Dir, in which tables are shared and the log is not, and leaves the directory as it was.
func SaveStopped(cfg Config, w io.Writer) (found *Stopped, err error) {
	cfg.defaults()
	ident, err := ReadIdentity(cfg.FS, cfg.Dir)
	if err != nil {
		return nil, err
	}
	if ident.Cluster == 0 {
		return nil, fmt.Errorf("%s belongs to no cluster yet: its member has acknowledged nothing", cfg.Dir)
	}
	if !walExists(cfg.FS, cfg.walDir()) {
		return nil, fmt.Errorf("there is no log in %s: if it lies elsewhere, give --wal-dir as at its start", cfg.walDir())
	}
	lock, err := cfg.FS.Lock(filepath.Join(cfg.Dir, "LOCK"))
	if errors.Is(err, disk.ErrLocked) {
		return nil, fmt.Errorf("%s is in use by a running server: stop it, or take the snapshot from it, without --data", cfg.Dir)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	work := cfg
	work.Dir, work.WALDir, work.Store = stoppedDir(cfg.Dir), "", nil
	work.Manual, work.Net, work.Clock, work.stopped = true, nobody{}, &clock.Manual{}, true
	if err := cfg.FS.RemoveAll(work.Dir); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cfg.FS.RemoveAll(work.Dir)) }()
	if err := copyMember(&cfg, &work, ident); err != nil {
		return nil, inPlace(err, &cfg, &work)
	}
	n, err := Open(work)
	if err != nil {
		return nil, inPlace(err, &cfg, &work)
	}
	defer n.Stop()
	found = &Stopped{Name: ident.Name, Cluster: ident.Cluster, Member: ident.Member, Committed: n.knownCommit, Last: n.wal.LastIndex()}
	if err := n.applyAll(found.Last); err != nil {
		return nil, inPlace(err, &cfg, &work)
	}
	found.Removed = n.members.Removed(n.id)
	term, err := n.wal.Term(found.Last)
	if err != nil {
		return nil, inPlace(err, &cfg, &work)
	}
	v := n.store.NewView()
	defer v.Close()
	return found, writeSnapshot(w, v, &SnapshotInfo{Cluster: ident.Cluster, Index: found.Last, Term: term, Conf: n.rep.Conf()})
}

func copyMember(from, to *Config, ident *Identity) error {
	if err := from.FS.MkdirAll(to.Dir); err != nil {
		return err
	}
	if err := store.Copy(filepath.Join(from.Dir, "store"), filepath.Join(to.Dir, "store")); err != nil {
		return err
	}
	if err := wal.Copy(from.FS, from.walDir(), to.walDir()); err != nil {
		return err
	}
	return ident.write(to.FS, to.Dir)
}

// inPlace rewrites paths in an error from the copy's to the directory's.
func inPlace(err error, from, work *Config) error {
	text := strings.ReplaceAll(err.Error(), work.walDir(), from.walDir())
	return inPlaceError{err, strings.ReplaceAll(text, work.Dir, from.Dir)}
}

type inPlaceError struct {
	error
	text string
}

func (e inPlaceError) Error() string { return e.text }
func (e inPlaceError) Unwrap() error { return e.error }

// nobodysID is beyond those that members have (randomID).
const nobodysID = 1 << 62

// commitAll makes the log say that all it holds is committed. Only in the copy of a stopped member.
func (n *Node) commitAll() error {
	hs := n.wal.HardState()
	n.knownCommit = max(hs.Commit, n.store.Applied())
	hs.Commit = max(hs.Commit, n.wal.LastIndex())
	if err := n.wal.Append(wal.Batch{HardState: &hs}); err != nil {
		return err
	}
	return n.wal.Sync()
}

// applyAll applies the log up to last, by the path of every start.
func (n *Node) applyAll(last uint64) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("broken invariant: %v\n%s", r, debug.Stack())
		}
	}()
	for idle := 0; n.appliedIdx < last; idle++ {
		before := n.appliedIdx
		if err := n.Pump(); err != nil {
			return err
		}
		n.WriteStep()
		if n.appliedIdx > before {
			idle = 0
		}
		if idle > 10 {
			return fmt.Errorf("the log cannot be applied beyond %d of %d", n.appliedIdx, last)
		}
	}
	return nil
}
