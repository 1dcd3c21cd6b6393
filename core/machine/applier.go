package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/store"
)

// StateKey holds the applier's own row (docs/formats/store.md). It has 1 byte of version, then big endian the index it was written at, the
// rolling state hash, the tick and the wall time. Like the applied index it belongs to no machine and travels in snapshots.
var StateKey = []byte("\x00state")

const (
	stateVersion = 1
	stateLen     = 33
)

// hashesKept is how far back a leader's hash stamp can lie and still be compared. The packer stamps the newest hash it has,
// so this only has to cover what one leader can have in flight.
const hashesKept = 4096

// ErrDiverged means that this member and the leader came to different states from the same log. Nothing here can tell who
// is right, so the node stops.
var ErrDiverged = errors.New("state differs from the leader's")

// Applier applies raft entries to a set of machines, one store batch per entry. It is owned by one goroutine, except Hash.
type Applier struct {
	st       store.Store
	machines []Machine // in the order given, which is the order of Finish and Publish
	byID     [256]Machine
	keepers  []Gatekeeper           // those of machines that are one
	holders  []Keeper               // likewise
	own      bool                   // the last value given to Own
	clients  func(*entry.Part) bool // fromClient, made once: it is handed over with every command
	specs    Specs
	gate     Gate // closed while an entry, or a snapshot, becomes visible

	stamp entry.Stamp // of the last command applied; WallNs and TickMs are those of the last entry
	cmd   entry.Command
	plans []any
	out   []delivery // of this entry, delivered after Publish
	row   [stateLen]byte
	ring  [hashesKept]point // ring[i%hashesKept] is the hash after entry i, if its index says so
	sum   xxhash.Digest

	written atomic.Uint64 // bytes of all batches since the start

	mu   sync.Mutex
	last point // guarded by mu: leaders read it to stamp entries
}

// point is the rolling state hash after one index.
type point struct{ index, hash uint64 }

// delivery is a result that a caller on this member waits for.
type delivery struct {
	origin, seq uint64
	result      *entry.Result
}

// NewApplier returns an applier over st; call Load before the first Apply. The machines write their once-per-entry rows (Finisher) in this
// order, so the order is part of the log's meaning. Members that apply in another order come to another state hash. A new machine goes to
// the end. Two machines with one letter are a programming error and panic.
func NewApplier(st store.Store, machines ...Machine) *Applier {
	a := &Applier{st: st, machines: machines, specs: SpecsOf(machines)}
	a.clients = a.fromClient
	for _, m := range machines {
		id := m.Spec().ID
		if a.byID[id] != nil {
			panic(fmt.Sprintf("machine: two machines have the letter %q", id))
		}
		a.byID[id] = m
		if g, ok := m.(Gatekeeper); ok {
			a.keepers = append(a.keepers, g)
		}
		if k, ok := m.(Keeper); ok {
			a.holders = append(a.holders, k)
		}
	}
	return a
}

// Load rebuilds everything in memory from the store: at start, and after a snapshot replaced the store's contents.
func (a *Applier) Load() error {
	row, ok, err := a.st.Get(a.row[:0], StateKey)
	if err != nil {
		return fmt.Errorf("load applier: %w", err)
	}
	// Without a row (nothing applied yet) there is no hash either, at any index that the store was set up with.
	last, stamp := point{}, entry.Stamp{}
	if ok {
		if last, stamp, err = decodeState(row); err != nil {
			return fmt.Errorf("load applier: %w", err)
		}
		if last.index != a.st.Applied() {
			return fmt.Errorf("load applier: state row is of index %d, the store of %d", last.index, a.st.Applied())
		}
	}
	a.stamp = stamp
	a.ring = [hashesKept]point{}
	a.remember(last)
	a.gate.Close()
	defer a.gate.Open()
	for _, m := range a.machines {
		if err := m.Load(a.st, &a.gate); err != nil {
			return fmt.Errorf("load machine %s: %w", m.Spec().Name, err)
		}
	}
	return nil
}

