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
	all := clausesOf(text, s.Mode().AnsiQuotes())
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
	if o.algorithm == "instant" && o.lock != "" {
		return o, wire.Errorf(1221, "Incorrect usage of ALGORITHM=INSTANT and LOCK=NONE/SHARED/EXCLUSIVE")
	}
	return o, nil
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
