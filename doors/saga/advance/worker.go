// Package advance carries global transactions on. The leader's Worker calls the services of each, in the order of its mode, writes their
// answers to the log, and retries unfinished ones. A transaction's state is in doors/saga/machine; the calls themselves are package
// outcall's.
//
// Nothing it keeps in memory outlives the term. A new leader begins with every due transaction at once. It repeats calls whose result is
// not in the log, so a service may be called twice for one branch, and late. It keeps no timer of a far time, and no more of a transaction
// that waits for its turn than its number.
package advance

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/worker"
	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
	"github.com/holdfastdb/holdfast/doors/saga/outcall"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/internal/task"
)

// Options say how transactions are carried on. Zero fields have the defaults named.
type Options struct {
	// Caller makes the calls. It must be set.
	Caller outcall.Caller
	// Defaults where a transaction has no own value. RetryIntervalMs is the first wait before a retry (10,000). TimeoutMs is the age at
	// which a prepared transaction is queried or aborted (35,000). RequestTimeoutMs is the time limit of one call (3,000).
	RetryIntervalMs, TimeoutMs, RequestTimeoutMs int64
	// MaxRequestTimeoutMs is the upper bound on a call's time limit, also where its transaction asks for more (600,000).
	MaxRequestTimeoutMs int64
	// RetentionMs is for how long a transaction is kept that has ended (86,400,000).
	RetentionMs int64
	// MaxRunning bounds the transactions in memory with all they hold (16,384), MaxBytes what they hold (128 MiB). 16 times as
	// many wait by number; beyond that they wait in the store.
	MaxRunning int
	MaxBytes   int64
	// PerEndpoint bounds the transactions with a call to one host and the first two segments of a path (512). A hanging one then leaves
	// room for others. Once those of one host are so many in all, each of its paths may have an eighth.
	PerEndpoint int
	// AlertURL gets a POST for transactions whose interval has doubled AlertAfter (3) times or more; "": no alerts.
	AlertURL   string
	AlertAfter int
	// Logger gets messages that an operator can act on; nil: none.
	Logger *slog.Logger

	// The rest is for tests that drive the program from outside. ByHand: only what is due when it is set begins by itself, the rest waits
	// for Once. Ahead returns by how much transactions are older than they are where a time limit is judged, and where a message's delay
	// is. Ended hears of each pass that has ended, with the gid; it must not block.
	ByHand bool
	Ahead  func() (timeout, delay time.Duration)
	Ended  func(gid string)
}

func (o *Options) fill() {
	set := func(v *int64, d int64) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&o.RetryIntervalMs, 10_000)
	set(&o.TimeoutMs, 35_000)
	set(&o.RequestTimeoutMs, 3_000)
	set(&o.MaxRequestTimeoutMs, 600_000)
	set(&o.RetentionMs, sagamachine.RetentionMs)
	set(&o.MaxBytes, 128<<20)
	if o.MaxRunning <= 0 {
		o.MaxRunning = 16_384
	}
	if o.PerEndpoint <= 0 {
		o.PerEndpoint = 512
	}
	if o.AlertAfter <= 0 {
		o.AlertAfter = 3
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Ahead == nil {
		o.Ahead = func() (timeout, delay time.Duration) { return 0, 0 }
	}
}

// member is the worker's view of its node. *node.Node is the one; tests drive a worker without a log.
type member interface {
	worker.Member
	Tick() int64
}

// reader is the worker's view of the machine.
type reader interface {
	FindNumber(number uint64) (*sagamachine.Transaction, error)
	Due(after sagamachine.Timer, until int64, limit int) ([]sagamachine.Timer, error)
	Recent(after uint64) (timers []sagamachine.Timer, seq uint64, ok bool, changed <-chan struct{})
	Held() bool
	Elapsed() int64
	Retention() int64
	Watch(gid string, f func(s sagapart.State, passes uint32, ended bool)) (cancel func())
}

