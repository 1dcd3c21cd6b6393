// Package machine is the deterministic machine behind transparency logs: many append-only logs in one server. Each is a Merkle tree with an
// origin, a public key and options that are fixed when it begins. It gives every entry an index, and keeps entries in bundles and hashes in
// tiles (package tiles). It holds the newest signed checkpoint of each log, the same bytes on every member.
//
// It never signs and knows no private key. Checkpoints come as commands of a worker (doors/tlog/checkpoint), and one whose root is not this
// member's own stops the node.
//
// It is not the door either: it knows no HTTP.
//
// Only full bundles and tiles are rows for good. The right edge is the entries after the last bundle, and the hashes after the last tile of
// each level. It lies in small rows that go when a bundle or tile is full, and in memory, which serves partial tiles. docs/formats/store.md
// has the rows.
package machine

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/store"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// Machine is the tree machine. Check, Do, Finish, Publish and Load belong to the apply goroutine. Logs, Find,
// Demand and everything that Log exports may be called from anywhere.
type Machine struct {
	// Apply goroutine only.
	st      store.Store
	room    int64  // for entries on the right edges of all logs, in bytes
	logs    []*Log // the number of a log is its place here, from 1
	touched []*Log // by this entry
	created int    // logs of this entry, at the end of logs
	part    tlogpart.Part
	plan    plan
	row     []byte // scratch

	used atomic.Int64 // bytes of entries on right edges; written by the apply goroutine
	// Published by the apply goroutine.
	pub    atomic.Pointer[[]*Log] // never changed once it is here
	mu     sync.Mutex
	demand chan struct{} // guarded by mu: closed when there is something to sign; nil without waiting callers
}

// defaultRoom is for what New keeps of right edges.
const defaultRoom = 32 << 20

// New returns a machine that is usable after Load.
func New() *Machine { return NewWithin(defaultRoom) }

// NewWithin is New with so many bytes for the entries on the right edges of all logs. With less more of them are read from the store.
// LogBytes is a log's other memory.
func NewWithin(bytes int64) *Machine {
	m := &Machine{room: bytes}
	m.pub.Store(new([]*Log))
	return m
}

// EdgeBytes is what entries on the right edges of all logs take. Any goroutine.
func (m *Machine) EdgeBytes() int64 { return m.used.Load() }

// Spec is what others must know of this machine.
var Spec = machine.Spec{ID: entry.MachineTlog, Name: "tree", LastLevel: tlogpart.MoreLevel, PartLevel: tlogpart.PartLevel, DescribePart: tlogpart.Describe, DescribeRow: DescribeRow, Restore: restoreRow,
	Census: func() machine.Census { return new(census) }}

// Spec implements machine.Machine.
func (m *Machine) Spec() *machine.Spec { return &Spec }

// Logs lists the logs in the order in which they began. The slice is shared: do not change it.
func (m *Machine) Logs() []*Log { return *m.pub.Load() }

// Find returns the log of a name, or nil.
func (m *Machine) Find(name string) *Log {
	for _, l := range m.Logs() {
		if l.Spec.Name == name {
			return l
		}
	}
	return nil
}

// Demand returns a channel that is closed when a log needs a checkpoint. The log has grown beyond its own, a client began to wait for one,
// or the log began. Take it before looking at the logs.
func (m *Machine) Demand() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.demand == nil {
		m.demand = make(chan struct{})
	}
	return m.demand
}

// plan is what Check found out for Do.
type plan struct {
	part *tlogpart.Part
	log  *Log // of Append and Resume
	n    int  // entries of an Append
}

// ErrDiverged: a signed checkpoint has another root than this member's own tree of that size. One of the two is damaged and
// nothing here can tell which, so the node stops.
var ErrDiverged = errors.New("signed checkpoint is not of this member's tree")