// Replace runs install, which exchanges the store's contents (for a received snapshot), and loads everything from it.
// Readers of the machines wait meanwhile, so that none sees new rows beside an old revision.
func (a *Applier) Replace(install func() error) error {
	a.gate.Close()
	// After an error too: the node is about to stop and waits for the requests that read.
	defer a.gate.Open()
	if err := install(); err != nil {
		return fmt.Errorf("replace store: %w", err)
	}
	return a.Load()
}

// Rest lets machines give up what they keep in memory to be faster. Between two entries.
func (a *Applier) Rest() {
	a.gate.Close()
	defer a.gate.Open()
	for _, m := range a.machines {
		if r, ok := m.(Rester); ok {
			r.Rest()
		}
	}
}

// Written counts the bytes of all batches since the start. Any goroutine.
func (a *Applier) Written() uint64 { return a.written.Load() }

// Applied returns an upper bound on the index that any reader has seen: it moves before an entry becomes visible. Any goroutine.
func (a *Applier) Applied() uint64 { return a.st.Applied() }

// Specs lists the Specs of the machines, in their order. Any goroutine.
func (a *Applier) Specs() Specs { return a.specs }

// View returns the rows of all machines as of one applied index, and that index. The caller closes it. Any goroutine; it waits while
// an entry becomes visible.
func (a *Applier) View() (v store.View, index uint64) {
	a.gate.RLock()
	defer a.gate.RUnlock()
	return a.st.NewView(), a.st.Applied()
}

// PartLevel is the cluster's level from which on a part may be proposed. Any goroutine.
func (a *Applier) PartLevel(p *entry.Part) uint16 {
	m := a.byID[p.Machine]
	if m == nil {
		return 0 // Applicable has more to say
	}
	spec := m.Spec()
	if spec.PartLevel != nil {
		return max(spec.Level, spec.PartLevel(p.Body))
	}
	return spec.Level
}

func (a *Applier) fromClient(p *entry.Part) bool {
	m := a.byID[p.Machine]
	if m == nil {
		return false
	}
	from := m.Spec().FromClient
	return from != nil && from(p.Body)
}

// Applicable returns why a command of these parts would stop every member that applies it, nil if it would not. It looks at their
// form alone: a command it has nothing against may still be rejected. Any goroutine.
func (a *Applier) Applicable(parts []entry.Part) error {
	if len(parts) > entry.MaxParts {
		return fmt.Errorf("a command with %d parts: %w", len(parts), entry.ErrParts)
	}
	for i := range parts {
		p := &parts[i]
		for j := range i {
			if parts[j].Machine == p.Machine {
				return fmt.Errorf("a command with two parts for machine %q: %w", byte(p.Machine), entry.ErrParts)
			}
		}
		m := a.byID[p.Machine]
		if m == nil {
			return fmt.Errorf("part for machine %q, which this build does not have", byte(p.Machine))
		}
		if err := m.Readable(p.Body); err != nil {
			return err
		}
	}
	return nil
}

// Stamp returns the tick and wall time of the last entry applied. A leader stamps no lower ones.
func (a *Applier) Stamp() entry.Stamp { return a.stamp }

// Unfinished reports whether a machine has work left that goes on with further entries. A leader with nothing else to log
// proposes empty ones until it is done; otherwise the work waits for the next command.
func (a *Applier) Unfinished() bool {
	for _, m := range a.machines {
		if f, ok := m.(Finisher); ok && f.Unfinished() {
			return true
		}
	}
	return false
}

// Hash returns the index last applied and the rolling state hash after it, for a leader to stamp on the next entry. It is
// safe for concurrent use.
func (a *Applier) Hash() (index, hash uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last.index, a.last.hash
}

// HashAt returns the rolling state hash after the entry at index. It is false if this member does not remember it: only the newest 4,096
// since the load are known. Apply goroutine only.
func (a *Applier) HashAt(index uint64) (hash uint64, ok bool) {
	p := a.ring[index%hashesKept]
	return p.hash, index != 0 && p.index == index
}

// Own reports to the applier whether the data of each entry that follows has its memory to itself and never changes.
func (a *Applier) Own(own bool) { a.own = own }

