package engine

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// Rights says what the account of a session may do. It is asked anew by each statement, because grants change while clients are connected.
type Rights interface {
	// MayUse reports whether the account may do everything in a database.
	MayUse(database string) bool
	// MayManage reports whether the account may manage accounts, and see and end what others do.
	MayManage() bool
	// String is the client in the words of errors: 'user'@'host'.
	String() string
}

// mayUse reports whether the session may do everything in a database. information_schema and holdfast show everybody what they may see.
func (s *Session) mayUse(databaseName string) bool {
	return s.rights == nil || shownToAll(databaseName) || s.rights.MayUse(databaseName)
}

// shownToAll reports whether a database is one that the server makes of what it knows.
func shownToAll(name string) bool {
	return name == sql.InformationSchemaDatabaseName || name == OwnDatabase
}

// Account is the session's, user@host.
func (s *Session) Account() string { return s.account }

// SeesAll reports whether the session may see and end what others do. Every session may with those of its own account.
func (s *Session) SeesAll() bool { return s.rights == nil || s.rights.MayManage() }

// deniedDatabase is MySQL's error for a database that the session may not use, whether or not it exists.
func (s *Session) deniedDatabase(name string) error {
	return wire.Errorf(1044, "Access denied for user %s to database '%s'", s.rights, name)
}

// deniedTable is MySQL's error for a table in such a database.
func (s *Session) deniedTable(name string) error {
	return wire.Errorf(1142, "%s command denied to user %s for table '%s'", s.verb, s.rights, name)
}

// verbOf is the privilege by which MySQL names a statement's error.
func verbOf(ast sqlparser.Statement) string {
	switch a := ast.(type) {
	case *sqlparser.Insert:
		return "INSERT"
	case *sqlparser.Update:
		return "UPDATE"
	case *sqlparser.Delete:
		return "DELETE"
	case *sqlparser.AlterTable:
		return "INDEX"
	case *sqlparser.DDL:
		switch strings.ToLower(a.Action) {
		case sqlparser.CreateStr:
			return "CREATE"
		case sqlparser.DropStr, sqlparser.TruncateStr:
			return "DROP"
		}
		return "INDEX"
	case *sqlparser.Explain:
		return verbOf(a.Statement)
	}
	return "SELECT"
}

// databaseOf is the database that a USE or a SHOW names; "": none.
func databaseOf(ast sqlparser.Statement) string {
	switch a := ast.(type) {
	case *sqlparser.Use:
		return nameOf(a.DBName.String())
	case *sqlparser.Show:
		return nameOf(a.Database)
	}
	return ""
}

// hidden stands for a database that the session may not use, and tells nothing of it.
type hidden struct {
	s    *Session
	name string
}

var _ sql.VersionedDatabase = (*hidden)(nil)
var _ sql.CollatedDatabase = (*hidden)(nil)

func (d *hidden) Name() string { return d.name }

func (d *hidden) GetTableInsensitive(_ *sql.Context, name string) (sql.Table, bool, error) {
	return nil, false, d.s.deniedTable(name)
}

func (d *hidden) GetTableInsensitiveAsOf(_ *sql.Context, name string, _ any) (sql.Table, bool, error) {
	return nil, false, d.s.deniedTable(name)
}

func (d *hidden) GetTableNames(*sql.Context) ([]string, error) {
	return nil, d.s.deniedDatabase(d.name)
}

func (d *hidden) GetTableNamesAsOf(ctx *sql.Context, _ any) ([]string, error) {
	return d.GetTableNames(ctx)
}

func (d *hidden) GetCollation(*sql.Context) sql.CollationID { return defaultCollation }

// SetCollation is never reached: ALTER DATABASE is refused.
func (d *hidden) SetCollation(*sql.Context, sql.CollationID) error {
	return d.s.deniedDatabase(d.name)
}

// accountName is CURRENT_USER(). The library answers with the client's host, and MySQL with the account's.
type accountName struct{ function.User }

func newAccountName(ctx *sql.Context) sql.Expression {
	return &accountName{function.NewCurrentUser(ctx).(function.User)}
}

// Eval implements sql.Expression.
func (a *accountName) Eval(ctx *sql.Context, _ sql.Row) (any, error) {
	return sessionOf(ctx).account, nil
}

// WithChildren implements sql.Expression.
func (a *accountName) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	if len(children) != 0 {
		return nil, sql.ErrInvalidChildrenNumber.New(a, len(children), 0)
	}
	return a, nil
}
