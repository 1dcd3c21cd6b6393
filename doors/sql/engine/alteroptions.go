package engine

import (
	"slices"
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// The library's parser drops some clauses of ALTER TABLE: ALGORITHM, LOCK, FORCE, ENGINE, ALTER CHECK, and options of tables. They are read from the text.

// alterOptions are what an ALTER TABLE says beside what the parser tells.
type alterOptions struct {
	algorithm, lock string // in small letters; "": default
	anew            bool   // the rows are to be written anew
	converts        map[int]bool
	enforced        map[int]*enforcing
}

// enforcing is ALTER CHECK … ENFORCED and NOT ENFORCED.
type enforcing struct {
	name     string
	enforced bool
}

// optionsOf reads the clauses of an ALTER TABLE. Errors: 1221, 1235.
func (s *Session) optionsOf(clauses []*sqlparser.DDL, text string) (o alterOptions, err error) {
	o.converts, o.enforced = map[int]bool{}, map[int]*enforcing{}
	ansi := s.Mode().AnsiQuotes()
	if o.ofIndex(text, ansi) {
		return o, o.judge()
	}
	all := clausesOf(definingClauses(text, ansi), ansi)
	for i, c := range clauses {
		var words []sign
		if i < len(all) {
			words = all[i]
		}
		o.converts[i] = c.AlterCollationSpec != nil && wordAt(words, 0) == "convert"
		if !saysNothing(c) {
			continue
		}
		if err := o.take(i, words); err != nil {
			return o, err
		}
	}
	return o, o.judge()
}

func (o *alterOptions) judge() error {
	if o.algorithm == "instant" && o.lock != "" {
		return wire.Errorf(1221, "Incorrect usage of ALGORITHM=INSTANT and LOCK=NONE/SHARED/EXCLUSIVE")
	}
	return nil
}

// ofIndex reads the options of CREATE INDEX and DROP INDEX. It reports whether the statement is one of these.
func (o *alterOptions) ofIndex(text string, ansi bool) bool {
	s := &signs{text: text, ansi: ansi}
	s.next()
	if !s.word("create", "drop") {
		return false
	}
	for _, x := range s.indexOptions() {
		switch x.name {
		case "algorithm":
			o.algorithm, o.anew = x.value, x.value == "copy"
		default:
			o.lock = x.value
		}
	}
	return true
}

// indexOption is ALGORITHM or LOCK of CREATE INDEX and DROP INDEX.
type indexOption struct {
	name, value string // in small letters; "": default
	from, to    int    // where it stands
}

// indexOptions finds the options behind the table and its columns.
func (s *signs) indexOptions() (all []indexOption) {
	depth, on := 0, false
	for s.now.text != "" || s.now.quoted {
		switch {
		case s.now.quoted:
		case s.now.text == "(":
			depth++
		case s.now.text == ")":
			depth--
		case s.now.text == "on" && depth == 0 && !on:
			s.next()
			s.tableName()
			on = true
			continue
		case on && depth == 0 && (s.now.text == "algorithm" || s.now.text == "lock"):
			x := indexOption{name: s.now.text, from: s.now.at}
			s.next()
			s.word("=")
			if x.value = s.now.text; x.value == "default" {
				x.value = ""
			}
			x.to = s.now.at + len(s.now.text)
			all = append(all, x)
		}
		s.next()
	}
	return all
}

// definingClauses writes what MySQL's grammar has and the parser's has not in the parser's words: several columns in the brackets of one ADD, and options of
// CREATE INDEX and DROP INDEX, which are taken out.
func definingClauses(text string, ansi bool) string {
	s := &signs{text: text, ansi: ansi}
	s.next()
	switch {
	case s.word("alter"):
		s.word("ignore", "online")
		if s.word("table") {
			return s.columnLists()
		}
	case s.word("create", "drop"):
		if s.word("unique"); s.word("index") {
			var out strings.Builder
			copied := 0
			for _, x := range s.indexOptions() {
				out.WriteString(text[copied:x.from])
				copied = x.to
			}
			return out.String() + text[copied:]
		}
	}
	return text
}

// columnLists writes each ADD of several columns as one ADD for each.
func (s *signs) columnLists() string {
	s.tableName()
	var out strings.Builder
	copied, depth, first := 0, 0, true // first: a clause begins
	for s.now.text != "" || s.now.quoted {
		if first && depth == 0 && s.word("add") {
			s.word("column")
			if s.now.text == "(" && !s.now.quoted {
				out.WriteString(s.text[copied:s.now.at])
				s.next()
				copied = s.columnList(&out)
			}
			first = false
			continue
		}
		first = false
		if !s.now.quoted {
			switch s.now.text {
			case "(":
				depth++
			case ")":
				depth--
			case ",":
				first = depth == 0
			}
		}
		s.next()
	}
	return out.String() + s.text[copied:]
}

// columnList writes the rest of a list whose first sign stands there, and returns where the list ends. A key or a constraint may stand in it too.
func (s *signs) columnList(out *strings.Builder) int {
	from, depth := s.now.at, 0
	for s.now.text != "" || s.now.quoted {
		sign := s.now
		if sign.quoted {
			sign.text = ""
		}
		switch {
		case sign.text == "(":
			depth++
		case sign.text == ")" && depth > 0:
			depth--
		case sign.text == ")":
			out.WriteString(s.text[from:sign.at])
			s.next()
			return sign.at + 1
		case sign.text == "," && depth == 0:
			out.WriteString(s.text[from:sign.at] + ", ADD ")
			from = sign.at + 1
		}
		s.next()
	}
	return from
}

// saysNothing reports whether the parser tells nothing of a clause.
func saysNothing(c *sqlparser.DDL) bool {
	return c.Action == sqlparser.AlterStr && c.ColumnAction == "" && c.ConstraintAction == "" && c.IndexSpec == nil && c.DefaultSpec == nil && c.TableSpec == nil &&
		c.AutoIncSpec == nil && c.AlterCommentSpec == nil && c.AlterCollationSpec == nil && c.NotNullSpec == nil && c.ColumnTypeSpec == nil
}

// take reads a clause of which the parser tells nothing.
func (o *alterOptions) take(i int, words []sign) error {
	value := wordAt(words, 1)
	if value == "=" {
		value = wordAt(words, 2)
	}
	if value == "default" {
		value = ""
	}
	switch first := wordAt(words, 0); first {
	case "algorithm":
		o.algorithm, o.anew = value, o.anew || value == "copy"
	case "lock":
		o.lock = value
	case "force", "engine":
		o.anew = true
	case "with", "without": // VALIDATION
	case "alter":
		kind := wordAt(words, 1)
		if kind == "index" && wordAt(words, len(words)-1) == "visible" {
			return nil
		}
		if kind != "check" && kind != "constraint" || len(words) < 4 {
			return refused("ALTER TABLE … " + strings.ToUpper(first+" "+kind))
		}
		o.enforced[i] = &enforcing{name: words[2].text, enforced: wordAt(words, 3) != "not"}
	default:
		return refused("ALTER TABLE … " + strings.ToUpper(first))
	}
	return nil
}

func wordAt(words []sign, i int) string {
	if i < 0 || i >= len(words) || words[i].quoted {
		return ""
	}
	return words[i].text
}

// clausesOf returns the signs of each clause of an ALTER TABLE; of any other statement those that it has.
func clausesOf(text string, ansi bool) (all [][]sign) {
	s := &signs{text: text, ansi: ansi}
	s.next()
	s.word("alter")
	s.word("ignore", "online")
	s.word("table")
	s.tableName()
	var one []sign
	depth := 0
	for ; s.now.text != "" || s.now.quoted; s.next() {
		if !s.now.quoted {
			switch s.now.text {
			case "(":
				depth++
			case ")":
				depth--
			case ",":
				if depth == 0 {
					all, one = append(all, one), nil
					continue
				}
			}
		}
		one = append(one, s.now)
	}
	return append(all, slices.Clip(one))
}

// judgeAlgorithm refuses an ALGORITHM or a LOCK that the statement cannot do with. builds: it builds indexes. Errors: 1845, 1846.
func (a *alteration) judgeAlgorithm(builds bool) error {
	o := &a.options
	switch {
	case o.algorithm == "instant" && a.typed:
		return wire.Errorf(1846, "ALGORITHM=INSTANT is not supported. Reason: Cannot change column type INPLACE. Try ALGORITHM=COPY.")
	case o.algorithm == "instant" && (a.anew || builds):
		return wire.Errorf(1845, "ALGORITHM=INSTANT is not supported for this operation. Try ALGORITHM=COPY/INPLACE.")
	case o.algorithm == "inplace" && a.typed:
		return wire.Errorf(1846, "ALGORITHM=INPLACE is not supported. Reason: Cannot change column type INPLACE. Try ALGORITHM=COPY.")
	case o.lock == "none" && a.anew:
		return wire.Errorf(1846, "LOCK=NONE is not supported. Reason: COPY algorithm requires a lock. Try LOCK=SHARED.")
	}
	return nil
}
