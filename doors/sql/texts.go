package sql

import (
	"context"
	"slices"
	"sync"

	"github.com/holdfastdb/holdfast/doors/sql/engine"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// texts are the statements that clients have prepared, each once for all sessions: thousands of clients prepare the same ones. The zero value has
// none. Any goroutine.
type texts struct {
	room wire.Room // nil: memory is not counted

	mu      sync.Mutex
	all     map[textKey]*text // guarded by mu
	handles int               // that clients have; guarded by mu
}

// textKey is what a statement is parsed by.
type textKey struct{ text, mode string }

// What prepared statements take, in bytes. Measured: a statement of sysbench takes 1.4 KiB when it is parsed, one that inserts many literals or
// parameters 30 times its length.
const (
	bytesOfHandle = 96 // with its place among those of its connection
	bytesOfText   = 1 << 10
	foldOfText    = 32
)

// text is one of them, with those who have prepared it.
type text struct {
	of     *texts
	key    textKey
	first  *engine.Statement
	costs  int64
	hidden bool // it is not among texts.all

	// Guarded by of.mu.
	uses  int                 // sessions that have prepared it
	seen  *prepared           // with the columns that a session has seen last
	spare []*engine.Statement // that nobody runs; nil: first is shared
}

// prepared is a statement that clients have prepared: all that see the same columns have the same one.
type prepared struct {
	text    *text
	columns []wire.Column
}

// Shape implements wire.Prepared.
func (p *prepared) Shape() (int, []wire.Column) { return p.text.first.Params(), p.columns }

// Close implements wire.Prepared.
func (p *prepared) Close() { p.text.leave() }

// prepare parses a statement for a session, unless another one has.
func (t *texts) prepare(ctx context.Context, s *session, query []byte) (*prepared, error) {
	x, err := t.enter(s, query)
	if err != nil {
		return nil, err
	}
	st, err := x.take(s.d.engine)
	if err != nil {
		x.leave()
		return nil, s.d.counts.failed(err)
	}
	columns, err := s.s.Columns(ctx, st)
	x.give(st)
	if err != nil {
		x.leave()
		return nil, err
	}
	return x.see(columns), nil
}

// enter counts one more session that has prepared a statement.
func (t *texts) enter(s *session, query []byte) (*text, error) {
	key := textKey{string(query), s.s.ModeText()}
	t.mu.Lock()
	if x := t.all[key]; x != nil {
		defer t.mu.Unlock()
		if !t.draw(bytesOfHandle) {
			return nil, s.d.noRoom()
		}
		x.use()
		return x, nil
	}
	t.mu.Unlock()
	st, rest, err := s.d.engine.Parse(s.s.Mode(), key.text)
	switch {
	case err != nil:
		return nil, s.d.counts.failed(err)
	case st.Kind == engine.KindEmpty:
		return nil, wire.Errorf(1065, "Query was empty")
	case rest != "":
		return nil, wire.Errorf(1064, "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for the right syntax to use near '%s' at line 1", short(rest))
	}
	x := &text{of: t, key: key, first: st, costs: bytesOfText + foldOfText*int64(len(query))}
	if !st.Shared() {
		x.spare = []*engine.Statement{st}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if other := t.all[key]; other != nil { // parsed meanwhile
		if !t.draw(bytesOfHandle) {
			return nil, s.d.noRoom()
		}
		other.use()
		return other, nil
	}
	if !t.draw(x.costs + bytesOfHandle) {
		return nil, s.d.noRoom()
	}
	x.use()
	if x.hidden = st.Kind == engine.KindAccount; x.hidden { // its text may have a password
		x.key = textKey{}
		return x, nil
	}
	if t.all == nil {
		t.all = map[textKey]*text{}
	}
	t.all[key] = x
	return x, nil
}

// Prepared is how many statements clients have prepared, and how many of them are kept.
func (d *Door) Prepared() (handles, texts int) {
	d.texts.mu.Lock()
	defer d.texts.mu.Unlock()
	return d.texts.handles, len(d.texts.all)
}

// noRoom is the error of a statement for which no memory is left.
func (d *Door) noRoom() error {
	return d.counts.failed(wire.Errorf(wire.ErrTooManyStatements, "Can't create more than max_prepared_stmt_count statements: no memory is left for prepared statements; close some, or raise the server's --memory"))
}

func (t *texts) draw(n int64) bool { return t.room == nil || t.room.Draw(n) }

func (t *texts) back(n int64) {
	if t.room != nil {
		t.room.Return(n)
	}
}

// use counts a session in. The caller holds the mutex.
func (x *text) use() {
	x.uses++
	x.of.handles++
}

// leave counts out a session that does not have the statement any more.
func (x *text) leave() {
	t := x.of
	t.mu.Lock()
	defer t.mu.Unlock()
	t.back(bytesOfHandle)
	t.handles--
	if x.uses--; x.uses > 0 {
		return
	}
	t.back(x.costs)
	if !x.hidden {
		delete(t.all, x.key)
	}
}

// see returns the statement with the columns that a session has seen.
func (x *text) see(columns []wire.Column) *prepared {
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	if x.seen == nil || !slices.Equal(x.seen.columns, columns) {
		x.seen = &prepared{x, columns}
	}
	return x.seen
}

// take returns a parsed statement that nobody else runs, or one that several may.
func (x *text) take(e *engine.Engine) (*engine.Statement, error) {
	if x.first.Shared() {
		return x.first, nil
	}
	x.of.mu.Lock()
	if n := len(x.spare); n > 0 {
		st := x.spare[n-1]
		x.spare = x.spare[:n-1]
		x.of.mu.Unlock()
		return st, nil
	}
	x.of.mu.Unlock()
	return e.Again(x.first)
}

// mostSpare is how many parsed statements of one text are kept.
const mostSpare = 4

// give takes back what take has returned.
func (x *text) give(st *engine.Statement) {
	if st == x.first && st.Shared() {
		return
	}
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	if len(x.spare) < mostSpare {
		x.spare = append(x.spare, st)
	}
}
