package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/holdfastdb/holdfast/core/store"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// The spaces of the machine's rows: the second byte of a key. docs/formats/store.md has the rows.
const (
	letter = byte(sqlpart.Machine)

	spaceCounters = 'c' // one row
	spaceDatabase = 'd' // id (4 bytes)
	spaceLock     = 'l' // as spacePiece: a row that a prepared transaction has locked and not written
	spaceNumbers  = 'n' // id of a table (4 bytes): what every commit changes
	spacePiece    = 'p' // number of a transaction (8 bytes), then as in spaceRow: what the transaction makes of the row
	spaceRow      = 'r' // id of a table (4 bytes), index (2 bytes), key
	spaceTable    = 't' // id (4 bytes)
	spaceStaged   = 'x' // number of a transaction (8 bytes) that has rows in spacePiece
)

// rowVersion begins the values of the catalogue's rows.
const rowVersion = 1

// errCorrupt: a row that no code of ours wrote.
var errCorrupt = errors.New("row of the table machine makes no sense")

func objectKey(space byte, id uint64) []byte {
	return binary.BigEndian.AppendUint32([]byte{letter, space}, uint32(id))
}

// AppendPrefix appends what the keys of an index begin with. Index 0: of the rows themselves.
func AppendPrefix(dst []byte, table, index uint64) []byte {
	dst = binary.BigEndian.AppendUint32(append(dst, letter, spaceRow), uint32(table))
	return binary.BigEndian.AppendUint16(dst, uint16(index))
}

// PlaceOf returns the table and the index of a key that begins as AppendPrefix has it.
func PlaceOf(key []byte) (table, index uint64) {
	return uint64(binary.BigEndian.Uint32(key[2:])), uint64(binary.BigEndian.Uint16(key[6:]))
}

// PrefixBytes is the length of AppendPrefix. TableBytes is the length of what the keys of all indexes of a table begin with.
const (
	PrefixBytes = TableBytes + 2
	TableBytes  = 2 + 4
)

// AppendEnd appends the smallest key above all of an index.
func AppendEnd(dst []byte, table, index uint64) []byte {
	if index < sqlpart.MaxIndexID {
		return AppendPrefix(dst, table, index+1)
	}
	return appendTableEnd(dst, table)
}

func appendTableEnd(dst []byte, table uint64) []byte {
	if table < sqlpart.MaxID {
		return AppendPrefix(dst, table+1, 0)
	}
	return append(dst, letter, spaceRow+1)
}

// AppendPiece appends the key under which a transaction has staged what it makes of a row. full is the row's key, or the first bytes of one, at least the
// space.
func AppendPiece(dst []byte, tx uint64, full []byte) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, letter, spacePiece), tx)
	return append(dst, full[2:]...)
}

// PieceBounds returns the bounds of what a transaction has staged for the rows between two keys of one index, or the bounds of one.
func PieceBounds(tx uint64, from, to []byte) (lower, upper []byte) {
	lower = AppendPiece(nil, tx, from)
	if len(to) <= 2 {
		_, upper = piecesOf(tx)
		return lower, upper
	}
	return lower, AppendPiece(nil, tx, to)
}

// PieceBytes is by how many bytes a key of AppendPiece is longer than the row's.
const PieceBytes = 8

// AppendPieceRow is the inverse of AppendPiece: it appends the row's key.
func AppendPieceRow(dst, key []byte) []byte {
	return append(append(dst, letter, spaceRow), key[2+PieceBytes:]...)
}

// Piece takes apart what a transaction has staged for a row: what becomes of it, and its new value without a row's head, which aliases value.
func Piece(value []byte) (action sqlpart.Action, body []byte, err error) {
	if len(value) == 0 || sqlpart.Action(value[0]) > sqlpart.Delete {
		return 0, nil, fmt.Errorf("staged row: %w", errCorrupt)
	}
	return sqlpart.Action(value[0]), value[1:], nil
}

// AppendLock appends the key under which a prepared transaction keeps a lock on a row that it has not written. full is as in AppendPiece.
func AppendLock(dst []byte, tx uint64, full []byte) []byte {
	at := len(dst)
	dst = AppendPiece(dst, tx, full)
	dst[at+1] = spaceLock
	return dst
}

// LockBounds is PieceBounds of the locks that a prepared transaction keeps.
func LockBounds(tx uint64, from, to []byte) (lower, upper []byte) {
	lower = AppendLock(nil, tx, from)
	if len(to) <= 2 {
		_, upper = boundsOf(spaceLock, tx)
		return lower, upper
	}
	return lower, AppendLock(nil, tx, to)
}

// LockShared reports whether the value of a lock's row says that others may share it.
func LockShared(value []byte) bool { return len(value) == 1 && value[0] == 1 }

// piecesOf are the bounds of all that a transaction has staged.
func piecesOf(tx uint64) (lower, upper []byte) { return boundsOf(spacePiece, tx) }

