package agent

import (
	"testing"

	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// TestACommitThatNamesNoPlaceIsInTheLastGroup: the first group of an agent may be of no WAL. Its place is none either, and it was captured before.
func TestACommitThatNamesNoPlaceIsInTheLastGroup(t *testing.T) {
	t.Parallel()
	d := &database{}
	d.seq, d.ships = 2, []*ship{{seq: 1}, {seq: 2, end: walfile.Position{Salt: [8]byte{1}, Frame: 5}}}
	if got := d.covering(&waiter{conn: &gate.Conn{}}); got != 2 {
		t.Errorf("it waits for group %d", got)
	}
}
