package executor

import (
	"github.com/holdfastdb/holdfast/doors/sql/row"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
	"github.com/holdfastdb/holdfast/internal/tuple"
)

// insert runs an Insert. All values are judged before the first row is written: what one of them needs of the engine is known by then.
func (r *Run) insert(p *Program, s *Shape) (out Outcome, ok bool, err error) {
	t := p.t
	width := len(t.Columns)
	values := r.valuesOf(width * len(s.rows))
	for n, given := range s.rows {
		for i, at := range p.given {
			v := row.Value{Kind: row.Null}
			if at >= 0 {
				if v, ok = given[at].of(r.Params); !ok {
					return out, false, nil
				}
			}
			if i == t.Auto && isNone(v) {
				values[n*width+i] = row.Value{Kind: row.Null}
				continue
			}
			if v, ok = t.Columns[i].assign(v); !ok || i == t.Auto && v.Kind == row.Int && v.Int < 0 {
				return out, false, nil
			}
			values[n*width+i] = v
		}
	}
	last := uint64(0)
	for n := range s.rows {
		one := values[n*width : (n+1)*width]
		if t.Auto >= 0 {
			generated, err := r.number(t, one)
			if err != nil {
				return out, true, err
			}
			if generated && out.Generated == 0 {
				out.Generated = numberOf(one[t.Auto])
			}
			if last = numberOf(one[t.Auto]); n == 0 {
				out.InsertID = last
			}
		}
		if err := r.insertRow(p, one); err != nil {
			return out, true, err
		}
		if err := r.ended(n); err != nil {
			return out, true, err
		}
	}
	if out.Affected = uint64(len(s.rows)); out.Generated == 0 {
		out.InsertID = last
	}
	return out, true, nil
}

// isNone reports whether a value stands for one that AUTO_INCREMENT gives.
func isNone(v row.Value) bool {
	return v.Kind == row.Null || v.Kind == row.Int && v.Int == 0 || v.Kind == row.Uint && v.Uint == 0
}

func numberOf(v row.Value) uint64 {
	if v.Kind == row.Int {
		return uint64(v.Int)
	}
	return v.Uint
}

// number gives a row its value of AUTO_INCREMENT, or has the next ones be larger than the one that the client gives. Error: 1264, where the column cannot
// hold the next one.
func (r *Run) number(t *Table, one []row.Value) (generated bool, err error) {
	v := &one[t.Auto]
	if generated = v.Kind == row.Null; generated {
		n, err := r.Tx.NextAuto(t.ID, 1)
		if err != nil {
			return true, err
		}
		c, ok := &t.Columns[t.Auto], false
		if *v, ok = c.assign(row.Value{Kind: row.Uint, Uint: n}); !ok {
			return true, wire.Errorf(1264, "%d out of range for %s", n, c.Type)
		}
	}
	if n := numberOf(*v); n != 0 && n != 1<<64-1 {
		r.Tx.SetNextAuto(t.ID, n+1)
	}
	return generated, nil
}

// insertRow writes one row and its entries.
func (r *Run) insertRow(p *Program, one []row.Value) error {
	t := p.t
	key, err := r.freshKey(t, one)
	if err != nil {
		return err
	}
	locks := r.Tx.Locks()
	_, exists, stored, err := r.lockPlace(t, 0, key)
	if err != nil {
		return err
	}
	if exists {
		r.Tx.ShareSince(locks, t.ID, 0, key)
		names := make([]string, len(t.Rows.Parts))
		for i, part := range t.Rows.Parts {
			names[i] = t.textOf(part.Column, one[part.Column], part.Prefix)
		}
		return duplicate(t, "PRIMARY", names)
	}
	entries, all := make([]entry, len(t.Indexes)), make([]*entry, len(t.Indexes))
	for i := range t.Indexes {
		entries[i] = t.Indexes[i].entryOf(one, key)
		all[i] = &entries[i]
	}
	if taken, err := r.judge(t, all, one); err != nil {
		if taken {
			r.Tx.UnlockSince(locks, t.ID, 0, key)
		}
		return err
	}
	body, err := t.Layout.AppendValues(make([]byte, 0, t.sizeOf(one)), one)
	if err != nil {
		return err
	}
	if err := r.Tx.Put(t.ID, 0, key, body, stored); err != nil {
		return err
	}
	for i := range entries {
		if err := r.Tx.Put(t.ID, t.Indexes[i].ID, entries[i].key, entries[i].value, entries[i].stored); err != nil {
			return err
		}
	}
	return nil
}

// freshKey is the key of a row that is inserted.
func (r *Run) freshKey(t *Table, one []row.Value) (key []byte, err error) {
	if len(t.Rows.Parts) == 0 {
		n, err := r.Tx.NextRow(t.ID)
		if err != nil {
			return nil, err
		}
		return tuple.AppendUint(nil, n), nil
	}
	for _, part := range t.Rows.Parts {
		key = part.Part.AppendValue(key, one[part.Column])
	}
	return key, nil
}

// sizeOf is how many bytes a row takes at most.
func (t *Table) sizeOf(values []row.Value) int {
	n := 16 + (len(values)+7)/8
	for i := range values {
		n += 10 + len(values[i].Bytes)
	}
	return n
}