var _ reader = (*sagamachine.Machine)(nil)

// Worker carries transactions on for as long as its member leads.
type Worker struct {
	node   member
	tasks  task.Runner
	state  reader
	opt    Options
	timing timing
	counts counters

	proposals *pool // each waits for one command
	retries   *pool // each waits for one that says no more than when its transaction is tried again
	loads     *pool // each reads one transaction

	mu   sync.Mutex
	term *term // guarded by mu; nil: this member does not lead

	alerts atomic.Int32 // under way
	most   atomic.Int64 // bytes of the transactions in memory: see Bound
}

const (
	// maxProposals bounds the commands that wait for the log at a time, maxLoads the transactions that are being read. maxRetries bounds
	// the commands that set a transaction's next retry. Thousands come at once when a service is given up, and other entries would wait
	// behind them.
	maxProposals, maxLoads, maxRetries = 1024, 16, 64
	// pause is how long the worker waits after something that may be gone at the next try.
	pause = 200 * time.Millisecond
)

// New makes n's worker of m's transactions; Run starts it.
func New(n *node.Node, m *sagamachine.Machine, opt Options) *Worker { return newWorker(n, m, opt) }

func newWorker(n member, m reader, opt Options) *Worker {
	opt.fill()
	w := &Worker{node: n, tasks: n.Tasks(), state: m, opt: opt}
	w.Bound(opt.MaxBytes)
	w.timing = timing{retryIntervalMs: opt.RetryIntervalMs, timeoutMs: opt.TimeoutMs, requestTimeoutMs: opt.RequestTimeoutMs,
		maxRequestTimeoutMs: opt.MaxRequestTimeoutMs, alertAfter: opt.AlertAfter}
	w.proposals = newPool(w.tasks, maxProposals, n.StoppedC())
	w.retries = newPool(w.tasks, maxRetries, n.StoppedC())
	w.loads = newPool(w.tasks, maxLoads, n.StoppedC())
	return w
}

// Bound sets how many bytes the transactions in memory may hold, instead of Options.MaxBytes. Those that are carried on go on, and others wait in the
// store for their room. Any goroutine.
func (w *Worker) Bound(bytes int64) {
	w.most.Store(max(bytes, 1))
	if t := w.current(); t != nil {
		t.rebound()
	}
}

// Run works until the node stops. Call it once.
func (w *Worker) Run() {
	worker.Lead(w.node, w.lead, func(<-chan struct{}) { w.stepDown() })
	w.stepDown()
}

// lead carries on the due transactions of one term until over is closed.
func (w *Worker) lead(number uint64, over <-chan struct{}) {
	t := w.begin(number)
	defer func() {
		if now, _ := w.node.Leadership(); now != number {
			w.stepDown()
		}
	}()
	for {
		wait, changed := t.turn()
		switch w.tasks.Wait(wait, over, w.node.StoppedC(), t.news, changed) {
		case 0, 1:
			return
		}
	}
}

// begin returns the term of a number: a new one unless the news that ended lead was about something else.
func (w *Worker) begin(number uint64) *term {
	w.mu.Lock()
	old := w.term
	if old != nil && old.number == number {
		w.mu.Unlock()
		return old
	}
	t := newTerm(w, number)
	w.term = t
	w.mu.Unlock()
	if old != nil {
		old.end()
	}
	return t
}

// stepDown forgets everything: calls under way are cancelled, and their results are dropped.
func (w *Worker) stepDown() {
	w.mu.Lock()
	old := w.term
	w.term = nil
	w.mu.Unlock()
	if old != nil {
		old.end()
	}
}

// now is the clock that transactions go by (doors/saga/machine), in milliseconds.
func (w *Worker) now() int64 { return w.node.Tick() + w.state.Elapsed() }

// current is the term in which this member leads, nil if it does not.
func (w *Worker) current() *term {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.term
}
