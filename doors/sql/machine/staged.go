package machine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/store"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// StagedSet is what is staged at one index of the log. It never changes: as long as the machine shows the same one, the same transactions are staged.
// Any goroutine.
type StagedSet struct{ All []Staged } // by number

// Staged is a transaction of which the log has writes that are not among the rows: it is not committed yet, or its rows are on the move.
type Staged struct {
	ID uint64
	// Committed: the staged rows count, and those that they replace do not.
	Committed bool
	// Prepared: it is kept until it is decided. It has a name then, and keeps the name until it is gone.
	Prepared bool
	Name     []byte
	Hash     uint64          // over its pieces
	Ranges   []sqlpart.Range // that it keeps locked
	tables   []uint64        // ascending
}

// Has reports whether something may be staged for a table.
func (s *Staged) Has(table uint64) bool {
	_, ok := slices.BinarySearch(s.tables, table)
	return ok
}

// Tables lists the tables for which something is staged. The caller does not change the list.
func (s *Staged) Tables() []uint64 { return s.tables }

// Chain is the hash over pieces of a transaction with one more of them, as it is encoded. The first one goes on from 0.
func Chain(hash uint64, body []byte) uint64 {
	d := xxhash.NewWithSeed(hash)
	_, _ = d.Write(body) // a hash takes everything
	return d.Sum64()
}

// state is how far a transaction is that was staged.
type state byte

const (
	stateOpen      state = 1 // pieces may follow
	stateCommitted state = 2 // its rows are on the move
	statePrepared  state = 3 // it is kept until it is decided
)

// staged is a transaction as its row has it.
type staged struct {
	id     uint64
	state  state
	hash   uint64            // Chain over all pieces
	bytes  uint64            // of all pieces, as encoded
	tables map[uint64]uint64 // for which it has staged something, and the versions of their definitions
	cursor []byte            // behind the last row that was moved, as AppendPiece has it without the number; none: nothing was moved
	ranges []sqlpart.Range   // that one which was prepared keeps locked
	name   []byte            // of one that was prepared, and may have locks
	at     uint64            // the entry of the log that has changed it last. Not in the row
}

func (s *staged) key() []byte {
	return binary.BigEndian.AppendUint64([]byte{letter, spaceStaged}, s.id)
}

func (s *staged) append(dst []byte) []byte {
	dst = append(dst, rowVersion, byte(s.state))
	dst = binary.LittleEndian.AppendUint64(dst, s.hash)
	dst = binary.AppendUvarint(dst, s.bytes)
	dst = binary.AppendUvarint(dst, uint64(len(s.tables)))
	for _, id := range slices.Sorted(maps.Keys(s.tables)) {
		dst = binary.AppendUvarint(dst, id)
		dst = binary.AppendUvarint(dst, s.tables[id])
	}
	dst = wire.AppendBytes(wire.AppendBytes(dst, s.cursor), s.name)
	if len(s.ranges) > 0 {
		dst = sqlpart.AppendRanges(dst, s.ranges)
	}
	return dst
}

func (s *staged) decode(value []byte) error {
	r, err := body(value)
	if err != nil {
		return err
	}
	s.state, s.hash, s.bytes = state(r.Byte()), r.Uint64(), r.Uvarint()
	s.tables = map[uint64]uint64{}
	last := uint64(0)
	for range r.Count(sqlpart.MaxTables, 2) {
		id := r.Uvarint()
		if id <= last || id > sqlpart.MaxID {
			r.Fail(errCorrupt)
		}
		s.tables[id], last = r.Uvarint(), id
	}
	s.cursor = append([]byte(nil), r.Bytes()...)
	s.name = append([]byte(nil), r.Bytes()...)
	if r.Len() > 0 {
		s.ranges = cloneRanges(sqlpart.Ranges(&r, nil))
	}
	if s.state < stateOpen || s.state > statePrepared || s.state == statePrepared && len(s.name) == 0 {
		r.Fail(errCorrupt)
	}
	return r.End()
}

