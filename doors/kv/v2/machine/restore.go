package machine

import (
	"fmt"

	"github.com/holdfastdb/holdfast/core/machine"
)

// restoreRow returns the row to write for one row of a snapshot that is being restored as a new cluster; keep is false for rows
// that have no place there. The index is raised and the history is left out: a client that waited in the old cluster
// for an index the snapshot does not reach would otherwise wait here until others have happened under the same numbers, and
// then go on as if it had missed nothing. So it hears that its index is outdated, and reads the tree anew. A tree that was
// never written to has no index to raise.
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
