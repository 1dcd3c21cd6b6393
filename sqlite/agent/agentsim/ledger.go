package agentsim

import (
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/replica"
)

// commit is a state that a database had: the result of one transaction. The commits of all machines are a tree, because copies of a disk
// part.
type commit struct {
	number uint64
	parent *commit // nil: the database was made by it
	depth  int
	sum    replica.Checksum
	on     string // the machine
}

// ledger is what happened to the databases, as the world knows it and no agent does.
type ledger struct {
	w       *world
	commits map[replica.Checksum]*commit
	// acked is the last commit that a program was told is stored. Every other one that was told so is before it.
	acked *commit
	// files is the stored files, by name; also those that were removed.
	files map[string]*stored
	order []*stored // in the order of their arrival
}

// stored is a file of the replica.
type stored struct {
	file   replica.File
	header replica.Header
	at     *commit // its end; nil: a state that never existed
	linked bool    // of level 0: it was part of the chain when it arrived
	gone   bool
	came   time.Time // when it arrived
}

func newLedger(w *world) *ledger {
	return &ledger{w: w, commits: map[replica.Checksum]*commit{}, files: map[string]*stored{}}
}

// commit enters a transaction that m has made, over what its database was.
func (l *ledger) commit(m *machine, before *commit, sum replica.Checksum) *commit {
	c := &commit{number: uint64(len(l.commits) + 1), parent: before, sum: sum, on: m.name}
	if before != nil {
		c.depth = before.depth + 1
	}
	if l.commits[sum] != nil {
		panic("two states have one checksum")
	}
	l.commits[sum] = c
	l.w.rep.Commits++
	return c
}

// at is the commit that a database's files end with.
func (l *ledger) at(m *machine, n *inode) *commit {
	h := n.recover()
	if n.index != nil && len(n.index.holders) > 0 {
		h = n.index.Header
		if h.Frame == 0 {
			h.Pages = uint32(len(n.pages))
		}
	}
	if n.exclusive != nil {
		if h = n.exclusive.x.Header; h.Frame == 0 {
			h.Pages = uint32(len(n.pages))
		}
	}
	c := l.commits[sumOf(n.image(h))]
	if c == nil {
		l.w.fail(Model, "the files of %s are of no commit", m.name)
	}
	return c
}

// within reports whether a is b or before it.
func (a *commit) within(b *commit) bool {
	for b != nil && b.depth > a.depth {
		b = b.parent
	}
	return a == b
}

// raw is the replica as it is in the store at this moment.
func (l *ledger) raw() *replica.Replica {
	return replica.Simulated(l.w.bucket.mem, replica.Bucket, l.w.wall)
}

// ends are the files that are there and end with TXIDs up to one, the furthest last.
func (l *ledger) there() (all []*stored) {
	for _, s := range l.order {
		if !s.gone {
			all = append(all, s)
		}
	}
	return all
}

// groups are those of the chain, by TXID, also those that were removed.
func (l *ledger) groups() (all []*stored) {
	for _, s := range l.order {
		if s.file.Level == 0 && s.linked && !s.file.Fence {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *stored) int { return int(int64(a.file.Max) - int64(b.file.Max)) })
	return all
}
