package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"

	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
)

// movedTable is a table that a statement renames: its database and its name before, and behind.
type movedTable struct{ from, to [2]string }

// movedTables are those of a statement, by their ids.
type movedTables map[uint64]movedTable

func (m movedTables) begin(id uint64, databaseName, name string) {
	at := [2]string{databaseName, name}
	m[id] = movedTable{at, at}
}

func (m movedTables) reach(id uint64, databaseName, name string) {
	t := m[id]
	t.to = [2]string{databaseName, name}
	m[id] = t
}

// followTables has the foreign keys of all tables name the tables that are renamed as they are called from then on. changes are those of the renamed tables,
// which are locked; their children are locked here.
func (s *Session) followTables(tx *txn.Tx, moved movedTables, changes []sqlpart.Change) ([]sqlpart.Change, error) {
	s.cat = nil // no session gives them a foreign key from now on
	to := map[[2]string][2]string{}
	children := map[[2]string]bool{}
	for _, t := range moved { // any order: two sets are made
		to[t.from] = t.to
		all, err := s.referencesTo(t.from[0], t.from[1])
		if err != nil {
			return nil, err
		}
		for _, r := range all {
			children[[2]string{r.database, r.table}] = true
		}
	}
	for i := range changes {
		c := &changes[i]
		t := moved[c.Object]
		delete(children, t.from)
		def, err := decodeDefinition(c.Definition)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", t.from[0], t.from[1], err)
		}
		if def.follow(to, t.from[1], t.to[1]) {
			c.Definition = def.append(nil)
		}
	}
	names := make([][2]string, 0, len(children))
	for name := range children { // any order: it is sorted
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	for _, name := range names {
		t, err := s.own(name[0], name[1])
		if err != nil {
			return nil, err
		}
		if t == nil {
			continue // dropped a moment ago
		}
		if err := s.lockTable(tx, t); err != nil {
			return nil, err
		}
		def, err := decodeDefinition(t.Definition)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", name[0], name[1], err)
		}
		if def.follow(to, name[1], name[1]) {
			changes = append(changes, sqlpart.Change{Verb: sqlpart.AlterTable, Object: t.ID, Version: t.Version, Database: t.Database, Name: t.Name, Definition: def.append(nil), Indexes: t.Indexes})
		}
	}
	return changes, nil
}

// follow gives foreign keys the new names of tables, and those that have a name made from their table's another one, as in MySQL. It reports whether any changes.
func (d *definition) follow(to map[[2]string][2]string, was, is string) (changed bool) {
	for i := range d.foreign {
		f := &d.foreign[i]
		if name, ok := to[[2]string{f.parentDB, f.parent}]; ok {
			f.parentDB, f.parent, changed = name[0], name[1], true
		}
		if number, ok := strings.CutPrefix(f.name, was+"_ibfk_"); ok && was != is {
			f.name, changed = is+"_ibfk_"+number, true
		}
	}
	return changed
}

// hasForeign reports whether foreign keys lead from a table, or to it.
func (s *Session) hasForeign(n sqlparser.TableName) (bool, error) {
	t, databaseName, name, err := s.existing(n)
	if err != nil {
		return false, err
	}
	decoded, err := s.e.table(t, databaseName)
	if err != nil {
		return false, err
	}
	all, err := s.referencesTo(databaseName, name)
	return len(all)+len(decoded.def.foreign) > 0, err
}
