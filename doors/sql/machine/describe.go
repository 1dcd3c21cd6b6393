package machine

import (
	"encoding/binary"
	"fmt"

	"github.com/holdfastdb/holdfast/core/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
)

// DescribeRow prints one row of this machine as it lies in the store, for people who inspect one. It prints no value of a table's row: that is
// users' data. What does not decode is printed as such.
func DescribeRow(key, value []byte) string { return machine.DescribeRow(key, value, describeRow) }

func describeRow(key, value []byte) (string, error) {
	if len(key) == 2 && key[1] == spaceCounters {
		var c counters
		err := c.decode(value)
		return fmt.Sprintf("catalogue at version %d, %d ids given", c.version, c.next), err
	}
	if len(key) == 10 && key[1] == spaceStaged {
		var st staged
		err := st.decode(value)
		s := fmt.Sprintf("transaction %d has staged %d bytes of %d tables", binary.BigEndian.Uint64(key[2:]), st.bytes, len(st.tables))
		if len(st.name) > 0 {
			s += fmt.Sprintf(", was prepared as %q", st.name)
		}
		if len(st.ranges) > 0 {
			s += fmt.Sprintf(", keeps %d ranges locked", len(st.ranges))
		}
		if st.state == stateCommitted {
			s += fmt.Sprintf(", is committed, and rows are moved up to %x", st.cursor)
		}
		return s, err
	}
	if len(key) > PrefixBytes+PieceBytes && key[1] == spaceLock && len(value) == 1 {
		row := AppendPieceRow(nil, key)
		return fmt.Sprintf("transaction %d has locked table %d index %d key %x, shared %v", binary.BigEndian.Uint64(key[2:]),
			binary.BigEndian.Uint32(row[2:]), binary.BigEndian.Uint16(row[6:]), row[PrefixBytes:], LockShared(value)), nil
	}
	if len(key) > PrefixBytes+PieceBytes && key[1] == spacePiece {
		action, body, err := Piece(value)
		row := AppendPieceRow(nil, key)
		return fmt.Sprintf("transaction %d has staged table %d index %d key %x: %s, %d bytes", binary.BigEndian.Uint64(key[2:]),
			binary.BigEndian.Uint32(row[2:]), binary.BigEndian.Uint16(row[6:]), row[PrefixBytes:],
			[...]string{"inserted", "updated", "deleted"}[action], len(body)), err
	}
	if len(key) < 6 || key[0] != letter || len(key) > 6 && key[1] != spaceRow {
		return "", errCorrupt
	}
	id := binary.BigEndian.Uint32(key[2:])
	switch key[1] {
	case spaceDatabase:
		var d Database
		err := d.decode(value)
		return fmt.Sprintf("database %d@%d %q defined by %d bytes", id, d.Version, d.Name, len(d.Definition)), err
	case spaceTable:
		var t Table
		err := t.decode(value)
		return fmt.Sprintf("table %d@%d %q of database %d defined by %d bytes, %d indexes", id, t.Version, t.Name, t.Database, len(t.Definition),
			len(t.Indexes)), err
	case spaceNumbers:
		var n numbers
		err := n.decode(value)
		s := fmt.Sprintf("table %d has %d rows, next value %d", id, n.rows, n.auto)
		if n.row > 0 {
			s += fmt.Sprintf(", next row %d", n.row)
		}
		return s, err
	case spaceRow:
		if len(key) <= PrefixBytes {
			return "", errCorrupt
		}
		index := binary.BigEndian.Uint16(key[6:])
		if index == sqlpart.NotesIndex {
			return fmt.Sprintf("table %d notes %q: %d bytes", id, key[PrefixBytes:], len(value)), nil
		}
		if index != 0 {
			return fmt.Sprintf("table %d index %d key %x: %d bytes", id, index, key[PrefixBytes:], len(value)), nil
		}
		at, body, err := Row(value)
		return fmt.Sprintf("table %d row %x of entry %d: %d bytes", id, key[PrefixBytes:], at, len(body)), err
	}
	return "", errCorrupt
}

// census counts databases, tables and rows.
type census struct{ databases, tables, rows int64 }

func (c *census) Row(key, _ []byte) error {
	switch {
	case len(key) < 2:
	case key[1] == spaceDatabase:
		c.databases++
	case key[1] == spaceTable:
		c.tables++
	case key[1] == spaceRow && len(key) > PrefixBytes && binary.BigEndian.Uint16(key[6:]) == 0:
		c.rows++
	}
	return nil
}

func (c *census) Counts() []machine.Count {
	return []machine.Count{{Name: "databases", N: c.databases}, {Name: "tables", N: c.tables}, {Name: "rows", N: c.rows}}
}
