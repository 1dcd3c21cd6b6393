package node

import (
	"encoding/binary"
	"fmt"

	"github.com/holdfastdb/holdfast/core/raft"
	"github.com/holdfastdb/holdfast/core/store"
)

// The node's own rows; their first byte belongs to no machine (docs/formats/store.md).
var (
	confKey    = []byte("\x00conf")    // replica.Conf as of the applied index
	installKey = []byte("\x00install") // index, term of the snapshot this store was built from
)

func readConf(s store.Store) (raft.Conf, error) {
	v, ok, err := s.Get(nil, confKey)
	if err != nil || !ok {
		return raft.Conf{}, err
	}
	c, err := raft.DecodeConf(v)
	if err != nil {
		return raft.Conf{}, fmt.Errorf("configuration in the store: %w", err)
	}
	return c, nil
}

func installMark(p *raft.SnapshotPoint) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, p.Index), p.Term)
}

func readInstallMark(s store.Store) (raft.SnapshotPoint, bool, error) {
	v, ok, err := s.Get(nil, installKey)
	if err != nil || !ok {
		return raft.SnapshotPoint{}, false, err
	}
	if len(v) != 16 {
		return raft.SnapshotPoint{}, false, fmt.Errorf("install mark in the store has %d bytes", len(v))
	}
	return raft.SnapshotPoint{Index: binary.BigEndian.Uint64(v), Term: binary.BigEndian.Uint64(v[8:])}, true, nil
}
