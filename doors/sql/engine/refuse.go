package engine

import (
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// Numbers of MySQL's errors that the engine makes itself.
const (
	errBadField      = 1054
	errParse         = 1064
	errUnknownVar    = 1193
	errLockTimeout   = 1205
	errDeadlock      = 1213
	errNotSupported  = 1235
	errReadOnlyVar   = 1238
	errWrongValue    = 1231
	errWrongMoment   = 1292
	errWrongField    = 1366
	errOptionReadOny = 1290
)

// refused says that this build does not have something of MySQL's. A thing that it cannot do right it does not do at all.
func refused(what string) *wire.Error {
	return wire.Errorf(errNotSupported, "This version of Holdfast doesn't yet support '%s'", what)
}

// refusedFunctions reach outside of the transaction, or do not what MySQL's do.
var refusedFunctions = set("load_file", "master_pos_wait",
	"source_pos_wait", "wait_for_executed_gtid_set", "last_insert_id_expr", "st_geomfromtext", "st_geomfromgeojson", "st_geomfromwkb")

func set(all ...string) map[string]bool {
	m := make(map[string]bool, len(all))
	for _, s := range all {
		m[s] = true
	}
	return m
}

// refusedStarts are statements that the parser does not know, or takes for something else. Each is a run of words at the beginning of a text.
var refusedStarts = [][]string{
	{"xa"}, {"release"}, {"handler"}, {"do"}, {"optimize"}, {"checksum"}, {"check"}, {"repair"}, {"analyze"}, {"flush"}, {"reset"},
	{"install"}, {"uninstall"}, {"load"}, {"call"}, {"lock"}, {"unlock"}, {"kill"}, {"prepare"}, {"execute"},
	{"deallocate"}, {"signal"}, {"resignal"}, {"get", "diagnostics"}, {"help"}, {"purge"}, {"change"}, {"start", "slave"}, {"start", "replica"},
	{"stop"}, {"binlog"}, {"cache"}, {"clone"}, {"import"}, {"restart"}, {"shutdown"}, {"table"}, {"values"}, {"alter", "view"},
	{"alter", "event"}, {"alter", "procedure"}, {"alter", "function"}, {"alter", "server"}, {"alter", "instance"}, {"alter", "tablespace"},
	{"create", "role"}, {"create", "trigger"}, {"create", "definer"}, {"create", "procedure"}, {"create", "function"},
	{"create", "event"}, {"create", "view"}, {"create", "or", "replace"}, {"create", "algorithm"}, {"create", "sql"}, {"create", "server"},
	{"create", "tablespace"}, {"create", "temporary"}, {"create", "fulltext"}, {"create", "spatial"}, {"create", "vector"}, {"create", "sequence"},
	{"create", "resource"}, {"create", "aggregate"}, {"create", "undo"}, {"create", "logfile"}, {"drop", "role"}, {"drop", "trigger"},
	{"drop", "procedure"}, {"drop", "function"}, {"drop", "event"}, {"drop", "view"}, {"drop", "server"}, {"drop", "temporary"}, {"drop", "sequence"},
	{"drop", "prepare"}, {"drop", "tablespace"}, {"show", "engine"}, {"show", "open"}, {"show", "profile"}, {"show", "profiles"},
	{"show", "procedure"}, {"show", "function"}, {"show", "binary"}, {"show", "binlog"}, {"show", "master"},
	{"show", "slave"}, {"show", "replica"}, {"show", "replicas"}, {"show", "relaylog"},
	{"set", "role"}, {"set", "default"}, {"set", "resource"},
	{"explain", "for"},
}

// refusedAnywhere are clauses that the parser drops, or that the planner takes and does nothing with.
var refusedAnywhere = [][]string{
	{"procedure", "analyse"}, {"high_priority"}, {"low_priority"}, {"delayed"}, {"sql_calc_found_rows"},
	{"with", "rollup"}, {"row_format"}, {"key_block_size"}, {"data", "directory"}, {"index", "directory"}, {"encryption"}, {"tablespace"},
	{"fulltext"}, {"spatial"}, {"invisible"},
}

// refusedWords looks for what is refused on the words of a statement, before it is parsed. Words in texts, names in quotes and comments do not count.
func refusedWords(text string) error {
	words := wordsOf(text)
	for _, w := range refusedStarts {
		if begins(words, w) {
			return refused(strings.ToUpper(strings.Join(w, " ")))
		}
	}
	if len(words) > 0 && (words[0] == "show" || words[0] == "set" || words[0] == "use") {
		return nil
	}
	defines := len(words) > 0 && (words[0] == "create" || words[0] == "alter")
	for i := range words {
		if defines && begins(words[i:], []string{"partition", "by"}) { // a window has one too
			return refused("PARTITION BY")
		}
		for _, w := range refusedAnywhere {
			if !defines && nonreserved()[w[0]] { // a name: the clause that it begins is of a definition
				continue
			}
			if begins(words[i:], w) && !named(words, i) {
				return refused(strings.ToUpper(strings.Join(w, " ")))
			}
		}
	}
	return nil
}

func begins(words, w []string) bool {
	if len(words) < len(w) {
		return false
	}
	for i := range w {
		if words[i] != w[i] {
			return false
		}
	}
	return true
}

// named reports whether a word is a name rather than a word of the language: behind a dot, or before one.
func named(words []string, i int) bool {
	return i > 0 && words[i-1] == "." || i+1 < len(words) && words[i+1] == "."
}

// mostWords bounds how much of a statement is looked at: the rows of a large INSERT have no clauses.
const mostWords = 4096

// wordsOf returns the words of a statement's first piece in small letters, and dots. Texts, quoted names, numbers and comments are left out; what
// stands in an executable comment counts.
func wordsOf(text string) []string {
	var words []string
	for i := 0; i < len(text) && len(words) < mostWords; {
		c := text[i]
		switch {
		case c == '\'' || c == '"' || c == '`':
			i = closing(text, i)
			words = append(words, "''")
		case c == '#', strings.HasPrefix(text[i:], "-- "), strings.HasPrefix(text[i:], "--\n"), strings.HasPrefix(text[i:], "--\t"):
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case strings.HasPrefix(text[i:], "/*!"):
			i += 3
			for i < len(text) && text[i] >= '0' && text[i] <= '9' {
				i++
			}
		case strings.HasPrefix(text[i:], "/*"):
			end := strings.Index(text[i+2:], "*/")
			if end < 0 {
				return words
			}
			i += 2 + end + 2
		case letter(c):
			from := i
			for i < len(text) && (letter(text[i]) || text[i] >= '0' && text[i] <= '9') {
				i++
			}
			words = append(words, strings.ToLower(text[from:i]))
		case c == '.':
			words = append(words, ".")
			i++
		case c >= '0' && c <= '9':
			for i < len(text) && (letter(text[i]) || text[i] >= '0' && text[i] <= '9') {
				i++
			}
		default:
			i++
		}
	}
	return words
}

func letter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$' || c >= 0x80
}

