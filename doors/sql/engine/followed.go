package engine

import (
	"bytes"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/holdfastdb/holdfast/core/store"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	"github.com/holdfastdb/holdfast/doors/sql/row"
)

// The keys of a span are collected before the first row is locked. A transaction that a row is waited for may have written others in the span, and what it has
// committed is to be seen as a whole. So behind a wait the rest of the span is read again: rows that came there are locked, as in InnoDB.

// morePiece is how many keys are collected at a time behind a wait. Another wait drops them.
const morePiece = 256

// collect takes keys from an iterator, which it closes. most bounds how many; 0: all of them.
func (r *lockedRows) collect(ctx *sql.Context, it store.Iter, most int) error {
	defer it.Close()
	for begun := false; (most == 0 || len(r.keys) < most) && move(it, &begun, r.p.reverse); {
		if len(r.keys)%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		k := lockedKey{primary: bytes.Clone(it.Key()[sqlmachine.PrefixBytes:])}
		size := len(k.primary)
		if r.p.id() != 0 {
			r.s.reads.entries++
			k.entry = k.primary
			value, err := it.Value()
			if err == nil {
				k.primary, err = row.PrimaryOf(k.entry, value)
			}
			if err != nil {
				return r.t.damaged(err)
			}
			if len(k.primary) == 0 || len(k.entry) == 0 || &k.primary[len(k.primary)-1] != &k.entry[len(k.entry)-1] {
				k.primary = append([]byte(nil), k.primary...) // it is in the value, which belongs to the iterator
				size += len(k.primary)
			}
		}
		if most == 0 { // pieces are few keys
			if err := r.s.kept.add(size + keptKeyBytes); err != nil {
				return err
			}
		}
		r.keys = append(r.keys, k)
	}
	return it.Error()
}

// follow has the keys behind the last row that was given collected again, the awaited one among them: there may be others before it now. An UPDATE
// at READ COMMITTED passes by rows that are not committed as it comes to them, so it goes on with the row that it has waited for: there the others are passed
// by, as in InnoDB. The transaction had so many locks before the wait.
func (r *lockedRows) follow(key []byte, exists bool, locks int) {
	r.keys, r.pieces, r.p = nil, true, r.whole // a piece that was collected has moved its bound
	if !bytes.Equal(key, r.waited) {
		r.waited, r.waitedLocks = key, locks
	}
	switch {
	case r.passes && exists:
		r.at(key)
	case r.before != nil:
		r.past(*r.before)
	}
}

// beginAgain has all keys collected again, as the statement has moved no row yet: in pieces it would find those that it has moved meanwhile.
func (r *lockedRows) beginAgain(ctx *sql.Context, key []byte, exists bool, locks int) error {
	r.follow(key, exists, locks)
	r.pieces = false
	it, err := r.tx.ScanNewest(r.t.t.ID, r.p.id(), r.p.from, r.p.to)
	if err != nil {
		return err
	}
	return r.collect(ctx, it, 0)
}

// at has the span begin with a row's key.
func (r *lockedRows) at(key []byte) {
	if r.p.reverse {
		r.p.to = append(bytes.Clone(key), 0)
	} else {
		r.p.from = key
	}
}

// past has the span begin behind a key.
func (r *lockedRows) past(at lockedKey) {
	key := at.entry
	if key == nil {
		key = at.primary
	}
	if r.p.reverse {
		r.p.to = key
	} else {
		r.p.from = append(bytes.Clone(key), 0)
	}
}

// more reports whether there is another key, and collects the next piece where one is due.
func (r *lockedRows) more(ctx *sql.Context) (bool, error) {
	if len(r.keys) > 0 || !r.pieces {
		return len(r.keys) > 0, nil
	}
	it, err := r.tx.ScanNewest(r.t.t.ID, r.p.id(), r.p.from, r.p.to)
	if err != nil {
		return false, err
	}
	if err := r.collect(ctx, it, morePiece); err != nil {
		return false, err
	}
	if len(r.keys) < morePiece {
		r.pieces = false
	} else {
		r.past(r.keys[len(r.keys)-1])
	}
	return len(r.keys) > 0, nil
}

// movedBy are the columns that a statement sets in rows while it reads others. any: the statement puts rows where it reads.
func movedBy(st *Statement, gathers bool) (columns map[string]bool, any bool) {
	switch a := st.ast.(type) {
	case *sqlparser.Insert:
		return nil, true
	case *sqlparser.Update:
		if gathers { // it writes once it has read
			return nil, false
		}
		columns = map[string]bool{}
		for _, e := range a.Exprs {
			columns[strings.ToLower(e.Name.Name.String())] = true
		}
	}
	return columns, false
}

// follows reports whether a statement may read a span again. It must not where it moves rows within the index: it would meet its own.
func (s *Session) follows(t *table, p span) bool {
	if s.movesAny {
		return false
	}
	if len(s.moves) == 0 {
		return true
	}
	if t.hasNumbers() && p.id() == 0 {
		return true // nothing sets the number of a row
	}
	keys := t.def.primary
	if p.x != nil && p.id() != 0 {
		keys = append(append([]keyPart(nil), keys...), p.x.key...)
	}
	for _, k := range keys {
		c := &t.def.columns[k.column]
		if s.moves[strings.ToLower(c.name)] || c.onUpdate != "" {
			return false
		}
	}
	return true
}
