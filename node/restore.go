package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	em "github.com/holdfastdb/holdfast/entry/member"
	"github.com/holdfastdb/holdfast/machine/etcd2"
	mident "github.com/holdfastdb/holdfast/machine/ident"
	"github.com/holdfastdb/holdfast/machine/kv"
	"github.com/holdfastdb/holdfast/machine/member"
	"github.com/holdfastdb/holdfast/machine/tree"
	"github.com/holdfastdb/holdfast/replica"
	"github.com/holdfastdb/holdfast/store"
	"github.com/holdfastdb/holdfast/wal"
)

// revisionBump is added to the kv revision and to the index of the v2 tree by a restore, and everything before is gone from
// their histories: a client that cached or watched the old cluster must notice instead of going on with revisions that mean
// something else now (DECISIONS A7).
const revisionBump = 1_000_000_000

// Restore builds a new one-member cluster in cfg.Dir, which must be empty, from a snapshot. Cluster and member id are
// new: the restored data is a fork and must never be taken for the original. Leases start with their full TTL, because
// every new leader gives them that. Transparency logs are held until they are resumed.
func Restore(cfg Config, name, peerAddr string, r io.Reader) (*SnapshotInfo, error) {
	cfg.defaults()
	if was, err := ReadIdentity(cfg.FS, cfg.Dir); !errors.Is(err, ErrNoIdentity) {
		if err == nil {
			err = was.unfinished(cfg.Dir)
		}
		if err == nil {
			err = errors.New("it holds data already; restore into an empty directory")
		}
		return nil, fmt.Errorf("restore into %s: %w", cfg.Dir, err)
	}
	if err := cfg.refuseStrayLog(); err != nil {
		return nil, err
	}
	ident, err := newIdentityIn(cfg.FS, cfg.Dir, name, peerAddr, "the restore of a snapshot", false)
	if err != nil {
		return nil, err
	}
	self := em.Member{ID: ident.Member, Name: name, Nonce: ident.Nonce}
	if peerAddr != "" {
		self.PeerURLs = []string{"http://" + peerAddr}
	}
	st, err := cfg.openStore(nil)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	in, err := st.Incoming()
	if err != nil {
		return nil, err
	}
	// The snapshot's keys come in order; the rows that say who belongs to the cluster are exchanged on the way.
	selfKey, selfRow := member.Row(&self)
	wrote := false
	info, err := ReadSnapshot(r, nil, func(k, v []byte) error {
		switch {
		case bytes.Equal(k, store.AppliedKey), bytes.Equal(k, installKey), !mident.Restored(k):
			return nil
		case bytes.Equal(k, confKey):
			return in.Set(k, replica.Conf{Voters: []uint64{self.ID}}.Encode())
		}
		if !wrote && bytes.Compare(k, selfKey) > 0 || k[0] == selfKey[0] {
			if !wrote {
				wrote = true
				if err := in.Set(selfKey, selfRow); err != nil {
					return err
				}
			}
			if k[0] == selfKey[0] {
				return nil
			}
		}
		v, err := kv.RestoreRow(k, v, revisionBump)
		if err == nil {
			v, err = tree.RestoreRow(k, v)
		}
		if err != nil {
			return err
		}
		v, keep, err := etcd2.RestoreRow(k, v, revisionBump)
		if err != nil || !keep {
			return err
		}
		return in.Set(k, v)
	})
	if err == nil && !wrote {
		err = in.Set(selfKey, selfRow)
	}
	if err == nil {
		err = in.Finish(info.Index)
	}
	if err != nil {
		in.Abort()
		return nil, fmt.Errorf("restore into %s: %w", cfg.Dir, err)
	}
	if err := st.Install(in); err != nil {
		return nil, fmt.Errorf("restore into %s: %w", cfg.Dir, err)
	}
	w, err := wal.Open(cfg.FS, cfg.walDir(), wal.Options{Manual: true})
	if err != nil {
		return nil, err
	}
	defer w.Close()
	if err := w.Reset(info.Index, info.Term, wal.HardState{Term: info.Term, Commit: info.Index}); err != nil {
		return nil, err
	}
	// The commit point of the restore: before it the directory belongs to no cluster.
	ident.Cluster, ident.Making = randomID(), ""
	return info, ident.write(cfg.FS, cfg.Dir)
}
