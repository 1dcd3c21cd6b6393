// Package machine is the deterministic machine behind the sql door: a catalogue of databases and tables, their rows and the entries of their
// indexes. Rows, keys and definitions are bytes that the door has encoded: the machine knows no SQL, no type and no user.
//
// Applying a commit reads no row. Locks and the term are the concurrency control (doors/sql/txn): the leader of a term holds every lock, the
// applier drops commands of other terms, and a new leader has applied everything before it grants a lock. A commit is rejected only by the
// catalogue, which every member has whole in memory. Rejecting by a cache of rows was rejected: caches differ between members.
//
// A transaction too large for one command is staged in pieces, which no reader sees, and committed by one small command. From then on readers lay what
// is staged over the rows, until commands of the leader have moved it to its places piece by piece (docs/adr/0030-large-transactions.md).
//
// It is not the place for locks, for running transactions or for anything that ends with a term.
package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/store"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
)

// Machine is the table machine. Check, Do, Finish, Publish and Load belong to the apply goroutine. Catalogue and all that it leads to may be
// called from anywhere.
type Machine struct {
	verify bool

	// Apply goroutine only: what there is after everything that was done, published or not.
	st        store.Store
	counters  counters
	bytes     int64 // of definitions
	databases map[uint64]*Database
	tables    map[uint64]*Table
	touched   []*Table // whose numbers this entry has changed
	defined   bool     // this entry has changed the catalogue
	staged    map[uint64]*staged
	restaged  bool // this entry has changed what readers know of staged
	part      sqlpart.Part
	key, head []byte // scratch
	piece     []byte // scratch
	seen      *seen  // nil unless verify is set

	pub       atomic.Pointer[Catalogue]
	pubStaged atomic.Pointer[StagedSet]
}

// New returns a machine that is usable after Load.
func New() *Machine {
	m := &Machine{}
	m.pub.Store(&Catalogue{})
	m.pubStaged.Store(&StagedSet{})
	return m
}

// NewVerifying is New for the simulation. The machine reads every row that a commit writes or names as read, and stops the node with
// ErrUnexpected where the row is not the one that the transaction has seen.
func NewVerifying() *Machine {
	m := New()
	m.verify = true
	return m
}

// Spec is what others must know of this machine.
var Spec = machine.Spec{ID: sqlpart.Machine, Name: "table", Level: sqlpart.Level, LastLevel: sqlpart.RangesLevel, PartLevel: sqlpart.PartLevel, DescribePart: sqlpart.Describe, DescribeRow: DescribeRow,
	Census: func() machine.Census { return new(census) }}

// Spec implements machine.Machine.
func (m *Machine) Spec() *machine.Spec { return &Spec }

// Catalogue returns what there is at the applied index.
func (m *Machine) Catalogue() *Catalogue { return m.pub.Load() }

// Load implements machine.Machine. It reads the catalogue, and no row of a table.
func (m *Machine) Load(st store.Store, _ *machine.Gate) error {
	m.st, m.counters, m.bytes, m.touched, m.defined, m.restaged = st, counters{}, 0, nil, false, false
	m.databases, m.tables, m.staged = map[uint64]*Database{}, map[uint64]*Table{}, map[uint64]*staged{}
	row, ok, err := st.Get(nil, []byte{letter, spaceCounters})
	if err != nil {
		return err
	}
	if ok {
		if err := m.counters.decode(row); err != nil {
			return fmt.Errorf("counters of the catalogue: %w", err)
		}
	}
	err = scan(st, spaceDatabase, func(id uint64, value []byte) error {
		d := &Database{ID: id, tables: map[string]*Table{}}
		m.databases[id] = d
		err := d.decode(value)
		m.bytes += size(d.Name, d.Definition)
		return err
	})
	if err != nil {
		return err
	}
	err = scan(st, spaceTable, func(id uint64, value []byte) error {
		t := &Table{ID: id, live: &live{}}
		if err := t.decode(value); err != nil {
			return err
		}
		d := m.databases[t.Database]
		if d == nil || d.tables[t.Name] != nil {
			return errCorrupt
		}
		m.tables[id], d.tables[t.Name] = t, t
		m.bytes += size(t.Name, t.Definition)
		return nil
	})
	if err != nil {
		return err
	}
	err = scan(st, spaceNumbers, func(id uint64, value []byte) error {
		t := m.tables[id]
		if t == nil {
			return errCorrupt
		}
		err := t.live.numbers.decode(value)
		t.live.publish()
		return err
	})
	if err != nil {
		return err
	}
	err = scan(st, spaceStaged, func(id uint64, value []byte) error {
		s := &staged{id: id}
		m.staged[id] = s
		return s.decode(value)
	})
	if err != nil {
		return err
	}
	if m.verify {
		m.seen = newSeen()
	}
	m.publish(0)
	m.publishStaged()
	return nil
}

// publish makes the catalogue the one that readers see.
func (m *Machine) publish(index uint64) {
	c := &Catalogue{Version: m.counters.version, Index: index, databases: make(map[string]*Database, len(m.databases))}
	for _, d := range m.databases { // any order: a map is made of a map
		c.databases[d.Name] = d
	}
	m.pub.Store(c)
}