// Staged returns what is staged at the applied index.
func (m *Machine) Staged() *StagedSet { return m.pubStaged.Load() }

// publishStaged makes what is staged that which readers see.
func (m *Machine) publishStaged() {
	all := &StagedSet{}
	for _, id := range slices.Sorted(maps.Keys(m.staged)) {
		s := m.staged[id]
		all.All = append(all.All, Staged{ID: id, Committed: s.state == stateCommitted, Prepared: s.state == statePrepared, Name: s.name, Hash: s.hash, Ranges: s.ranges,
			tables: slices.Sorted(maps.Keys(s.tables))})
	}
	m.pubStaged.Store(all)
	m.restaged = false
}

// moving reports whether rows of a table are committed and not moved yet, or prepared.
func (m *Machine) moving(table uint64) bool {
	for _, s := range m.staged { // any order: one is enough
		if _, has := s.tables[table]; has && s.state != stateOpen {
			return true
		}
	}
	return false
}

// stagedPlan is the plan of a Stage, a Decide and a Move.
type stagedPlan struct {
	p     *sqlpart.Part
	s     *staged
	chain uint64 // of a Stage: the hash with this piece
}

// checkStaged judges a Stage, a Decide and a Move.
func (m *Machine) checkStaged(st *entry.Stamp, p *sqlpart.Part, body []byte) (any, *entry.Rejection, error) {
	s := m.staged[p.Tx]
	plan := &stagedPlan{p: p, s: s}
	if rej := m.checkVersions(p.Tables); rej != nil {
		return nil, rej, nil
	}
	switch {
	case p.Kind == sqlpart.Stage && p.First:
		if s != nil {
			return nil, reject(sqlpart.NotStaged, "transaction %d is staged, and begins anew", p.Tx), nil
		}
		plan.s = &staged{id: p.Tx, state: stateOpen, tables: map[uint64]uint64{}}
	case s == nil && p.Kind == sqlpart.Decide && p.Verdict == sqlpart.PrepareStaged: // it has written nothing
		s = &staged{id: p.Tx, state: stateOpen, tables: map[uint64]uint64{}}
		plan.s = s
	case s == nil:
		return nil, reject(sqlpart.NotStaged, "transaction %d is not staged", p.Tx), nil
	case p.Kind == sqlpart.Move:
		// What an entry has staged or moved is not in the store yet when the entry's next command is applied.
		if s.state != stateCommitted || s.at == st.Pos.Index {
			return nil, reject(sqlpart.NotStaged, "transaction %d is not committed, or by the same entry", p.Tx), nil
		}
		return plan, nil, nil
	case s.state == stateCommitted, s.state == statePrepared && (p.Kind != sqlpart.Decide || p.Verdict == sqlpart.PrepareStaged):
		return nil, reject(sqlpart.NotStaged, "transaction %d is committed or prepared", p.Tx), nil
	}
	if p.Kind == sqlpart.Stage {
		for i := range p.Tables {
			if version, has := plan.s.tables[p.Tables[i].Table]; has && version != p.Tables[i].Version {
				return nil, reject(sqlpart.StaleDefinition, "table %d was altered since transaction %d has staged rows of it", p.Tables[i].Table, p.Tx), nil
			}
		}
		plan.chain = Chain(plan.s.hash, body)
	} else if p.Verdict != sqlpart.DropStaged {
		if rej := m.checkPrepare(p); rej != nil {
			return nil, rej, nil
		}
		if p.Hash != s.hash {
			return nil, reject(sqlpart.NotStaged, "the pieces of transaction %d have hash %016x, and the leader's %016x", p.Tx, s.hash, p.Hash), nil
		}
		for _, id := range slices.Sorted(maps.Keys(s.tables)) {
			if t := m.tables[id]; t == nil || t.Version != s.tables[id] {
				return nil, reject(sqlpart.StaleDefinition, "table %d was altered since transaction %d has staged rows of it", id, p.Tx), nil
			}
		}
	}
	if m.verify {
		if err := m.expect(p); err != nil {
			return nil, nil, err
		}
	}
	return plan, nil, nil
}

