package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	"github.com/holdfastdb/holdfast/doors/sql/row"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/internal/tuple"
)

// above sorts behind every field of a key, so that a key with it is the end of all keys that begin with the key.
const above = 0xff

// LookupPartitions turns the ranges of an index into spans. The planner keeps its filter (PreciseMatch): a span may have more rows than the
// ranges, never fewer.
func (t *tableView) LookupPartitions(ctx *sql.Context, l sql.IndexLookup) (sql.PartitionIter, error) {
	x, ok := l.Index.(*index)
	if !ok {
		return nil, fmt.Errorf("lookup in a foreign index %T", l.Index)
	}
	ranges, ok := l.Ranges.(sql.MySQLRangeCollection)
	if !ok {
		return nil, fmt.Errorf("lookup by %T", l.Ranges)
	}
	s := &spans{}
	for _, r := range ranges {
		p, some, err := x.span(ctx, r)
		if err != nil {
			return nil, err
		}
		if some {
			p.reverse = l.IsReverse
			s.rest = append(s.rest, p)
		}
	}
	if len(s.rest) > 1 {
		s.rest = merge(s.rest, l.IsReverse)
	}
	if len(s.rest) > 1 && t.how.mode != lock.Metadata && !sessionOf(ctx).follows(t.table, s.rest[0]) {
		// One span of all: keys are collected before the first row is written, or `k <> 5` would find rows again that have moved behind the 5.
		one := s.rest[0]
		one.more = s.rest[1:]
		s.rest = []span{one}
	}
	return s, nil
}

// merge puts spans in order and joins those that overlap: a row must not be read twice. The planner's ranges do not overlap, but spans leave columns
// away, and a kept plan's ranges were put in order by its sentinels.
func merge(all []span, reverse bool) []span {
	slices.SortFunc(all, func(a, b span) int { return bytes.Compare(a.from, b.from) })
	var out []span
	for _, p := range all {
		if n := len(out) - 1; n >= 0 && bytes.Compare(p.from, out[n].to) < 0 {
			out[n].exact = out[n].exact && p.exact && bytes.Equal(p.from, out[n].from)
			if bytes.Compare(p.to, out[n].to) > 0 {
				out[n].to = p.to
			}
			continue
		}
		out = append(out, p)
	}
	if reverse {
		slices.Reverse(out)
	}
	return out
}

// span turns one range into a span. Columns behind the first that is no single value are left to the filter. some false: no row is in it.
func (x *index) span(ctx *sql.Context, r sql.MySQLRange) (p span, some bool, err error) {
	var prefix []byte
	p = span{x: x, exact: x.unique && len(r) == len(x.key)}
	for i := range r {
		if i >= len(x.parts) {
			break
		}
		from, to, point, err := x.column(ctx, i, r[i])
		switch {
		case err != nil:
			return p, false, err
		case from == nil || to == nil: // the range is empty
			return p, false, nil
		case point != nil:
			prefix = append(prefix, point...)
			continue
		}
		p.from, p.to = append(bytes.Clone(prefix), from...), append(prefix, to...)
		p.exact = false
		return p, bytes.Compare(p.from, p.to) < 0, nil
	}
	p.from, p.to = prefix, append(bytes.Clone(prefix), above)
	return p, true, nil
}