// closing returns the place behind the quoted piece that begins at i.
func closing(text string, i int) int {
	quote := text[i]
	for i++; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote != '`':
			i++
		case text[i] == quote:
			if i+1 < len(text) && text[i+1] == quote {
				i++
				continue
			}
			return i + 1
		}
	}
	return len(text)
}

// firstWords are the words by which a refused statement is named.
func firstWords(text string) string {
	words := wordsOf(text)
	return strings.ToUpper(strings.Join(words[:min(2, len(words))], " "))
}

// judgeDDL refuses what the engine does not define.
func judgeDDL(a *sqlparser.DDL) error {
	switch {
	case a.ViewSpec != nil, a.TriggerSpec != nil, a.ProcedureSpec != nil, a.EventSpec != nil:
		return refused(strings.ToUpper(a.Action) + " of this kind")
	case a.Temporary:
		return refused("TEMPORARY")
	case a.OptSelect != nil:
		return refused("CREATE TABLE … SELECT")
	case a.OptLike != nil && (len(a.OptLike.LikeTables) != 1 || a.TableSpec != nil):
		return refused("CREATE TABLE … LIKE of several tables")
	case len(a.FromViews) > 0:
		return refused("DROP VIEW")
	case a.OrReplace:
		return refused("OR REPLACE")
	}
	switch strings.ToLower(a.Action) {
	case sqlparser.CreateStr:
		if a.OptLike != nil {
			return nil
		}
		if a.TableSpec == nil {
			return refused("CREATE of this kind")
		}
		return judgeSpec(a.TableSpec)
	case sqlparser.DropStr, sqlparser.TruncateStr:
		return nil
	case sqlparser.AlterStr:
		return judgeClause(a)
	case sqlparser.RenameStr:
		return nil
	}
	return refused(strings.ToUpper(a.Action))
}