func reject(code entry.Code, format string, args ...any) *entry.Rejection {
	return &entry.Rejection{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Check implements machine.Machine.
func (m *Machine) Check(_ *entry.Stamp, body []byte) (any, *entry.Rejection, error) {
	p := &m.part
	switch err := p.Decode(body); {
	case errors.Is(err, tlogpart.ErrKind), errors.Is(err, tlogpart.ErrFlags):
		return nil, nil, err
	case err != nil:
		return nil, reject(tlogpart.MalformedPart, "%v", err), nil
	}
	m.plan = plan{part: p}
	switch p.Kind {
	case tlogpart.Append:
		return m.checkAppend(p)
	case tlogpart.Create:
		return m.checkCreate(p, tlogpart.MaxLogs)
	case tlogpart.CreateMore:
		return m.checkCreate(p, tlogpart.MostLogs)
	case tlogpart.Checkpoint:
		return m.checkCheckpoints(p)
	default: // Resume
		return m.checkResume(p)
	}
}

// Readable implements machine.Machine.
func (m *Machine) Readable(body []byte) error {
	var p tlogpart.Part
	if err := p.Decode(body); errors.Is(err, tlogpart.ErrKind) || errors.Is(err, tlogpart.ErrFlags) {
		return err
	}
	return nil // malformed in another way: Check rejects it
}

func (m *Machine) find(number uint64) *Log {
	if number == 0 || number > uint64(len(m.logs)) {
		return nil
	}
	return m.logs[number-1]
}

func (m *Machine) checkAppend(p *tlogpart.Part) (any, *entry.Rejection, error) {
	l := m.find(p.Log)
	switch {
	case l == nil:
		return nil, reject(tlogpart.UnknownLog, "log %d", p.Log), nil
	case l.w.held:
		return nil, reject(tlogpart.LogHeld, "log %s was restored and not resumed", l.Spec.Name), nil
	}
	n := 0
	for rest := p.Entries; len(rest) > 0; n++ {
		var err error
		if _, rest, err = tiles.NextEntry(rest); err != nil || n == tlogpart.MaxEntries {
			return nil, reject(tlogpart.MalformedPart, "entry %d of the batch: %v", n, err), nil
		}
	}
	switch {
	case n == 0:
		return nil, reject(tlogpart.MalformedPart, "no entries"), nil
	case l.w.f.Size() > tiles.MaxSize-uint64(n):
		return nil, reject(tlogpart.LogFull, "log %s is full", l.Spec.Name), nil
	}
	m.plan.log, m.plan.n = l, n
	return &m.plan, nil, nil
}

func (m *Machine) checkCreate(p *tlogpart.Part, most int) (any, *entry.Rejection, error) {
	if !p.Spec.Key.Usable() || p.Spec.Key.Alg != tiles.Ed25519 {
		return nil, reject(tlogpart.MalformedPart, "the key is not Ed25519"), nil
	}
	if len(m.logs) >= most {
		return nil, reject(tlogpart.TooManyLogs, "%d logs are the most", most), nil
	}
	for _, l := range m.logs {
		// Two logs under one origin would be two histories of one log to everybody else.
		if l.Spec.Name == p.Spec.Name || l.Spec.Key.Name == p.Spec.Key.Name {
			return nil, reject(tlogpart.LogExists, "log %s has origin %s", l.Spec.Name, l.Spec.Key.Name), nil
		}
	}
	return &m.plan, nil, nil
}

func (m *Machine) checkCheckpoints(p *tlogpart.Part) (any, *entry.Rejection, error) {
	for i := range p.Checkpoints {
		c := &p.Checkpoints[i]
		l := m.find(c.Log)
		if l == nil {
			return nil, reject(tlogpart.UnknownLog, "log %d", c.Log), nil
		}
		for j := range i {
			if p.Checkpoints[j].Log == c.Log {
				return nil, reject(tlogpart.MalformedPart, "two checkpoints of log %d", c.Log), nil
			}
		}
		if l.w.held {
			return nil, reject(tlogpart.LogHeld, "log %s was restored and not resumed", l.Spec.Name), nil
		}
		if newest := l.w.newest(l); newest != nil && c.Size <= newest.Size {
			return nil, reject(tlogpart.StaleCheckpoint, "log %s has one of size %d", l.Spec.Name, newest.Size), nil
		}
		own, err := l.rootAt(c.Size)
		if err != nil {
			return nil, nil, fmt.Errorf("root of log %s at size %d: %w", l.Spec.Name, c.Size, err)
		}
		if own != c.Root {
			return nil, nil, fmt.Errorf("%w: log %s at size %d has root %s here and %s in the checkpoint", ErrDiverged, l.Spec.Name, c.Size, own, c.Root)
		}
		// A note that does not verify is a fault of the signer. No member serves it.
		cp, _, err := tiles.OpenCheckpoint(c.Note, &l.Spec.Key)
		if err != nil || cp.Size != c.Size || cp.Root != c.Root {
			return nil, reject(tlogpart.BadSignature, "checkpoint of log %s at size %d: %v", l.Spec.Name, c.Size, err), nil
		}
	}
	return &m.plan, nil, nil
}

func (m *Machine) checkResume(p *tlogpart.Part) (any, *entry.Rejection, error) {
	l := m.find(p.Log)
	switch {
	case l == nil:
		return nil, reject(tlogpart.UnknownLog, "log %d", p.Log), nil
	case !l.w.held:
		return nil, reject(tlogpart.NotHeld, "log %s is not held", l.Spec.Name), nil
	case p.Size > l.w.base:
		return nil, reject(tlogpart.NotPrefix, "log %s has %d entries, the published checkpoint %d", l.Spec.Name, l.w.base, p.Size), nil
	}
	own, err := l.rootAt(p.Size)
	if err != nil {
		return nil, nil, fmt.Errorf("root of log %s at size %d: %w", l.Spec.Name, p.Size, err)
	}
	if own != p.Root {
		return nil, reject(tlogpart.NotPrefix, "log %s at size %d has root %s, the published checkpoint %s", l.Spec.Name, p.Size, own, p.Root), nil
	}
	m.plan.log = l
	return &m.plan, nil, nil
}

// Do implements machine.Machine.
func (m *Machine) Do(_ *entry.Stamp, pl any, b store.Batch, wanted bool) (any, error) {
	p := pl.(*plan)
	switch p.part.Kind {
	case tlogpart.Append:
		m.touch(p.log)
		return m.append(b, p.log, p.part, p.n, wanted)
	case tlogpart.Create, tlogpart.CreateMore:
		l := newLog(m, uint64(len(m.logs)+1), p.part.Spec)
		m.logs = append(m.logs, l)
		m.created++
		m.touch(l)
		m.putLog(b, l)
		return l.Number, nil
	case tlogpart.Checkpoint:
		for i := range p.part.Checkpoints {
			c := p.part.Checkpoints[i]
			l := m.find(c.Log)
			m.touch(l)
			c.Note = append([]byte(nil), c.Note...)
			l.w.signed = &Checkpoint{Size: c.Size, Root: c.Root, Note: c.Note}
			m.row = tlogpart.AppendSigned(m.row[:0], &c)
			b.Set(l.key(spaceCheckpoint), m.row)
		}
		return nil, nil
	default: // Resume
		m.touch(p.log)
		p.log.w.held = false
		m.putLog(b, p.log)
		return nil, nil
	}
}

func (m *Machine) touch(l *Log) {
	if !l.w.touched {
		l.w.touched = true
		m.touched = append(m.touched, l)
	}
}

func (m *Machine) putLog(b store.Batch, l *Log) {
	m.row = appendLogRow(m.row[:0], l.w.held, &l.Spec)
	b.Set(l.key(spaceLog), m.row)
}

// Finish implements machine.Finisher: the entry's additions to a log's right edge are written once, and so is its frontier.
func (m *Machine) Finish(_ *entry.Stamp, b store.Batch) error {
	for _, l := range m.touched {
		l.w.finish(b, l, &m.row)
	}
	return nil
}

// Unfinished implements machine.Finisher: no work is carried from one entry to the next.
func (m *Machine) Unfinished() bool { return false }

// Publish implements machine.Machine. Readers take no gate. The published state is replaced as a whole; the rows it refers to are in the
// store before it and never change.
func (m *Machine) Publish(*entry.Stamp) {
	if len(m.touched) == 0 {
		return
	}
	demand := false
	if m.created > 0 {
		logs := append([]*Log(nil), m.logs...)
		m.pub.Store(&logs)
		m.created, demand = 0, true
	}
	for i, l := range m.touched {
		demand = l.publish() || demand
		m.touched[i] = nil
	}
	m.touched = m.touched[:0]
	if demand {
		m.mu.Lock()
		if m.demand != nil {
			close(m.demand)
			m.demand = nil
		}
		m.mu.Unlock()
	}
}
