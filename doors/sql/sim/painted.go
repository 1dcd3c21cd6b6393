package sim

import (
	"bytes"
	"slices"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/sim"
)

// The table painted has an index that is built and dropped while others write the rows: colour and number of each row. Who reads the index finds in it the rows
// that there are, or finds that it may not be read.
const (
	byColour    = 1
	paintCount  = 16
	colourCount = 3
)

// colourKey is the entry of a row.
func colourKey(key, colour []byte) []byte { return append(bytes.Clone(colour), key...) }

// paint gives a row a colour, or takes the row out. It keeps the entries of the index as soon as that is defined.
func (t *transaction) paint() error {
	r := t.b.r
	key := number(r.IntN(paintCount))
	c, err := t.lock(painted, 0, key, lock.Exclusive)
	if err != nil {
		return err
	}
	kept := len(c.table.Indexes) > 0
	if c.exists && kept {
		e, err := t.lock(painted, byColour, colourKey(key, c.value), lock.Exclusive)
		if err == nil && e.exists { // a build may not have come to it yet
			err = e.delete()
		}
		if err != nil {
			return err
		}
	}
	if r.IntN(4) == 0 {
		if !c.exists {
			return nil
		}
		return c.delete()
	}
	colour := number(r.IntN(colourCount))
	if kept {
		e, err := t.lock(painted, byColour, colourKey(key, colour), lock.Exclusive)
		if err == nil {
			err = e.put(nil)
		}
		if err != nil {
			return err
		}
	}
	return c.put(colour)
}

// readPainted reads the rows and the index from one snapshot. The snapshot is not older than the definition: an older one does not have the index.
func (t *transaction) readPainted() error {
	if _, err := t.look(painted, true); err != nil {
		return err
	}
	tab := table(t.h, painted)
	if !isPublic(tab) {
		return nil
	}
	var found [2][][]byte
	for index := range found {
		it, err := t.x.Scan(tab.ID, uint64(index), nil, nil)
		if err != nil {
			return err
		}
		for ok := it.First(); ok; ok = it.Next() {
			key := bytes.Clone(it.Key()[sqlmachine.PrefixBytes:])
			if index == 0 {
				var v []byte
				if v, err = it.Value(); err != nil {
					break
				}
				key = colourKey(key, v)
			}
			found[index] = append(found[index], key)
		}
		if err == nil {
			err = it.Error()
		}
		if e := it.Close(); err == nil {
			err = e
		}
		if err != nil {
			return err
		}
	}
	t.b.w.Count(IndexesRead, 1)
	t.b.painted(t.String(), found[0], found[1])
	return nil
}

func isPublic(t *sqlmachine.Table) bool {
	return slices.ContainsFunc(t.Indexes, func(x sqlpart.Index) bool { return x.State == sqlpart.Public })
}

// painted judges what the rows say that the index has, and what it has.
func (b *book) painted(who string, rows, entries [][]byte) {
	slices.SortFunc(rows, bytes.Compare)
	if !slices.EqualFunc(rows, entries, bytes.Equal) {
		b.w.Fail(TwoOfAKey, "%s finds %x in an index, and the rows have %x", who, entries, rows)
	}
}

func (b *book) checkPainted(h *sim.Member) {
	if !isPublic(table(h, painted)) {
		return
	}
	var rows, entries [][]byte
	for _, p := range b.read(h, painted, 0) {
		rows = append(rows, colourKey(p.key, p.value))
	}
	for _, p := range b.read(h, painted, byColour) {
		entries = append(entries, p.key)
	}
	b.painted("everybody in the end", rows, entries)
}

// index builds the index, or drops it. One that is Building was left by a transaction that has ended: a leader goes on with it, or drops it where its notes are
// of another version of the table.
func (t *transaction) index() {
	tab := table(t.h, painted)
	if err := t.x.LockDefinition(tab.ID, t.wait()); err != nil {
		t.failed(err)
		return
	}
	var from []byte
	goesOn := false
	switch tab = table(t.h, painted); {
	case isPublic(tab):
		t.redefine("drops the index", nil)
		return
	case len(tab.Indexes) > 0:
		var err error
		if from, goesOn, err = t.noted(tab); err != nil {
			t.failed(err)
			return
		}
		if !goesOn {
			t.redefine("drops the index, of which nothing is known", nil)
			return
		}
		t.trace("goes on with the index from %x on", from)
	default:
		first := sqlpart.Building
		if t.b.early {
			first = sqlpart.Public
		}
		if !t.redefine("begins to build the index", []sqlpart.Index{{ID: byColour, State: first}}) {
			return
		}
		tab = table(t.h, painted)
		if err := t.x.WriteNotes(tab, map[txn.Note][]byte{txn.GoalNote: idKey(tab.Version), txn.PlaceNote: nil}); err != nil {
			t.failed(err)
			return
		}
	}
	err := t.x.Backfill(&txn.Backfill{
		Table: func() *sqlmachine.Table { return table(t.h, painted) },
		Index: byColour,
		From:  from,
		Note:  func(next []byte) []byte { return append([]byte{1}, next...) },
		Entry: func(key, value []byte) ([]byte, []byte, bool, error) {
			if t.b.r.IntN(4) == 0 {
				t.think()
			}
			return colourKey(key, value), nil, false, nil
		},
		Wait: t.wait(),
	})
	if err != nil {
		t.failed(err) // the next one goes on
		return
	}
	if t.redefine("ends to build the index", []sqlpart.Index{{ID: byColour, State: sqlpart.Public}}) {
		t.b.w.Count(IndexesBuilt, 1)
		if goesOn {
			t.b.w.Count(IndexesGoOn, 1)
		}
	}
}

// noted reads how far the index is that is Building. ok false: that is not known.
func (t *transaction) noted(tab *sqlmachine.Table) (from []byte, ok bool, err error) {
	goal, _, err := t.x.ReadNote(tab.ID, txn.GoalNote)
	if err != nil || !bytes.Equal(goal, idKey(tab.Version)) {
		return nil, false, err
	}
	place, exists, err := t.x.ReadNote(tab.ID, txn.PlaceNote)
	switch {
	case err != nil || !exists:
		return nil, err == nil, err
	case len(place) == 1: // behind the last row
		return number(paintCount), true, nil
	}
	return bytes.Clone(place[1:]), true, nil
}

// redefine gives the table painted other indexes, while nobody else uses it.
func (t *transaction) redefine(what string, indexes []sqlpart.Index) bool {
	y := t.x.Beside()
	defer y.Rollback()
	tab := table(t.h, painted)
	if err := y.CloseTable(tab.ID, tab.Version, t.wait()); err != nil {
		t.failed(err)
		return false
	}
	return t.defineBy(y, what, sqlpart.Change{Verb: sqlpart.AlterTable, Object: tab.ID, Version: tab.Version, Name: painted, Indexes: indexes, Definition: []byte(t.String())})
}