// boundsOf are the bounds of all rows of a transaction in a space.
func boundsOf(space byte, tx uint64) (lower, upper []byte) {
	lower = binary.BigEndian.AppendUint64([]byte{letter, space}, tx)
	if tx == math.MaxUint64 {
		return lower, []byte{letter, space + 1}
	}
	return lower, binary.BigEndian.AppendUint64([]byte{letter, space}, tx+1)
}

// HasHead reports whether the value of a key is a row's, which Row takes apart. key begins as AppendPrefix has it.
func HasHead(key []byte) bool { return key[6] == 0 && key[7] == 0 }

// Row takes the value of a row apart: the entry of the log that wrote it, for people, and what the door has encoded, which aliases value.
// Entries of indexes have no such head.
func Row(value []byte) (index uint64, body []byte, err error) {
	index, n := binary.Uvarint(value)
	if n <= 0 {
		return 0, nil, fmt.Errorf("row: %w", errCorrupt)
	}
	return index, value[n:], nil
}

// counters are of the whole catalogue.
type counters struct {
	version uint64 // one more with each part that has changed the catalogue
	next    uint64 // id
}

func (c *counters) append(dst []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(append(dst, rowVersion), c.version), c.next)
}

// body opens a row of the catalogue.
func body(value []byte) (wire.Reader, error) {
	if len(value) == 0 || value[0] != rowVersion {
		return wire.Reader{}, errCorrupt
	}
	return wire.NewReader(value[1:]), nil
}

func (c *counters) decode(value []byte) error {
	r, err := body(value)
	if err != nil {
		return err
	}
	c.version, c.next = r.Uvarint(), r.Uvarint()
	return r.End()
}

func (d *Database) append(dst []byte) []byte {
	dst = binary.AppendUvarint(append(dst, rowVersion), d.Version)
	return wire.AppendBytes(wire.AppendBytes(dst, d.Name), d.Definition)
}

func (d *Database) decode(value []byte) error {
	r, err := body(value)
	if err != nil {
		return err
	}
	d.Version, d.Name = r.Uvarint(), r.Text()
	d.Definition = append([]byte(nil), r.Bytes()...)
	return r.End()
}

func (t *Table) append(dst []byte) []byte {
	dst = binary.AppendUvarint(append(dst, rowVersion), t.Version)
	dst = binary.AppendUvarint(dst, t.Database)
	dst = wire.AppendBytes(wire.AppendBytes(dst, t.Name), t.Definition)
	return sqlpart.AppendIndexes(dst, t.Indexes)
}

func (t *Table) decode(value []byte) error {
	r, err := body(value)
	if err != nil {
		return err
	}
	t.Version, t.Database, t.Name = r.Uvarint(), r.Uvarint(), r.Text()
	t.Definition = append([]byte(nil), r.Bytes()...)
	t.Indexes = sqlpart.Indexes(&r)
	return r.End()
}

// numbers of a table are what every commit changes.
type numbers struct {
	rows uint64
	auto uint64 // next value of AUTO_INCREMENT
	row  uint64 // next number of a row without a primary key; 0: none was given
}

func (n *numbers) append(dst []byte) []byte {
	dst = binary.AppendUvarint(binary.AppendUvarint(append(dst, rowVersion), n.rows), n.auto)
	if n.row > 0 {
		dst = binary.AppendUvarint(dst, n.row)
	}
	return dst
}

func (n *numbers) decode(value []byte) error {
	r, err := body(value)
	if err != nil {
		return err
	}
	n.rows, n.auto, n.row = r.Uvarint(), r.Uvarint(), 0
	if r.Len() > 0 {
		if n.row = r.Uvarint(); n.row == 0 {
			r.Fail(errCorrupt)
		}
	}
	return r.End()
}

// Next reads the smallest value that AUTO_INCREMENT may give in a table, and the smallest number that a row without a primary key may get.
// 0: from has no such table, or it has given no number to a row.
func Next(from store.Reader, table uint64) (auto, row uint64, err error) {
	value, ok, err := from.Get(nil, objectKey(spaceNumbers, table))
	if err != nil || !ok {
		return 0, 0, err
	}
	var n numbers
	if err := n.decode(value); err != nil {
		return 0, 0, fmt.Errorf("numbers of table %d: %w", table, err)
	}
	return n.auto, n.row, nil
}

// scan visits the rows of a space. id is that of the object.
func scan(st store.Reader, space byte, visit func(id uint64, value []byte) error) error {
	bytes := 4
	if space == spaceStaged {
		bytes = 8
	}
	it, err := st.NewIter([]byte{letter, space}, []byte{letter, space + 1})
	if err != nil {
		return err
	}
	defer it.Close() // what went wrong is in Error
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return err
		}
		key := it.Key()
		if len(key) != 2+bytes {
			return fmt.Errorf("key %x: %w", key, errCorrupt)
		}
		id := uint64(0)
		for _, b := range key[2:] {
			id = id<<8 | uint64(b)
		}
		if err := visit(id, v); err != nil {
			return fmt.Errorf("key %x: %w", it.Key(), err)
		}
	}
	return it.Error()
}
