package engine

import (
	"strings"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// Statements about transactions and about locks that outlive them are parsed here: the library's parser drops half of their clauses, and does not
// know the other half.

// Savepoint is what a statement does with a savepoint.
type Savepoint struct {
	Action SavepointAction
	Name   string
}

// SavepointAction is SAVEPOINT, ROLLBACK TO or RELEASE.
type SavepointAction byte

// The actions.
const (
	SavepointSet SavepointAction = iota
	SavepointBack
	SavepointRelease
)

// sign is a word, a name or a sign of a statement.
type sign struct {
	text   string // a name without its quotes; a word in small letters
	quoted bool   // in backticks, or in double quotes under ANSI_QUOTES
	at     int    // where it begins
}

// signs reads a statement sign by sign, up to its end.
type signs struct {
	text string
	ansi bool
	i    int
	now  sign // with an empty text: the end
	err  error
}

// next goes to the next sign. Words and names in quotes are read; a text in single quotes is one sign with its quotes.
func (s *signs) next() {
	for s.i < len(s.text) {
		c, rest := s.text[s.i], s.text[s.i:]
		switch {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			s.i++
		case c == '#', strings.HasPrefix(rest, "-- "), strings.HasPrefix(rest, "--\n"), strings.HasPrefix(rest, "--\t"):
			if end := strings.IndexByte(rest, '\n'); end >= 0 {
				s.i += end
			} else {
				s.i = len(s.text)
			}
		case strings.HasPrefix(rest, "/*!"): // what stands in it counts
			for s.i += 3; s.i < len(s.text) && s.text[s.i] >= '0' && s.text[s.i] <= '9'; s.i++ {
			}
		case strings.HasPrefix(rest, "/*"):
			if end := strings.Index(rest[2:], "*/"); end >= 0 {
				s.i += 2 + end + 2
			} else {
				s.i = len(s.text)
			}
		case strings.HasPrefix(rest, "*/"):
			s.i += 2
		default:
			s.take(c)
			return
		}
	}
	s.now = sign{at: s.i}
}

func (s *signs) take(c byte) {
	from := s.i
	switch {
	case c == ';':
		s.now = sign{at: from}
		return
	case c == '`', c == '"' && s.ansi:
		s.i = closing(s.text, s.i)
		quote := string(c)
		name := strings.ReplaceAll(strings.TrimSuffix(s.text[from+1:s.i], quote), quote+quote, quote)
		s.now = sign{text: name, quoted: true, at: from}
		return
	case c == '\'' || c == '"':
		s.i = closing(s.text, s.i)
		s.now = sign{text: s.text[from:s.i], at: from}
		return
	case letter(c) || c >= '0' && c <= '9':
		for s.i < len(s.text) && (letter(s.text[s.i]) || s.text[s.i] >= '0' && s.text[s.i] <= '9') {
			s.i++
		}
	default:
		s.i++
	}
	s.now = sign{text: strings.ToLower(s.text[from:s.i]), at: from}
}

// word takes a word of the language, if it stands there.
func (s *signs) word(all ...string) bool {
	for _, w := range all {
		if s.now.text == w && !s.now.quoted {
			s.next()
			return true
		}
	}
	return false
}

// need takes a word that has to stand there.
func (s *signs) need(all ...string) {
	if s.err == nil && !s.word(all...) {
		s.fail()
	}
}

// name takes a name.
func (s *signs) name() string {
	n := s.now
	if s.err != nil || n.text == "" || !n.quoted && !letter(n.text[0]) {
		s.fail()
		return ""
	}
	if !n.quoted {
		n.text = s.text[n.at : n.at+len(n.text)] // in the letters that the client has written
	}
	s.next()
	return n.text
}

// fail is MySQL's 1064 at the sign that stands there.
func (s *signs) fail() {
	if s.err != nil {
		return
	}
	near := s.text[s.now.at:]
	if end := statementEnd(near); s.now.text != "" {
		near = near[:end]
	} else {
		near = ""
	}
	if runes := []rune(near); len(runes) > 80 {
		near = string(runes[:80])
	}
	s.err = wire.Errorf(errParse, "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version "+
		"for the right syntax to use near '%s' at line %d", near, 1+strings.Count(s.text[:s.now.at], "\n"))
}

// parseControl parses the statements about transactions. ok false: the text is another statement. rest is what follows the statement.
func parseControl(text string, ansi bool) (st *Statement, rest string, ok bool, err error) {
	s := &signs{text: text, ansi: ansi}
	s.next()
	st = &Statement{Kind: KindOther}
	switch {
	case s.word("begin"):
		st.Kind = KindBegin
		s.word("work")
	case s.word("start"):
		if !s.word("transaction") {
			return nil, "", false, nil
		}
		st.Kind = KindBegin
		s.begin(st)
	case s.word("commit"):
		st.Kind = KindCommit
		s.word("work")
		s.completion(st)
	case s.word("rollback"):
		s.word("work")
		if s.word("to") {
			s.word("savepoint")
			st.savepoint(SavepointBack, s.name())
			break
		}
		st.Kind = KindRollback
		s.completion(st)
	case s.word("savepoint"):
		st.savepoint(SavepointSet, s.name())
	case s.word("release"):
		if !s.word("savepoint") {
			return nil, "", false, nil
		}
		st.savepoint(SavepointRelease, s.name())
	case s.word("lock"):
		if s.now.text != "tables" && s.now.text != "table" {
			return nil, "", false, nil
		}
		st.Kind, st.Tables = KindTables, s.lockTables()
	case s.word("unlock"):
		if !s.word("tables", "table") {
			return nil, "", false, nil
		}
		st.Kind, st.Tables = KindTables, &Tables{Action: UnlockTables}
	case s.word("flush"):
		if st.Kind, st.Tables = KindTables, s.flushTables(); st.Tables == nil {
			return nil, "", false, nil
		}
	case s.word("set"):
		if s.now.text == "@" {
			if st.Characteristics = s.nextOnly(); st.Characteristics == nil && s.err == nil {
				return nil, "", false, nil
			}
			break
		}
		if st.session = s.word("session", "local"); !s.word("transaction") {
			return nil, "", false, nil
		}
		st.Characteristics = s.characteristics()
	default:
		return nil, "", false, nil
	}
	if s.err == nil && s.now.text != "" {
		s.fail()
	}
	if s.err != nil {
		return nil, "", true, s.err
	}
	st.Text = strings.TrimRight(text[:s.now.at], " \t\r\n")
	return st, strings.TrimLeft(text[s.now.at:], " \t\r\n;"), true, nil
}

func (st *Statement) savepoint(action SavepointAction, name string) {
	st.Kind, st.Savepoint = KindSavepoint, &Savepoint{Action: action, Name: name}
}

// begin reads what START TRANSACTION says of the transaction.
func (s *signs) begin(st *Statement) {
	for s.now.text != "" {
		switch {
		case s.word("with"):
			s.need("consistent")
			s.need("snapshot")
			st.Snapshot = true
		case s.word("read"):
			only := s.now.text == "only"
			s.need("only", "write")
			if st.Access != nil {
				s.fail()
			}
			st.Access = &only
		default:
			s.fail()
		}
		if s.err != nil || !s.word(",") {
			return
		}
	}
}

// completion reads [AND [NO] CHAIN] [[NO] RELEASE].
func (s *signs) completion(st *Statement) {
	choice := func(word string) Choice {
		no := s.word("no")
		s.need(word)
		if no {
			return ChoiceNo
		}
		return ChoiceYes
	}
	if s.word("and") {
		st.Chain = choice("chain")
	}
	if s.now.text == "no" || s.now.text == "release" {
		st.Release = choice("release")
	}
	if st.Chain == ChoiceYes && st.Release == ChoiceYes {
		s.fail()
	}
}

// characteristics reads what SET TRANSACTION says.
func (s *signs) characteristics() *Characteristics {
	c := &Characteristics{}
	for s.err == nil {
		switch {
		case c.Level == nil && s.word("isolation"):
			s.need("level")
			c.Level = s.level()
		case c.ReadOnly == nil && s.word("read"):
			only := s.now.text == "only"
			s.need("only", "write")
			c.ReadOnly = &only
		default:
			s.fail()
		}
		if !s.word(",") {
			break
		}
	}
	return c
}

// nextOnly reads SET @@transaction_isolation = … and SET @@transaction_read_only = …: without a scope they are of the next transaction alone, as SET
// TRANSACTION is. Nil without an error: the statement sets another variable.
func (s *signs) nextOnly() *Characteristics {
	var words [4]string
	for i := range words {
		words[i] = s.now.text
		s.next()
	}
	name := variableName(words[2])
	if words[0] != "@" || words[1] != "@" || name != levelVariable && name != readOnlyVariable {
		return nil
	}
	if words[3] == ":" {
		words[3] = s.now.text
		s.next()
	}
	value := strings.Trim(s.now.text, `'"`)
	if s.next(); words[3] != "=" || s.now.text != "" { // an expression, or other variables beside it
		s.err = refused("SET @@" + name + " of an expression, or beside other variables; SET SESSION " + name + " may stand there")
		return nil
	}
	if name == levelVariable {
		if l, ok := levelOf(value); ok || strings.EqualFold(value, "default") {
			return &Characteristics{Level: &l}
		}
	} else if only := set("1", "on", "true")[strings.ToLower(value)]; only || set("0", "off", "false", "default")[strings.ToLower(value)] {
		return &Characteristics{ReadOnly: &only}
	}
	s.err = wire.Errorf(errWrongValue, "Variable '%s' can't be set to the value of '%s'", name, value)
	return nil
}

func (s *signs) level() *Level {
	l := Serializable
	switch {
	case s.word("serializable"):
	case s.word("repeatable"):
		s.need("read")
		l = RepeatableRead
	case s.word("read"):
		l = ReadCommitted
		if s.now.text == "uncommitted" {
			l = ReadUncommitted
		}
		s.need("committed", "uncommitted")
	default:
		s.fail()
	}
	return &l
}