// column returns the keys between which a column's values lie. point: it has one value, whose key this is. A nil from or to: it has none.
func (x *index) column(ctx *sql.Context, i int, r sql.MySQLRangeColumnExpr) (from, to, point []byte, err error) {
	if comparesNull(r) {
		return nil, nil, nil, nil
	}
	null := tuple.AppendNull(nil)
	var low, high any
	lowKnown, highKnown := false, false
	lies := within
	switch c := r.LowerBound.(type) {
	case sql.Below:
		low, lowKnown = c.Key, true
		from, _, lies, err = x.bound(ctx, i, c.Key)
	case sql.Above:
		var exact bool
		if from, exact, lies, err = x.bound(ctx, i, c.Key); exact && len(from) > 0 {
			from = append(from, above)
		}
	case sql.BelowNull:
		from = []byte{}
	case sql.AboveNull:
		from = append(null, above)
	case sql.AboveAll:
		return nil, nil, nil, nil
	default:
		return nil, nil, nil, fmt.Errorf("lower bound %T", c)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	switch lies {
	case over:
		return nil, nil, nil, nil
	case below:
		from = append(null, above)
	}
	lies = within
	switch c := r.UpperBound.(type) {
	case sql.Above:
		high, highKnown = c.Key, true
		if to, _, lies, err = x.bound(ctx, i, c.Key); len(to) > 0 {
			to = append(to, above)
		}
	case sql.Below:
		var exact bool
		if to, exact, lies, err = x.bound(ctx, i, c.Key); !exact && len(to) > 0 {
			to = append(to, above)
		}
	case sql.AboveNull:
		to = append(null, above)
	case sql.AboveAll:
		to = []byte{above}
	case sql.BelowNull:
		return nil, nil, nil, nil
	default:
		return nil, nil, nil, fmt.Errorf("upper bound %T", c)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	if lies == below {
		return nil, nil, nil, nil
	}
	if len(to) == 0 { // a bound that the column's type does not have
		to = []byte{above}
	}
	if lowKnown && highKnown && low != nil && len(from) > 0 && bytes.Equal(append(bytes.Clone(from), above), to) && high != nil && x.key[i].prefix == 0 {
		return from, to, from, nil
	}
	if _, isNull := r.UpperBound.(sql.AboveNull); isNull && len(from) == 0 {
		return from, to, null, nil
	}
	return from, to, nil, nil
}

// comparesNull reports whether a column is compared with NULL, which is true of no row. A join looks its rows up so, and keeps no filter. NULL for a
// parameter of a kept plan has a sentinel here, and may stand behind <=>: there the filter decides.
func comparesNull(r sql.MySQLRangeColumnExpr) bool {
	for _, cut := range []sql.MySQLRangeCut{r.LowerBound, r.UpperBound} {
		switch c := cut.(type) {
		case sql.Below:
			if c.Key == nil {
				return true
			}
		case sql.Above:
			if c.Key == nil {
				return true
			}
		}
	}
	return false
}

// bound returns the key of a value to which a column is compared. exact false: the key stands for values beside it too, because the column's type
// does not have this one, or the index only a part of it. An empty key: the bound bounds nothing, but for what its place says.
func (x *index) bound(ctx *sql.Context, i int, v any) (key []byte, exact bool, lies reach, err error) {
	t := x.t.schema.Schema[x.key[i].column].Type
	v = valueOf(ctx, v)
	if lies, _, _ = reachOf(t, v); lies == over || lies == below {
		return []byte{}, false, lies, nil
	}
	if limitless(t, v) {
		return []byte{}, false, within, nil // the filter decides
	}
	c, in, err := t.Convert(ctx, v)
	if text, ok := v.(string); ok && err != nil && types.IsTextOnly(t) { // it is longer than the column's
		c, in, err = text, sql.InRange, nil
	}
	if err != nil || in != sql.InRange || c == nil {
		return []byte{}, false, within, nil // the filter decides
	}
	if err := weighableIn(t, c); err != nil {
		return nil, false, within, err
	}
	key, err = x.parts[i].AppendKey(ctx, nil, c)
	if errors.Is(err, row.ErrValue) {
		return []byte{}, false, within, nil
	}
	if err != nil {
		return nil, false, within, err
	}
	exact = x.key[i].prefix == 0 && sameNumber(c, v)
	return key, exact, within, nil
}

// sameNumber reports whether a conversion has kept a value. Only numbers are ever rounded to their column's type: a text or a moment that was
// converted is bounded inclusively.
func sameNumber(converted, v any) bool {
	a, ok := integer(converted)
	b, also := integer(v)
	if ok && also {
		return a == b
	}
	if s, ok := converted.(string); ok {
		r, also := v.(string)
		return also && s == r
	}
	c, ok := exactNumber(converted)
	d, also := exactNumber(v)
	return ok && also && c.Cmp(d) == 0
}

// integer returns an integer of any Go type, of which the largest unsigned ones are left out.
func integer(v any) (int64, bool) {
	switch n := v.(type) {
	case int8:
		return int64(n), true
	case int16:
		return int64(n), true
	case int32:
		return int64(n), true
	case int64:
		return n, true
	case int:
		return int64(n), true
	case uint8:
		return int64(n), true
	case uint16:
		return int64(n), true
	case uint32:
		return int64(n), true
	case uint64:
		return int64(n), n < 1<<63
	}
	return 0, false
}

// read returns the rows of a span.
func (t *tableView) read(ctx *sql.Context, p span) (sql.RowIter, error) {
	s := sessionOf(ctx)
	tx, err := s.transaction()
	if err != nil {
		return nil, err
	}
	if t.how.mode != lock.Metadata {
		return t.readLocked(ctx, s, tx, p)
	}
	if err := s.snapshot(); err != nil {
		return nil, err
	}
	if p.exact && p.x.id == 0 {
		value, exists, err := tx.Get(t.t.ID, 0, p.from)
		if err != nil || !exists {
			return sql.RowsToRowIter(), err
		}
		s.reads.rows++
		r, err := t.decode(p.from, value)
		if err != nil {
			return nil, t.damaged(err)
		}
		return sql.RowsToRowIter(r), nil
	}
	it, err := tx.Scan(t.t.ID, p.id(), p.from, p.to)
	if err != nil {
		return nil, err
	}
	return &plainRows{t: t, s: s, tx: tx, it: it, p: p}, nil
}

func (p *span) id() uint64 {
	if p.x == nil {
		return 0
	}
	return p.x.id
}

func (t *table) damaged(err error) error {
	return fmt.Errorf("%s.%s: %w; `CHECK TABLE` and `holdfast verify` say more", t.database, t.t.Name, err)
}

// plainRows reads a span of the transaction's snapshot, as the caller asks for rows.
type plainRows struct {
	t     *tableView
	s     *Session
	tx    *txn.Tx
	it    store.Iter
	p     span
	begun bool
}

func (r *plainRows) Next(ctx *sql.Context) (sql.Row, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !move(r.it, &r.begun, r.p.reverse) {
		if err := r.it.Error(); err != nil {
			return nil, err
		}
		return nil, io.EOF
	}
	value, err := r.it.Value()
	if err != nil {
		return nil, err
	}
	key := r.it.Key()[sqlmachine.PrefixBytes:]
	if r.p.id() == 0 {
		r.s.reads.rows++
	} else {
		r.s.reads.entries++
		if key, err = row.PrimaryOf(key, value); err != nil {
			return nil, r.t.damaged(err)
		}
		var exists bool
		if value, exists, err = r.tx.Get(r.t.t.ID, 0, key); err != nil {
			return nil, err
		}
		if !exists {
			return nil, r.t.damaged(fmt.Errorf("index %s has an entry without a row", r.p.x.name))
		}
		r.s.reads.rows++
	}
	values, err := r.t.decode(key, value)
	if err != nil {
		return nil, r.t.damaged(err)
	}
	return values, nil
}

func (r *plainRows) Close(*sql.Context) error {
	if r.it == nil {
		return nil
	}
	it := r.it
	r.it = nil
	return it.Close()
}

// move goes to the first or the next row.
func move(it store.Iter, begun *bool, reverse bool) bool {
	switch {
	case !*begun && reverse:
		*begun = true
		return it.Last()
	case !*begun:
		*begun = true
		return it.First()
	case reverse:
		return it.Prev()
	}
	return it.Next()
}

// readLocked reads the newest rows of a span and locks each. The keys are collected first: a statement that writes what it reads must not meet
// its own rows again.
func (t *tableView) readLocked(ctx *sql.Context, s *Session, tx *txn.Tx, p span) (sql.RowIter, error) {
	r := &lockedRows{t: t, s: s, tx: tx, p: p, whole: p}
	if s.updates && r.givesBack() && p.id() == 0 && !p.exact {
		r.filter, r.passes = t.filter, true
	}
	it, err := r.begin(ctx, p)
	if err != nil {
		return nil, err
	}
	if it != nil {
		if len(p.more) == 0 && t.how.ranges && t.how.mode == lock.Shared && p.id() == 0 && !s.writes {
			return &plainRows{t: t, s: s, tx: tx, it: it, p: p}, nil // no transaction writes a row of the range, this statement neither
		}
		if len(p.more) == 0 && !p.exact && !t.how.ranges {
			r.follows, r.begins = s.follows(t.table, p), s.updates && !s.movesAny
		}
		if err := r.collect(ctx, it, 0); err != nil {
			return nil, err
		}
	}
	for _, more := range p.more {
		if it, err = r.begin(ctx, more); err != nil {
			return nil, err
		}
		if it == nil {
			continue
		}
		if err := r.collect(ctx, it, 0); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// begin locks a span where the statement does, and returns an iterator over it, which the caller closes. Nil: the span is one row, whose key is kept.
func (r *lockedRows) begin(ctx *sql.Context, p span) (store.Iter, error) {
	t, tx := r.t, r.tx
	if p.exact && p.id() == 0 {
		r.keys = append(r.keys, lockedKey{primary: p.from})
		return nil, nil
	}
	if p.exact { // the entry stands for rows that are not there yet, too
		locks := r.locks()
		_, exists, _, err := tx.LockRow(t.t.ID, p.x.id, p.from, t.how.mode, r.wait(ctx))
		if err != nil && !(t.how.skip && errors.Is(err, txn.ErrBusy)) {
			return nil, err
		}
		if err == nil && !exists && r.givesBack() {
			tx.UnlockSince(locks, t.t.ID, p.x.id, p.from)
		}
	}
	if t.how.ranges && !p.exact {
		if err := tx.LockRange(t.t.ID, p.id(), p.from, p.to, t.how.mode, r.wait(ctx)); err != nil {
			return nil, err
		}
	}
	return tx.ScanNewest(t.t.ID, p.id(), p.from, p.to)
}

// keptKeyBytes is about what a key takes in memory beside its bytes.
const keptKeyBytes = 32

// lockedKey is where a row is.
type lockedKey struct {
	primary []byte
	entry   []byte // of the index by which it was found; nil: it is primary
}

// lockedRows locks rows as the caller asks for them.
type lockedRows struct {
	t    *tableView
	s    *Session
	tx   *txn.Tx
	p    span // what is still to be collected of whole
	keys []lockedKey

	whole span

	follows     bool       // behind a wait the rest of the span is read again
	begins      bool       // it is behind a wait for the first row: the statement has moved none yet
	passes      bool       // it is from the row that was waited for on, if that is still there
	pieces      bool       // it is, in pieces: from p.from on, or before p.to, there are keys that were not collected yet
	before      *lockedKey // the last row that was given; nil: none was
	waited      []byte     // the key that was waited for last; nil: none was
	waitedLocks int        // before it

	filter sql.Expression // by which a row that another transaction has locked is judged before it is waited for; nil: none is
}

func (r *lockedRows) wait(ctx *sql.Context) txn.Wait {
	if r.t.how.nowait || r.t.how.skip {
		return txn.Wait{}
	}
	return r.s.wait(ctx)
}

func (r *lockedRows) Next(ctx *sql.Context) (sql.Row, error) {
	for {
		more, err := r.more(ctx)
		if err != nil {
			return nil, err
		}
		if !more {
			return nil, io.EOF
		}
		at := r.keys[0]
		r.keys = r.keys[1:]
		key, locks, waited := at.primary, r.locks(), r.tx.Waited()
		value, exists, wanted, err := r.lock(ctx, key)
		if err == nil && r.begins && !r.follows && r.before == nil && r.tx.Waited() != waited {
			if err = r.beginAgain(ctx, key, exists, locks); err != nil {
				return nil, err
			}
			continue
		}
		if err == nil && r.follows && r.tx.Waited() != waited {
			if !exists && r.givesBack() {
				r.tx.UnlockSince(locks, r.t.t.ID, 0, key)
			}
			r.follow(key, exists, locks)
			continue
		}
		r.before = &at
		if bytes.Equal(key, r.waited) {
			locks = r.waitedLocks
		}
		switch {
		case errors.Is(err, txn.ErrBusy) && r.t.how.skip:
			continue
		case err != nil:
			return nil, err
		case !wanted:
			continue
		case !exists:
			if r.givesBack() {
				r.tx.UnlockSince(locks, r.t.t.ID, 0, key)
			}
			continue
		}
		if r.givesBack() {
			r.s.rejected = lockedRow{tx: r.tx, locks: locks, table: r.t.t.ID, key: key}
		}
		r.s.reads.rows++
		values, err := r.t.decode(key, value)
		if err != nil {
			return nil, r.t.damaged(err)
		}
		return values, nil
	}
}

func (r *lockedRows) Close(*sql.Context) error { return nil }
