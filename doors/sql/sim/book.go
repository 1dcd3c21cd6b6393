// Package sim has SQL transactions in simulated runs: a program that imports it has the sql door in every second one of them (sim.Register), or in
// those that ask for it (sim.Options.Doors). The transactions are those of doors/sql/txn over the table machine, which verifies each commit.
//
// There is no SQL in it, no engine and no protocol. Its clients do by hand what an engine does with rows and entries of indexes.
package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/sim"
)

// book is everything about SQL transactions in one run: the clients, what they were told, and the checks of it.
type book struct {
	w          *sim.World
	r          *rand.Rand
	lockBytes  int64
	slow       int // one in so many pauses of a client is long
	verify     bool
	defect     txn.Break
	stage      int  // bytes from which on a transaction is staged; 0: as on a server, where it has to make room for locks
	piece      int  // bytes of a piece
	early      bool // an index is public before it is built
	lockOnly   bool // half of the transactions write nothing: what lets those commit wrongly is rare
	repeatable bool // seats are counted at REPEATABLE READ, which lets write skew happen
	unjudged   bool // a job is taken that was there before its row was locked
	orphans    bool // a child's writer does not lock the parent

	workers map[*sim.Member]*worker
	txs     []*transaction // in the order in which they began
	known   known
	longest [listCount][]byte // each list as it was seen last
	seen    []seen
	users   userBook
	lastRow uint64 // the largest number that a row of numbered was given
	lastJob int    // the largest number that a job was to have
	done    bool   // no more transactions begin
	kept    []*preparedOne
}

// worker is the transactions of one process of a member.
type worker struct {
	*txn.Worker
	process int
	open    int // transactions that have not ended
}

const (
	clientCount = 8
	// fewLocks is a bound of the locks of all transactions that is met now and then.
	fewLocks = 4 << 10
)

// lane is where the door's commands wait before the log.
const lane node.Lane = 3

// The defects of package txn that a run may have (sim.Options.Defect).
const (
	NoFence            = "commits in any term"
	ReleaseBeforeApply = "locks released before apply"
	ViewBeforeLock     = "view taken before the lock"
	NoConfirm          = "lock-only commit unconfirmed"
	StagedUnlocked     = "staged transaction not locked by the next leader"
	StatusFirst        = "committed before the last piece"
	PiecesStay         = "what was taken back stays in the log"
	NoMerge            = "rows on the move not merged"
	NoRanges           = "ranges are not locked"
	RangesPassStaged   = "ranges do not wait for staged rows"
	PublicEarly        = "index public before it is built"
	Repeatable         = "counted at REPEATABLE READ"
	PlaceFirst         = "place of a build noted before its piece"
	Unjudged           = "row not judged again behind its lock"
	Orphans            = "parent not locked by its child's writer"
)

var defects = map[string]txn.Break{
	"":                 {},
	NoFence:            {NoFence: true},
	ReleaseBeforeApply: {ReleaseBeforeApply: true},
	ViewBeforeLock:     {ViewBeforeLock: true},
	NoConfirm:          {NoConfirm: true},
	StagedUnlocked:     {StagedUnlocked: true},
	StatusFirst:        {StatusFirst: true},
	PiecesStay:         {PiecesStay: true},
	NoMerge:            {NoMerge: true},
	NoRanges:           {NoRanges: true},
	RangesPassStaged:   {RangesPassStaged: true},
	PlaceFirst:         {PlaceFirst: true},
}

// begin draws what a run has of transactions; nil: none. A run with chosen faults has none unless it asks for other doors, so that its seeds go on
// meaning the same.
func begin(opt *sim.Options) *book {
	b := &book{r: rand.New(rand.NewPCG(opt.Seed, 9)), lockBytes: 1 << 20, verify: !opt.Outside, defect: defects[opt.Defect], lockOnly: opt.Defect == NoConfirm, repeatable: opt.Defect == Repeatable, early: opt.Defect == PublicEarly,
		unjudged: opt.Defect == Unjudged, orphans: opt.Defect == Orphans,
		workers: map[*sim.Member]*worker{}, users: userBook{all: map[userKey]*user{}}}
	if !opt.Doors && (opt.Faults != nil || b.r.IntN(2) != 0) {
		return nil
	}
	b.slow = []int{6, 30, 200}[b.r.IntN(3)]
	if b.r.IntN(4) == 0 {
		b.lockBytes = fewLocks
	}
	large := rand.New(rand.NewPCG(opt.Seed, 36))
	b.stage, b.piece = []int{0, 100, 300, 300}[large.IntN(4)], []int{40, 150, 400}[large.IntN(3)]
	return b
}

func init() {
	sim.Register(func(opt *sim.Options) *sim.Part {
		b := begin(opt)
		if b == nil {
			return nil
		}
		return &sim.Part{
			Machine:  b.machine,
			Lanes:    []node.LaneSpec{{Number: lane, Name: "sql", Level: sqlpart.Level}},
			Work:     b.work,
			Workload: b,
		}
	})
}

