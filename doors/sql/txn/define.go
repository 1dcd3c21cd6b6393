package txn

import (
	"errors"

	"github.com/holdfastdb/holdfast/core/entry"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
)

// Define changes the catalogue in one command of the log. The transaction has locked the tables that change exclusively, and goes on with its
// locks. Errors: as Commit; the transaction has ended with ErrTermOver and ErrUnknown.
func (x *Tx) Define(changes []sqlpart.Change) (*sqlpart.Defined, error) {
	return x.DefinePlaces(changes, false)
}

// DefinePlaces is Define. places: the rows of a table that changes say how many places they have (sqlpart.Part.Places).
func (x *Tx) DefinePlaces(changes []sqlpart.Change, places bool) (*sqlpart.Defined, error) {
	if x.ended {
		return nil, ErrEnded
	}
	res, err := x.ask(&sqlpart.Part{Kind: sqlpart.Define, Changes: changes, Places: places})
	if err != nil {
		return nil, err
	}
	defined, _ := res.Of(sqlpart.Machine).(*sqlpart.Defined)
	return defined, nil
}

// Flush commits what the transaction has written so far, and the transaction goes on with its locks. Marks are of no use any more. The build of an
// index writes in pieces with it. Errors: as Define.
func (x *Tx) Flush() error {
	if x.ended {
		return ErrEnded
	}
	if x.staged != nil {
		if err := x.commitStaged(); err != nil {
			x.endFor(err)
			return err
		}
		if x.ended {
			return ErrUnknown
		}
		x.own, x.reads = NewBuffer(x.t.w.opt.MaxBytes), nil
		return x.Refresh()
	}
	writes := x.writes()
	if len(writes) == 0 {
		return nil
	}
	if _, err := x.ask(&sqlpart.Part{Kind: sqlpart.Commit, Tables: writes, Reads: x.reads}); err != nil {
		return err
	}
	x.own, x.reads = NewBuffer(x.t.w.opt.MaxBytes), nil
	return x.Refresh()
}

// ask proposes a part, and ends the transaction where its term or the member has ended.
func (x *Tx) ask(part *sqlpart.Part) (*entry.Result, error) {
	res, err := x.propose(entry.Part{Machine: sqlpart.Machine, Body: sqlpart.AppendPart(nil, part)})
	if err == nil {
		x.wrote = res
	}
	x.endFor(err)
	return res, err
}

// endFor ends the transaction where an error of a command says that its term or the member has ended.
func (x *Tx) endFor(err error) {
	switch {
	case errors.Is(err, ErrUnknown):
		x.ended = true // the locks stay: the command may still take effect, and the member stops
		x.closeView()
	case errors.Is(err, ErrTermOver):
		x.end()
	}
}
