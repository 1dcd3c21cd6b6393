package member

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// The level of the cluster is a row of this machine: 'm' 'l' → version, level. There is none at level 0, where builds run that do not know
// levels. Such a build refuses to start on a directory with the row, as it should: it could not apply later entries.
var levelKey = []byte{'m', 'l'}

const levelVersion = 1

func appendLevel(b []byte, level uint16) []byte {
	return binary.AppendUvarint(append(b, levelVersion), uint64(level))
}

func decodeLevel(row []byte) (uint16, error) {
	r := wire.NewReader(row)
	version, level := r.Byte(), r.Uvarint()
	if r.End() != nil || version != levelVersion || level > math.MaxUint16 {
		return 0, errors.New("damaged row of the cluster's level")
	}
	return uint16(level), nil
}

func readLevel(st store.Store) (uint16, error) {
	row, ok, err := st.Get(nil, levelKey)
	if err != nil || !ok {
		return 0, err
	}
	level, err := decodeLevel(row)
	if err != nil {
		return 0, fmt.Errorf("member machine: %w", err)
	}
	return level, nil
}

// IsLevel reports whether a row of a snapshot is that of the cluster's level.
func IsLevel(key []byte) bool { return string(key) == string(levelKey) }

// DecodeLevel decodes the value of that row.
func DecodeLevel(value []byte) (uint16, error) { return decodeLevel(value) }

// Level is the level of the cluster as applied here (DECISIONS A20): parts above it may not be proposed. Any goroutine.
func (m *Machine) Level() uint16 { return uint16(m.level.Load()) }
