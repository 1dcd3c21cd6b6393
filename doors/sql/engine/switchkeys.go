package engine

import (
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// switchesKeys reports whether a statement is ALTER TABLE … DISABLE KEYS or ENABLE KEYS, which stand around the rows of each table in a dump. InnoDB does nothing
// but say so.
func switchesKeys(a *sqlparser.AlterTable) bool {
	if len(a.Statements) != 1 || len(a.PartitionSpecs) > 0 || a.Statements[0].IndexSpec == nil {
		return false
	}
	x := a.Statements[0].IndexSpec
	return strings.EqualFold(x.Action, "disable") || strings.EqualFold(x.Action, "enable")
}

// switchKeys is that statement. Error: 1146.
func (s *Session) switchKeys(a *sqlparser.AlterTable) error {
	databaseName, name, err := s.named(a.Table)
	if err != nil {
		return err
	}
	if d := s.catalogue().Database(databaseName); d == nil || d.Table(name) == nil {
		return wire.Errorf(1146, "Table '%s.%s' doesn't exist", databaseName, name)
	}
	s.Note(1031, "Table storage engine for '"+name+"' doesn't have this option")
	return nil
}
