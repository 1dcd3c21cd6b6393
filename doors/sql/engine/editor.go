package engine

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	"github.com/holdfastdb/holdfast/doors/sql/row"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
)

// editor writes the rows of one table for a statement. The door takes a failed statement back as a whole; a statement that goes on behind the
// failure of one row (INSERT IGNORE) finds nothing of that row, because all of its keys are judged before the first is written.
type editor struct {
	t *tableView
	s *Session

	replaces bool    // the statement is REPLACE
	removed  uint64  // rows that it has deleted for the one that it inserts next
	was      sql.Row // the last of them
	last     bool    // it was found by the last of the unique keys

	checks    []sql.Expression // of the table; nil: not planned yet
	generated []sql.Expression // of the table's generated columns, in their order; nil: not planned yet

	cascaded *foreignDef // whose action the editor carries out; nil: a statement's
	depth    int         // of actions
}

func (t *tableView) Inserter(ctx *sql.Context) sql.RowInserter { return t.editor(ctx) }
func (t *tableView) Updater(ctx *sql.Context) sql.RowUpdater   { return t.editor(ctx) }
func (t *tableView) Deleter(ctx *sql.Context) sql.RowDeleter   { return t.editor(ctx) }
func (t *tableView) Replacer(ctx *sql.Context) sql.RowReplacer {
	e := t.editor(ctx)
	e.replaces = true
	return e
}

func (t *tableView) editor(ctx *sql.Context) *editor { return &editor{t: t, s: sessionOf(ctx)} }

func (e *editor) StatementBegin(*sql.Context) {}

// DiscardChanges leaves it to the door to take the statement back.
func (e *editor) DiscardChanges(*sql.Context, error) error { return nil }
func (e *editor) StatementComplete(*sql.Context) error     { return nil }
func (e *editor) Close(*sql.Context) error                 { return nil }

// entry is an index entry of a row.
type entryOf struct {
	index  *writtenIndex
	key    []byte
	value  []byte
	sole   bool // no other row may have the key
	stored int
}

// primaryKey returns the key of a row that is in the table, or that a client inserts with its primary key.
func (t *table) primaryKey(ctx *sql.Context, r sql.Row) (key []byte, err error) {
	if t.hasNumbers() {
		return t.numberKey(r)
	}
	for i := range t.layout.primary {
		if key, err = t.layout.primary[i].AppendKey(ctx, key, r[t.def.primary[i].column]); err != nil {
			return nil, err
		}
	}
	return key, nil
}

// entries returns the entries of a row.
func (t *table) entries(ctx *sql.Context, r sql.Row, primary []byte) ([]entryOf, error) {
	all := make([]entryOf, len(t.all))
	for i := range t.all {
		e, err := t.entry(ctx, &t.all[i], r, primary)
		if err != nil {
			return nil, err
		}
		all[i] = e
	}
	return all, nil
}

func (t *table) entry(ctx *sql.Context, x *writtenIndex, r sql.Row, primary []byte) (e entryOf, err error) {
	e = entryOf{index: x, sole: x.def.unique}
	for i, part := range x.def.parts {
		v := r[part.column]
		if v == nil {
			e.sole = false // NULLs are not equal to each other
		}
		if e.key, err = t.layout.indexes[x.parts][i].AppendKey(ctx, e.key, v); err != nil {
			return e, err
		}
	}
	if e.sole {
		e.value = row.EntryValue(0, primary)
		return e, nil
	}
	e.value = row.EntryValue(len(e.key), nil)
	e.key = append(e.key, primary...)
	return e, nil
}

// Insert implements sql.RowInserter.
func (e *editor) Insert(ctx *sql.Context, r sql.Row) error {
	tx, err := e.s.transaction()
	if err != nil {
		return err
	}
	if e.t.auto >= 0 {
		e.t.given(ctx, tx, r[e.t.auto])
	}
	if err := e.generate(ctx, r); err != nil {
		return err
	}
	if err := e.t.weighable(r); err != nil {
		return err
	}
	if err := e.check(ctx, r); err != nil {
		return err
	}
	key, err := e.freshKey(ctx, tx, r)
	if err != nil {
		return err
	}
	if err := e.insert(ctx, tx, key, r, nil); err != nil {
		return err
	}
	e.wrote(r)
	if !e.replaces {
		return nil
	}
	switch {
	case e.removed > 1:
		e.s.replaced += int64(e.removed - 1)
	case e.removed == 1 && e.last:
		same, err := e.same(ctx, key, r)
		if err != nil {
			return err
		}
		if same {
			e.s.replaced--
		}
	}
	e.removed = 0
	return nil
}

