package agent

import (
	"testing"

	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// TestHowMuchMayBeOnItsWay: eight groups, and twelve MiB of them in memory. The first group of a replica goes alone, and so does that of an owner
// without a fence.
func TestHowMuchMayBeOnItsWay(t *testing.T) {
	some := replica.Head{TXID: 1}
	for name, c := range map[string]struct {
		ships  int
		bytes  int64
		stored replica.Head
		alone  bool
		want   bool
	}{
		"nothing is on its way":              {0, 0, some, false, true},
		"seven groups":                       {perDatabase - 1, 0, some, false, true},
		"eight groups":                       {perDatabase, 0, some, false, false},
		"twelve MiB":                         {1, mostKept, some, false, true},
		"more than twelve MiB":               {1, mostKept + 1, some, false, false},
		"the first group of a replica":       {0, 0, replica.Head{}, false, true},
		"the second one":                     {1, 0, replica.Head{}, false, false},
		"the first group without a fence":    {0, 0, some, true, true},
		"the second group without a fence":   {1, 0, some, true, false},
		"a fence is all that is stored here": {1, 0, replica.Head{TXID: 3, Fence: true}, false, true},
	} {
		d := &database{chain: chain{ships: make([]*ship, c.ships), bytes: c.bytes, stored: c.stored, alone: c.alone}}
		if got := d.room(); got != c.want {
			t.Errorf("%s: another group may be made: %v", name, got)
		}
	}
}

// TestACommitWaitsForTheGroupThatHasIt and not for a later one. A message that does not say where its commit ends waits for all that was captured.
func TestACommitWaitsForTheGroupThatHasIt(t *testing.T) {
	salt, before := [8]byte{2}, [8]byte{1}
	at := func(salt [8]byte, frame uint32) walfile.Position { return walfile.Position{Salt: salt, Frame: frame} }
	d := &database{chain: chain{seq: 9, ships: []*ship{{seq: 6, end: at(before, 50)}, {seq: 7, end: at(salt, 10)}, {seq: 8, end: at(salt, 20)}}}}
	conn := gate.NewConn(gate.Hello{}, func([]byte) {})
	for name, c := range map[string]struct {
		w    waiter
		want uint64
	}{
		"inside the first group of this WAL":      {waiter{conn: conn, commit: gate.Commit{Salt: salt, Frame: 4}}, 7},
		"at the end of that group":                {waiter{conn: conn, commit: gate.Commit{Salt: salt, Frame: 10}}, 7},
		"behind it":                               {waiter{conn: conn, commit: gate.Commit{Salt: salt, Frame: 11}}, 8},
		"in the WAL before":                       {waiter{conn: conn, commit: gate.Commit{Salt: before, Frame: 50}}, 6},
		"behind every group that is on its way":   {waiter{conn: conn, commit: gate.Commit{Salt: salt, Frame: 21}}, 9},
		"in no WAL that is known":                 {waiter{conn: conn, commit: gate.Commit{Salt: [8]byte{3}, Frame: 1}}, 9},
		"of a connection that has it for itself":  {waiter{conn: conn, commit: gate.Commit{Lone: true, Salt: salt, Frame: 4}}, 9},
		"of a caller of Sync, which has no place": {waiter{commit: gate.Commit{Salt: salt, Frame: 4}}, 9},
	} {
		if got := d.covering(&c.w); got != c.want {
			t.Errorf("%s: the commit waits for group %d, want %d", name, got, c.want)
		}
	}
}
