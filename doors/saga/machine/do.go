package machine

import (
	"slices"
	"strings"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/store"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// Do implements machine.Machine. Its result is a *entry/saga.State for Begin, Change and Register, nil for the others.
func (m *Machine) Do(st *entry.Stamp, p any, b store.Batch, wanted bool) (any, error) {
	pl := p.(*plan)
	s := pl.slot
	var was sagapart.Status
	if s != nil && s.exists {
		was = s.status
	}
	ended := false
	switch part := pl.part; part.Kind {
	case sagapart.Begin, sagapart.Submit:
		switch {
		case !s.exists:
			m.begin(st, pl, b)
		case s.status == sagapart.Prepared && part.Begin.Status == sagapart.Submitted:
			m.touch(st, s)
			m.move(s, sagapart.Submitted)
			m.timer(st, s, part.Begin.FirstMs, pl.options.FirstIntervalMs(part.Begin.IntervalMs))
			if pl.defined != nil {
				m.key = appendDefinitionKey(m.key[:0], s.number)
				b.Set(m.key, pl.defined)
				b.Overwrote(len(m.key) + len(pl.defined) + 16)
			}
		}
	case sagapart.Change:
		m.change(st, s, part.Change)
		ended = part.Change.Pass
	case sagapart.Register:
		m.register(st, pl, b)
	case sagapart.Resume:
		m.changed = m.changed || m.now.held
		m.now.held = false
		return nil, nil
	case sagapart.Elapse:
		if m.now.transactions() > 0 { // else nothing waits for a time
			m.now.elapsed = after(m.now.elapsed, part.ElapseMs)
			m.changed = true
		}
		return nil, nil
	case sagapart.Retain:
		m.changed = m.changed || m.now.retention != part.RetainMs
		m.now.retention = part.RetainMs
		return nil, nil
	default:
		m.changeTopic(st, pl)
		return nil, nil
	}
	state := sagapart.State{Number: s.number, Status: s.status, Was: was}
	if s.status != was || ended {
		m.notes = append(m.notes, note{gid: s.gid, state: state, passes: s.passes, ended: ended})
	}
	if !wanted {
		return nil, nil
	}
	return &state, nil
}

// begin makes a transaction of a slot that has none.
func (m *Machine) begin(st *entry.Stamp, pl *plan, b store.Batch) {
	s, g := pl.slot, pl.part.Begin
	s.exists, s.fresh, s.stored = true, true, Never
	s.number = m.now.next
	m.now.next++
	m.now.counts[g.Status]++
	m.changed = true
	m.gids.add(s.gid)
	s.head = head{status: g.Status, created: st.WallNs, updated: st.WallNs, begun: m.clock(st), size: int64(len(pl.encoded))}
	s.join(st, g.Branches)
	m.timer(st, s, g.FirstMs, g.IntervalMs)
	s.names, s.named = pl.names, true
	m.mark(s)

	m.key = appendGidKey(m.key[:0], s.gid)
	m.row = appendNumber(m.row[:0], s.number)
	b.Set(m.key, m.row)
	inline := pl.encoded
	if len(inline) > inlineBytes {
		m.key = appendBranchesKey(m.key[:0], s.number, 0)
		b.Set(m.key, inline)
		inline, s.chunks = nil, 1
	}
	m.key = appendDefinitionKey(m.key[:0], s.number)
	m.row = appendDefinition(m.row[:0], &s.head, &g.Definition, inline)
	b.Set(m.key, m.row)
	if g.Status == sagapart.Prepared {
		s.defined = slices.Clone(m.row) // a Submit of this entry does not find it in the store
	}
}

// join appends branches to a head.
func (s *slot) join(st *entry.Stamp, all []sagapart.Branch) {
	s.branches = slices.Grow(s.branches, len(all))
	for i := range all {
		s.branches = append(s.branches, branch{status: all[i].Status, created: st.WallNs, updated: st.WallNs})
	}
}

// change does what Check has found nothing against.
func (m *Machine) change(st *entry.Stamp, s *slot, c *sagapart.ChangePart) {
	m.touch(st, s)
	s.results(st, c.Results)
	if c.Reason != "" {
		s.reason = strings.Clone(c.Reason)
	}
	if c.Result != "" {
		s.result = strings.Clone(c.Result)
	}
	if c.Retries != 0 {
		s.retries = c.Retries
	}
	if c.Pass {
		s.passes++
	}
	if c.To != 0 {
		m.move(s, c.To)
	}
	switch {
	case s.status.Final():
		s.due = Never
	case c.Timer:
		m.timer(st, s, c.NextMs, c.IntervalMs)
	}
}

// results writes what became of branches.
func (s *slot) results(st *entry.Stamp, all []sagapart.BranchResult) {
	for _, r := range all {
		b := &s.branches[r.Branch]
		b.status, b.updated = r.Status, st.WallNs
	}
}

// register adds the branches that are new and updates the others.
func (m *Machine) register(st *entry.Stamp, pl *plan, b store.Batch) {
	s := pl.slot
	m.touch(st, s)
	s.join(st, pl.fresh)
	s.results(st, pl.again)
	if len(pl.fresh) == 0 {
		return
	}
	for i := range pl.fresh {
		s.names.add(pl.fresh[i].ID, pl.fresh[i].Op, true)
	}
	m.key = appendBranchesKey(m.key[:0], s.number, s.chunks)
	b.Set(m.key, pl.encoded)
	s.chunks++
	s.head.size += int64(len(pl.encoded))
}

// touch notes that a transaction changes with this entry.
func (m *Machine) touch(st *entry.Stamp, s *slot) {
	s.updated, s.rewrite = st.WallNs, true
	m.mark(s)
}

func (m *Machine) mark(s *slot) {
	if !s.dirty {
		s.dirty = true
		m.dirty = append(m.dirty, s)
	}
}

// move gives a transaction another status.
func (m *Machine) move(s *slot, to sagapart.Status) {
	if s.status != to {
		m.now.counts[s.status]--
		m.now.counts[to]++
		m.changed = true
		s.status = to
	}
}

// timer sets when a transaction is due: in ms from the entry on. A negative time is now, one beyond all ticks the last of them.
func (m *Machine) timer(st *entry.Stamp, s *slot, ms, interval int64) {
	s.due = after(m.clock(st), max(ms, 0))
	s.interval, s.timed = interval, true
}

// writeHeads writes each changed transaction as the entry leaves it. It reports the size of the old rows, so that the store can drop them
// soon: until then every search for timers passes them.
func (m *Machine) writeHeads(b store.Batch) {
	for _, s := range m.dirty {
		if s.rewrite {
			m.key = appendHeadKey(m.key[:0], s.number)
			m.row = appendHead(m.row[:0], &s.head)
			b.Set(m.key, m.row)
			b.Overwrote(len(m.key) + len(m.row) + 16)
		}
		if s.stored != s.due {
			if s.stored != Never {
				m.key = appendTimerKey(m.key[:0], spaceTimer, Timer{s.stored, s.number})
				b.Delete(m.key)
				b.Overwrote(2 * (len(m.key) + 16))
			}
			if s.due != Never {
				m.key = appendTimerKey(m.key[:0], spaceTimer, Timer{s.due, s.number})
				b.Set(m.key, nil)
			}
		}
		if s.timed && s.due != Never {
			m.set = append(m.set, Timer{s.due, s.number})
		}
	}
}