// same reports whether REPLACE has put a row where the same row was. MySQL updates it then, and counts one row, if no other row can have one of its keys and
// no foreign key refers to the table.
func (e *editor) same(ctx *sql.Context, key []byte, r sql.Row) (bool, error) {
	before, err := e.t.primaryKey(ctx, e.was)
	if err != nil || !bytes.Equal(before, key) {
		return false, err
	}
	was, err := e.t.encode(ctx, e.was)
	if err != nil {
		return false, err
	}
	is, err := e.t.encode(ctx, r)
	if err != nil || !bytes.Equal(was, is) {
		return false, err
	}
	refer, err := e.s.referencesTo(e.t.database, e.t.t.Name)
	return len(refer) == 0, err
}

// insert writes a row that is not there, and its entries. but: entries that the same row had under another key, which are no duplicates.
func (e *editor) insert(ctx *sql.Context, tx *txn.Tx, key []byte, r sql.Row, but []entryOf) error {
	t := e.t
	locks := tx.Locks()
	value, exists, stored, err := e.lockPlace(ctx, tx, 0, key, e.s.upserts)
	if err != nil {
		return err
	}
	if exists {
		e.share(tx, locks, 0, key, e.s.upserts)
		e.last = !t.uniqueBehind(0)
		existing, err := t.decode(key, value)
		if err != nil {
			return t.damaged(err)
		}
		return sql.NewUniqueKeyErr(t.duplicate(ctx, "PRIMARY", t.def.primary, r), true, existing)
	}
	entries, err := t.entries(ctx, r, key)
	if err != nil {
		return err
	}
	if err := e.judge(ctx, tx, entries, but, r, e.s.upserts); err != nil {
		e.leave(tx, locks, key, err)
		return err
	}
	if but == nil { // the row is new
		if err := e.judgeParents(ctx, tx, nil, r); err != nil {
			return err
		}
	}
	body, err := t.encode(ctx, r)
	if err != nil {
		return err
	}
	if err := tx.Put(t.t.ID, 0, key, body, stored); err != nil {
		return err
	}
	for i := range entries {
		if err := tx.Put(t.t.ID, entries[i].index.def.id, entries[i].key, entries[i].value, entries[i].stored); err != nil {
			return err
		}
	}
	return nil
}

// lockPlace locks the place of a row or of an entry that will be written, if it is free. If a row has it already, the lock is Shared where another
// transaction shares it: a statement that only fails by it needs no more. changes: it changes that row then.
func (e *editor) lockPlace(ctx *sql.Context, tx *txn.Tx, index uint64, key []byte, changes bool) (value []byte, exists bool, stored int, err error) {
	id, wait := e.t.t.ID, e.s.wait(ctx)
	if changes {
		return tx.LockRow(id, index, key, lock.Exclusive, wait)
	}
	value, exists, stored, err = tx.LockRow(id, index, key, lock.Exclusive, txn.Wait{})
	if errors.Is(err, txn.ErrTooManyLocks) { // a request that waits may lock the table instead
		return tx.LockRow(id, index, key, lock.Exclusive, wait)
	}
	if !errors.Is(err, txn.ErrBusy) {
		return value, exists, stored, err
	}
	if _, taken, err := tx.Newest(id, index, key); err != nil {
		return nil, false, 0, err
	} else if taken {
		if value, exists, stored, err = tx.LockRow(id, index, key, lock.Shared, wait); err != nil || exists {
			return value, exists, stored, err
		}
	}
	return tx.LockRow(id, index, key, lock.Exclusive, wait)
}

// share shares the lock on a key that another row has, with others who fail by it. changes: the statement changes that row.
func (e *editor) share(tx *txn.Tx, locks int, index uint64, key []byte, changes bool) {
	if !changes {
		tx.ShareSince(locks, e.t.t.ID, index, key)
	}
}

// leave gives back the place of a row that is not written, because another row has one of its other keys.
func (e *editor) leave(tx *txn.Tx, locks int, key []byte, err error) {
	if sql.ErrUniqueKeyViolation.Is(err) {
		tx.UnlockSince(locks, e.t.t.ID, 0, key)
	}
}

