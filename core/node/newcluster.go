package node

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	emember "github.com/holdfastdb/holdfast/core/entry/member"
	mmember "github.com/holdfastdb/holdfast/core/machine/member"
	"github.com/holdfastdb/holdfast/core/raft"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/core/wal"
)

// Making says how a data directory is made from a copy of other data: a snapshot, the files of another server.
type Making struct {
	// Name is the label of the only member, PeerAddr where other members will reach it, "" if none does.
	Name, PeerAddr string
	// the content of an unfinished directory: "the restore of a snapshot".
	What string
	// BesideEtcd allows etcd's own directory in the same place, which is left as it is, and to begin again what did not end.
	BesideEtcd bool
	// Resumes: unfinished work of the same name is continued. Then fill finds in the store what it had made durable there.
	Resumes bool
}

// resumes reports whether a directory holds the same making, which did not end and can be gone on with.
func (m *Making) resumes(was *Identity) bool {
	return m.Resumes && was.Cluster == 0 && was.Making == m.What
}

// MakingIn returns what a directory holds that did not end (Making.What): "" if it is empty, or whole, or missing.
func MakingIn(cfg Config) (string, error) {
	cfg.defaults()
	was, err := ReadIdentity(cfg.FS, cfg.Dir)
	switch {
	case errors.Is(err, ErrNoIdentity):
		return "", nil
	case err != nil:
		return "", err
	}
	return was.Making, nil
}

// Make builds a new one-member cluster in cfg.Dir, which must be empty. fill writes the rows and returns the log position whose state they
// are; self is the only member, whose rows are FirstRows. Cluster and member id are new: a copy is a fork and must never be taken for the
// original.
func Make(cfg Config, m Making, fill func(st store.Store, self *emember.Member) (index, term uint64, err error)) error {
	cfg.defaults()
	resumed := false
	switch was, err := ReadIdentity(cfg.FS, cfg.Dir); {
	case err == nil && m.resumes(was):
		resumed = true
	case errors.Is(err, ErrNoIdentity), err == nil && m.BesideEtcd && was.Cluster == 0: // the second did not end
	case err == nil && was.Making != "":
		return was.unfinished(cfg.Dir)
	case err == nil:
		return errors.New("it holds data already; give an empty directory")
	default:
		return err
	}
	if err := cfg.refuseStrayLog(); err != nil {
		return err
	}
	ident, err := cfg.newIdentityIn(m.Name, m.PeerAddr, m.What, m.BesideEtcd)
	if err != nil {
		return err
	}
	ident.Name = m.Name
	lock, err := cfg.FS.Lock(filepath.Join(cfg.Dir, "LOCK"))
	if err != nil {
		return fmt.Errorf("in use by another process: %w", err)
	}
	defer lock.Unlock()
	for _, d := range []string{cfg.walDir(), filepath.Join(cfg.Dir, "store")} { // of one that did not end
		if resumed && d != cfg.walDir() {
			continue
		}
		if err := cfg.FS.RemoveAll(d); err != nil {
			return err
		}
	}
	st, err := cfg.openStore(nil)
	if err != nil {
		return err
	}
	self := emember.Member{ID: ident.Member, Name: m.Name, Nonce: ident.Nonce, PeerURLs: peerURLs(m.PeerAddr)}
	index, term, err := fill(st, &self)
	if err == nil {
		err = st.Flush()
	}
	if e := st.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	w, err := wal.Open(cfg.FS, cfg.walDir(), wal.Options{Manual: true, SegmentBytes: cfg.SegmentBytes})
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.Reset(index, term, wal.HardState{Term: term, Commit: index}); err != nil {
		return err
	}
	// The commit point: before it the directory belongs to no cluster.
	ident.Cluster, ident.Making = randomID(), ""
	return ident.write(cfg.FS, cfg.Dir)
}

// FirstRows writes the rows of a cluster of these voters.
func FirstRows(b store.Batch, voters ...emember.Member) {
	mmember.Bootstrap(b, voters)
	var conf raft.Conf
	for _, m := range voters {
		conf.Voters = append(conf.Voters, m.ID)
	}
	slices.Sort(conf.Voters)
	b.Set(confKey, conf.Encode())
}
