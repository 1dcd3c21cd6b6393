// Package results keeps the findings of conformance runs: a table in a committed Markdown file of which a run replaces its own cells. It
// also has the steps of a run that is always whole, and the lists of known failures. It judges nothing: the run decides whether a cell is
// good.
package results

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// none is the text of an empty cell.
const none = "–"

// Heading is the head of a column. Right is for columns of numbers.
type Heading struct {
	Text  string
	Right bool
}

// Table is a table whose rows are told apart by their first cells, the key. It belongs to one goroutine.
type Table struct {
	keys     int
	headings []Heading
	rows     [][]string
}

// NewTable makes an empty table in which the first keys columns tell rows apart.
func NewTable(keys int, headings ...Heading) *Table { return &Table{keys: keys, headings: headings} }

// Load adds the rows of the table with these headings in a file of an earlier run, and returns the whole text of the file. No such
// file is an empty one, and a table with other headings is none.
func (t *Table) Load(file string) (text string, err error) {
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	_, body, _ := strings.Cut(string(b), t.head())
	for line := range strings.Lines(body) {
		line, ok := strings.CutPrefix(strings.TrimSpace(line), "| ")
		cells := strings.Split(strings.TrimSuffix(line, " |"), " | ")
		if !ok || len(cells) != len(t.headings) {
			break
		}
		for i, c := range cells {
			if cells[i] = strings.TrimSpace(c); cells[i] == none {
				cells[i] = ""
			}
		}
		t.Put(cells...)
	}
	return string(b), nil
}

// Put puts a whole row in the place of the one with its key, or at the end.
func (t *Table) Put(cells ...string) { copy(t.row(cells[:t.keys]), cells) }

// Set sets one cell of the row with a key, which is made if it is not there. Column counts from 0 and includes the key's.
func (t *Table) Set(column int, cell string, key ...string) { t.row(key)[column] = cell }

// row is the row with a key.
func (t *Table) row(key []string) []string {
	i := slices.IndexFunc(t.rows, func(r []string) bool { return slices.Equal(r[:t.keys], key) })
	if i < 0 {
		i = len(t.rows)
		t.rows = append(t.rows, append(slices.Clone(key), make([]string, len(t.headings)-t.keys)...))
	}
	return t.rows[i]
}

// Rows returns the rows in their order. The caller must not change them.
func (t *Table) Rows() [][]string { return t.rows }

// Keep drops the rows that keep does not want.
func (t *Table) Keep(keep func(row []string) bool) {
	t.rows = slices.DeleteFunc(t.rows, func(r []string) bool { return !keep(r) })
}

// Sort puts the rows into an order; those that compare equal stay as they are.
func (t *Table) Sort(compare func(a, b []string) int) { slices.SortStableFunc(t.rows, compare) }

// Count counts the cells of a column that is has.
func (t *Table) Count(column int, is func(cell string) bool) (n int) {
	for _, r := range t.rows {
		if is(r[column]) {
			n++
		}
	}
	return n
}

// String is the table in Markdown. Characters that would end a cell or a row are replaced.
func (t *Table) String() string {
	var b strings.Builder
	b.WriteString(t.head())
	for _, r := range t.rows {
		for _, cell := range r {
			fmt.Fprintf(&b, "| %s ", escape(cell))
		}
		b.WriteString("|\n")
	}
	return b.String()
}

func (t *Table) head() string {
	var names, rules strings.Builder
	for _, h := range t.headings {
		fmt.Fprintf(&names, "| %s ", h.Text)
		if h.Right {
			rules.WriteString("|--:")
		} else {
			rules.WriteString("|---")
		}
	}
	return names.String() + "|\n" + rules.String() + "|\n"
}

func escape(cell string) string {
	if cell = strings.ReplaceAll(strings.Join(strings.Fields(cell), " "), "|", "/"); cell == "" {
		return none
	}
	return cell
}
