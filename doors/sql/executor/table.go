package executor

import (
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
	Key     int // the column of the primary key, which is an Int or a Uint
	KeyPart *row.Part
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
}

// Index is an index of a Table.
type Index struct {
	ID     uint64
	Name   string
	Unique bool
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

	selects []int // columns of the table; -1: COUNT(*)
	sums    bool  // the result is one row of sums and counts
	order   int   // the column of ORDER BY, -1: the rows come as they lie, or backwards
	sets    []int // columns of Update
	given   []int // by column of the table, the place in a row of Insert; -1: it has none
	touched []int // indexes that have a column of sets
}

// Bind returns the program of a shape. columns describes the result of a Select, and is asked once for each number that stands for what the description depends
// on beside the table. Nil: the statement is left to the engine. Error: that of columns.
func (t *Table) Bind(s *Shape, described int, columns func() ([]wire.Column, error)) (*Program, error) {
	key := programKey{s.key, described}
	t.mu.Lock()
	p, known := t.programs[key]
	t.mu.Unlock()
	if known {
		return p, nil
	}
	p = t.bind(s)
	if p != nil && s.Verb == Select {
		var err error
		if p.Columns, err = columns(); err != nil {
			return nil, err
		}
		if len(p.Columns) != len(p.selects) {
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
	p := &Program{t: t, order: -1}
	if s.Verb != Insert && t.column(s.where) != t.Key || s.Verb != Select && !t.Writes {
		return nil
	}
	ok := false
	switch s.Verb {
	case Select:
		ok = p.bindSelect(s)
	case Insert:
		ok = p.bindInsert(s)
	case Update:
		ok = p.bindUpdate(s)
	case Delete:
		ok = p.keyed(nil)
	}
	if !ok {
		return nil
	}
	return p
}

func (p *Program) bindSelect(s *Shape) bool {
	t := p.t
	for _, x := range s.selects {
		switch {
		case x.star:
			for i := range t.Columns {
				p.selects = append(p.selects, i)
			}
			continue
		case x.count:
			p.selects, p.sums = append(p.selects, -1), true
			continue
		}
		c := t.column(x.column)
		if c < 0 || x.sum && t.Columns[c].Kind != row.Int && t.Columns[c].Kind != row.Uint {
			return false
		}
		p.selects, p.sums = append(p.selects, c), p.sums || x.sum
	}
	for _, c := range p.selects {
		if c >= 0 && t.Columns[c].Kind == row.Stored {
			return false
		}
	}
	if s.order == "" {
		return true
	}
	c := t.column(s.order)
	if c == t.Key {
		return true
	}
	if c < 0 || s.limit != nil { // which of equal rows are within a limit is the engine's to say
		return false
	}
	p.order = c
	switch o := &t.Columns[c]; o.Kind {
	case row.Int, row.Uint:
		return true
	case row.Text:
		return o.Order != nil
	}
	return false
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
		if at < 0 && i != t.Auto && (c.Default || !c.Nullable) || at >= 0 && c.Kind != row.Int && c.Kind != row.Uint && c.Kind != row.Text {
			return false
		}
	}
	return p.keyed(nil)
}

// keyed reports whether the entries of all indexes that have one of some columns can be made; nil: of all indexes. It notes those that do.
func (p *Program) keyed(columns []int) bool {
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
			if !part.Part.Takes(p.t.Columns[part.Column].Kind) {
				return false
			}
		}
	}
	return true
}

func (p *Program) bindUpdate(s *Shape) bool {
	t := p.t
	for _, x := range s.sets {
		c := t.column(x.column)
		if c < 0 || c == t.Key || c == t.Auto {
			return false
		}
		for _, other := range p.sets {
			if other == c {
				return false
			}
		}
		switch t.Columns[c].Kind {
		case row.Int, row.Uint:
		case row.Text:
			if x.adds != 0 {
				return false
			}
		default:
			return false
		}
		p.sets = append(p.sets, c)
	}
	return p.keyed(p.sets)
}
