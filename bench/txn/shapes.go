package main

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
)

// A row is a table of sysbench's: id, k with an index, c of 120 characters, pad of 60. Its key are 8 bytes of id. An entry's key are those of k and id.
const (
	byNumber   = 1 // the index on k
	keyBytes   = 8
	rowBytes   = 200 // of key and value
	valueBytes = rowBytes - keyBytes
)

var shapeNames = []string{"point_select", "read_only", "write_only", "read_write", "update_index", "update_non_index", "insert"}

// client is one transaction after the other.
type client struct {
	m    *member
	rows int // of each table at first
	r    *rand.Rand
	at   int    // of the clients
	next uint64 // id that it inserts next
	x    *txn.Tx
}

// shapes are what one transaction of each does, between its begin and its commit.
var shapes = map[string]func(c *client) error{
	"point_select":     func(c *client) error { return c.read(c.table(lock.Metadata)) },
	"read_only":        func(c *client) error { return c.readAll() },
	"write_only":       func(c *client) error { return c.writeAll() },
	"update_index":     func(c *client) error { return c.updateIndex(c.table(lock.IntentExclusive)) },
	"update_non_index": func(c *client) error { return c.update(c.table(lock.IntentExclusive)) },
	"insert": func(c *client) error {
		t, err := c.table(lock.IntentExclusive)
		if err != nil {
			return err
		}
		c.next += 1 << 16
		return c.insert(t, c.next)
	},
	"read_write": func(c *client) error {
		if err := c.readAll(); err != nil {
			return err
		}
		return c.writeAll()
	},
}

// readAll are the reads of oltp_read_only: ten rows, and four ranges of 100.
func (c *client) readAll() error {
	for range 10 {
		if err := c.read(c.table(lock.Metadata)); err != nil {
			return err
		}
	}
	for range 4 {
		if err := c.scan(c.table(lock.Metadata)); err != nil {
			return err
		}
	}
	return nil
}

// writeAll are the writes of oltp_write_only.
func (c *client) writeAll() error {
	if err := c.updateIndex(c.table(lock.IntentExclusive)); err != nil {
		return err
	}
	if err := c.update(c.table(lock.IntentExclusive)); err != nil {
		return err
	}
	return c.replace(c.table(lock.IntentExclusive))
}

var patient = txn.Wait{Time: 50 * time.Second}

// table uses a table.
func (c *client) table(mode lock.Mode) (*sqlmachine.Table, error) {
	t := c.m.tables[c.r.IntN(len(c.m.tables))]
	return t, c.x.UseTable(t.ID, t.Version, mode, patient)
}

// some is an id. sysbench's default picks some rows more often than others: three quarters of all come from one row of a hundred.
func (c *client) some() uint64 {
	if c.r.IntN(4) > 0 {
		return uint64(c.rows/2 + c.r.IntN(max(c.rows/100, 1)))
	}
	return uint64(1 + c.r.IntN(c.rows))
}

func keyOf(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

func entryOf(row []byte, id uint64) []byte {
	return binary.BigEndian.AppendUint64(slices.Clone(row[:8]), id)
}

// row makes a row's value: k, and digits as sysbench has them.
func (c *client) row() []byte {
	v := make([]byte, valueBytes)
	binary.BigEndian.PutUint64(v, uint64(1+c.r.IntN(c.rows)))
	c.digits(v[8:])
	return v
}

func (c *client) digits(to []byte) {
	for i := 0; i < len(to); {
		for n := c.r.Uint64(); n > 9 && i < len(to); n /= 10 {
			to[i] = '0' + byte(n%10)
			i++
		}
	}
}

func (c *client) read(t *sqlmachine.Table, err error) error {
	if err == nil {
		_, _, err = c.x.Get(t.ID, 0, keyOf(c.some()))
	}
	return err
}

func (c *client) scan(t *sqlmachine.Table, err error) error {
	if err != nil {
		return err
	}
	from := c.some()
	it, err := c.x.Scan(t.ID, 0, keyOf(from), keyOf(from+100))
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		_, err = it.Value()
	}
	if e := it.Close(); err == nil {
		err = e
	}
	return err
}

// lockRow locks a row of the table itself.
func (c *client) lockRow(t *sqlmachine.Table, id uint64) (value []byte, exists bool, stored int, err error) {
	return c.x.LockRow(t.ID, 0, keyOf(id), lock.Exclusive, patient)
}

// putEntry locks and writes an entry of the index, as the sql door does.
func (c *client) putEntry(t *sqlmachine.Table, row []byte, id uint64) error {
	key := entryOf(row, id)
	_, _, stored, err := c.x.LockRow(t.ID, byNumber, key, lock.Exclusive, patient)
	if err == nil {
		err = c.x.Put(t.ID, byNumber, key, nil, stored)
	}
	return err
}

func (c *client) deleteEntry(t *sqlmachine.Table, row []byte, id uint64) error {
	key := entryOf(row, id)
	_, exists, stored, err := c.x.LockRow(t.ID, byNumber, key, lock.Exclusive, patient)
	if err == nil && exists {
		err = c.x.Delete(t.ID, byNumber, key, stored)
	}
	return err
}

// update changes c of a row.
func (c *client) update(t *sqlmachine.Table, err error) error {
	if err != nil {
		return err
	}
	id := c.some()
	row, exists, stored, err := c.lockRow(t, id)
	if err != nil || !exists {
		return err
	}
	row = slices.Clone(row)
	c.digits(row[8:128])
	return c.x.Put(t.ID, 0, keyOf(id), row, stored)
}

// updateIndex changes k of a row.
func (c *client) updateIndex(t *sqlmachine.Table, err error) error {
	if err != nil {
		return err
	}
	id := c.some()
	row, exists, stored, err := c.lockRow(t, id)
	if err != nil || !exists {
		return err
	}
	if err := c.deleteEntry(t, row, id); err != nil {
		return err
	}
	row = slices.Clone(row)
	binary.BigEndian.PutUint64(row, 1+binary.BigEndian.Uint64(row))
	if err := c.putEntry(t, row, id); err != nil {
		return err
	}
	return c.x.Put(t.ID, 0, keyOf(id), row, stored)
}

// replace deletes a row and inserts another one in its place.
func (c *client) replace(t *sqlmachine.Table, err error) error {
	if err != nil {
		return err
	}
	id := c.some()
	row, exists, stored, err := c.lockRow(t, id)
	if err != nil || !exists {
		return err
	}
	if err := c.deleteEntry(t, row, id); err != nil {
		return err
	}
	if err := c.x.Delete(t.ID, 0, keyOf(id), stored); err != nil {
		return err
	}
	return c.insert(t, id)
}

// insert writes a row that is not there, and its entry.
func (c *client) insert(t *sqlmachine.Table, id uint64) error {
	row := c.row()
	_, _, stored, err := c.lockRow(t, id)
	if err == nil {
		err = c.putEntry(t, row, id)
	}
	if err == nil {
		err = c.x.Put(t.ID, 0, keyOf(id), row, stored)
	}
	return err
}