// checkPrepare judges the name and the locks of a transaction that is prepared.
func (m *Machine) checkPrepare(p *sqlpart.Part) *entry.Rejection {
	if p.Verdict != sqlpart.PrepareStaged {
		return nil
	}
	for _, s := range m.staged { // any order: one is enough
		if s.state == statePrepared && string(s.name) == string(p.Name) {
			return reject(sqlpart.DuplicateName, "transaction %d is prepared under the same name", s.id)
		}
	}
	for i := range p.Locks {
		if m.tables[p.Locks[i].Table] == nil {
			return reject(sqlpart.StaleDefinition, "table %d was dropped", p.Locks[i].Table)
		}
	}
	for i := range p.Ranges {
		if m.tables[p.Ranges[i].Table] == nil {
			return reject(sqlpart.StaleDefinition, "table %d was dropped", p.Ranges[i].Table)
		}
	}
	return nil
}

// doStaged carries a Stage, a Decide or a Move out.
func (m *Machine) doStaged(st *entry.Stamp, plan *stagedPlan, b store.Batch, wanted bool) (any, error) {
	p, s := plan.p, plan.s
	s.at = st.Pos.Index
	switch {
	case p.Kind == sqlpart.Stage:
		m.restaged = m.restaged || p.First
		m.staged[s.id] = s
		s.hash = plan.chain
		for i := range p.Tables {
			if err := m.stage(b, s, &p.Tables[i]); err != nil {
				return nil, err
			}
		}
	case p.Kind == sqlpart.Move:
		done, err := m.move(st, b, s, p.Bytes)
		if err != nil || !wanted {
			return nil, err
		}
		return &sqlpart.Moved{Done: done}, nil
	case p.Verdict == sqlpart.DropStaged:
		m.forget(b, s)
		return nil, nil
	default:
		s.state, m.restaged = stateCommitted, true
		if p.Verdict == sqlpart.PrepareStaged {
			m.prepare(b, s, p)
		}
		for i := range p.Tables {
			if err := m.write(b, &p.Tables[i]); err != nil { // their next values
				return nil, err
			}
		}
	}
	b.Set(s.key(), s.append(nil))
	return nil, nil
}

// prepare keeps a transaction with its locks until it is decided.
func (m *Machine) prepare(b store.Batch, s *staged, p *sqlpart.Part) {
	s.state, s.name, s.ranges = statePrepared, slices.Clone(p.Name), cloneRanges(p.Ranges)
	m.staged[s.id] = s
	for i := range s.ranges {
		if id := s.ranges[i].Table; s.tables[id] == 0 {
			s.tables[id] = m.tables[id].Version
		}
	}
	for i := range p.Locks {
		l := &p.Locks[i]
		m.key = append(AppendPrefix(m.key[:0], l.Table, l.Index), l.Key...)
		m.piece = AppendLock(m.piece[:0], s.id, m.key)
		b.Set(m.piece, []byte{wire.Bit(l.Shared, 1)})
		if _, has := s.tables[l.Table]; !has {
			s.tables[l.Table] = m.tables[l.Table].Version
		}
	}
}

// cloneRanges copies ranges whose keys belong to somebody else.
func cloneRanges(all []sqlpart.Range) []sqlpart.Range {
	all = slices.Clone(all)
	for i := range all {
		all[i].From, all[i].To = bytes.Clone(all[i].From), bytes.Clone(all[i].To)
	}
	return all
}