// judge locks entries that will be written, and refuses a unique one that another row has. Then it gives the others back. changes: the statement changes
// that row.
func (e *editor) judge(ctx *sql.Context, tx *txn.Tx, entries, but []entryOf, r sql.Row, changes bool) error {
	t, locks := e.t, tx.Locks()
	for i := range entries {
		n := &entries[i]
		value, exists, stored, err := e.lockPlace(ctx, tx, n.index.def.id, n.key, changes)
		if err != nil {
			return err
		}
		n.stored = stored
		if !exists || !n.sole || i < len(but) && bytes.Equal(but[i].key, n.key) {
			continue
		}
		primary, err := row.PrimaryOf(n.key, value)
		if err != nil {
			return t.damaged(err)
		}
		primary = bytes.Clone(primary)
		for _, free := range entries[:i] {
			tx.UnlockSince(locks, t.t.ID, free.index.def.id, free.key)
		}
		e.share(tx, locks, n.index.def.id, n.key, changes)
		e.last = !t.uniqueBehind(i + 1)
		body, exists, err := e.holder(ctx, tx, primary, changes)
		if err != nil {
			return err
		}
		if !exists {
			return t.damaged(fmt.Errorf("index %s has an entry without a row", n.index.def.name))
		}
		existing, err := t.decode(primary, body)
		if err != nil {
			return t.damaged(err)
		}
		return sql.NewUniqueKeyErr(t.duplicate(ctx, n.index.def.name, n.index.def.parts, r), false, existing)
	}
	return nil
}

// uniqueBehind reports whether one of the indexes from a place on is unique.
func (t *table) uniqueBehind(i int) bool {
	return slices.ContainsFunc(t.all[i:], func(x writtenIndex) bool { return x.def.unique })
}

// holder reads the row that has a unique key, whose entry is locked. It is locked as well where the statement changes it.
func (e *editor) holder(ctx *sql.Context, tx *txn.Tx, primary []byte, changes bool) (body []byte, exists bool, err error) {
	if !changes {
		return tx.Newest(e.t.t.ID, 0, primary)
	}
	body, exists, _, err = tx.LockRow(e.t.t.ID, 0, primary, lock.Exclusive, e.s.wait(ctx))
	return body, exists, err
}

// duplicate is MySQL's text for a row whose key another row has.
func (t *table) duplicate(ctx *sql.Context, index string, key []keyPart, r sql.Row) string {
	values := make([]string, len(key))
	for i, k := range key {
		values[i] = textOf(ctx, t.schema.Schema[k.column].Type, r[k.column])
		if runes := []rune(values[i]); k.prefix > 0 && len(runes) > k.prefix {
			values[i] = string(runes[:k.prefix])
		}
	}
	return fmt.Sprintf("Duplicate entry '%s' for key '%s.%s'", strings.Join(values, "-"), t.t.Name, index)
}

// Delete implements sql.RowDeleter.
func (e *editor) Delete(ctx *sql.Context, r sql.Row) error {
	if e.s.gathered != nil {
		return e.s.gathered.add(ctx, e, r, nil)
	}
	tx, err := e.s.transaction()
	if err != nil {
		return err
	}
	key, err := e.t.primaryKey(ctx, r)
	if err != nil {
		return err
	}
	_, err = e.remove(ctx, tx, key, r)
	if err == nil && e.replaces {
		e.removed++
		e.was = r
	}
	return err
}

// remove deletes a row and its entries, and returns these. The actions of its children's foreign keys are done before.
func (e *editor) remove(ctx *sql.Context, tx *txn.Tx, key []byte, r sql.Row) ([]entryOf, error) {
	return e.take(ctx, tx, key, r, true)
}

// take deletes a row and its entries, and returns these. gone: it is deleted for good, and is not one that gets another key.
func (e *editor) take(ctx *sql.Context, tx *txn.Tx, key []byte, r sql.Row, gone bool) ([]entryOf, error) {
	t := e.t
	_, exists, stored, err := tx.LockRow(t.t.ID, 0, key, lock.Exclusive, e.s.wait(ctx))
	if err != nil {
		return nil, err
	}
	if !exists {
		return nil, sql.ErrDeleteRowNotFound.New()
	}
	entries, err := t.entries(ctx, r, key)
	if err != nil {
		return nil, err
	}
	if gone {
		if err := e.leaveChildren(ctx, tx, key, r, nil, entries); err != nil {
			return nil, err
		}
	}
	for i := range entries {
		if err := e.removeEntry(ctx, tx, &entries[i]); err != nil {
			return nil, err
		}
	}
	return entries, tx.Delete(t.t.ID, 0, key, stored)
}