func (b *book) machine() machine.Machine {
	if b.verify {
		return sqlmachine.NewVerifying()
	}
	return sqlmachine.New()
}

// work runs the transactions of one process.
func (b *book) work(h *sim.Member) {
	n := h.Node()
	view := func() (store.View, error) {
		v, err := n.View()
		if err != nil {
			return nil, err
		}
		return v, nil
	}
	w := &worker{process: h.Process(), Worker: txn.New(n, txn.Options{View: view, Newest: n.Get, Snapshot: n.View, Staged: machineOf(h).Staged, Lane: lane,
		LockBytes: b.lockBytes, StageBytes: b.stage, PieceBytes: b.piece, Verify: b.verify, Break: b.defect})}
	b.workers[h] = w
	w.Run()
}

// machineOf is the table machine of a member's process.
func machineOf(h *sim.Member) *sqlmachine.Machine {
	return h.Machine(sqlpart.Machine).(*sqlmachine.Machine)
}

// The promises that a run with transactions checks. In the words of Adya and of Elle: no dirty write and no lost update (CommitLost, MoneyLost, ListBroken), no
// read skew (MoneyLost, HalfSeen), no long fork and no cycle of list-append (ListBroken: an order explains all that was read and appended), no write skew and no
// phantom at SERIALIZABLE (WriteSkew, Orphan).
const (
	CommitLost = "commit lost"            // an acknowledged transaction is not there, one without an effect is, or one is there in part
	MoneyLost  = "money lost"             // what was read of the accounts has another sum
	ListBroken = "list broken"            // two lists that were read are not one the beginning of the other, or no order explains all of them
	StaleRead  = "stale read"             // a transaction did not see what was acknowledged before
	TwoOfAKey  = "two of a unique key"    // two rows have one unique key, or an index and its rows differ
	HalfSeen   = "half of a transaction"  // some of its rows were read with others from before it
	WriteSkew  = "write skew"             // transactions of which each has kept a promise have broken it together
	GivenTwice = "value was given twice"  // two transactions were given one value of AUTO_INCREMENT, or one row's number
	JobTwice   = "job was given twice"    // two transactions have taken one row of a queue
	Orphan     = "child without a parent" // a row refers to one that is not there
)

// The figures of a run (sim.World.Count).
const (
	Commits      = "transactions committed"
	Locked       = "transactions that only locked"
	RolledBack   = "transactions without an effect"
	Open         = "transactions with an open outcome"
	Deadlocks    = "deadlocks"
	TakenBack    = "statements taken back"
	TermsOver    = "transactions that ended with their term"
	Snapshots    = "snapshots read"
	Given        = "values of AUTO_INCREMENT given"
	Numbered     = "numbers given to rows"
	Duplicates   = "duplicates of a unique key refused"
	Altered      = "definitions changed"
	Turns        = "wheels turned"
	Wheels       = "wheels read"
	Pieces       = "statements that were taken back out of the log"
	Staged       = "members' moments with staged rows of several transactions"
	IndexesRead  = "indexes read that come and go"
	IndexesBuilt = "indexes built beside writers"
	Ranges       = "ranges locked"
	Prepared     = "transactions decided that were prepared"
	PreparedAt   = "of these by another leader"
	IndexesGoOn  = "of these begun by another transaction"
	JobsTaken    = "jobs taken"
	JobsSkipped  = "jobs skipped, which another transaction had locked"
	Children     = "children born"
	Cascades     = "children removed with their parents"
)

// Begin implements sim.Workload.
func (b *book) Begin(w *sim.World) {
	b.w = w
	for i := range clientCount {
		c := &client{b: b, id: i, pause: sim.Between(b.r, 2*time.Millisecond, 60*time.Millisecond)}
		w.After(sim.Between(b.r, 0, 200*time.Millisecond), c.next)
	}
}

// Turn implements sim.Workload: there is nothing that a member shows by itself.
func (b *book) Turn(h *sim.Member, changed bool) {
	if changed && len(machineOf(h).Staged().All) > 1 {
		b.w.Count(Staged, 1)
	}
}

// End implements sim.Workload.
func (b *book) End() { b.done = true }

// Settled implements sim.Workload: every transaction ends.
func (b *book) Settled(h *sim.Member) string {
	if w := b.workers[h]; w != nil && w.process == h.Process() && w.open > 0 {
		return fmt.Sprintf("%s has %d transactions that have not ended", h.Name(), w.open)
	}
	if n := len(b.kept); n > 0 {
		return fmt.Sprintf("%d transactions are prepared, and not decided", n)
	}
	if n := len(machineOf(h).Staged().All); n > 0 {
		return fmt.Sprintf("%s has %d transactions that are staged", h.Name(), n)
	}
	if w := b.workers[h]; w != nil && w.HeldLocks() > 0 {
		return fmt.Sprintf("%s has locks of %d bytes", h.Name(), w.HeldLocks())
	}
	return ""
}
