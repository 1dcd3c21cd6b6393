package machine

import (
	"bytes"
	"fmt"
	"math"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/store"
)

// A transaction that has ended is kept for a time and then forgotten: its rows go, and its gid may be used again. The retention is fixed at
// its end, by the newest Retain or else by Options.RetentionMs. So members forget it at the same entry, and a new value affects only later
// ends. Transactions that end in one entry share one row of the retention space, in order of ticks. Each later entry forgets a piece of the
// expired ones.

const (
	// retiredOf is how many transactions, retiredRows how many rows of theirs, one row of the retention space stands for.
	retiredOf   = 256
	retiredRows = 1024
	// forgetRows is how many rows one entry deletes before it leaves the rest to the next: a tenth of a millisecond or two.
	forgetRows = 512
)

// retention is for how long a transaction that ends in this entry is kept, in ms.
func (m *Machine) retention() int64 {
	if m.now.retention > 0 {
		return m.now.retention
	}
	return m.opt.RetentionMs
}

// rows is how many rows a transaction has that has ended, without a timer: gid, definition, head and branches.
func (t *retired) rows() int { return 3 + int(t.chunks) }

// retire writes down which transactions have ended in this entry.
func (m *Machine) retire(st *entry.Stamp, b store.Batch) {
	tick := after(m.clock(st), m.retention())
	var of, rows int
	m.row = m.row[:0]
	flush := func() {
		b.Set(m.key, m.row)
		m.row, of, rows = m.row[:0], 0, 0
		m.oldest = min(m.oldest, tick)
	}
	for _, s := range m.dirty {
		if !s.status.Final() {
			continue
		}
		t := retired{number: s.number, status: s.status, chunks: s.chunks, gid: s.gid}
		if of == 0 {
			m.key = appendTimerKey(m.key[:0], spaceRetired, Timer{tick, s.number})
		}
		m.row = appendRetired(m.row, &t)
		of++
		if rows += t.rows(); of == retiredOf || rows >= retiredRows {
			flush()
		}
	}
	if of > 0 {
		flush()
	}
}

// forget deletes a piece of the expired transactions.
func (m *Machine) forget(st *entry.Stamp, b store.Batch) error {
	now := m.clock(st)
	if m.oldest > now {
		return nil
	}
	// It starts behind the last one: in front of that the store has nothing but rows deleted lately, and an iterator would step over each.
	it, err := m.st.NewIter(m.retired, []byte{letter, spaceRetired + 1})
	if err != nil {
		return fmt.Errorf("read what to forget: %w", err)
	}
	defer it.Close()
	m.oldest = math.MaxInt64
	deleted := 0
	for ok := it.First(); ok; ok = it.Next() {
		at, err := splitTimerKey(it.Key())
		if err != nil {
			return err
		}
		if at.Tick > now || deleted >= forgetRows {
			m.oldest = at.Tick
			break
		}
		row, err := it.Value()
		if err != nil {
			return fmt.Errorf("read what to forget: %w", err)
		}
		all, err := decodeRetired(row)
		if err != nil {
			return err
		}
		for i := range all {
			m.erase(&all[i], b)
			deleted += all[i].rows()
		}
		m.retired = bytes.Clone(it.Key())
		b.Delete(m.retired)
	}
	return it.Error()
}

// erase deletes the rows of a transaction.
func (m *Machine) erase(t *retired, b store.Batch) {
	m.key = appendGidKey(m.key[:0], t.gid)
	b.Delete(m.key)
	m.key = appendDefinitionKey(m.key[:0], t.number)
	b.Delete(m.key)
	m.key = appendHeadKey(m.key[:0], t.number)
	b.Delete(m.key)
	for i := range t.chunks {
		m.key = appendBranchesKey(m.key[:0], t.number, i)
		b.Delete(m.key)
	}
	m.now.counts[t.status]--
	m.changed = true
	// A client that asked for it in this entry has left a slot.
	if s := m.cache.slots[t.gid]; s != nil && !s.dirty {
		m.cache.drop(s)
	}
}

// oldestRetired returns the tick of the first row of the retention space from a key on.
func oldestRetired(st store.Reader, from []byte) (int64, error) {
	it, err := st.NewIter(from, []byte{letter, spaceRetired + 1})
	if err != nil {
		return 0, fmt.Errorf("read what to forget: %w", err)
	}
	defer it.Close()
	if !it.First() {
		return math.MaxInt64, it.Error()
	}
	at, err := splitTimerKey(it.Key())
	return at.Tick, err
}