// removeEntry deletes the entry of a row. An index that is built may not have it yet, or have that of another row in its place.
func (e *editor) removeEntry(ctx *sql.Context, tx *txn.Tx, n *entryOf) error {
	value, exists, stored, err := tx.LockRow(e.t.t.ID, n.index.def.id, n.key, lock.Exclusive, e.s.wait(ctx))
	if err != nil || !exists || !bytes.Equal(value, n.value) {
		return err
	}
	return tx.Delete(e.t.t.ID, n.index.def.id, n.key, stored)
}

// Update implements sql.RowUpdater.
func (e *editor) Update(ctx *sql.Context, was, r sql.Row) error {
	if e.s.gathered != nil {
		return e.s.gathered.add(ctx, e, was, r)
	}
	tx, err := e.s.transaction()
	if err != nil {
		return err
	}
	if err := e.update(ctx, tx, was, r); err != nil {
		return err
	}
	e.wrote(r)
	return nil
}

// wrote notes the value of AUTO_INCREMENT of a row that was written, for the answer.
func (e *editor) wrote(r sql.Row) {
	if e.t.auto < 0 {
		return
	}
	if n, ok := integer(r[e.t.auto]); ok {
		e.s.inserted.last = uint64(n)
	} else if n, ok := r[e.t.auto].(uint64); ok {
		e.s.inserted.last = n
	}
}

func (e *editor) update(ctx *sql.Context, tx *txn.Tx, was, r sql.Row) error {
	t := e.t
	if err := e.generate(ctx, r); err != nil {
		return err
	}
	if err := t.weighable(r); err != nil {
		return err
	}
	if err := e.check(ctx, r); err != nil {
		return err
	}
	if err := e.judgeParents(ctx, tx, was, r); err != nil {
		return err
	}
	from, err := t.primaryKey(ctx, was)
	if err != nil {
		return err
	}
	to, err := t.primaryKey(ctx, r)
	if err != nil {
		return err
	}
	if t.auto >= 0 {
		t.given(ctx, tx, r[t.auto])
	}
	if !bytes.Equal(from, to) {
		locks := tx.Locks()
		if _, exists, _, err := e.lockPlace(ctx, tx, 0, to, false); err != nil {
			return err
		} else if exists {
			e.share(tx, locks, 0, to, false)
			return sql.NewUniqueKeyErr(t.duplicate(ctx, "PRIMARY", t.def.primary, r), true, nil)
		}
		before, err := t.entries(ctx, was, from)
		if err != nil {
			return err
		}
		after, err := t.entries(ctx, r, to)
		if err != nil {
			return err
		}
		if err := e.judge(ctx, tx, after, before, r, false); err != nil {
			e.leave(tx, locks, to, err)
			return err
		}
		if err := e.leaveChildren(ctx, tx, from, was, r, before); err != nil {
			return err
		}
		if _, err := e.take(ctx, tx, from, was, false); err != nil {
			return err
		}
		return e.insert(ctx, tx, to, r, before)
	}
	_, exists, stored, err := tx.LockRow(t.t.ID, 0, from, lock.Exclusive, e.s.wait(ctx))
	if err != nil {
		return err
	}
	if !exists {
		return sql.ErrDeleteRowNotFound.New()
	}
	before, err := t.entries(ctx, was, from)
	if err != nil {
		return err
	}
	after, err := t.entries(ctx, r, to)
	if err != nil {
		return err
	}
	var gone, fresh []entryOf
	for i := range before {
		if !bytes.Equal(before[i].key, after[i].key) {
			gone, fresh = append(gone, before[i]), append(fresh, after[i])
		}
	}
	if err := e.judge(ctx, tx, fresh, gone, r, false); err != nil {
		return err
	}
	if err := e.leaveChildren(ctx, tx, from, was, r, gone); err != nil {
		return err
	}
	body, err := t.encode(ctx, r)
	if err != nil {
		return err
	}
	for i := range gone {
		if err := e.removeEntry(ctx, tx, &gone[i]); err != nil {
			return err
		}
	}
	for i := range fresh {
		if err := tx.Put(t.t.ID, fresh[i].index.def.id, fresh[i].key, fresh[i].value, fresh[i].stored); err != nil {
			return err
		}
	}
	return tx.Put(t.t.ID, 0, from, body, stored)
}
