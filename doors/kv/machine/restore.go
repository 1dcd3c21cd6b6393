package machine

import (
	"fmt"

	"github.com/holdfastdb/holdfast/core/machine"
)

// restoreRow returns the row to write for one row of a snapshot that is being restored as a new cluster. The counters row gets a raised
// revision, with everything before marked compacted; any other row stays unchanged. Clients that cached or watched the old cluster must
// notice instead of reading other contents under revisions they know (DECISIONS A7).
func restoreRow(key, value []byte) (row []byte, keep bool, err error) {
	if len(key) != 2 || key[1] != spaceSums {
		return value, true, nil
	}
	s, err := decodeSums(value)
	if err != nil {
		return nil, false, fmt.Errorf("restore: %w", err)
	}
	s.rev += machine.RevisionBump
	s.compacted = s.rev
	return appendSums(nil, &s), true, nil
}

// census takes the number of keys from the machine's own counters.
type census struct{ keys int64 }

func (c *census) Row(key, value []byte) error {
	t, ok, err := ReadTotals(key, value)
	if ok {
		c.keys = t.Keys
	}
	return err
}

func (c *census) Counts() []machine.Count { return []machine.Count{{Name: "keys", N: c.keys}} }
