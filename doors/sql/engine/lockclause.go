package engine

import (
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// The library's parser knows FOR UPDATE with OF, NOWAIT and SKIP LOCKED, and neither FOR SHARE nor several clauses. So they are all written as one FOR UPDATE OF
// before it parses, whose names say what each table is locked for.

// clauseName is how a name in the clause that is made begins: the mark of a table and its name follow, or no name, for all tables.
const clauseName = "holdfast:lock:"

// lockClauses writes the locking clauses of the first statement as the parser knows them. Texts, quoted names and comments stay.
func lockClauses(text string, ansi bool) string {
	if !hasLockClauses(wordsOf(text)) {
		return text
	}
	s := &signs{text: text, ansi: ansi}
	var out strings.Builder
	copied := 0
	for s.next(); s.now.text != "" || s.now.quoted; {
		from := s.now.at
		if !s.word("for") {
			s.next()
			continue
		}
		var names []string
		for again := true; again; again = len(names) > 0 && s.word("for") {
			more, ok := s.lockClause()
			if !ok {
				names = nil
				break
			}
			names = append(names, more...)
		}
		if len(names) > 0 {
			out.WriteString(text[copied:from] + "FOR UPDATE OF " + strings.Join(names, ", ") + " ")
			copied = s.now.at
		}
	}
	return out.String() + text[copied:]
}

func hasLockClauses(words []string) bool {
	for i := range words {
		if words[i] == "for" && (begins(words[i+1:], []string{"share"}) || begins(words[i+1:], []string{"update", "of"})) {
			return true
		}
	}
	return false
}

// lockClause reads what follows FOR, and returns the names that stand for it. ok false: it is no locking clause.
func (s *signs) lockClause() (names []string, ok bool) {
	mark := markExclusive
	switch {
	case s.word("update"):
	case s.word("share"):
		mark = markShared
	default:
		return nil, false
	}
	tables := []string{""}
	if s.word("of") {
		tables = nil
		for again := true; again; again = s.word(",") {
			name := s.name()
			if s.word(".") {
				name = s.name()
			}
			tables = append(tables, name)
		}
		if s.err != nil {
			return nil, false
		}
	}
	if s.word("nowait") {
		mark += markNowait
	} else if s.now.text == "skip" {
		s.next()
		s.word("locked")
		mark += markSkip
	}
	for _, t := range tables {
		names = append(names, "`"+clauseName+mark+":"+strings.ReplaceAll(t, "`", "``")+"`")
	}
	return names, true
}

// marking says how the tables of a SELECT are read. Nil: from the snapshot, as its clauses say.
type marking struct {
	all string            // mark of every table that of does not name; "": none
	of  map[string]string // marks by the table's name in the statement, in small letters
}

// mark returns the mark of a table by its name in the statement. "": it has none.
func (m *marking) mark(name string) string {
	if m == nil {
		return ""
	}
	if mark, ok := m.of[strings.ToLower(name)]; ok {
		return mark
	}
	return m.all
}

// markingOf returns what a locking clause says.
func markingOf(l *sqlparser.Lock) (*marking, error) {
	m := &marking{of: map[string]string{}}
	if len(l.Tables) == 0 {
		mark, ok := markOf(l)
		if !ok {
			return nil, refused(strings.ToUpper(strings.TrimSpace(l.Type)))
		}
		m.all = mark
		return m, nil
	}
	for _, t := range l.Tables {
		rest, ok := strings.CutPrefix(t.Name.String(), clauseName)
		at := strings.LastIndex(rest[:len(rest)-len(afterMark(rest))], ":")
		if !ok || at < 0 {
			return nil, refused("FOR UPDATE OF")
		}
		mark, name := rest[:at], strings.ToLower(rest[at+1:])
		if name == "" {
			m.all = mark
			continue
		}
		if _, twice := m.of[name]; twice {
			return nil, wire.Errorf(3569, "Table %s appears in multiple locking clauses.", rest[at+1:])
		}
		m.of[name] = mark
	}
	return m, nil
}

// afterMark is what follows the mark in a name: a table's name, which may have colons.
func afterMark(s string) string {
	for _, mark := range []string{markShared, markExclusive} {
		if rest, ok := strings.CutPrefix(s, mark); ok {
			_, name, _ := strings.Cut(rest, ":")
			return name
		}
	}
	return ""
}