// Apply applies one raft entry. Commands of another term than the entry's are dropped without an answer (DECISIONS A2).
// done is called, after the state is visible to readers, for each command for which wanted says true; nil functions want
// nothing. Any error is fatal: the state in memory is then of no use.
func (a *Applier) Apply(index, term uint64, data []byte, wanted func(origin, seq uint64) bool,
	done func(origin, seq uint64, r *entry.Result)) error {
	return a.ApplyWith(index, term, data, nil, wanted, done)
}

// ApplyWith is Apply with writes of the caller in the same batch. The outcome of a raft decision in this entry, such as the voters, must
// become visible and durable together with the applied index. extra runs after the entry's commands; its writes must follow from the log
// alone, since members hash them.
func (a *Applier) ApplyWith(index, term uint64, data []byte, extra func(b store.Batch) error,
	wanted func(origin, seq uint64) bool, done func(origin, seq uint64, r *entry.Result)) error {
	st := &a.stamp
	st.Pos, st.Term = entry.Position{Index: index}, term
	b := a.st.NewBatch()
	if len(data) > 0 {
		if err := a.commands(st, data, b, wanted); err != nil {
			return err
		}
	}
	if extra != nil {
		if err := extra(b); err != nil {
			return fmt.Errorf("write beside entry %d: %w", index, err)
		}
	}
	for _, m := range a.machines {
		if f, ok := m.(Finisher); ok {
			if err := f.Finish(st, b); err != nil {
				return fmt.Errorf("finish entry %d in machine %s: %w", index, m.Spec().Name, err)
			}
		}
	}
	now := point{index: index, hash: a.fold(index, b.Repr())}
	b.Set(StateKey, a.encodeState(now))
	size := b.Len()

	a.gate.Close()
	// The commit point of the entry's effects: all of them, and the applied index, become visible at once.
	if err := a.st.Commit(b, index); err != nil {
		a.gate.Open() // a request that waited for ever would keep the node from stopping
		return fmt.Errorf("commit entry %d to the store: %w", index, err)
	}
	a.remember(now)
	a.written.Add(uint64(size))
	for _, m := range a.machines {
		m.Publish(st)
	}
	a.gate.Open()
	for i := range a.out {
		done(a.out[i].origin, a.out[i].seq, a.out[i].result)
		a.out[i].result = nil
	}
	a.out = a.out[:0]
	return nil
}

// commands applies each packed command by itself.
func (a *Applier) commands(st *entry.Stamp, data []byte, b store.Batch, wanted func(origin, seq uint64) bool) error {
	h, rest, err := entry.DecodeHeader(data)
	if err != nil {
		return fmt.Errorf("entry %d: %w", st.Pos.Index, err)
	}
	if err := a.compare(h); err != nil {
		return err
	}
	if a.own {
		for _, k := range a.holders {
			k.Keep(len(data))
		}
	}
	// Leaders' clocks differ; time along the log never goes back.
	st.TickMs, st.WallNs = max(st.TickMs, h.TickMs), max(st.WallNs, h.WallNs)
	for ; len(rest) > 0; st.Pos.N++ {
		var body []byte
		if body, rest, err = entry.Next(rest); err != nil {
			return fmt.Errorf("entry %d: %w", st.Pos.Index, err)
		}
		if err := a.cmd.Decode(body); err != nil {
			return fmt.Errorf("command %s: %w", st.Pos, err)
		}
		if a.cmd.Term != st.Term {
			continue // decided under a leader that is gone; its origin proves it dead by the term alone
		}
		if err := a.command(st, b, wanted != nil && wanted(a.cmd.Origin, a.cmd.Seq)); err != nil {
			return fmt.Errorf("command %s: %w", st.Pos, err)
		}
	}
	return nil
}

