// Package ship ships the log of a cluster to an object store as it grows, and snapshots beside it. The leader's Worker makes spans of
// committed entries and creates each under the name of its first entry. It publishes the index up to which the archive has them
// (Node.SetArchived). Forms and names are package archive's, snapshots in pieces package backup's.
//
// It trusts the store's content, not its own memory. Two members may ship to one place: a leader that does not know yet that it was
// deposed, and its successor. They make one archive: a member that finds a name taken reads the object, compares it with its own log and
// continues after it. An object of another history stops the shipping with an alarm, and nothing else. It keeps no file: a leader that
// begins finds the end of the archive in the store. It restores nothing and judges no archive as a whole (package backup).
package ship

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/core/worker"
	"github.com/holdfastdb/holdfast/internal/task"
	"github.com/holdfastdb/holdfast/objstore"
)

// RetainName is the name under which the log is kept for the archive (Node.Retain). It belongs into the configuration of every member.
const RetainName = "archive"

// Options say how a log is archived. Zero fields have the defaults named.
type Options struct {
	// Interval is how long entries are gathered while no caller waits for them to be archived (1 s).
	Interval time.Duration
	// Requests is how many requests to the store a month may have (3,000,000). To keep to it the worker gathers for longer, up to a minute,
	// while no caller waits; it refuses nothing.
	Requests int64
	// KeepAge is how far back a restore must be possible (30 days), KeepCount the least number of snapshots (2). A snapshot goes, with the
	// entries up to its successor, when the successor is older than KeepAge and KeepCount remain. Below zero: nothing is ever removed.
	KeepAge   time.Duration
	KeepCount int
	// SnapshotBytes is how much log there is at least between two snapshots of one day (64 MiB).
	SnapshotBytes int64
	// Memory bounds what is held of the log at a time, in bytes (56 MiB).
	Memory int64
	// URL is where the archive is, as the operator has named it.
	URL string
	// FS and Dir are where this member remembers which archive it has used (KnownFile). FS nil: only until it ends.
	FS  disk.FS
	Dir string
	// Lost is the identity of an archive that the operator has given up, LostUnknown for an unknown one: another place may take over from
	// it. "": none.
	Lost string
	// Reopen opens the store of URL anew, with objstore.MustExist. It is called when the store was used by an earlier process, or has seen
	// its directory swapped. Nil: the Worker keeps the store given to New.
	Reopen func() (objstore.Store, error)
	// Logger gets messages that an operator can act on; nil: none.
	Logger *slog.Logger
	// Wall is the clock by which months and ages are told; nil: time.Now.
	Wall func() time.Time
}

