package executor

import (
	"bytes"
	"strconv"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	"github.com/holdfastdb/holdfast/doors/sql/row"
)

// lockRow locks the row of a key and splits it. The key is one that the transaction may keep.
func (r *Run) lockRow(p *Program, key []byte) (exists bool, stored int, err error) {
	locks := 0
	if r.GivesBack {
		locks = r.Tx.Locks()
	}
	value, exists, stored, err := r.Tx.LockRow(p.t.ID, 0, key, lock.Exclusive, r.Wait)
	if err == nil && !exists && r.GivesBack {
		r.Tx.UnlockSince(locks, p.t.ID, 0, key)
	}
	if err != nil || !exists {
		return false, stored, err
	}
	r.Reads++
	if err := p.t.Layout.Split(value, &r.fields); err != nil {
		return true, stored, p.t.damaged(err)
	}
	return true, stored, nil
}

// update runs an Update of one row.
func (r *Run) update(p *Program, s *Shape) (out Outcome, ok bool, err error) {
	t := p.t
	key, ok := t.keyOf(nil, s.equal, r.Params)
	if !ok {
		return out, false, nil
	}
	var few [8]row.Value
	to := few[:0]
	for i := range s.sets {
		v, ok := s.sets[i].to.of(r.Params)
		switch {
		case !ok:
			return out, false, nil
		case s.sets[i].adds != 0:
			if v.Kind != row.Int || s.sets[i].adds < 0 && v.Int == -1<<63 {
				return out, false, nil
			}
			v.Int *= s.sets[i].adds
		default:
			if v, ok = t.Columns[p.sets[i]].assign(v); !ok {
				return out, false, nil
			}
		}
		to = append(to, v)
	}
	exists, stored, err := r.lockRow(p, key)
	if err != nil {
		return out, true, err
	}
	matched, changed := 0, 0
	if exists {
		matched = 1
		both := r.valuesOf(2 * len(t.Columns))
		was, is := both[:len(t.Columns)], both[len(t.Columns):]
		for i := range was {
			was[i] = r.fields.Value(i)
		}
		copy(is, was)
		for i, c := range p.sets {
			if is[c] = to[i]; s.sets[i].adds != 0 {
				if is[c], ok = t.Columns[c].sum(was[c], to[i].Int); !ok {
					return out, false, nil
				}
			}
			if !same(was[c], is[c]) {
				changed = 1
			}
		}
		if changed > 0 {
			if err := r.change(p, key, stored, was, is); err != nil {
				return out, true, err
			}
		}
	}
	out.Found, out.Affected = int64(matched), uint64(changed)
	if r.FoundRows {
		out.Affected = uint64(matched)
	}
	out.Info = infos[matched][changed]
	return out, true, nil
}

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
	var pointers [4]*entry
	all, fresh := room[:0], pointers[:0]
	for _, i := range p.touched {
		x := &t.Indexes[i]
		m := moved{x.entryOf(was, key), x.entryOf(is, key)}
		if !bytes.Equal(m.gone.key, m.fresh.key) {
			all = append(all, m)
		}
	}
	for i := range all {
		fresh = append(fresh, &all[i].fresh)
	}
	if _, err := r.judge(t, fresh, is); err != nil {
		return err
	}
	body, err := t.Layout.AppendValues(make([]byte, 0, t.sizeOf(is)), is)
	if err != nil {
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

// remove runs a Delete of one row.
func (r *Run) remove(p *Program, s *Shape) (out Outcome, ok bool, err error) {
	t := p.t
	key, ok := t.keyOf(nil, s.equal, r.Params)
	if !ok {
		return out, false, nil
	}
	exists, stored, err := r.lockRow(p, key)
	if err != nil || !exists {
		return out, true, err
	}
	was := r.valuesOf(len(t.Columns))
	for i := range was {
		was[i] = r.fields.Value(i)
	}
	for i := range t.Indexes {
		e := t.Indexes[i].entryOf(was, key)
		if err := r.removeEntry(t, &e); err != nil {
			return out, true, err
		}
	}
	if err := r.Tx.Delete(t.ID, 0, key, stored); err != nil {
		return out, true, err
	}
	out.Affected = 1
	return out, true, nil
}
