package engine

import (
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
)

// defaultCollation is that of a database whose definition names no other, as MySQL 5.7 and MariaDB have it: ADR 0023 says why not 8.0's.
const defaultCollation = sql.Collation_utf8mb4_general_ci

// provider shows the catalogue to the planner.
type provider struct{ e *Engine }

func (p provider) Database(ctx *sql.Context, name string) (sql.Database, error) {
	if strings.EqualFold(name, sql.InformationSchemaDatabaseName) {
		return p.e.schemaDB, nil
	}
	s := sessionOf(ctx)
	if !s.mayUse(strings.ToLower(name)) && !reservedDatabase(strings.ToLower(name)) { // there is none of those names
		return &hidden{s, name}, nil
	}
	if d := s.catalogue().Database(strings.ToLower(name)); d != nil {
		return &database{e: p.e, d: d}, nil
	}
	return nil, sql.ErrDatabaseNotFound.New(name)
}

func (p provider) HasDatabase(ctx *sql.Context, name string) bool {
	_, err := p.Database(ctx, name)
	return err == nil
}

func (p provider) AllDatabases(ctx *sql.Context) []sql.Database {
	var all []sql.Database // the library adds information_schema itself
	s := sessionOf(ctx)
	for _, d := range s.catalogue().Databases() {
		if s.mayUse(d.Name) {
			all = append(all, &database{e: p.e, d: d})
		}
	}
	return all
}

// database is a database of one catalogue.
type database struct {
	e *Engine
	d *sqlmachine.Database
}

var _ sql.VersionedDatabase = (*database)(nil)
var _ sql.CollatedDatabase = (*database)(nil)

func (d *database) Name() string { return d.d.Name }

// GetTableInsensitive returns a table for plain reads and as the target of a write.
func (d *database) GetTableInsensitive(ctx *sql.Context, name string) (sql.Table, bool, error) {
	return d.open(ctx, name, plainRead)
}

// GetTableInsensitiveAsOf returns a table that reads the newest rows and locks them: the mark that the door puts at tables comes as a time.
func (d *database) GetTableInsensitiveAsOf(ctx *sql.Context, name string, asOf any) (sql.Table, bool, error) {
	mark, _ := asOf.(string)
	how, ok := readingOf(mark)
	if !ok {
		return nil, false, refused("AS OF")
	}
	return d.open(ctx, name, how)
}

func (d *database) open(ctx *sql.Context, name string, how reading) (sql.Table, bool, error) {
	s := sessionOf(ctx)
	if t := s.altered; t != nil && t.database == d.d.Name && strings.EqualFold(t.t.Name, name) {
		return &tableView{table: t, how: plainRead, columns: t.schema}, true, nil
	}
	how = how.at(s.level, s.shares)
	mode := how.tableMode()
	if s.isTarget(d.d.Name, name) {
		mode = lock.IntentExclusive
	}
	t, err := s.useTable(d.d.Name, name, mode)
	if err != nil || t == nil {
		return nil, false, err
	}
	table, err := d.e.table(t, d.d.Name)
	if err == nil {
		err = how.hint.known(table)
	}
	if err != nil {
		return nil, false, err
	}
	v := &tableView{table: table, how: how, columns: table.schema}
	if table.hasNumbers() {
		s.opened++
		v.columns.Schema = table.numbered(strconv.Itoa(s.opened))
	}
	return v, true, nil
}

// isTarget reports whether the statement inserts into a table.
func (s *Session) isTarget(databaseName, name string) bool {
	in := s.target.DbQualifier.String()
	if in == "" {
		in = s.GetCurrentDatabase()
	}
	return strings.EqualFold(s.target.Name.String(), name) && strings.EqualFold(in, databaseName)
}

func (d *database) GetTableNames(*sql.Context) ([]string, error) {
	var names []string
	for _, t := range d.d.Tables() {
		if !isCopy(t.Name) {
			names = append(names, t.Name)
		}
	}
	return names, nil
}

func (d *database) GetTableNamesAsOf(ctx *sql.Context, _ any) ([]string, error) {
	return d.GetTableNames(ctx)
}

func (d *database) GetCollation(*sql.Context) sql.CollationID {
	return databaseCollation(d.d.Definition)
}

// SetCollation is never reached: ALTER DATABASE is refused.
func (d *database) SetCollation(*sql.Context, sql.CollationID) error {
	return refused("ALTER DATABASE")
}

// reading says which rows a table of a statement shows, and what it locks.
type reading struct {
	mode   lock.Mode // Metadata: the snapshot; Shared and Exclusive: the newest rows, each locked
	source bool      // a statement that writes reads it: at READ COMMITTED from the snapshot
	ranges bool      // what is read is locked as a range, with the rows that are not there (SERIALIZABLE)
	nowait bool
	skip   bool // rows that are locked by others are left out
	hint   hint
}

var plainRead = reading{mode: lock.Metadata}

// at is how the table is read at an isolation level. shares: plain reads lock what they read.
func (r reading) at(level Level, shares bool) reading {
	switch {
	case r.source && level.EachStatement():
		r.mode = lock.Metadata
	case r.mode == lock.Metadata && shares:
		r.mode = lock.Shared
	}
	r.ranges = level == Serializable && r.mode != lock.Metadata && !r.skip
	return r
}

// tableMode is the lock on the table itself.
func (r reading) tableMode() lock.Mode {
	switch r.mode {
	case lock.Shared:
		return lock.IntentShared
	case lock.Exclusive:
		return lock.IntentExclusive
	}
	return lock.Metadata
}

// Marks of tables whose rows are locked. A client cannot write them: AS OF is refused in its statements.
const (
	markPlain     = "holdfast:p" // no lock: there is a hint
	markShared    = "holdfast:s"
	markSource    = "holdfast:r" // of INSERT … SELECT, and of subqueries of statements that write
	markExclusive = "holdfast:x"
	markNowait    = "n"
	markSkip      = "k"
	markHint      = "|" // its text follows
)

func readingOf(mark string) (reading, bool) {
	r := plainRead
	mark, hinted, isHinted := strings.Cut(mark, markHint)
	if isHinted {
		var ok bool
		if r.hint, ok = hintOf(hinted); !ok {
			return r, false
		}
	}
	rest, ok := strings.CutPrefix(mark, markPlain)
	if ok {
		return r, rest == ""
	}
	if rest, ok = strings.CutPrefix(mark, markShared); ok {
		r.mode = lock.Shared
	} else if rest, ok = strings.CutPrefix(mark, markSource); ok {
		r.mode, r.source = lock.Shared, true
	} else if rest, ok = strings.CutPrefix(mark, markExclusive); ok {
		r.mode = lock.Exclusive
	}
	r.nowait, r.skip = rest == markNowait, rest == markSkip
	return r, ok
}
