package engine

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

var (
	checkStart = regexp.MustCompile(`(?i)^check\s+tables?\b`)
	// checkOption is how thorough MySQL is to be. There is one way here, the most thorough.
	checkOption = regexp.MustCompile(`(?i)\s(quick|fast|medium|extended|changed|for\s+upgrade)\s*$`)
)

// mostFaults bounds the faults of a table that CHECK TABLE names.
const mostFaults = 10

// parseCheck parses CHECK TABLE, which the parser does not know. ok false: the text is another statement. rest is what follows the statement.
func parseCheck(text string, options sqlparser.ParserOptions) (s *Statement, rest string, ok bool, err error) {
	start := checkStart.FindString(text)
	if start == "" {
		return nil, "", false, nil
	}
	if end := statementEnd(text); end < len(text) {
		text, rest = text[:end], strings.TrimLeft(text[end:], " \t\r\n;")
	}
	names := text[len(start):]
	for {
		option := checkOption.FindStringIndex(names)
		if option == nil {
			break
		}
		names = names[:option[0]]
	}
	const head = "SELECT 1 FROM "
	ast, _, _, err := parse(head+names, options)
	if err != nil {
		return nil, "", true, syntaxError(text, err)
	}
	s = &Statement{Kind: KindRead, Text: text, tables: true}
	from, _ := ast.(*sqlparser.Select)
	for i := 0; from != nil && i < len(from.From); i++ {
		t, isTable := from.From[i].(*sqlparser.AliasedTableExpr)
		var name sqlparser.TableName
		if isTable {
			name, isTable = t.Expr.(sqlparser.TableName)
		}
		if !isTable || !t.As.IsEmpty() || name.Name.IsEmpty() {
			return nil, "", true, wire.Errorf(errParse, "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version "+
				"for the right syntax to use near '%s' at line 1", strings.TrimSpace(names))
		}
		s.check = append(s.check, name)
	}
	return s, rest, true, nil
}

// statementEnd returns where the first statement of a text ends.
func statementEnd(text string) int {
	for i := 0; i < len(text); {
		switch text[i] {
		case '\'', '"', '`':
			i = closing(text, i)
		case ';':
			return i
		default:
			i++
		}
	}
	return len(text)
}

// checkTables answers CHECK TABLE: it makes every index anew from the rows of the snapshot and compares it with the one that is there. Nothing of a
// table is kept in memory.
func (s *Session) checkTables(c *sql.Context, st *Statement, to *wire.Answer, out *Outcome) error {
	names := []string{"Table", "Op", "Msg_type", "Msg_text"}
	columns := make([]wire.Column, len(names))
	for i, n := range names {
		columns[i] = wire.Column{Name: n, Type: wire.VarString, Collation: uint16(textCollation), Length: 1024}
	}
	to.Columns(columns)
	out.Rows = true
	for _, n := range st.check {
		in := n.DbQualifier.String()
		if in == "" {
			in = s.GetCurrentDatabase()
		}
		name := nameOf(in) + "." + nameOf(n.Name.String())
		say := func(kind, text string) {
			for _, v := range []string{name, "check", kind, text} {
				to.Text(v)
			}
		}
		faults, err := s.checkTable(c, in, n.Name.String())
		switch {
		case err != nil:
			return err
		case faults == nil:
			say("Error", fmt.Sprintf("Table '%s' doesn't exist", name))
			say("status", "Operation failed")
			continue
		}
		for _, f := range faults.all {
			say("error", f)
		}
		if len(faults.all) > 0 {
			say("error", "Corrupt")
		} else {
			say("status", "OK")
		}
	}
	return nil
}

// faults are what is wrong with a table.
type faults struct{ all []string }

func (f *faults) add(format string, args ...any) bool {
	f.all = append(f.all, fmt.Sprintf(format, args...))
	return len(f.all) < mostFaults
}

// checkTable checks one table. Nil: there is none.
func (s *Session) checkTable(c *sql.Context, databaseName, name string) (*faults, error) {
	if !s.mayUse(nameOf(databaseName)) {
		return nil, s.deniedTable(nameOf(name))
	}
	d := s.catalogue().Database(nameOf(databaseName))
	if d == nil {
		return nil, nil
	}
	found, ok, err := (&database{e: s.e, d: d}).open(c, name, plainRead)
	if err != nil || !ok {
		return nil, err
	}
	tx, err := s.transaction()
	if err != nil {
		return nil, err
	}
	if err := s.snapshot(); err != nil {
		return nil, err
	}
	t, f := found.(*tableView).table, &faults{all: []string{}}
	made, err := t.checkRows(c, tx, f)
	for _, x := range t.indexes {
		if err == nil && x.id != 0 && len(f.all) < mostFaults {
			err = t.checkEntries(c, tx, x, made, f)
		}
	}
	return f, err
}

// checkRows looks for the entries of each row, and returns how many rows there are.
func (t *table) checkRows(c *sql.Context, tx *txn.Tx, f *faults) (rows uint64, err error) {
	public := map[uint64]bool{}
	for _, x := range t.indexes {
		public[x.id] = true
	}
	it, err := tx.Scan(t.t.ID, 0, nil, nil)
	if err != nil {
		return 0, err
	}
	defer it.Close()
	for begun := false; move(it, &begun, false); rows++ {
		if err := c.Err(); err != nil {
			return rows, err
		}
		value, err := it.Value()
		if err != nil {
			return rows, err
		}
		key := it.Key()[sqlmachine.PrefixBytes:]
		r, err := t.decode(key, value)
		if err != nil {
			if !f.add("row %d: %v", rows+1, err) {
				return rows, nil
			}
			continue
		}
		own, err := t.primaryKey(c, r)
		if err != nil {
			return rows, err
		}
		if !bytes.Equal(own, key) && !f.add("row %d lies under another key than its own", rows+1) {
			return rows, nil
		}
		entries, err := t.entries(c, r, own)
		if err != nil {
			return rows, err
		}
		for i := range entries {
			e := &entries[i]
			if !public[e.index.def.id] {
				continue
			}
			value, exists, err := tx.Get(t.t.ID, e.index.def.id, e.key)
			if err != nil {
				return rows, err
			}
			if (!exists || !bytes.Equal(value, e.value)) && !f.add("index %s does not lead to row %d", e.index.def.name, rows+1) {
				return rows, nil
			}
		}
	}
	return rows, it.Error()
}

// checkEntries counts the entries of an index. Each row has one: where each was found and the numbers are equal, no entry is without a row.
func (t *table) checkEntries(c *sql.Context, tx *txn.Tx, x *index, rows uint64, f *faults) error {
	it, err := tx.Scan(t.t.ID, x.id, nil, nil)
	if err != nil {
		return err
	}
	defer it.Close()
	n := uint64(0)
	for begun := false; move(it, &begun, false); n++ {
		if err := c.Err(); err != nil {
			return err
		}
	}
	if n != rows {
		f.add("index %s has %d entries, and the table %d rows", x.name, n, rows)
	}
	return it.Error()
}
