package executor

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	"github.com/holdfastdb/holdfast/doors/sql/row"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// entry is an entry of an index. row.EntryValue says what stands in it.
type entry struct {
	x          *Index
	key, value []byte
	sole       bool // no other row may have the key
	stored     int  // bytes of its value in the store, -1: it has none
}

// entryOf makes the entry of a row.
func (x *Index) entryOf(values []row.Value, primary []byte) (e entry) {
	e.x, e.sole = x, x.Unique
	for i := range x.Parts {
		p := &x.Parts[i]
		e.sole = e.sole && values[p.Column].Kind != row.Null // NULLs are not equal to each other
		e.key = p.Part.AppendValue(e.key, values[p.Column])
	}
	if e.sole {
		e.value = row.EntryValue(0, primary)
		return e
	}
	e.value = row.EntryValue(len(e.key), nil)
	e.key = append(e.key, primary...)
	return e
}

// lockPlace locks the place of a row or of an entry that will be written, if it is free. If a row has it already, the lock is Shared where another
// transaction shares it: a statement that only fails by it needs no more.
func (r *Run) lockPlace(t *Table, index uint64, key []byte) (value []byte, exists bool, stored int, err error) {
	value, exists, stored, err = r.Tx.LockRow(t.ID, index, key, lock.Exclusive, txn.Wait{})
	if errors.Is(err, txn.ErrTooManyLocks) { // who waits may lock the table instead
		return r.Tx.LockRow(t.ID, index, key, lock.Exclusive, r.Wait)
	}
	if !errors.Is(err, txn.ErrBusy) {
		return value, exists, stored, err
	}
	if _, taken, err := r.Tx.Newest(t.ID, index, key); err != nil {
		return nil, false, 0, err
	} else if taken {
		if value, exists, stored, err = r.Tx.LockRow(t.ID, index, key, lock.Shared, r.Wait); err != nil || exists {
			return value, exists, stored, err
		}
	}
	return r.Tx.LockRow(t.ID, index, key, lock.Exclusive, r.Wait)
}

// judge locks the entries that a row will have, and refuses a unique one that another row has: it gives the others back, and shares that one. taken: it has
// refused one. Error: 1062.
func (r *Run) judge(t *Table, all []*entry, values []row.Value) (taken bool, err error) {
	locks := r.Tx.Locks()
	for i, e := range all {
		value, exists, stored, err := r.lockPlace(t, e.x.ID, e.key)
		if err != nil {
			return false, err
		}
		if e.stored = stored; !exists || !e.sole {
			continue
		}
		primary, err := row.PrimaryOf(e.key, value)
		if err != nil {
			return false, t.damaged(err)
		}
		primary = bytes.Clone(primary)
		for _, free := range all[:i] {
			r.Tx.UnlockSince(locks, t.ID, free.x.ID, free.key)
		}
		r.Tx.ShareSince(locks, t.ID, e.x.ID, e.key)
		if _, exists, err = r.Tx.Newest(t.ID, 0, primary); err != nil {
			return false, err
		}
		if !exists {
			return false, t.damaged(row.ErrForm)
		}
		names := make([]string, len(e.x.Parts))
		for i, p := range e.x.Parts {
			names[i] = t.textOf(p.Column, values[p.Column], p.Prefix)
		}
		return true, duplicate(t, e.x.Name, names)
	}
	return false, nil
}

// duplicate is MySQL's error for a row whose key another row has.
func duplicate(t *Table, index string, values []string) error {
	return wire.Errorf(1062, "Duplicate entry '%s' for key '%s.%s'", strings.Join(values, "-"), t.Name, index)
}

// textOf is a value of a column in the words of an error. prefix: so many characters of a text; 0: all.
func (t *Table) textOf(column int, v row.Value, prefix int) string {
	switch v.Kind {
	case row.Decimal, row.Moment:
		return t.Columns[column].Text(v)
	case row.Int:
		return strconv.FormatInt(v.Int, 10)
	case row.Uint:
		return strconv.FormatUint(v.Uint, 10)
	case row.Null:
		return "NULL"
	}
	if s := []rune(string(v.Bytes)); prefix > 0 && len(s) > prefix {
		return string(s[:prefix])
	}
	return string(v.Bytes)
}

// removeEntry deletes the entry of a row. An index that is built may not have it yet, or have that of another row in its place.
func (r *Run) removeEntry(t *Table, e *entry) error {
	value, exists, stored, err := r.Tx.LockRow(t.ID, e.x.ID, e.key, lock.Exclusive, r.Wait)
	if err != nil || !exists || !bytes.Equal(value, e.value) {
		return err
	}
	return r.Tx.Delete(t.ID, e.x.ID, e.key, stored)
}
