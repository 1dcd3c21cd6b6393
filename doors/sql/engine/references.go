package engine

import (
	"bytes"
	"fmt"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	"github.com/holdfastdb/holdfast/doors/sql/row"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// A foreign key holds because of two locks. A writer of a child's row locks the key of its parent Shared, whether or not it is there. A statement that deletes or
// changes a parent locks its key Exclusive first, and looks for children behind that: none can come any more.

// mostCascades is how deep actions go.
const mostCascades = 15

// valuesKey is the beginning of an index's keys for values of columns. null: one of them is NULL.
func valuesKey(ctx *sql.Context, x *index, columns []int, r sql.Row) (key []byte, null bool, err error) {
	for i, c := range columns {
		if r[c] == nil {
			return nil, true, nil
		}
		if key, err = x.parts[i].AppendKey(ctx, key, r[c]); err != nil {
			return nil, false, err
		}
	}
	return key, false, nil
}

// judgeParents refuses a row without a parent. was: the row before; nil: it is new. Error: sql.ErrForeignKeyChildViolation.
func (e *editor) judgeParents(ctx *sql.Context, tx *txn.Tx, was, r sql.Row) error {
	if len(e.t.def.foreign) == 0 || !e.s.foreignChecks() {
		return nil
	}
	for i := range e.t.def.foreign {
		f := &e.t.def.foreign[i]
		if e.cascaded != nil && e.cascaded.name == f.name {
			continue // the parent is what changes
		}
		own := e.t.keyFor(f.columns)
		if own == nil {
			return e.t.damaged(fmt.Errorf("foreign key %s has no index", f.name))
		}
		key, null, err := valuesKey(ctx, own, f.columns, r)
		if err != nil {
			return err
		}
		if null {
			continue
		}
		if was != nil {
			before, null, err := valuesKey(ctx, own, f.columns, was)
			if err != nil {
				return err
			}
			if !null && bytes.Equal(before, key) {
				continue
			}
		}
		found, err := e.parentExists(ctx, tx, f, r)
		if err != nil {
			return err
		}
		if !found {
			e.s.violated = wire.Errorf(1452, "Cannot add or update a child row: a foreign key constraint fails (`%s`.`%s`, %s)", e.t.database, e.t.t.Name, f.text(e.t.def, e.t.database))
			return sql.ErrForeignKeyChildViolation.New(f.name, e.t.t.Name, f.parent, "")
		}
	}
	return nil
}

// parentExists looks for the parent of a row, and keeps it.
func (e *editor) parentExists(ctx *sql.Context, tx *txn.Tx, f *foreignDef, r sql.Row) (bool, error) {
	self := f.parentDB == e.t.database && f.parent == e.t.t.Name
	p := e.t.table
	if !self {
		var err error
		if p, err = e.s.related(f.parentDB, f.parent, lock.IntentShared); err != nil || p == nil {
			return false, err
		}
	}
	columns, ok := p.columnsNamed(f.parentColumns)
	if !ok {
		return false, nil
	}
	x := p.keyFor(columns)
	if x == nil {
		return false, nil
	}
	key, _, err := valuesKey(ctx, x, f.columns, r)
	if err != nil {
		return false, err
	}
	if self { // the row may be its own parent
		own, null, err := valuesKey(ctx, x, columns, r)
		if err != nil || !null && bytes.Equal(own, key) {
			return err == nil, err
		}
	}
	if x.unique && len(x.key) == len(columns) {
		_, exists, _, err := tx.LockRow(p.t.ID, x.id, key, lock.Shared, e.s.wait(ctx))
		return exists, err
	}
	keys, err := keysOf(tx, p, x, key, false)
	if err != nil {
		return false, err
	}
	for _, k := range keys {
		if _, exists, _, err := tx.LockRow(p.t.ID, x.id, k, lock.Shared, e.s.wait(ctx)); exists || err != nil {
			return exists, err
		}
	}
	return false, nil
}

// keysOf returns the newest keys of an index that begin with key, or those of their rows.
func keysOf(tx *txn.Tx, t *table, x *index, key []byte, rows bool) (all [][]byte, err error) {
	it, err := tx.ScanNewest(t.t.ID, x.id, key, append(bytes.Clone(key), above))
	if err != nil {
		return nil, err
	}
	defer it.Close()
	for begun := false; move(it, &begun, false); {
		k := it.Key()[sqlmachine.PrefixBytes:]
		if rows && x.id != 0 {
			v, err := it.Value()
			if err != nil {
				return nil, err
			}
			if k, err = row.PrimaryOf(k, v); err != nil {
				return nil, t.damaged(err)
			}
		}
		all = append(all, bytes.Clone(k))
	}
	return all, it.Error()
}

// leaveChildren does to the children of a row what their foreign keys say, before the row is deleted (is nil) or changed. entries are those of the row that go:
// they are locked before the search for children. Error: sql.ErrForeignKeyParentViolation.
func (e *editor) leaveChildren(ctx *sql.Context, tx *txn.Tx, key []byte, was, is sql.Row, entries []entryOf) error {
	all, err := e.s.referencesTo(e.t.database, e.t.t.Name)
	if err != nil || len(all) == 0 || !e.s.foreignChecks() {
		return err
	}
	locked := false
	for i := range all {
		r := &all[i]
		columns, ok := e.t.columnsNamed(r.foreign.parentColumns)
		if !ok {
			continue
		}
		x := e.t.keyFor(columns)
		if x == nil {
			continue
		}
		before, null, err := valuesKey(ctx, x, columns, was)
		if err != nil {
			return err
		}
		if null {
			continue
		}
		if is != nil {
			after, null, err := valuesKey(ctx, x, columns, is)
			if err != nil {
				return err
			}
			if !null && bytes.Equal(before, after) {
				continue
			}
		}
		for j := 0; j < len(entries) && !locked; j++ {
			if _, _, _, err := tx.LockRow(e.t.t.ID, entries[j].index.def.id, entries[j].key, lock.Exclusive, e.s.wait(ctx)); err != nil {
				return err
			}
		}
		locked = true
		if err := e.leaveChildrenOf(ctx, tx, r, columns, key, was, is); err != nil {
			return err
		}
	}
	return nil
}

func (e *editor) leaveChildrenOf(ctx *sql.Context, tx *txn.Tx, r *reference, columns []int, key []byte, was, is sql.Row) error {
	f := &r.foreign
	what := f.onDelete
	if is != nil {
		what = f.onUpdate
	}
	self := r.database == e.t.database && r.table == e.t.t.Name
	if self && is != nil {
		what = actionRestrict // as InnoDB: a table is not changed while it is changed
	}
	mode := lock.Exclusive
	if what < actionCascade {
		mode = lock.Shared
	}
	child := e.t.table
	if !self {
		var err error
		if child, err = e.s.related(r.database, r.table, lock.IntentOf(mode)); err != nil || child == nil {
			return err
		}
	}
	x := child.keyFor(f.columns)
	if x == nil {
		return child.damaged(fmt.Errorf("foreign key %s has no index", f.name))
	}
	parent := make(sql.Row, len(child.schema.Schema)) // a child's columns with the parent's values
	for i, c := range f.columns {
		parent[c] = was[columns[i]]
	}
	prefix, _, err := valuesKey(ctx, x, f.columns, parent)
	if err != nil {
		return err
	}
	keys, err := keysOf(tx, child, x, prefix, true)
	if err != nil {
		return err
	}
	view := &tableView{table: child, how: plainRead, columns: child.schema}
	ce := &editor{t: view, s: e.s, cascaded: f, depth: e.depth + 1}
	for _, k := range keys {
		if self && bytes.Equal(k, key) {
			continue // the row itself
		}
		value, exists, _, err := tx.LockRow(child.t.ID, 0, k, mode, e.s.wait(ctx))
		if err != nil {
			return err
		}
		if !exists {
			continue
		}
		row, err := child.decode(k, value)
		if err != nil {
			return child.damaged(err)
		}
		if now, null, err := valuesKey(ctx, x, f.columns, row); err != nil {
			return err
		} else if null || !bytes.Equal(now, prefix) { // it has left while its lock was waited for
			continue
		}
		if ce.depth > mostCascades && what >= actionCascade {
			return wire.Errorf(3008, "Foreign key cascade delete/update exceeds max depth of %d.", mostCascades)
		}
		switch {
		case what == actionCascade && is == nil:
			_, err = ce.remove(ctx, tx, k, row)
		case what >= actionCascade:
			next := row.Copy()
			for i, c := range f.columns {
				next[c] = nil
				if what == actionCascade {
					next[c] = is[columns[i]]
				}
			}
			err = ce.update(ctx, tx, row, next)
		default:
			e.s.violated = wire.Errorf(1451, "Cannot delete or update a parent row: a foreign key constraint fails (`%s`.`%s`, %s)", r.database, r.table, f.text(r.child, r.database))
			err = sql.ErrForeignKeyParentViolation.New(f.name, r.table, f.parent, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// judgeForeign puts MySQL's words into an error of a foreign key.
func (s *Session) judgeForeign(err error) error {
	if err != nil && s.violated != nil && (sql.ErrForeignKeyChildViolation.Is(err) || sql.ErrForeignKeyParentViolation.Is(err)) {
		return s.violated
	}
	if w, ok := err.(sql.WrappedInsertError); ok && s.judgeForeign(w.Cause) != w.Cause {
		return s.violated
	}
	return err
}

// The rest of sql.ForeignKeyTable is for information_schema alone: the planner of a write would enforce foreign keys by lookups of its own.

var _ sql.ForeignKeyTable = (*tableView)(nil)

func (r *reference) constraint() sql.ForeignKeyConstraint {
	words := func(a action) sql.ForeignKeyReferentialAction {
		if a == actionDefault {
			a = actionNone
		}
		return sql.ForeignKeyReferentialAction(actionWords[a])
	}
	return sql.ForeignKeyConstraint{Name: r.foreign.name, Database: r.database, Table: r.table, ParentDatabase: r.foreign.parentDB, ParentTable: r.foreign.parent,
		Columns: r.foreign.names(r.child), ParentColumns: r.foreign.parentColumns, OnDelete: words(r.foreign.onDelete), OnUpdate: words(r.foreign.onUpdate), IsResolved: true}
}

// GetDeclaredForeignKeys implements sql.ForeignKeyTable.
func (t *tableView) GetDeclaredForeignKeys(c *sql.Context) (all []sql.ForeignKeyConstraint, err error) {
	if !sessionOf(c).shows {
		return nil, nil
	}
	for i := range t.def.foreign {
		r := reference{t.database, t.t.Name, t.def.foreign[i], t.def}
		all = append(all, r.constraint())
	}
	return all, nil
}

// GetReferencedForeignKeys implements sql.ForeignKeyTable.
func (t *tableView) GetReferencedForeignKeys(c *sql.Context) (all []sql.ForeignKeyConstraint, err error) {
	s := sessionOf(c)
	if !s.shows {
		return nil, nil
	}
	refs, err := s.referencesTo(t.database, t.t.Name)
	for i := range refs {
		all = append(all, refs[i].constraint())
	}
	return all, err
}

// The methods below are for the library's own DDL, which the door does not use.

var errForeignDDL = refused("a change of a foreign key")

func (t *tableView) CreateIndexForForeignKey(*sql.Context, sql.IndexDef) error  { return errForeignDDL }
func (t *tableView) AddForeignKey(*sql.Context, sql.ForeignKeyConstraint) error { return errForeignDDL }
func (t *tableView) DropForeignKey(*sql.Context, string, string, string) error  { return errForeignDDL }
func (t *tableView) UpdateForeignKey(*sql.Context, string, sql.ForeignKeyConstraint) error {
	return errForeignDDL
}

// GetForeignKeyEditor implements sql.ForeignKeyTable. The planner asks for it where a table has foreign keys, which no table of a write shows.
func (t *tableView) GetForeignKeyEditor(*sql.Context) sql.ForeignKeyEditor { return nil }
