package node

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	mmember "github.com/holdfastdb/holdfast/core/machine/member"
	"github.com/holdfastdb/holdfast/core/raft"
	"github.com/holdfastdb/holdfast/core/store"
)

// Replay applies committed entries to a store without raft, as every member has applied them. It needs no directory, network or clock, and
// proposes nothing. The store is its caller's, which flushes and closes it. One goroutine at a time.
//
// Wherever an entry has the state hash of the leader that wrote it, the state is held against that. A wrong effect of an entry is therefore
// found at the next hash. The error names the entries between that hash and the last right one: most often one entry. Some data no hash
// depends on: a command's proposer, and an entry's time until a row is written that has it. Only the checksums of the entries' source
// protect those.
type Replay struct {
	cfg     Config
	store   store.Store
	applier *machine.Applier
	members *mmember.Machine
	conf    raft.Conf

	index, term uint64 // of the last entry applied; term 0: it came with the store
	agreed      uint64 // the state was the leader's after this entry
	level       uint16
	failed      error // the first error: the machines' memory is of no use any more
}

// NewReplay begins with the state in st, which is that of a snapshot or the first one of a cluster (FirstRows), and which it trusts. Of cfg
// only Machines and Lanes count; the machines must be new, and all those that the entries have parts for.
func NewReplay(cfg Config, st store.Store) (*Replay, error) {
	r := &Replay{cfg: cfg, store: st, members: mmember.New(), index: st.Applied(), agreed: st.Applied()}
	if r.index == 0 {
		return nil, errors.New("replay: the store is empty: a log begins with a first state")
	}
	r.applier = cfg.newApplier(st, mident.New(), r.members)
	err := r.applier.Load()
	if err == nil {
		r.conf, err = readConf(st)
	}
	if r.level = r.members.Level(); err == nil {
		err = cfg.follows(r.level)
	}
	if err != nil {
		return nil, fmt.Errorf("replay from index %d: %w", r.index, err)
	}
	return r, nil
}

// Index is the last index applied.
func (r *Replay) Index() uint64 { return r.index }

// StateHash is the rolling state hash there.
func (r *Replay) StateHash() uint64 {
	_, hash := r.applier.Hash()
	return hash
}

// WallNs is the time along the log there: ns since 1970, 0 if no entry had one yet.
func (r *Replay) WallNs() int64 { return r.applier.Stamp().WallNs }

// WallOf returns the wall time that the leader stamped on an entry, in ns since 1970. 0: it has none, like a leader's
// first entry. Time along the log does not go back: an entry stamped earlier than its predecessor counts with the
// predecessor's time.
func WallOf(e *Entry) (int64, error) {
	data := e.Data
	change, err := raft.DecodeChange(e.Type, e.Data)
	if err != nil {
		return 0, err
	}
	if change != nil {
		data = change.Context
	}
	if len(data) == 0 {
		return 0, nil
	}
	h, _, err := entry.DecodeHeader(data)
	return h.WallNs, err
}

// Content returns the content of the state at Index. Errors: ctx's, or a failed read.
func (r *Replay) Content(ctx context.Context) (Content, error) {
	v := r.store.NewView()
	defer v.Close()
	return ContentOf(ctx, r.cfg, v)
}

// Apply applies entries, which follow Index without a gap. It keeps nothing of them. An *EntryError names the entries
// that differ from the leader's, or the entry that the store did not take. Nothing more is applied after it.
func (r *Replay) Apply(entries []Entry) error {
	for i := range entries {
		if r.failed == nil {
			r.failed = r.apply(&entries[i])
		}
		if r.failed != nil {
			return r.failed
		}
	}
	return nil
}

// Compare holds the state against the leader's rolling state hash after Index (Node.StateHash). The error is an *EntryError.
func (r *Replay) Compare(hash uint64) error {
	if here := r.StateHash(); r.failed == nil && here != hash {
		r.failed = &EntryError{First: min(r.agreed+1, r.index), Last: r.index, Err: fmt.Errorf(
			"%w: after index %d the state hash is %016x here and %016x there", machine.ErrDiverged, r.index, here, hash)}
	}
	if r.failed == nil {
		r.agreed = r.index
	}
	return r.failed
}

// apply is what Node.apply does for one entry, without the waiters.
func (r *Replay) apply(e *Entry) (err error) {
	at := EntryError{First: e.Index, Last: e.Index}
	defer func() {
		if p := recover(); p != nil { // of a machine, over what no member would have proposed
			err = fmt.Errorf("broken invariant: %v\n%s", p, debug.Stack())
		}
		if at.Err = err; err != nil {
			err = &at
		}
	}()
	switch {
	case e.Index != r.index+1:
		at.First, at.Last = r.index+1, r.index+1
		return fmt.Errorf("entry %d@%d stands in its place", e.Index, e.Term)
	case e.Term < r.term:
		at.First = r.index // one of the two is wrong
		return fmt.Errorf("term %d after term %d", e.Term, r.term)
	}
	change, err := raft.DecodeChange(e.Type, e.Data)
	if err != nil {
		return err
	}
	data := e.Data
	if change != nil {
		data = change.Context
	}
	stamp, err := r.stampOf(data)
	if err != nil {
		return err
	}
	var extra func(store.Batch) error
	if change != nil {
		extra = func(b store.Batch) (err error) {
			if r.members.TakeAccepted() {
				r.conf, err = r.conf.Next(change)
			}
			b.Set(confKey, r.conf.Encode())
			return err
		}
	}
	if err := r.applier.ApplyWith(e.Index, e.Term, data, extra, nil, nil); err != nil {
		if errors.Is(err, machine.ErrDiverged) && stamp > r.agreed {
			at.First, at.Last, at.By = r.agreed+1, stamp, e.Index
		}
		return err
	}
	r.index, r.term = e.Index, e.Term
	if _, compared := r.applier.HashAt(stamp); compared {
		r.agreed = max(r.agreed, stamp)
	}
	if level := r.members.Level(); level != r.level {
		r.level = level
		return r.cfg.follows(level)
	}
	return nil
}

// stampOf reads up to which index the leader knew the state when it wrote this entry, 0 if it does not say.
func (r *Replay) stampOf(data []byte) (index uint64, err error) {
	if len(data) == 0 {
		return 0, nil
	}
	h, _, err := entry.DecodeHeader(data)
	if err == nil && h.HashIndex > r.index {
		err = fmt.Errorf("it has the state hash after entry %d, which does not stand before it", h.HashIndex)
	}
	return h.HashIndex, err
}

// EntryError names entries that are not as the leader had them: First to Last, most often the same one. If By is not 0,
// the state hash in that later entry is wrong instead.
type EntryError struct {
	First, Last, By uint64
	Err             error
}

// Error implements error.
func (e *EntryError) Error() string {
	what := fmt.Sprintf("entry %d", e.First)
	if e.First != e.Last {
		what = fmt.Sprintf("one of the entries %d to %d", e.First, e.Last)
	}
	if e.By != 0 {
		what += fmt.Sprintf(", or the state hash in entry %d", e.By)
	}
	return what + ": " + e.Err.Error()
}

// Has reports whether the error names the entry at index.
func (e *EntryError) Has(index uint64) bool {
	return e.First <= index && index <= e.Last || e.By != 0 && e.By == index
}

// Unwrap returns what is wrong.
func (e *EntryError) Unwrap() error { return e.Err }
