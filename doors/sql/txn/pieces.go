package txn

import (
	"errors"
	"slices"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
)

// Pieces go through all rows of a table, a piece at a time, each in a transaction of its own. The transaction that calls Pieces has the table Shared, so
// that the rows stay as they are. A single View for all of it was rejected: it would keep on disk whatever others delete meanwhile.
type Pieces struct {
	Table, Version uint64
	// Use locks what the rows of a piece are written to. Nil: nothing is written.
	Use func(y *Tx) error
	// Row is called for each row, in the order of the keys. Its errors end the walk.
	Row func(y *Tx, key, value []byte) error
	// Again is called where a piece had no effect and begins anew. Nil: Row keeps nothing.
	Again func()
	// Done is told after each piece how many rows have been gone through.
	Done func(rows uint64)
	Wait Wait
}

// Pieces goes through the rows. Errors: as Commit; ErrInterrupted; those of Use and Row. Some of the pieces may be written then.
func (x *Tx) Pieces(p *Pieces) error {
	var from []byte
	rows := uint64(0)
	for {
		next, n, err := x.piece(p, from)
		switch {
		case errors.Is(err, ErrDeadlock), errors.Is(err, ErrOverloaded): // the piece had no effect
			if p.Again != nil {
				p.Again()
			}
		case err != nil:
			if errors.Is(err, ErrTermOver) {
				x.end()
			}
			return err
		default:
			if rows += n; p.Done != nil {
				p.Done(rows)
			}
			if next == nil {
				return nil
			}
			from = next
		}
		m := x.t.w.m
		select {
		case <-p.Wait.Interrupt:
			return ErrInterrupted
		case <-m.StoppedC():
			return ErrUnknown
		default:
		}
	}
}

// piece goes through some rows from a key on. It returns where the next piece begins; nil: there is none.
func (x *Tx) piece(p *Pieces, from []byte) (next []byte, rows uint64, err error) {
	y := x.Beside()
	y.yields = true
	defer y.Rollback()
	if err := y.UseTable(p.Table, p.Version, lock.IntentShared, p.Wait); err != nil {
		return nil, 0, err
	}
	if p.Use != nil {
		if err := p.Use(y); err != nil {
			return nil, 0, err
		}
	}
	it, err := y.ScanNewest(p.Table, 0, from, nil)
	if err != nil {
		return nil, 0, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		key := slices.Clone(it.Key()[sqlmachine.PrefixBytes:])
		if rows >= fillRows || y.own.Bytes() >= min(fillBytes, x.t.w.opt.StageBytes/2) {
			return key, rows, y.Commit()
		}
		value, err := it.Value()
		if err != nil {
			return nil, 0, err
		}
		if err := p.Row(y, key, value); err != nil {
			return nil, 0, err
		}
		rows++
	}
	if err := it.Error(); err != nil {
		return nil, 0, err
	}
	return nil, rows, y.Commit()
}
