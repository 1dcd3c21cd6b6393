package engine

import (
	"fmt"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
)

// settings are the variables that every statement of the session asks for, as they were read after one of them was set.
type settings struct {
	known      bool
	mode       *sql.SqlMode
	modeText   string // of mode
	autocommit bool
	level      Level
	readOnly   bool
	longest    time.Duration // a SELECT runs; 0: as long as it takes
	rowWait    time.Duration
	tableWait  time.Duration
	results    sql.CharacterSetID // on which the lengths of columns depend
	simple     bool               // the executor does what they say
}

// set returns the session's settings.
func (s *Session) set() *settings {
	if !s.now.known {
		s.now = s.readSettings()
	}
	return &s.now
}

func (s *Session) readSettings() settings {
	n := settings{known: true, mode: sql.LoadSqlMode(s.quiet()), rowWait: s.seconds(lockWaitVariable, 50), tableWait: s.seconds("lock_wait_timeout", 31536000)}
	v, _ := s.GetSessionVariable(nil, "sql_mode") // the library knows the variable
	n.modeText, _ = v.(string)
	v, err := s.GetSessionVariable(nil, "autocommit")
	on, ok := integer(v)
	n.autocommit = err != nil || !ok || on != 0
	v, _ = s.GetSessionVariable(nil, levelVariable) // the library knows the variable, as those below
	name, _ := v.(string)
	n.level, _ = levelOf(name)
	v, _ = s.GetSessionVariable(nil, readOnlyVariable)
	only, _ := integer(v)
	n.readOnly = only != 0
	v, _ = s.GetSessionVariable(nil, "max_execution_time")
	ms, _ := integer(v)
	n.longest = time.Duration(max(ms, 0)) * time.Millisecond
	n.simple, n.results = s.isSimple(), s.GetCharacterSetResults()
	return n
}

// simpleModes are the parts of sql_mode that say what happens to values which the executor leaves to the engine anyhow.
var simpleModes = set("only_full_group_by", "strict_trans_tables", "strict_all_tables", "no_zero_in_date", "no_zero_date", "error_for_division_by_zero",
	"no_engine_substitution", "no_auto_create_user")

// isSimple reports whether no variable of the session changes what the executor's statements do.
func (s *Session) isSimple() bool {
	v, _ := s.GetSessionVariable(nil, "sql_mode")
	mode, ok := v.(string)
	if !ok {
		return false
	}
	for m := range strings.SplitSeq(strings.ToLower(mode), ",") {
		if m = strings.TrimSpace(m); m != "" && !simpleModes[m] {
			return false
		}
	}
	limit, err := s.GetSessionVariable(nil, "sql_select_limit")
	usual, also := s.GetSessionVariableDefault(nil, "sql_select_limit")
	if err != nil || also != nil || fmt.Sprint(limit) != fmt.Sprint(usual) { // DEFAULT has another Go type than a variable that was never set
		return false
	}
	switch s.GetCharacterSetResults() {
	case sql.CharacterSet_utf8mb4, sql.CharacterSet_Unspecified, sql.CharacterSet_binary: // texts go out as they are stored
		return true
	}
	return false
}
