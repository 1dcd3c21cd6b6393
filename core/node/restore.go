package node

import (
	"bytes"
	"fmt"
	"io"

	emember "github.com/holdfastdb/holdfast/core/entry/member"
	mmember "github.com/holdfastdb/holdfast/core/machine/member"
	"github.com/holdfastdb/holdfast/core/raft"
	"github.com/holdfastdb/holdfast/core/store"
)

// Restore builds a new one-member cluster in cfg.Dir, which must be empty, from a snapshot. Cluster and member id are new: the restored
// data is a fork and must never be taken for the original. The machines decide how their rows change (machine.Spec.Restore), so
// cfg.Machines must have all that the snapshot has rows of. Leases start with their full TTL, because every new leader gives them that.
func Restore(cfg Config, name, peerAddr string, r io.Reader) (info *SnapshotInfo, err error) {
	err = Make(cfg, Making{Name: name, PeerAddr: peerAddr, What: "the restore of a snapshot"}, func(st store.Store, self *emember.Member) (index, term uint64, err error) {
		in, err := st.Incoming()
		if err != nil {
			return 0, 0, err
		}
		if info, err = restoreRows(&cfg, in, self, r); err == nil {
			err = in.Finish(info.Index)
		}
		if err != nil {
			in.Abort()
			return 0, 0, err
		}
		return info.Index, info.Term, st.Install(in)
	})
	if err != nil {
		return nil, fmt.Errorf("restore into %s: %w", cfg.Dir, err)
	}
	return info, nil
}

// restoreRows writes the rows of a snapshot as those of a cluster whose only member is self.
func restoreRows(cfg *Config, in store.Incoming, self *emember.Member, r io.Reader) (*SnapshotInfo, error) {
	// The snapshot's keys come in order; the rows that say who belongs to the cluster are exchanged on the way.
	selfKey, selfRow := mmember.Row(self)
	specs, wrote := cfg.specs(), false
	info, err := ReadSnapshot(r, nil, func(k, v []byte) error {
		switch {
		case bytes.Equal(k, store.AppliedKey), bytes.Equal(k, installKey):
			return nil
		case bytes.Equal(k, confKey):
			return in.Set(k, raft.Conf{Voters: []uint64{self.ID}}.Encode())
		case mmember.IsLevel(k): // rows of that level may follow
			if err := cfg.followable(v); err != nil {
				return err
			}
			return in.Set(k, v)
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
		v, keep, err := specs.Restore(k, v)
		if err != nil || !keep {
			return err
		}
		return in.Set(k, v)
	})
	if err == nil && !wrote {
		err = in.Set(selfKey, selfRow)
	}
	return info, err
}

// LoadSnapshot replaces what is in st by a snapshot, row by row as it is. Of cfg only Machines count. It is durable when it returns.
func LoadSnapshot(cfg Config, st store.Store, r io.Reader) (*SnapshotInfo, error) {
	in, err := st.Incoming()
	if err != nil {
		return nil, err
	}
	specs := cfg.specs()
	info, err := ReadSnapshot(r, nil, func(k, v []byte) error {
		switch {
		case bytes.Equal(k, store.AppliedKey), bytes.Equal(k, installKey): // the first is for Finish, the second of the member it came from
			return nil
		case mmember.IsLevel(k):
			if err := cfg.followable(v); err != nil {
				return err
			}
		}
		if err := specs.Known(k); err != nil {
			return err
		}
		return in.Set(k, v)
	})
	if err == nil {
		err = in.Finish(info.Index)
	}
	if err == nil {
		err = st.Install(in)
	}
	if err != nil {
		in.Abort() // the next restore removes its leftovers
		return nil, err
	}
	return info, nil
}

// RestoreInPlace turns the state in st into that of a new cluster whose only member is self. It changes stored rows as Restore changes rows
// of a snapshot, in one batch at the state's index. The batch changes all rows or none; repeating it changes nothing. row hears the old and
// the new value of each row; nil means that there is no row. The slices are valid during the call.
func RestoreInPlace(cfg Config, st store.Store, self *emember.Member, row func(key, was, is []byte) error) error {
	conf, err := readConf(st)
	if err != nil {
		return err
	}
	own := raft.Conf{Voters: []uint64{self.ID}}.Encode()
	done := bytes.Equal(conf.Encode(), own) // ids are random: no other cluster has this member, and this row was in the batch
	it, err := st.NewIter(nil, nil)
	if err != nil {
		return err
	}
	defer it.Close() // nothing is written through it
	selfKey, selfRow := mmember.Row(self)
	specs, b := cfg.specs(), st.NewBatch()
	for ok := it.First(); ok; ok = it.Next() {
		k := it.Key()
		was, err := it.Value()
		if err != nil {
			return err
		}
		is, keep := was, true
		switch {
		case done:
		case bytes.Equal(k, confKey):
			is = own
		case bytes.Equal(k, installKey), k[0] == selfKey[0] && !mmember.IsLevel(k):
			keep = false
		default:
			if is, keep, err = specs.Restore(k, was); err != nil {
				return fmt.Errorf("restore row %q: %w", k, err)
			}
		}
		switch {
		case !keep:
			is = nil
			b.Delete(k)
		case !bytes.Equal(was, is):
			b.Set(k, is)
		}
		if err := row(k, was, is); err != nil {
			return err
		}
	}
	if err := it.Error(); err != nil || done {
		return err
	}
	b.Set(selfKey, selfRow)
	if err := row(selfKey, nil, selfRow); err != nil {
		return err
	}
	return st.Commit(b, st.Applied())
}
