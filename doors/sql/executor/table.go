package executor

import (
	"slices"
	"strings"
	"sync"

	"github.com/holdfastdb/holdfast/doors/sql/row"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// Table is a table as one definition has it. Its fields never change. Any goroutine.
type Table struct {
	ID      uint64
	Name    string
	Columns []Column
	Layout  *row.Layout
	Rows    Index   // the primary key; no parts: a row lies under a number that the table gives it
	Indexes []Index // whose entries a write keeps
	Auto    int     // the column of AUTO_INCREMENT, -1: none
	Writes  bool    // writes may come here: nothing but the entries of Indexes follows from them

	mu       sync.Mutex
	programs map[programKey]*Program // guarded by mu; nil: the shape does not bind
}

// programKey is a Shape's key, and what the description of its result depends on.
type programKey struct {
	shape     string
	described int
	with      *Table
}

// Column is a column of a Table.
type Column struct {
	Name     string
	Type     string // in the words of errors
	Kind     row.ValueKind
	Bits     int // of an integer
	Nullable bool
	Default  bool // a row that names no value has another one than NULL
	// Chars is how many characters a Text has at most, 0: Bytes is how many bytes. Trims: spaces at its end go.
	Chars, Bytes int
	Trims        bool
	Order        *row.Order // of a Text; nil: the executor does not know its collation

	// Of a Decimal or a Moment. Assign is a value of the client's as the column stores it, Sum the column's own one with another added to it, or taken away, and Text
	// a value in the words of an error. Values of the client's are int64, uint64, float64 and string. ok false: MySQL would warn or refuse. Sum may be nil: the
	// engine alone adds.
	Assign func(v any) (stored row.Value, ok bool)
	Sum    func(own row.Value, v any, taken bool) (sum row.Value, ok bool)
	Text   func(v row.Value) string
}

// Index is an index of a Table.
type Index struct {
	ID     uint64 // 0: of the primary key
	Name   string
	Unique bool
	Public bool // it may be read
	Parts  []IndexPart
}

// IndexPart is a column of an Index.
type IndexPart struct {
	Column, Prefix int // Prefix: characters; 0: the whole value
	Part           *row.Part
}

// mostPrograms bounds those of a table. When they are so many, all are forgotten.
const mostPrograms = 256

// Program is a Shape that is bound to a Table, without the Shape's values. Its fields never change. Any goroutine.
type Program struct {
	t *Table
	// Columns describe the result of a Select.
	Columns []wire.Column

	at      access
	selects []int  // columns of the table; -1: of COUNT(*)
	folds   []fold // by place of selects; nil: each row is sent
	order   int    // the column by which rows are sorted, -1: they come as they lie
	back    bool   // they come as they lie, from the last one on
	sets    []int  // columns of Update
	given   []int  // by column of the table, the place in a row of Insert; -1: it has none
	touched []int  // indexes that have a column of sets
	needed  []bool // columns whose values a write needs, beside their stored bytes
	group   int    // the column of GROUP BY, -1: none
	join    *join  // nil: the statement is about one table
}

// Answer is what the planner says of a Select.
type Answer struct {
	Columns []wire.Column
	Index   string // by which it reads the table; "": by the rows themselves
}

// Bind returns the program of a shape. planned describes the result of a Select, and is asked once for each number that stands for what the description depends
// on beside the tables. with is the second table, nil where the shape has one. A nil program: the statement is left to the engine. Error: that of planned.
func (t *Table) Bind(s *Shape, with *Table, described int, planned func() (Answer, error)) (*Program, error) {
	key := programKey{s.key, described, with}
	t.mu.Lock()
	p, known := t.programs[key]
	t.mu.Unlock()
	if known {
		return p, nil
	}
	if with == nil {
		p = t.bind(s)
	} else {
		p = bindJoin(t, with, s)
	}
	if p != nil && s.Verb == Select {
		a, err := planned()
		if err != nil {
			return nil, err
		}
		p.Columns = a.Columns
		by := p.at.by.Name
		if len(p.Columns) != len(p.selects) || p.at.open && a.Index != by && (a.Index != "" || p.at.by != &t.Rows) {
			p = nil
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.programs == nil || len(t.programs) >= mostPrograms {
		t.programs = map[programKey]*Program{}
	}
	t.programs[key] = p
	return p, nil
}

// column returns the place of a column, -1: there is none.
func (t *Table) column(name string) int {
	for i := range t.Columns {
		if strings.EqualFold(t.Columns[i].Name, name) {
			return i
		}
	}
	return -1
}

func (t *Table) bind(s *Shape) *Program {
	p := &Program{t: t, order: -1, group: -1}
	if s.Verb != Select && !t.Writes {
		return nil
	}
	ok := false
	switch s.Verb {
	case Select:
		ok = p.find(s) && p.bindSelect(s) && (!s.locks || p.at.by == &t.Rows)
	case Insert:
		ok = p.bindInsert(s)
	case Update:
		ok = p.find(s) && p.at.by == &t.Rows && p.bindUpdate(s)
	case Delete:
		ok = p.find(s) && p.at.by == &t.Rows && p.keyed(nil)
	}
	if !ok {
		return nil
	}
	return p
}

func (p *Program) bindSelect(s *Shape) bool {
	t := p.t
	folds := false
	for _, x := range s.selects {
		if x.star {
			for i := range t.Columns {
				p.selects, p.folds = append(p.selects, i), append(p.folds, noFold)
			}
			continue
		}
		c := -1
		if x.column != "" {
			if c = t.column(x.column); c < 0 {
				return false
			}
			if !t.folds(c, x.fold) {
				return false
			}
		}
		p.selects, p.folds = append(p.selects, c), append(p.folds, x.fold)
		folds = folds || x.fold != noFold
	}
	for i, c := range p.selects {
		if c >= 0 && p.folds[i] == noFold && !t.folds(c, noFold) {
			return false
		}
	}
	if s.group != "" {
		if p.group = t.column(s.group); p.group < 0 {
			return false
		}
		kind := t.Columns[p.group].Kind
		return kind == row.Int || kind == row.Uint
	}
	if folds {
		p.at.open = false // of whatever order
		return true
	}
	p.folds = nil
	return p.bindOrder(s)
}

// folds reports whether the executor has a fold of a column's values, or sends them.
func (t *Table) folds(c int, f fold) bool {
	kind := t.Columns[c].Kind
	switch f {
	case noFold:
		return kind != row.Stored
	case foldSum:
		return kind == row.Int || kind == row.Uint || kind == row.Decimal
	case foldMin, foldMax, foldDistinct:
		return kind == row.Int || kind == row.Uint
	}
	return true
}

func (p *Program) bindInsert(s *Shape) bool {
	t := p.t
	p.given = make([]int, len(t.Columns))
	for i := range p.given {
		p.given[i] = -1
	}
	if s.columns == nil {
		if len(s.rows[0]) != len(t.Columns) {
			return false
		}
		for i := range p.given {
			p.given[i] = i
		}
	}
	for i, name := range s.columns {
		c := t.column(name)
		if c < 0 || p.given[c] >= 0 {
			return false
		}
		p.given[c] = i
	}
	for i, at := range p.given {
		c := &t.Columns[i]
		if at < 0 && i != t.Auto && (c.Default || !c.Nullable) || at >= 0 && !c.assigns() {
			return false
		}
	}
	for _, part := range t.Rows.Parts {
		if !part.Part.Takes(t.Columns[part.Column].Kind) {
			return false
		}
	}
	return p.keyed(nil)
}

// assigns reports whether values of the client's can be stored in the column.
func (c *Column) assigns() bool {
	return c.Kind == row.Int || c.Kind == row.Uint || c.Kind == row.Text || (c.Kind == row.Decimal || c.Kind == row.Moment) && c.Assign != nil
}

// keyed reports whether the entries of all indexes that have one of some columns can be made; nil: of all indexes. It notes those that do.
func (p *Program) keyed(columns []int) bool {
	p.needed = make([]bool, len(p.t.Columns))
	for _, c := range columns {
		p.needed[c] = true
	}
	for i := range p.t.Indexes {
		x := &p.t.Indexes[i]
		has := columns == nil
		for _, part := range x.Parts {
			for _, c := range columns {
				has = has || c == part.Column
			}
		}
		if !has {
			continue
		}
		p.touched = append(p.touched, i)
		for _, part := range x.Parts {
			if p.needed[part.Column] = true; !part.Part.Takes(p.t.Columns[part.Column].Kind) {
				return false
			}
		}
	}
	return true
}

func (p *Program) bindUpdate(s *Shape) bool {
	t := p.t
	for i := range s.sets {
		x := &s.sets[i]
		c := t.column(x.column)
		if c < 0 || c == t.Auto || slices.Contains(p.sets, c) || slices.ContainsFunc(t.Rows.Parts, func(part IndexPart) bool { return part.Column == c }) {
			return false
		}
		o := &t.Columns[c]
		if !o.assigns() || x.adds != 0 && (o.Kind == row.Text || o.Kind == row.Moment || o.Kind == row.Decimal && o.Sum == nil) {
			return false
		}
		p.sets = append(p.sets, c)
	}
	if !p.keyed(p.sets) {
		return false
	}
	for _, i := range p.touched { // which of several rows has the key of another one is found as they are written
		if t.Indexes[i].Unique && !p.at.whole {
			return false
		}
	}
	return true
}
