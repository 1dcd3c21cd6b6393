package machine

import (
	"fmt"

	"github.com/holdfastdb/holdfast/core/machine"
)

// restoreRow returns the row to write for one row of a snapshot that is being restored as a new cluster. keep is false for a row to be
// dropped. The index is raised and the history is left out. A client may wait in the old cluster for an index beyond the snapshot. Here it
// would wait until other events have those numbers, and continue as if it had missed nothing. So it hears that its index is outdated, and
// reads the tree anew. A tree that was never written to has no index to raise.
func restoreRow(key, value []byte) (row []byte, keep bool, err error) {
	if len(key) < 2 {
		return value, true, nil
	}
	switch key[1] {
	case spaceHistory:
		return nil, false, nil
	case spaceIndex:
		index, err := decodeIndex(value)
		if err != nil {
			return nil, false, fmt.Errorf("restore: %w", err)
		}
		return appendIndex(nil, index+machine.RevisionBump), true, nil
	}
	return value, true, nil
}
