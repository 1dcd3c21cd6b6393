package executor

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	"github.com/holdfastdb/holdfast/doors/sql/row"
)

// lockRow locks the row of a key and splits it. The key is one that the transaction may keep.
func (r *Run) lockRow(p *Program, key []byte) (value []byte, exists bool, stored int, err error) {
	locks := 0
	if r.GivesBack {
		locks = r.Tx.Locks()
	}
	value, exists, stored, err = r.Tx.LockRow(p.t.ID, 0, key, lock.Exclusive, r.Wait)
	if err == nil && !exists && r.GivesBack {
		r.Tx.UnlockSince(locks, p.t.ID, 0, key)
	}
	if err != nil || !exists {
		return nil, false, stored, err
	}
	return value, true, stored, r.split(p.t, value)
}

// lockedPiece is how many keys of a span are collected before their rows are locked: no view of the store stays open while a row is waited for.
const lockedPiece = 64

// lockSpan locks the rows of a span, and has each take a row that is there, which was split. Behind a wait the rest of the span is read anew: the transaction that
// was waited for may have written other rows in it, and is seen as a whole. most bounds the rows; below 0: nothing does.
func (r *Run) lockSpan(p *Program, at span, most int64, each func(key, value []byte, stored int) error) error {
	if p.at.whole {
		value, exists, stored, err := r.lockRow(p, at.from)
		if err != nil || !exists {
			return err
		}
		return each(at.from, value, stored)
	}
	for {
		want := lockedPiece
		if most >= 0 {
			want = int(min(most, lockedPiece))
		}
		keys, err := r.collect(p, at, want)
		if err != nil {
			return err
		}
		waited, again := r.Tx.Waited(), false
		for _, key := range keys {
			if r.Reads%checkEvery == 0 {
				if err := r.Ctx.Err(); err != nil {
					return err
				}
			}
			value, exists, stored, err := r.lockRow(p, key)
			if err != nil {
				return err
			}
			if again = r.Tx.Waited() != waited; again {
				break
			}
			if exists {
				if err := each(key, value, stored); err != nil {
					return err
				}
				if most > 0 {
					most--
				}
			}
			if p.back {
				at.to = key
			} else {
				at.from = append(key[:len(key):len(key)], 0)
			}
		}
		if most == 0 || !again && len(keys) < want {
			return nil
		}
	}
}

// collect returns the first keys of a span, at most so many.
func (r *Run) collect(p *Program, at span, most int) (keys [][]byte, err error) {
	if most == 0 || at.to != nil && bytes.Compare(at.from, at.to) >= 0 {
		return nil, nil
	}
	it, err := r.Tx.ScanNewest(p.t.ID, 0, at.from, at.to)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	for ok := first(it, p.back); ok; ok = next(it, p.back) {
		if keys = append(keys, bytes.Clone(it.Key()[sqlmachine.PrefixBytes:])); len(keys) == most {
			break
		}
	}
	return keys, it.Error()
}

// setting is what an Update puts into its columns.
type setting []row.Value

// settings returns the values of an Update. ok false: one of them is left to the engine.
func (r *Run) settings(p *Program, s *Shape, into setting) (to setting, ok bool) {
	for i := range s.sets {
		v, ok := s.sets[i].to.of(r.Params)
		if ok && s.sets[i].adds == 0 {
			v, ok = p.t.Columns[p.sets[i]].assign(v)
		}
		if !ok || s.sets[i].adds != 0 && v.Kind == row.Null {
			return nil, false
		}
		into = append(into, v)
	}
	return into, true
}

// apply makes the new values of the row that was split last. ok false: one of them is left to the engine.
func (r *Run) apply(p *Program, s *Shape, to setting, was, is []row.Value) (changed, ok bool) {
	for i := range was {
		if p.needed[i] {
			was[i] = r.fields.Value(i)
		} else {
			was[i] = r.fields.Raw(i)
		}
	}
	copy(is, was)
	for i, c := range p.sets {
		if is[c] = to[i]; s.sets[i].adds != 0 {
			if is[c], ok = p.t.Columns[c].added(was[c], to[i], s.sets[i].adds < 0); !ok {
				return false, false
			}
		}
		changed = changed || !same(was[c], is[c])
	}
	return changed, true
}

// update runs an Update.
func (r *Run) update(p *Program, s *Shape) (out Outcome, ok bool, err error) {
	t := p.t
	spans, ok := r.spans(p, s)
	if !ok || r.Ranges && !p.at.whole {
		return out, false, nil
	}
	var few [8]row.Value
	to, ok := r.settings(p, s, few[:0])
	if !ok {
		return out, false, nil
	}
	both := r.valuesOf(2 * len(t.Columns))
	was, is := both[:len(t.Columns)], both[len(t.Columns):]
	matched, changed := 0, 0
	if p.at.whole && len(spans) == 1 {
		key := spans[0].from
		_, exists, stored, err := r.lockRow(p, key)
		if err != nil {
			return out, true, err
		}
		if exists {
			some, ok := r.apply(p, s, to, was, is)
			if !ok {
				return out, false, nil
			}
			if matched = 1; some {
				changed = 1
				if err := r.change(p, key, stored, was, is); err != nil {
					return out, true, err
				}
			}
		}
	} else if matched, changed, ok, err = r.updateAll(p, s, spans, to, was, is); err != nil || !ok {
		return out, ok || err != nil, err
	}
	out.Found, out.Affected = int64(matched), uint64(changed)
	if r.FoundRows {
		out.Affected = uint64(matched)
	}
	if out.Info = "Rows matched: " + strconv.Itoa(matched) + "  Changed: " + strconv.Itoa(changed) + "  Warnings: 0"; matched <= 1 {
		out.Info = infos[matched][changed]
	}
	return out, true, nil
}

