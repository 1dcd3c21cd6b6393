package executor

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	"github.com/holdfastdb/holdfast/doors/sql/row"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// entry is an entry of an index. row.EntryValue says what stands in it.
type entry struct {
	key, value []byte
	sole       bool // no other row may have the key
	stored     int  // bytes of its value in the store, -1: it has none
}

// entryOf makes the entry of a row.
func (x *Index) entryOf(values []row.Value, primary []byte) (e entry) {
	e.sole = x.Unique
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

// lockPlace locks the place of a row or of an entry that will be written, if it is free.
func (r *Run) lockPlace(t *Table, index uint64, key []byte) (value []byte, exists bool, stored int, err error) {
	return r.Tx.LockRow(t.ID, index, key, lock.Exclusive, r.Wait)
}

// judge locks the entry that a row will have, and refuses a unique one that another row has, whose row it locks, too. Error: 1062.
func (r *Run) judge(t *Table, x *Index, e *entry, values []row.Value) error {
	value, exists, stored, err := r.lockPlace(t, x.ID, e.key)
	if err != nil {
		return err
	}
	if e.stored = stored; !exists || !e.sole {
		return nil
	}
	primary, err := row.PrimaryOf(e.key, value)
	if err != nil {
		return t.damaged(err)
	}
	if _, exists, _, err = r.Tx.LockRow(t.ID, 0, bytes.Clone(primary), lock.Exclusive, r.Wait); err != nil {
		return err
	}
	if !exists {
		return t.damaged(row.ErrForm)
	}
	names := make([]string, len(x.Parts))
	for i, p := range x.Parts {
		names[i] = textOf(values[p.Column], p.Prefix)
	}
	return duplicate(t, x.Name, names)
}

// duplicate is MySQL's error for a row whose key another row has.
func duplicate(t *Table, index string, values []string) error {
	return wire.Errorf(1062, "Duplicate entry '%s' for key '%s.%s'", strings.Join(values, "-"), t.Name, index)
}

// textOf is a value in the words of an error. prefix: so many characters of a text; 0: all.
func textOf(v row.Value, prefix int) string {
	switch v.Kind {
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
func (r *Run) removeEntry(t *Table, x *Index, e *entry) error {
	value, exists, stored, err := r.Tx.LockRow(t.ID, x.ID, e.key, lock.Exclusive, r.Wait)
	if err != nil || !exists || !bytes.Equal(value, e.value) {
		return err
	}
	return r.Tx.Delete(t.ID, x.ID, e.key, stored)
}