func reject(code entry.Code, format string, args ...any) *entry.Rejection {
	return &entry.Rejection{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Check implements machine.Machine.
func (m *Machine) Check(st *entry.Stamp, body []byte) (any, *entry.Rejection, error) {
	p := &m.part
	switch err := p.Decode(body); {
	case errors.Is(err, sqlpart.ErrKind), errors.Is(err, sqlpart.ErrFlags):
		return nil, nil, err
	case err != nil:
		return nil, reject(sqlpart.MalformedPart, "%v", err), nil
	}
	switch p.Kind {
	case sqlpart.Define:
		return m.checkDefine(p)
	case sqlpart.Stage, sqlpart.Decide, sqlpart.Move:
		return m.checkStaged(st, p, body)
	}
	if rej := m.checkVersions(p.Tables); rej != nil {
		return nil, rej, nil
	}
	if m.verify {
		if err := m.expect(p); err != nil {
			return nil, nil, err
		}
	}
	return p, nil, nil
}

// checkVersions judges writes by the definitions of their tables.
func (m *Machine) checkVersions(all []sqlpart.Writes) *entry.Rejection {
	for i := range all {
		w := &all[i]
		t := m.tables[w.Table]
		switch {
		case t == nil:
			return reject(sqlpart.StaleDefinition, "table %d was dropped", w.Table)
		case t.Version != w.Version:
			return reject(sqlpart.StaleDefinition, "table %s is at version %d, not %d", t.Name, t.Version, w.Version)
		case w.Rows < 0 && uint64(-w.Rows) > t.live.numbers.rows:
			return reject(sqlpart.MalformedPart, "table %s has %d rows, and loses %d", t.Name, t.live.numbers.rows, -w.Rows)
		}
	}
	return nil
}

// Readable implements machine.Machine.
func (m *Machine) Readable(body []byte) error {
	var p sqlpart.Part
	if err := p.Decode(body); errors.Is(err, sqlpart.ErrKind) || errors.Is(err, sqlpart.ErrFlags) {
		return err
	}
	return nil // malformed in another way: Check rejects it
}

// Do implements machine.Machine.
func (m *Machine) Do(st *entry.Stamp, plan any, b store.Batch, wanted bool) (any, error) {
	if d, ok := plan.(*draft); ok {
		d.write(b)
		if !wanted {
			return nil, nil
		}
		return &sqlpart.Defined{Version: d.counters.version, Created: d.created}, nil
	}
	if s, ok := plan.(*stagedPlan); ok {
		return m.doStaged(st, s, b, wanted)
	}
	p := plan.(*sqlpart.Part)
	m.head = binary.AppendUvarint(m.head[:0], st.Pos.Index)
	for i := range p.Tables {
		if err := m.write(b, &p.Tables[i]); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// write carries out the writes to one table.
func (m *Machine) write(b store.Batch, w *sqlpart.Writes) error {
	var op sqlpart.Op
	var err error
	for rest := w.Ops; len(rest) > 0; {
		if op, rest, err = sqlpart.NextOp(rest); err != nil {
			return err // Check has decoded it
		}
		m.key = append(AppendPrefix(m.key[:0], w.Table, op.Index), op.Key...)
		switch {
		case op.Action == sqlpart.Delete:
			b.Delete(m.key)
		case op.Index == 0:
			b.SetJoined(m.key, m.head, op.Value)
		default:
			b.Set(m.key, op.Value)
		}
		if m.verify {
			m.seen.wrote(m.key, hashOf(op.Value, op.Action != sqlpart.Delete))
		}
	}
	if w.Overwrote > 0 {
		b.Overwrote(int(min(w.Overwrote, math.MaxInt32)))
	}
	t := m.tables[w.Table]
	n := &t.live.numbers
	if w.Rows != 0 || w.NextAuto > n.auto || w.NextRow > n.row {
		n.rows += uint64(w.Rows)
		n.auto, n.row = max(n.auto, w.NextAuto), max(n.row, w.NextRow)
		m.touch(t)
	}
	return nil
}

func (m *Machine) touch(t *Table) {
	if !t.live.touched {
		t.live.touched = true
		m.touched = append(m.touched, t)
	}
}

// Finish implements machine.Finisher: the numbers of a table are written once per entry.
func (m *Machine) Finish(_ *entry.Stamp, b store.Batch) error {
	for _, t := range m.touched {
		if m.tables[t.ID] != nil { // else it was dropped in the same entry
			m.head = t.live.numbers.append(m.head[:0])
			b.Set(objectKey(spaceNumbers, t.ID), m.head)
		}
	}
	return nil
}

// Unfinished implements machine.Finisher: no work is carried from one entry to the next.
func (m *Machine) Unfinished() bool { return false }

// Publish implements machine.Machine.
func (m *Machine) Publish(st *entry.Stamp) {
	for i, t := range m.touched {
		t.live.publish()
		m.touched[i] = nil
	}
	m.touched = m.touched[:0]
	if m.defined {
		m.publish(st.Pos.Index)
		m.defined = false
	}
	if m.restaged {
		m.publishStaged()
	}
	if m.verify {
		m.seen = newSeen()
	}
}
