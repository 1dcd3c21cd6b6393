package sim

import (
	"encoding/binary"

	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/raft"
	"github.com/holdfastdb/holdfast/core/store"
)

// Promises that hold at every moment, checked on the members themselves and not on the clients' answers. A vote that has left a machine
// stands, and a term has one leader. The state after an entry is the same on all members, with a time that never goes back along the log.

// promise is the last vote of a member that others can know of.
type promise struct{ term, vote uint64 }

// send looks at a frame that is about to leave h, and notes the vote in it.
func (p *promise) send(h *host, frame []byte) {
	if term, vote, ok := raft.Vote(frame); ok {
		p.give(h, term, vote)
		h.w.nemesis.voted(h)
	}
}

func (p *promise) give(h *host, term, vote uint64) {
	switch {
	case term < p.term: // delayed by a write
		return
	case term == p.term && vote != p.vote && !h.w.opt.Outside:
		h.w.fail(VoteTaken, "%s votes for %x in term %d, in which it voted for %x", h.name, vote, term, p.vote)
	}
	*p = promise{term, vote}
}

// kept checks that a member that has just started still knows its vote.
func (p *promise) kept(h *host) {
	if h.w.opt.Outside {
		return
	}
	term, vote, commit := h.n.Promises()
	h.logged = logged{term, vote, commit}
	if term < p.term || term == p.term && vote != p.vote {
		h.w.fail(VoteTaken, "%s starts with a vote for %x in term %d; it voted for %x in term %d before", h.name, vote, term, p.vote, p.term)
	}
}

// logged is a process's written term, vote and commit index.
type logged struct{ term, vote, commit uint64 }

// look checks that neither term, vote nor commit index went back since the last look.
func (l *logged) look(h *host) {
	term, vote, commit := h.n.Promises()
	was := *l
	*l = logged{term, vote, commit}
	if term < was.term || term == was.term && was.vote != 0 && vote != was.vote || commit < was.commit {
		h.w.fail(VoteTaken, "%s writes term %d, vote %x, commit index %d over term %d, vote %x, commit index %d", h.name, term, vote, commit,
			was.term, was.vote, was.commit)
	}
}

// leads notes that h takes itself for the leader of a term.
func (w *World) leads(h *host, term uint64) {
	if was := w.leaders[term]; was != nil && was != h && !w.opt.Outside {
		w.fail(TwoLeaders, "%s and %s both lead in term %d", was.name, h.name, term)
	}
	w.leaders[term] = h
}

// stateSeen is a member's state after an entry: its rolling hash and the stamps.
type stateSeen struct {
	index, hash  uint64
	tick, wallNs int64
}

// states knows the state after each entry, as the first member that applied it had it.
type states struct {
	at    map[uint64]stateSeen
	by    map[uint64]*host
	times int // how often a state was compared with another member's
}

// ledger is a member's store that compares the state in each commit with that of the other members.
type ledger struct {
	*store.Mem
	h *host
}

// Commit implements store.Store.
func (l *ledger) Commit(b store.Batch, applied uint64) error {
	err := l.Mem.Commit(b, applied)
	if err == nil {
		l.look()
	}
	return err
}

// Install implements store.Store.
func (l *ledger) Install(in store.Incoming) error {
	err := l.Mem.Install(in)
	if err == nil {
		l.look()
	}
	return err
}

func (l *ledger) look() {
	row, ok, err := l.Get(nil, machine.StateKey)
	if err != nil || !ok || len(row) != 33 {
		return // a cluster's first state has no hash yet
	}
	num := func(at int) uint64 { return binary.BigEndian.Uint64(row[at:]) }
	s := stateSeen{index: num(1), hash: num(9), tick: int64(num(17)), wallNs: int64(num(25))}
	h, w := l.h, l.h.w
	w.applied = max(w.applied, s.index)
	was := h.last
	h.last = s
	seen, ok := w.states.at[s.index]
	if !ok || w.opt.Outside {
		w.states.at[s.index], w.states.by[s.index] = s, h
	}
	if w.opt.Outside {
		return
	}
	if was.index < s.index && (s.tick < was.tick || s.wallNs < was.wallNs) {
		w.fail(TimeBack, "%s: after entry %d it is tick %d, %d ns; after entry %d it was tick %d, %d ns", h.name, s.index, s.tick, s.wallNs,
			was.index, was.tick, was.wallNs)
	}
	if !ok {
		return
	}
	w.states.times++
	if seen != s {
		w.fail(Diverged, "after entry %d the state is %+v on %s and %+v on %s", s.index, s, h.name, seen, w.states.by[s.index].name)
	}
}
