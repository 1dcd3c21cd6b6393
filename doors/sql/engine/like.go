package engine

import (
	"fmt"

	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// createLike makes an empty table with the definition of another one. Errors: 1050, 1066, 1100, 1146.
func (s *Session) createLike(tx *txn.Tx, a *sqlparser.DDL) error {
	databaseName, name, err := s.named(a.Table)
	if err != nil {
		return err
	}
	fromDatabase, from, err := s.named(a.OptLike.LikeTables[0])
	if err != nil {
		return err
	}
	if fromDatabase == databaseName && from == name {
		return wire.Errorf(1066, "Not unique table/alias: '%s'", name)
	}
	t, err := s.useTable(fromDatabase, from, lock.Metadata) // it stays as it is until the statement ends
	if err != nil {
		return err
	}
	if t == nil {
		return wire.Errorf(1146, "Table '%s.%s' doesn't exist", fromDatabase, from)
	}
	d, err := s.newTable(databaseName, name, a.IfNotExists)
	if err != nil || d == nil {
		return err
	}
	def, err := decodeDefinition(t.Definition)
	if err != nil {
		return fmt.Errorf("%s.%s: %w", fromDatabase, from, err)
	}
	def = def.like(t, name)
	_, err = change(tx, sqlpart.Change{Verb: sqlpart.CreateTable, Database: d.ID, Name: name, Definition: def.append(nil), Indexes: def.public()})
	return err
}

// like is the definition of a new table of a name that is made like the table of this one. Its rows have the columns in their order, and its indexes are numbered
// anew. It has no foreign keys. Names of CHECKs are made from its own, as in MySQL.
func (d *definition) like(t *sqlmachine.Table, name string) *definition {
	n := d.copy()
	n.foreign, n.places, n.first, n.copyOf = nil, nil, 0, 0
	n.indexes, n.lastIndex = nil, 0
	for _, x := range d.indexes {
		for _, state := range t.Indexes {
			if state.ID == x.id && state.State == sqlpart.Public { // one that is built is not there yet
				n.lastIndex++
				x.id = n.lastIndex
				n.indexes = append(n.indexes, x)
				break
			}
		}
	}
	for i := range n.checks {
		n.checks[i].name = fmt.Sprintf("%s_chk_%d", name, i+1)
	}
	return n
}

// public are the indexes of a new table, which has no rows for which they must be built.
func (d *definition) public() []sqlpart.Index {
	all := make([]sqlpart.Index, len(d.indexes))
	for i := range d.indexes {
		all[i] = sqlpart.Index{ID: d.indexes[i].id, State: sqlpart.Public}
	}
	return all
}