// stage keeps what a transaction makes of some rows of one table.
func (m *Machine) stage(b store.Batch, s *staged, w *sqlpart.Writes) error {
	if _, has := s.tables[w.Table]; !has {
		s.tables[w.Table], m.restaged = w.Version, true
	}
	s.bytes += uint64(len(w.Ops))
	var op sqlpart.Op
	var err error
	for rest := w.Ops; len(rest) > 0; {
		if op, rest, err = sqlpart.NextOp(rest); err != nil {
			return err // Check has decoded it
		}
		m.key = append(AppendPrefix(m.key[:0], w.Table, op.Index), op.Key...)
		m.piece = AppendPiece(m.piece[:0], s.id, m.key)
		if op.Action == sqlpart.Retract {
			b.Delete(m.piece)
		} else {
			m.head = append(m.head[:0], byte(op.Action))
			b.SetJoined(m.piece, m.head, op.Value)
		}
		if m.verify {
			m.seen.wrote(m.piece, hashOf(op.Value, op.Action != sqlpart.Retract))
		}
	}
	return nil
}

// mostMoved bounds the rows and entries that one Move moves.
const mostMoved = 8192

// move brings about so many bytes of rows to their places, at least one row. It reports whether there was nothing left: then nothing of the
// transaction is staged any more. Rows that were moved stay staged until then: nobody can change them meanwhile, so they are twice the same.
func (m *Machine) move(st *entry.Stamp, b store.Batch, s *staged, most uint64) (done bool, err error) {
	lower, upper := piecesOf(s.id)
	it, err := m.st.NewIter(append(lower, s.cursor...), upper)
	if err != nil {
		return false, err
	}
	defer it.Close() // what went wrong is in Error
	head := binary.AppendUvarint(nil, st.Pos.Index)
	var bytes, overwrote uint64
	rows := 0
	for ok := it.First(); ok && rows < mostMoved && (rows == 0 || bytes < most); ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return false, err
		}
		action, body, err := Piece(v)
		if err != nil || len(it.Key()) <= PrefixBytes+PieceBytes {
			return false, fmt.Errorf("key %x: %w", it.Key(), errCorrupt)
		}
		m.key = AppendPieceRow(m.key[:0], it.Key())
		table := uint64(binary.BigEndian.Uint32(m.key[2:]))
		switch {
		case action == sqlpart.Delete:
			b.Delete(m.key)
		case HasHead(m.key):
			b.SetJoined(m.key, head, body)
		default:
			b.Set(m.key, body)
		}
		if m.verify {
			m.seen.wrote(m.key, hashOf(body, action != sqlpart.Delete))
		}
		if action != sqlpart.Insert {
			overwrote += uint64(len(m.key) + len(body))
		}
		if t := m.tables[table]; t != nil && HasHead(m.key) {
			m.count(t, action)
		}
		s.cursor = append(s.cursor[:0], it.Key()[2+PieceBytes:]...)
		bytes += uint64(len(m.key) + len(body))
		rows++
	}
	if err := it.Error(); err != nil {
		return false, err
	}
	if overwrote > 0 {
		b.Overwrote(int(min(overwrote, math.MaxInt32)))
	}
	if rows == 0 {
		m.forget(b, s)
		return true, nil
	}
	s.cursor = append(s.cursor, 0)
	b.Set(s.key(), s.append(nil))
	return false, nil
}

// count counts a row that was moved.
func (m *Machine) count(t *Table, action sqlpart.Action) {
	n := &t.live.numbers
	switch {
	case action == sqlpart.Insert:
		n.rows++
	case action == sqlpart.Delete && n.rows > 0:
		n.rows--
	default:
		return
	}
	m.touch(t)
}

// forget deletes all that is staged of a transaction.
func (m *Machine) forget(b store.Batch, s *staged) {
	lower, upper := piecesOf(s.id)
	b.DeleteRange(lower, upper)
	if len(s.name) > 0 {
		b.DeleteRange(boundsOf(spaceLock, s.id))
	}
	b.Delete(s.key())
	delete(m.staged, s.id)
	m.restaged = true
	if m.verify {
		m.seen.empty(lower, upper)
	}
}