// changedRow is a row that an Update of several rows will write.
type changedRow struct {
	key, body []byte
	stored    int
	moved     []moved
}

// changedBytes is about what one takes beside its key and its body.
const changedBytes = 96

// updateAll locks the rows of an Update, makes the new ones, and writes them if the executor can make all of them.
func (r *Run) updateAll(p *Program, s *Shape, spans []span, to setting, was, is []row.Value) (matched, changed int, ok bool, err error) {
	t := p.t
	var all []changedRow
	ok = true
	for i, at := range spans {
		if err := r.ended(i); err != nil {
			return 0, 0, true, err
		}
		err := r.lockSpan(p, at, -1, func(key, _ []byte, stored int) error {
			some, can := r.apply(p, s, to, was, is)
			if !can {
				ok = false
				return errLeft
			}
			if matched++; !some {
				return nil
			}
			body, err := t.Layout.AppendValues(make([]byte, 0, t.sizeOf(is)), is)
			if err != nil {
				return err
			}
			x := changedRow{key: key, body: body, stored: stored}
			for _, i := range p.touched {
				m := moved{t.Indexes[i].entryOf(was, key), t.Indexes[i].entryOf(is, key)}
				if !bytes.Equal(m.gone.key, m.fresh.key) {
					x.moved = append(x.moved, m)
				}
			}
			all = append(all, x)
			return r.Keep(changedBytes + len(key) + cap(body))
		})
		if !ok {
			return 0, 0, false, nil
		}
		if err != nil {
			return 0, 0, true, err
		}
	}
	for i := range all {
		x := &all[i]
		if err := r.rewrite(t, x.key, x.body, x.stored, x.moved, is); err != nil {
			return 0, 0, true, err
		}
		if err := r.ended(i); err != nil {
			return 0, 0, true, err
		}
	}
	return matched, len(all), true, nil
}

// errLeft ends the reading of rows by a statement that is left to the engine.
var errLeft = errors.New("left to the engine")

// infos are MySQL's words, by rows that matched and rows that changed.
var infos = func() (all [2][2]string) {
	for matched := range all {
		for changed := range all[matched] {
			all[matched][changed] = "Rows matched: " + strconv.Itoa(matched) + "  Changed: " + strconv.Itoa(changed) + "  Warnings: 0"
		}
	}
	return all
}()

func same(a, b row.Value) bool {
	return a.Kind == b.Kind && a.Int == b.Int && a.Uint == b.Uint && bytes.Equal(a.Bytes, b.Bytes)
}

// moved is the entry of a row that gets another key.
type moved struct{ gone, fresh entry }

// change writes a row that has changed, and the entries that have.
func (r *Run) change(p *Program, key []byte, stored int, was, is []row.Value) error {
	t := p.t
	var room [4]moved
	all := room[:0]
	for _, i := range p.touched {
		x := &t.Indexes[i]
		m := moved{x.entryOf(was, key), x.entryOf(is, key)}
		if !bytes.Equal(m.gone.key, m.fresh.key) {
			all = append(all, m)
		}
	}
	body, err := t.Layout.AppendValues(make([]byte, 0, t.sizeOf(is)), is)
	if err != nil {
		return err
	}
	return r.rewrite(t, key, body, stored, all, is)
}

// rewrite writes a row and the entries that it has for others. Error: 1062.
func (r *Run) rewrite(t *Table, key, body []byte, stored int, all []moved, is []row.Value) error {
	var pointers [4]*entry
	fresh := pointers[:0]
	for i := range all {
		fresh = append(fresh, &all[i].fresh)
	}
	if _, err := r.judge(t, fresh, is); err != nil {
		return err
	}
	for i := range all {
		if err := r.removeEntry(t, &all[i].gone); err != nil {
			return err
		}
	}
	for i := range all {
		e := &all[i].fresh
		if err := r.Tx.Put(t.ID, e.x.ID, e.key, e.value, e.stored); err != nil {
			return err
		}
	}
	return r.Tx.Put(t.ID, 0, key, body, stored)
}

// remove runs a Delete.
func (r *Run) remove(p *Program, s *Shape) (out Outcome, ok bool, err error) {
	t := p.t
	spans, ok := r.spans(p, s)
	if !ok || r.Ranges && !p.at.whole {
		return out, false, nil
	}
	was := r.valuesOf(len(t.Columns))
	for i, at := range spans {
		if err := r.ended(i); err != nil {
			return out, true, err
		}
		err := r.lockSpan(p, at, -1, func(key, _ []byte, stored int) error {
			for i := range was {
				if p.needed[i] {
					was[i] = r.fields.Value(i)
				}
			}
			for i := range t.Indexes {
				e := t.Indexes[i].entryOf(was, key)
				if err := r.removeEntry(t, &e); err != nil {
					return err
				}
			}
			out.Affected++
			return r.Tx.Delete(t.ID, 0, key, stored)
		})
		if err != nil {
			return out, true, err
		}
	}
	return out, true, nil
}