// judgeAlter refuses clauses of ALTER TABLE. CREATE INDEX and DROP INDEX arrive in the same form.
func judgeAlter(a *sqlparser.AlterTable) error {
	if len(a.PartitionSpecs) > 0 || len(a.Statements) == 0 {
		return refused("ALTER TABLE of partitions, or of nothing")
	}
	tables := 0
	for _, c := range a.Statements {
		if c.Action == sqlparser.RenameStr {
			if tables++; tables > 1 {
				return refused("ALTER TABLE of several names of the table")
			}
			continue
		}
		if err := judgeClause(c); err != nil {
			return err
		}
	}
	return nil
}

func judgeClause(a *sqlparser.DDL) error {
	switch {
	case a.NotNullSpec != nil, a.ColumnTypeSpec != nil, a.ConstraintAction == sqlparser.RenameStr, a.PartitionSpec != nil:
		return refused("ALTER TABLE of this kind")
	case a.TableSpec != nil:
		return judgeSpec(a.TableSpec)
	}
	x := a.IndexSpec
	if x == nil {
		return nil
	}
	if x.Predicate != nil {
		return refused("an index of a part of the rows")
	}
	for _, f := range x.Fields {
		if f.Expression != nil {
			return refused("an index of an expression")
		}
		if strings.EqualFold(f.Order, "desc") {
			return refused("a descending index")
		}
	}
	switch action := strings.ToLower(x.Action); action {
	case sqlparser.CreateStr:
		switch t := strings.ToLower(x.Type); t {
		case "", "unique", sqlparser.PrimaryStr:
			return nil
		default:
			return refused("an index of kind " + strings.ToUpper(t))
		}
	case sqlparser.DropStr, sqlparser.RenameStr:
		return nil
	case "enable", "disable": // of keys: there is nothing to do
		return nil
	default:
		return refused(strings.ToUpper(action) + " INDEX")
	}
}

// tableOptions are those that say nothing of how rows behave here, or are kept.
var tableOptions = set("engine", "charset", "character set", "collate", "comment", "auto_increment", "default charset", "default collate")

// floats are the names of approximate types. MySQL 8.0 deprecates their digits. unsignable are the types whose UNSIGNED it deprecates: the library
// drops both.
var (
	floats     = set("float", "double", "double precision", "real", "float4", "float8")
	unsignable = set("float", "double", "double precision", "real", "float4", "float8", "decimal", "numeric", "dec", "fixed")
)

// judgeSpec refuses parts of CREATE TABLE.
func judgeSpec(t *sqlparser.TableSpec) error {
	if t.PartitionOpt != nil {
		return refused("PARTITION BY")
	}
	for _, o := range t.TableOpts {
		if !tableOptions[strings.ToLower(o.Name)] {
			return refused("table option " + strings.ToUpper(o.Name))
		}
	}
	for _, c := range t.Columns {
		switch {
		case c.Type.ForeignKeyDef != nil:
			return refused("REFERENCES")
		case c.Type.SRID != nil:
			return refused("SRID")
		case bool(c.Type.Zerofill):
			return refused("ZEROFILL")
		case bool(c.Type.Unsigned) && unsignable[strings.ToLower(c.Type.Type)]:
			return refused(strings.ToUpper(c.Type.Type) + " UNSIGNED")
		case c.Type.Scale != nil && floats[strings.ToLower(c.Type.Type)]:
			return refused(strings.ToUpper(c.Type.Type) + "(M, D)")
		}
	}
	for _, x := range t.Indexes {
		switch {
		case x.Info.Fulltext, x.Info.Spatial, x.Info.Vector:
			return refused("an index of kind " + strings.ToUpper(x.Info.Type))
		}
		for _, f := range x.Fields {
			if f.Expression != nil {
				return refused("an index of an expression")
			}
			if strings.EqualFold(f.Order, "desc") {
				return refused("a descending index")
			}
		}
	}
	return nil
}

// shows are the SHOW statements that are answered, by the parser's name for them.
var shows = set("databases", "schemas", "tables", "columns", "fields", "index", "indexes", "keys", "create table", "create database", "create schema",
	"variables", "session variables", "global variables", "table status", "warnings", "errors", "processlist", "status", "collation", "charset", "character set", "engines", "plugins", "privileges")

func judgeShow(a *sqlparser.Show) error {
	if !shows[strings.ToLower(a.Type)] {
		return refused("SHOW " + strings.ToUpper(a.Type))
	}
	if strings.EqualFold(a.Type, "status") && a.Filter != nil && a.Filter.Filter != nil {
		return refused("SHOW STATUS WHERE")
	}
	return nil
}
