package txn

import (
	"cmp"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/core/worker"
	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
)

var (
	// ErrNotLeader: this member does not lead, or does not know yet that it does. Another member takes transactions.
	ErrNotLeader = errors.New("this member does not lead")
	// ErrTermOver: the term in which the transaction began is over. It had no effect, and can be run again on the member that leads.
	ErrTermOver = errors.New("the transaction's term is over, and it had no effect")
	// ErrUnknown: the member stops, and whether the commit takes effect is open.
	ErrUnknown = errors.New("it is not known whether the transaction was committed")
	// ErrDeadlock: the transaction was chosen to give up, and is rolled back.
	ErrDeadlock = errors.New("deadlock, and the transaction is rolled back")
	// ErrLockTimeout: the lock was not to be had in time. The transaction goes on.
	ErrLockTimeout = errors.New("lock wait timeout")
	// ErrBusy: the lock was not to be had at once. The transaction goes on.
	ErrBusy = errors.New("lock is held by another transaction")
	// ErrInterrupted: the session was interrupted while it waited. The transaction goes on.
	ErrInterrupted = errors.New("interrupted")
	// ErrTooManyLocks: the locks of all transactions take all the memory that there is for them. The transaction goes on.
	ErrTooManyLocks = errors.New("too many locks")
	// ErrOverloaded: the log has taken no commit for some time. The transaction had no effect.
	ErrOverloaded = errors.New("the log takes no more at present")
	// ErrLevel: a member runs a build that knows no tables. The transaction had no effect.
	ErrLevel = errors.New("the cluster's level has no tables yet")
	// ErrPieces: the statement cannot be taken back alone, because some of what it has written is staged in the log. The whole transaction is rolled back.
	ErrPieces = errors.New("a part of what is taken back is in the log already, and the whole transaction is rolled back")
	// ErrNotPrepared: no transaction is prepared under the name, or another client decides it at the moment.
	ErrNotPrepared = errors.New("no transaction of this name is prepared")
	// ErrPrepared: another transaction is prepared under the name.
	ErrPrepared = errors.New("a transaction of this name is prepared")
	// ErrRanges: the transaction has locked ranges, or tables in place of rows, and a member runs a build that does not keep them. It had no effect.
	ErrRanges = errors.New("a transaction that has locked ranges cannot be prepared yet")
	// ErrTooOld: the transaction's snapshot was given up, because it was older than it may be or pinned more bytes than it may. The transaction is rolled back.
	ErrTooOld = errors.New("the snapshot is too old, and the transaction is rolled back")
	// ErrEnded: the transaction was committed or rolled back before.
	ErrEnded = errors.New("the transaction has ended")
	// ErrUnused: the transaction has not called UseTable for the table. The transaction goes on.
	ErrUnused = errors.New("table is not used by the transaction")
	// ErrNoValue: AUTO_INCREMENT has no value left to give. The transaction goes on.
	ErrNoValue = errors.New("no value of AUTO_INCREMENT is left")
)

// Options of New.
type Options struct {
	// View opens a view of the rows of one applied index, at least that of every result the member has given. *node.Node's View is one.
	View func() (store.View, error)
	// Newest reads a row as the store has it, with its head. It is asked for rows that are locked, which nothing changes. Nil: a View is opened for each.
	Newest func(dst, key []byte) (value []byte, exists bool, err error)
	// Snapshot opens one for the consistent reads of a transaction, which says how long it may live. Nil: View does, and nothing bounds it here.
	Snapshot func() (*node.View, error)
	// Lane is the door's lane of the log.
	Lane node.Lane
	// LockBytes is the memory for the locks of all transactions.
	LockBytes int64
	// Staged is the table machine's.
	Staged func() *sqlmachine.StagedSet
	// MaxBytes bounds the writes of a transaction of which nothing is staged. 0: what a command of the log can carry.
	MaxBytes int
	// StageBytes is from how many bytes of writes on a transaction is staged, PieceBytes about how many go into one command then, and MostBytes bounds
	// all writes of one that is. 0: 4 MiB, 1 MiB and 256 MiB.
	StageBytes, PieceBytes, MostBytes int
	// Verify has each commit name the rows that the transaction has read with locks, for machines that verify.
	Verify bool
	// Break are deliberate defects, with which tests show that the simulation finds them.
	Break Break
}

// Break names deliberate defects. Only the simulation sets them.
type Break struct {
	NoFence            bool // propose a commit in the term that the member leads in now
	ReleaseBeforeApply bool // give the locks back when the commit is proposed
	ViewBeforeLock     bool // read a locked row from a view that was opened before the lock was granted
	NoConfirm          bool // commit a transaction that only locked without confirming its term
	StagedUnlocked     bool // grant locks on what earlier terms have staged and committed
	StatusFirst        bool // commit what is staged before the last piece
	NoMerge            bool // read rows without what is committed and not moved yet
	NoRanges           bool // lock no ranges
	RangesPassStaged   bool // lock a range without a look at what others have staged in it
	PiecesStay         bool // leave what a statement has staged where it is taken back
	PlaceFirst         bool // note how far a build is before its piece is committed
}

