package node

import (
	"encoding/binary"
	"fmt"

	"github.com/holdfastdb/holdfast/replica"
	"github.com/holdfastdb/holdfast/store"
)

// The node's own rows; their first byte belongs to no machine (docs/formats/store.md).
var (
	confKey    = []byte("\x00conf")    // replica.Conf as of the applied index
	installKey = []byte("\x00install") // index, term of the snapshot this store was built from
)

func readConf(s store.Store) (replica.Conf, error) {
	v, ok, err := s.Get(nil, confKey)
	if err != nil || !ok {
		return replica.Conf{}, err
	}
	c, err := replica.DecodeConf(v)
	if err != nil {
		return replica.Conf{}, fmt.Errorf("configuration in the store: %w", err)
	}
	return c, nil
}

func installMark(p *replica.SnapshotPoint) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, p.Index), p.Term)
}

func readInstallMark(s store.Store) (replica.SnapshotPoint, bool, error) {
	v, ok, err := s.Get(nil, installKey)
	if err != nil || !ok {
		return replica.SnapshotPoint{}, false, err
	}
	if len(v) != 16 {
		return replica.SnapshotPoint{}, false, fmt.Errorf("install mark in the store has %d bytes", len(v))
	}
	return replica.SnapshotPoint{Index: binary.BigEndian.Uint64(v), Term: binary.BigEndian.Uint64(v[8:])}, true, nil
}
