package executor

import (
	"context"
	"fmt"

	"github.com/holdfastdb/holdfast/doors/sql/row"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// Run is what an execution has of its session. It belongs to the session's goroutine, which uses it again for the next statement.
type Run struct {
	Ctx       context.Context
	Tx        *txn.Tx
	Wait      txn.Wait
	Params    []wire.Param
	To        *wire.Answer
	Open      func() error          // opens the transaction's snapshot, if it has none
	Keep      func(bytes int) error // counts what is kept in memory, and refuses it
	GivesBack bool                  // the lock of a row that is not there: at READ COMMITTED
	FoundRows bool                  // UPDATE counts the rows that were found
	Ranges    bool                  // what is locked is locked with the rows that are not there: at SERIALIZABLE

	Reads   uint64 // rows that were read
	Entries uint64 // entries of indexes that were read

	fields  row.Fields
	key     []byte // of the spans
	found   []span
	digits  []byte
	answer  answer
	outer   Shape // what finds the rows of the outer table of a join
	inner   row.Fields
	joined  []byte   // the key of the inner row
	sorting *sorting // nil: nothing is sorted
	values  []row.Value
	used    int // of values
}

// Outcome is what a statement has come to.
type Outcome struct {
	Rows     bool // a result was begun
	Affected uint64
	Found    int64 // rows that were sent, or found by an UPDATE
	InsertID uint64
	// Generated is the first value of AUTO_INCREMENT that was given to a row, 0: none was.
	Generated uint64
	Info      string
}

// What an execution leaves allocated for the next one of its session, or for that of any session: sessions are many.
const (
	mostValues = 64
	mostArena  = 64 << 10 // bytes
	mostKey    = 4 << 10  // bytes
)

// Execute runs a program with the values of a shape that has bound to it. ok false: nothing was done, and the engine runs the statement. Errors are
// *wire.Error, those of txn and of Keep, and errors of damaged rows.
func (r *Run) Execute(p *Program, s *Shape) (out Outcome, ok bool, err error) {
	switch s.Verb {
	case Select:
		if p.join != nil {
			out, ok, err = r.readJoin(p, s)
		} else {
			out, ok, err = r.read(p, s)
		}
	case Insert:
		out, ok, err = r.insert(p, s)
	case Update:
		out, ok, err = r.update(p, s)
	case Delete:
		out, ok, err = r.remove(p, s)
	}
	r.rest()
	return out, ok, err
}

// rest lets go of rows and parameters, which may be large.
func (r *Run) rest() {
	r.fields.Forget()
	r.inner.Forget()
	r.answer, r.outer = answer{}, Shape{equal: r.outer.equal[:0]}
	if r.used > mostValues {
		r.values = nil
	}
	clear(r.values[:min(r.used, len(r.values))])
	r.used = 0
	if cap(r.key) > mostKey {
		r.key, r.found = nil, nil
	}
	clear(r.found)
	if r.sorting != nil {
		if cap(r.sorting.arena) <= mostArena {
			sortings.Put(r.sorting)
		}
		r.sorting = nil
	}
}

// valuesOf returns room for so many values.
func (r *Run) valuesOf(n int) []row.Value {
	if len(r.values) < n {
		r.values = make([]row.Value, n)
	}
	r.used = n
	return r.values[:n]
}

func (t *Table) damaged(err error) error {
	return fmt.Errorf("%s: %w; `CHECK TABLE` and `holdfast verify` say more", t.Name, err)
}