// command judges all parts of a.cmd and then carries all of them out, or none. A machine has at most one part in a
// command, so no part can depend on another's effects.
func (a *Applier) command(st *entry.Stamp, b store.Batch, wanted bool) error {
	for _, g := range a.keepers {
		if rej := g.Admit(&a.cmd, a.clients); rej != nil {
			if wanted {
				a.deliver(&entry.Result{Pos: st.Pos, Term: st.Term, Rejection: rej})
			}
			return nil
		}
	}
	a.plans = a.plans[:0]
	for i := range a.cmd.Parts {
		p := &a.cmd.Parts[i]
		m := a.byID[p.Machine]
		if m == nil {
			return fmt.Errorf("part for machine %q, which this build does not have", byte(p.Machine))
		}
		plan, rej, err := m.Check(st, p.Body)
		if err != nil {
			return fmt.Errorf("check in machine %q: %w", byte(p.Machine), err)
		}
		if rej != nil {
			rej.Machine, rej.Part = p.Machine, i
			if wanted {
				a.deliver(&entry.Result{Pos: st.Pos, Term: st.Term, Rejection: rej})
			}
			return nil
		}
		a.plans = append(a.plans, plan)
	}
	var r *entry.Result
	if wanted {
		r = &entry.Result{Pos: st.Pos, Term: st.Term, Bodies: make([]entry.Body, len(a.cmd.Parts))}
		a.deliver(r)
	}
	for i := range a.cmd.Parts {
		p := &a.cmd.Parts[i]
		body, err := a.byID[p.Machine].Do(st, a.plans[i], b, wanted)
		if err != nil {
			return fmt.Errorf("do in machine %q: %w", byte(p.Machine), err)
		}
		if wanted {
			r.Bodies[i] = entry.Body{Machine: p.Machine, Value: body}
		}
	}
	return nil
}

func (a *Applier) deliver(r *entry.Result) {
	a.out = append(a.out, delivery{a.cmd.Origin, a.cmd.Seq, r})
}

// compare holds the leader's hash stamp against what this member had at that index. Indexes it has forgotten, or never
// applied itself because a snapshot skipped them, cannot be compared.
func (a *Applier) compare(h entry.Header) error {
	if hash, ok := a.HashAt(h.HashIndex); ok && hash != h.Hash {
		return fmt.Errorf("%w: after index %d the state hash is %016x here and %016x at the leader", ErrDiverged, h.HashIndex, hash, h.Hash)
	}
	return nil
}

// fold returns the state hash after an entry whose writes are repr. It chains, so that one hash vouches for the whole
// history of writes; the applier's own row, which holds it, is not part of repr.
func (a *Applier) fold(index uint64, repr []byte) uint64 {
	a.mu.Lock()
	prev := a.last.hash
	a.mu.Unlock()
	a.sum.ResetWithSeed(prev)
	_, _ = a.sum.Write(binary.BigEndian.AppendUint64(a.row[:0], index))
	_, _ = a.sum.Write(repr)
	return a.sum.Sum64()
}

func (a *Applier) remember(p point) {
	a.ring[p.index%hashesKept] = p
	a.mu.Lock()
	a.last = p
	a.mu.Unlock()
}

// DecodeState reads a row of StateKey: the rolling state hash, and tick and wall time. Of the stamp nothing else is set.
func DecodeState(row []byte) (hash uint64, stamp entry.Stamp, err error) {
	p, stamp, err := decodeState(row)
	return p.hash, stamp, err
}

func decodeState(row []byte) (p point, stamp entry.Stamp, err error) {
	if len(row) != stateLen || row[0] != stateVersion {
		return p, stamp, fmt.Errorf("state row %x is not of version %d", row, stateVersion)
	}
	p.index, p.hash = binary.BigEndian.Uint64(row[1:]), binary.BigEndian.Uint64(row[9:])
	stamp.TickMs, stamp.WallNs = int64(binary.BigEndian.Uint64(row[17:])), int64(binary.BigEndian.Uint64(row[25:]))
	return p, stamp, nil
}

func (a *Applier) encodeState(p point) []byte {
	row := append(a.row[:0], stateVersion)
	row = binary.BigEndian.AppendUint64(row, p.index)
	row = binary.BigEndian.AppendUint64(row, p.hash)
	row = binary.BigEndian.AppendUint64(row, uint64(a.stamp.TickMs))
	return binary.BigEndian.AppendUint64(row, uint64(a.stamp.WallNs))
}