func (o *Options) fill() {
	if o.Interval <= 0 {
		o.Interval = time.Second
	}
	if o.Requests <= 0 {
		o.Requests = 3_000_000
	}
	if o.KeepAge == 0 {
		o.KeepAge = 30 * 24 * time.Hour
	}
	o.KeepCount = max(o.KeepCount, 0)
	if o.KeepCount == 0 {
		o.KeepCount = 2
	}
	if o.SnapshotBytes <= 0 {
		o.SnapshotBytes = 64 << 20
	}
	if o.Memory <= 0 {
		o.Memory = 56 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Wall == nil {
		o.Wall = time.Now
	}
}

const (
	// While a caller waits, a span is closed when no entry has come for quiet, and after most.
	quiet, most = 2 * time.Millisecond, 8 * time.Millisecond
	// apart lies between the starts of two uploads, and flights is how many there are at a time.
	apart, flights = 10 * time.Millisecond, 8
	// spanMost is the most bytes of a span, unless one entry has more; with little memory spans are smaller.
	spanMost, spanLeast = 4 << 20, 256 << 10
	// patience bounds one request. An upload that was cut off is made again, with the same name and bytes.
	patience = 10 * time.Minute
	// patienceLeast bounds the first attempt at a span, and the bound doubles each time it was not enough, up to patience. So a silent
	// store is soon noticed to be back, and a slow line gets the whole of patience.
	patienceLeast = 5 * time.Second
	// pauseLeast and pauseMost lie between two attempts.
	pauseLeast, pauseMost = 100 * time.Millisecond, 5 * time.Second
)

// Worker ships for as long as its member leads.
type Worker struct {
	node     Member
	tasks    task.Runner
	opt      Options
	timeline uint64
	cluster  uint64
	span     int // bytes of one

	requests requests

	saving     sync.Mutex    // held while memory is written to disk
	followedAt time.Duration // the leader's identity was remembered; of keep's goroutine

	mu        sync.Mutex
	store     objstore.Store // guarded by mu; see at
	stale     bool           // guarded by mu; the store is opened anew before it is asked again
	term      *term          // guarded by mu; nil: this member does not lead
	alarm     error          // guarded by mu; why nothing is shipped any more
	proved    bool           // guarded by mu; the store keeps the condition of a conditional upload
	memory    Known          // guarded by mu; as it is on disk
	elsewhere string         // guarded by mu; where the leader ships, if that is another place than this member's
	looked    uint64         // guarded by mu; the archive had the log up to here at the last look of the leader
	shown     Status
}

// New makes the worker of a member; Run starts it. All members of a cluster ship to the same store.
func New(m Member, s objstore.Store, opt Options) *Worker {
	opt.fill()
	w := &Worker{node: m, tasks: m.Tasks(), store: s, opt: opt}
	if opt.FS != nil {
		if w.memory, w.alarm = ReadKnown(opt.FS, opt.Dir); w.alarm != nil {
			opt.Logger.Error("nothing is archived; see to the file and start this member again", "err", w.alarm)
		}
	}
	w.stale = w.known().Identity != "" && w.memory.Identity != opt.Lost // it was used before: its directory must not be made
	m.Handle(placeService, func(context.Context, []byte) ([]byte, error) { return json.Marshal(w.report()) })
	w.cluster, _ = m.IDs()
	w.timeline = w.cluster // a restore makes a new cluster, and with it a new timeline
	// A piece of a snapshot, and a span in each flight, one that is gathered and one that is put together.
	w.span = int(min(max((opt.Memory-2*8<<20)/(flights+2), spanLeast), spanMost))
	w.requests = requests{wall: opt.Wall, budget: opt.Requests}
	return w
}

// Run works until the member stops. Call it once.
func (w *Worker) Run() {
	w.tasks.Go(w.keep)
	worker.Lead(w.node, w.lead, func(<-chan struct{}) { w.stepDown() })
	w.stepDown()
}

// lead ships in one term until over is closed.
func (w *Worker) lead(number uint64, over <-chan struct{}) {
	t := w.begin(number)
	defer func() {
		if now, _ := w.node.Leadership(); now != number {
			w.stepDown()
		}
	}()
	for {
		wanted, more := w.node.ArchiveWanted()
		wait := t.turn(wanted)
		switch w.tasks.Wait(wait, over, w.node.StoppedC(), t.news, more) {
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
	w.looked = 0
	if w.memory.URL == place(w.opt.URL) {
		w.looked = w.memory.Archived
	}
	w.mu.Unlock()
	if old != nil {
		old.end()
	}
	t.start()
	return t
}

// stepDown forgets everything: uploads under way are cut off, and the next leader asks the store for their outcome.
func (w *Worker) stepDown() {
	w.mu.Lock()
	old := w.term
	w.term = nil
	w.shown.Away, w.shown.Missing = "", nil
	w.mu.Unlock()
	if old != nil {
		old.end()
	}
}

// stop ends the shipping of this process for good, with a message for the operator. The node and all else go on.
func (w *Worker) stop(err error) {
	w.mu.Lock()
	first := w.alarm == nil
	if first {
		w.alarm = err
	}
	t := w.term
	w.mu.Unlock()
	if first {
		w.opt.Logger.Error("archiving has stopped; see to the archive and start this member again", "err", err)
	}
	if t != nil {
		t.end()
	}
}

// stopped is why nothing is shipped, nil if it is.
func (w *Worker) stopped() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.alarm
}