// What Options has where nothing else is said.
const (
	stageBytes = 4 << 20
	pieceBytes = 1 << 20
	mostBytes  = 256 << 20
)

// headBytes is what a command takes beside the writes of a transaction, at most.
const headBytes = 64 << 10

// retry is how long the log is asked again that takes no more, and how long between two attempts.
const (
	retryFor   = 10 * time.Second
	retryEvery = 20 * time.Millisecond
)

// Worker has the transactions of a member.
type Worker struct {
	m   worker.Member
	opt Options

	mu        sync.Mutex
	now       *term // guarded by mu; nil: the member does not lead
	lockBytes int64 // guarded by mu: the memory for locks of this term and the next ones
}

// term is what belongs to one term.
type term struct {
	w      *Worker
	number uint64
	locks  *lock.Table
	autos  autos
	names  names
	freeze freeze

	before  uint64        // the largest number of a transaction that was staged before
	numbers atomic.Uint64 // the last number that was given

	mu       sync.Mutex
	prepared map[string]*prepared // by name; guarded by mu
}

// New returns the worker of a member. Run makes it work.
func New(m worker.Member, opt Options) *Worker {
	if opt.MaxBytes == 0 {
		opt.MaxBytes = entry.MaxCommandBytes - headBytes
	}
	opt.StageBytes, opt.PieceBytes, opt.MostBytes = cmp.Or(opt.StageBytes, stageBytes), cmp.Or(opt.PieceBytes, pieceBytes), cmp.Or(opt.MostBytes, mostBytes)
	return &Worker{m: m, opt: opt, lockBytes: opt.LockBytes}
}

// BoundLocks sets the memory for the locks of all transactions, in bytes, instead of Options.LockBytes. Locks that are held stay. Any goroutine.
func (w *Worker) BoundLocks(bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lockBytes = bytes
	if w.now != nil {
		w.now.locks.Bound(bytes)
	}
}

// HeldLocks returns how many bytes the locks of all transactions take. Any goroutine.
func (w *Worker) HeldLocks() int64 {
	w.mu.Lock()
	t := w.now
	w.mu.Unlock()
	if t == nil {
		return 0
	}
	return t.locks.Bytes()
}

// Term is the term in which transactions begin now; 0: the member does not lead. Any goroutine.
func (w *Worker) Term() uint64 {
	t, err := w.term()
	if err != nil {
		return 0
	}
	return t.number
}

// Waiting is how many transactions wait for a lock. Any goroutine.
func (w *Worker) Waiting() int {
	t, err := w.term()
	if err != nil {
		return 0
	}
	return t.locks.Waiting()
}

// Run follows the member's leadership until it stops.
func (w *Worker) Run() {
	worker.Lead(w.m, func(number uint64, over <-chan struct{}) {
		w.begin(number)
		w.m.Tasks().Wait(-1, over, w.m.StoppedC())
	}, func(over <-chan struct{}) {
		w.begin(0)
		w.m.Tasks().Wait(-1, over, w.m.StoppedC())
	})
	w.begin(0)
}

// begin begins a term; 0: the member follows. A term that goes on keeps its locks, because any news about the leader ends a call of lead.
func (w *Worker) begin(number uint64) {
	w.mu.Lock()
	was := w.now
	if was != nil && was.number == number {
		w.mu.Unlock()
		return
	}
	w.now = nil
	if number != 0 {
		now := &term{w: w, number: number, locks: lock.New(w.lockBytes), autos: autos{of: map[uint64]*auto{}}, names: names{of: map[string]uint32{}},
			prepared: map[string]*prepared{}}
		if all := now.inherit(); len(all) > 0 {
			w.m.Tasks().Go(func() { now.settle(all) })
		}
		w.now = now
	}
	w.mu.Unlock()
	if was != nil {
		was.locks.End()
	}
}

// term returns the one that runs. Error: ErrNotLeader.
func (w *Worker) term() (*term, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now == nil {
		return nil, ErrNotLeader
	}
	return w.now, nil
}

// Begin begins a transaction. Error: ErrNotLeader.
func (w *Worker) Begin() (*Tx, error) {
	t, err := w.term()
	if err != nil {
		return nil, err
	}
	return t.begin(t.locks.Owner()), nil
}

func (t *term) begin(owner *lock.Owner) *Tx {
	both := &struct {
		tx  Tx
		own Buffer
	}{}
	both.own.most = t.w.opt.MaxBytes
	both.tx = Tx{t: t, owner: owner, own: &both.own, tables: map[uint64]*used{}, limit: ViewLimit{node.ViewAge, node.ViewBytes}, shown: shown{began: time.Now()}}
	return &both.tx
}
