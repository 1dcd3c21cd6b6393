package engine

import (
	"regexp"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// settable are the variables of a session that a client may set: the engine, the door or the client heeds each, or there is nothing to heed.
var settable = set(
	// heeded
	"autocommit", "sql_mode", "time_zone", "innodb_lock_wait_timeout", "lock_wait_timeout", "transaction_isolation", "tx_isolation",
	"transaction_read_only", "tx_read_only", "completion_type", "max_execution_time",
	"character_set_client", "character_set_connection", "character_set_results", "collation_connection", "names", "charset", "sql_select_limit",
	"wait_timeout", "interactive_timeout", "net_read_timeout", "net_write_timeout", "div_precision_increment", "group_concat_max_len",
	"default_week_format", "lc_time_names", "holdfast_ack", viewAgeVariable, viewBytesVariable, "foreign_key_checks",
	// nothing to heed: no query cache, no binary log, one way to do it
	"unique_checks", "sql_notes", "sql_quote_show_create", "sql_log_bin", "query_cache_type", "profiling",
	"character_set_database", "collation_database", "character_set_server", "collation_server", "sql_warnings", "sql_safe_updates_off",
)

// judgeSet refuses variables that nothing here would heed.
func judgeSet(a *sqlparser.Set) error {
	for _, e := range a.Exprs {
		name := strings.ToLower(e.Name.Name.String())
		if strings.HasPrefix(name, "@@") {
			name = strings.TrimPrefix(name, "@@")
			for _, scope := range []string{"session.", "local."} {
				name = strings.TrimPrefix(name, scope)
			}
		}
		switch e.Scope {
		case sqlparser.SetScope_User:
			continue
		case sqlparser.SetScope_None, sqlparser.SetScope_Session:
		default:
			return refused("SET " + strings.ToUpper(string(e.Scope)))
		}
		if strings.HasPrefix(name, "@") {
			continue
		}
		if settable[name] {
			continue
		}
		return wire.Errorf(errNotSupported, "This version of Holdfast doesn't yet support 'SET %s'", name)
	}
	return nil
}

// namesCollation is SET NAMES with a collation, which the parser drops.
var namesCollation = regexp.MustCompile(`(?i)\bnames\s+(?:'[^']*'|"[^"]*"|\w+)\s+collate\s+['"]?(\w+)`)

// names has a session's texts have the collation that SET NAMES says: the one that it names, or that of tables which name none.
func (s *Session) names(c *sql.Context, st *Statement, a *sqlparser.Set) error {
	for _, e := range a.Exprs {
		switch strings.ToLower(e.Name.Name.String()) {
		case "names", "charset", "character_set_connection":
		default:
			continue
		}
		id := ofCharset(c.GetCharacterSet())
		if m := namesCollation.FindStringSubmatch(st.Text); m != nil {
			var err error
			if id, err = sql.ParseCollation("", m[1], false); err != nil {
				return wire.Errorf(1273, "Unknown collation: '%s'", m[1])
			}
			if set := c.GetCharacterSet(); id.CharacterSet() != set {
				return wire.Errorf(1253, "COLLATION '%s' is not valid for CHARACTER SET '%s'", id.Name(), set.Name())
			}
		}
		if err := s.SetSessionVariable(c, "collation_connection", id.Name()); err != nil {
			return err
		}
	}
	return nil
}
