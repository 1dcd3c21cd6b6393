// Package node wires log, store and the machines it is handed into one member and gives the small API that workers, the archive
// and the doors see: Propose, Linearize, View, Call and the membership calls. It decides nothing about the meaning of a
// command, speaks no client protocol, and of machines knows only who belongs to the cluster (machine/member) and who may do
// what (machine/ident); the caller that made the other machines keeps their readers.
//
// One goroutine, the loop, owns raft and applies entries; a second writes the WAL. Doors put commands into bounded queues
// and sleep until the loop has applied them. In simulation the same loop is driven step by step (Pump, WriteStep).
package node

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/clock"
	"github.com/holdfastdb/holdfast/disk"
	"github.com/holdfastdb/holdfast/entry"
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/internal/meter"
	"github.com/holdfastdb/holdfast/internal/task"
	"github.com/holdfastdb/holdfast/machine"
	mident "github.com/holdfastdb/holdfast/machine/ident"
	mmember "github.com/holdfastdb/holdfast/machine/member"
	"github.com/holdfastdb/holdfast/peer"
	"github.com/holdfastdb/holdfast/replica"
	"github.com/holdfastdb/holdfast/store"
	"github.com/holdfastdb/holdfast/wal"
)

// Raft's time unless Config says otherwise: a tick is 100 ms, an election starts after 10 to 20 ticks of silence (etcd's
// defaults).
const (
	tickInterval   = 100 * time.Millisecond
	electionTicks  = 10
	heartbeatTicks = 1
)

// Config of a Node. The fields of the first group are the seams; nil means the real one.
type Config struct {
	FS    disk.FS
	Clock clock.Clock
	// Net connects the members; nil for a node that others cannot reach. The caller starts it with the node as handler
	// (Bootstrap and Join do) and closes it after the node.
	Net peer.Network
	// Store opens the store; nil: Pebble in DIR/store.
	Store func(dir string) (store.Store, error)
	// Manual: no goroutines; the caller drives Pump, Tick and WriteStep (simulation).
	Manual bool
	// Tasks runs what works beside the loop; nil: goroutines.
	Tasks task.Runner

	// Machines apply what is logged, beside the two that every node has (identities and members). They are made for this node alone and
	// usable once it runs. Their order is that in which they write at the end of an entry and become visible, so it is part of the log's
	// meaning: all members need the same, for good. A new machine goes to the end.
	Machines []machine.Machine
	// Lanes are those of the doors, beside LaneSystem.
	Lanes []LaneSpec
	// Scratch names directories below Dir for temporary work of others: what a crash has left there is removed at the start.
	Scratch []string

	Dir string
	// WALDir is where the log's segments lie if not in DIR/wal: a disk of their own. It must be given at every start.
	WALDir string
	// ClientURLs are published in the member list.
	ClientURLs []string
	// TickInterval is the time between two heartbeats of a leader, ElectionTicks how many of them may be missing before a
	// follower asks for votes; 0 = the defaults, 100 ms and 10. All members should have the same.
	TickInterval  time.Duration
	ElectionTicks int
	// LooseReconfig lets this member, as leader, make membership changes that may cost the cluster its quorum.
	LooseReconfig bool
	// HealthyAfter is for how long a member must have been connected without a break before this member, as leader, counts it as
	// healthy; 0 = 5 s. A change is refused that would leave too few of those.
	HealthyAfter time.Duration
	// MaxLearners bounds learners in the cluster as far as this member, as leader, decides it; 0 = 1, etcd's default.
	MaxLearners int
	// MemoryBytes is the whole budget of the process; the node takes its shares of it (internal/budget). 0 = 256 MiB.
	MemoryBytes int64
	// SegmentBytes is the size of a log segment, 0 = the log's default. LogTailBytes is how much log is kept for slow
	// followers beyond what the store holds durably, 0 = 64 MiB. The simulation sets both small.
	SegmentBytes, LogTailBytes int64
	// TruncateEvery is how often the log is looked at for what can go, 0 = 5 s.
	TruncateEvery time.Duration
	Logger        *slog.Logger
	// Steps receives counts and times of each step of a write; nil: the node's own.
	Steps *meter.Steps
	// shares of MemoryBytes, set with the defaults.
	shares budget.Shares
	// OnFatal is called once, from any goroutine, when the node stops because it must; nil: nothing. The node does not
	// answer anything any more when it is called.
	OnFatal func(error)

	// stopped: this is a copy of a stopped member, opened to read all of it (SaveStopped).
	stopped bool

	// Deliberate defects, with which tests of package sim show that the simulation finds them.
	Break Break
}

// Break names deliberate defects. Only the simulation sets them.
type Break struct {
	AckBeforeSync   bool // report writes as durable before the fsync
	ReadWithoutRead bool // a leader answers linearizable reads without asking whether it still leads
	NoTermFence     bool // stamp a worker's command with the entry's term instead of its own
}

// Node is one member. Exported methods are safe for concurrent use unless they say otherwise.
type Node struct {
	cfg    Config
	id     uint64
	ident  Identity
	log    *slog.Logger
	clock  clock.Clock
	fs     disk.FS
	net    peer.Network
	tasks  task.Runner
	lock   disk.Unlocker
	origin uint64 // random per process start: names this process's commands
	known  uint16 // the highest level that this build, its machines and its lanes could follow
	steps  *meter.Steps

	wal     *wal.Log
	store   store.Store
	idents  *mident.Machine
	members *mmember.Machine
	applier *machine.Applier

	lanes *lanes
	inbox inbox
	views views
	wake  chan struct{} // capacity 1
	dead  chan struct{} // closed when the loop has ended
	stop  chan struct{} // closed to end the loop
	once  sync.Once
	wg    sync.WaitGroup
	// failure is why the node died; set before dead is closed.
	failure  atomic.Pointer[error]
	stopping atomic.Bool

	writer writer
	calls  calls
	reads  reads

	// Published by the loop for other goroutines.
	pub        atomic.Pointer[published]
	tick       atomic.Pointer[tickPoint]
	pubChange  broadcast // any change of pub
	commitIdx  atomic.Uint64
	shownIdx   atomic.Uint64 // applied index
	refused    atomic.Int64
	superseded atomic.Int64
	receiving  atomic.Bool  // a snapshot stream is coming in
	replaced   atomic.Int64 // snapshots installed
	installing atomic.Bool  // one at this moment
	truncating atomic.Bool

	pending acquaintances
	// stranger is the last sender that was refused and is not logged yet.
	stranger atomic.Uint64

	handedMu sync.Mutex
	handed   map[uint64]uint64 // added voters' ids given away without a leader, and to which nonce; guarded by handedMu

	closeNet Transport // the network Start made; closed with the node
	keepURLs bool      // StartOptions.KeepPeerURLs; set before announce runs

	// Everything below is owned by the loop.
	rep           *replica.Replica
	rd            replica.Ready
	batch         []*pending
	scratch       []byte
	nextSeq       uint64
	inflight      map[uint64]*pending
	inflightBytes int                    // sum of their sizes
	accepted      map[uint64]uint64      // highest forwarded sequence number taken, per origin, in this term
	turnedAway    map[commandID]struct{} // of them, those refused because the queue was full
	acceptTerm    uint64
	forwarded     point         // the last command this member forwarded
	writesOut     int           // writes submitted and not yet finished
	unkicked      int           // of them, those nobody was told of
	packedIndex   uint64        // of the last entry cut here
	packedAt      time.Duration // when it was
	lookAgain     *time.Timer   // wakes the loop at lookAt; nil without a loop
	lookAt        time.Duration // when packPatience with the last entry is over, if somebody waits for that
	soleVoter     bool
	aloneFrom     uint64 // commit index at the last membership change: a member that left then may have applied that far
	termApplied   uint64 // term of the last applied entry
	level         uint16 // of the cluster, as far as its consequences were seen to
	appliedIdx    uint64
	knownCommit   uint64 // when it was opened, with Config.stopped
	lastTick      time.Duration
	lastWall      int64
	changing      *pending   // membership change in flight
	changes       []*pending // membership changes that wait for it
	changed       *pending   // membership change applied and not answered yet
	changedTo     *entry.Result
	xferTo        uint64
	xferUntil     time.Duration
	truncateAt    time.Duration
	finishAt      time.Duration
	resendAt      time.Duration
	resendWait    time.Duration
	promoteAt     time.Duration
	offered       *received
	arrived       entry.Command // the forwarded command being judged
	complainAt    time.Duration
	peered        map[uint64]struct{}
	sent          map[uint64]sample   // per member, the entry whose acknowledgement is being timed
	latency       map[uint64]*Latency // per member, what came of it
	packed        sample              // the entry whose commit is being timed
	snapshots     map[uint64]uint64   // snapshot streams going out: member → index
}

// published is the part of the loop's state that other goroutines read.
type published struct {
	leader uint64
	term   uint64
	leads  uint64 // term in which this member leads and has applied an entry of that term; 0 otherwise
	// sole: it is also the only member, and has applied everything that a former one can have applied: no member applies before
	// it does, so reads need no round. It is stored before a message can leave that lets a new member apply anything, and
	// loaded when a read begins.
	sole     bool
	ready    bool
	conf     replica.Conf
	progress []replica.Progress
	latency  map[uint64]Latency // of those in progress
}

// Open opens the data directory of an initialised member and starts it. Use Bootstrap, BootstrapAlone or Join on an empty
// directory first. A data directory in use by another process, of another version, or damaged is refused.
func Open(cfg Config) (n *Node, err error) {
	cfg.defaults()
	ident, err := ReadIdentity(cfg.FS, cfg.Dir)
	if err != nil {
		return nil, err
	}
	if ident.Cluster == 0 {
		return nil, fmt.Errorf("open %s: not initialised", cfg.Dir)
	}
	n = &Node{cfg: cfg, id: ident.Member, ident: *ident, log: cfg.Logger, clock: cfg.Clock, fs: cfg.FS, net: cfg.Net, tasks: cfg.Tasks,
		steps: cfg.Steps, wake: make(chan struct{}, 1), dead: make(chan struct{}), stop: make(chan struct{}),
		nextSeq: 1, inflight: map[uint64]*pending{}, accepted: map[uint64]uint64{}, turnedAway: map[commandID]struct{}{}, snapshots: map[uint64]uint64{}, peered: map[uint64]struct{}{}, sent: map[uint64]sample{}, latency: map[uint64]*Latency{}}
	var o [8]byte
	if _, err := rand.Read(o[:]); err != nil {
		return nil, err
	}
	n.origin = binary.LittleEndian.Uint64(o[:])
	n.pubChange.init()
	n.calls.init()
	n.inbox.limits = defaultInboxLimits
	n.registerMembership()
	if n.lanes, err = newLanes(cfg.Lanes, int(cfg.shares.Lane)); err != nil {
		return nil, err
	}
	if n.lock, err = cfg.FS.Lock(filepath.Join(cfg.Dir, "LOCK")); err != nil {
		return nil, fmt.Errorf("open %s: in use by another process: %w", cfg.Dir, err)
	}
	opening := n // a refusal returns nil for n
	defer func() {
		if err != nil {
			opening.closeFiles()
		}
	}()
	if err := cfg.refuseRemains(ident); err != nil {
		return nil, err
	}
	if !cfg.Manual {
		for _, name := range append([]string{stoppedName}, cfg.Scratch...) {
			if err := cfg.FS.RemoveAll(filepath.Join(cfg.Dir, name)); err != nil {
				return nil, fmt.Errorf("open %s: remove what a crash left in %s: %w", cfg.Dir, name, err)
			}
		}
	}
	if n.wal, err = wal.Open(cfg.FS, cfg.walDir(), wal.Options{Manual: cfg.Manual, SegmentBytes: cfg.SegmentBytes}); err != nil {
		return nil, err
	}
	if n.store, err = cfg.openStore(n.fatalLater); err != nil {
		return nil, fmt.Errorf("%w; if a file is damaged, %s", err, beginAgain(n.id))
	}
	if err := n.openMachines(); err != nil {
		return nil, err
	}
	if err := n.refuseGap(); err != nil {
		return nil, err
	}
	if cfg.stopped {
		if err := n.commitAll(); err != nil {
			return nil, err
		}
	} else if n.members.Removed(n.id) { // the others refuse it, and it would wait for them for ever
		return nil, removedErr(n.id)
	}
	if err := n.startReplica(); err != nil {
		return nil, err
	}
	n.lastTick = n.clock.Mono()
	n.publish(true)
	if !cfg.Manual {
		n.writer.init()
		n.wg.Go(n.runWriter)
		n.wg.Go(n.run)
	}
	return n, nil
}

func (cfg *Config) defaults() {
	if cfg.FS == nil {
		cfg.FS = disk.OS()
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.Real()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Steps == nil {
		cfg.Steps = &meter.Steps{}
	}
	if cfg.Net == nil {
		cfg.Net = nobody{}
	}
	if cfg.Tasks == nil {
		cfg.Tasks = task.Goroutines{}
	}
	if cfg.MemoryBytes == 0 {
		cfg.MemoryBytes = budget.Default
	}
	cfg.shares = budget.Of(cfg.MemoryBytes)
	if cfg.LogTailBytes == 0 {
		cfg.LogTailBytes = logTail
	}
	if cfg.TruncateEvery == 0 {
		cfg.TruncateEvery = truncateEvery
	}
	if cfg.TickInterval == 0 {
		cfg.TickInterval = tickInterval
	}
	if cfg.ElectionTicks == 0 {
		cfg.ElectionTicks = electionTicks
	}
	if cfg.HealthyAfter == 0 {
		cfg.HealthyAfter = healthyAfter
	}
	if cfg.MaxLearners == 0 {
		cfg.MaxLearners = maxLearners
	}
}

func (cfg *Config) walDir() string {
	if cfg.WALDir != "" {
		return cfg.WALDir
	}
	return filepath.Join(cfg.Dir, "wal")
}

// openStore opens DIR/store with its share of the memory.
func (cfg *Config) openStore(onFatal func(error)) (store.Store, error) {
	dir := filepath.Join(cfg.Dir, "store")
	if cfg.Store != nil {
		return cfg.Store(dir)
	}
	return store.Open(dir, store.Options{CacheBytes: cfg.shares.Cache, MemtableBytes: cfg.shares.Memtable, OnFatal: onFatal})
}

// openMachines builds the machines over the store and finishes an interrupted snapshot install.
func (n *Node) openMachines() error {
	mark, ok, err := readInstallMark(n.store)
	if err != nil {
		return err
	}
	if ok && !n.logHolds(mark) {
		// The store was switched to a received snapshot but the crash came before the log was reset to it.
		hs := n.wal.HardState()
		hs.Commit = max(hs.Commit, mark.Index)
		if err := n.wal.Reset(mark.Index, mark.Term, hs); err != nil {
			return fmt.Errorf("finish the install of snapshot %d: %w", mark.Index, err)
		}
	}
	n.members, n.idents = mmember.New(), mident.New()
	// Neither of the two writes at the end of an entry, so it is no matter to the state hash that they come first.
	n.applier = machine.NewApplier(n.store, append([]machine.Machine{n.idents, n.members}, n.cfg.Machines...)...)
	if err := n.applier.Load(); err != nil {
		return err
	}
	n.level, n.known = n.members.Level(), n.cfg.knownLevel()
	return n.cfg.follows(n.level)
}

// logHolds reports whether the log goes through p or begins after it. A longer log may lack it too: a deposed leader wrote
// entries that were never committed, and only their term tells them from those the snapshot stands for.
func (n *Node) logHolds(p replica.SnapshotPoint) bool {
	if p.Index > n.wal.LastIndex() {
		return false
	}
	term, err := n.wal.Term(p.Index)
	return err != nil || term == p.Term // an error: truncated, so it was applied and flushed long ago
}

func (n *Node) startReplica() error {
	conf, err := readConf(n.store)
	if err != nil {
		return err
	}
	n.appliedIdx = n.store.Applied()
	st := n.applier.Stamp()
	n.tick.Store(&tickPoint{base: st.TickMs, mono: n.clock.Mono()})
	n.lastWall = st.WallNs
	id := n.id
	if n.cfg.stopped {
		id = nobodysID // an only voter would elect itself and add to the log
	}
	n.rep, err = replica.New(replica.Config{ID: id, WAL: n.wal, Conf: conf, Applied: n.appliedIdx, ElectionTicks: n.cfg.ElectionTicks,
		HeartbeatTicks: heartbeatTicks, SnapshotPoint: func() (uint64, replica.Conf) { return n.appliedIdx, n.rep.Conf() },
		Readable: n.readable, Logger: n.log})
	if err != nil {
		return err
	}
	n.soleVoter = isSole(conf, n.id)
	for _, m := range n.members.List() {
		n.connect(m.ID, m.PeerURLs)
	}
	// A joining member knows its peers from the answer until the log tells. In a fixed order, so that a simulated run repeats.
	for _, id := range slices.Sorted(maps.Keys(n.ident.Peers)) {
		if _, known := n.members.Get(id); !known && !n.members.Removed(id) {
			n.connect(id, []string{n.ident.Peers[id]})
		}
	}
	return nil
}

func isSole(c replica.Conf, id uint64) bool { return len(c.Voters) == 1 && c.Voters[0] == id }

// Stop ends the node without waiting for the outcome of what is in flight. Idempotent.
func (n *Node) Stop() {
	n.stopping.Store(true)
	n.once.Do(func() { close(n.stop) })
	if n.cfg.Manual {
		n.die(nil) // its driver ends its tasks
	} else {
		n.wg.Wait()
	}
	if n.closeNet != nil {
		n.closeNet.Close()
	}
	n.closeFiles()
}

func (n *Node) closeFiles() {
	n.views.close()
	if n.store != nil {
		if err := n.store.Close(); err != nil && !errors.Is(err, store.ErrReplaced) {
			n.log.Warn("close store", "err", err)
		}
		n.store = nil
	}
	if n.wal != nil {
		n.wal.Close()
		n.wal = nil
	}
	if n.lock != nil {
		n.lock.Unlock()
		n.lock = nil
	}
}

// StoppedC is closed when the node has stopped, for whatever reason; Failure then says why, nil if it was asked to.
func (n *Node) StoppedC() <-chan struct{} { return n.dead }

// Failure is the reason of a fatal stop.
func (n *Node) Failure() error {
	if p := n.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// die ends the loop's service: nothing is answered from here on.
func (n *Node) die(err error) {
	select {
	case <-n.dead:
		return
	default:
	}
	n.stopping.Store(true)
	if err != nil {
		n.failure.Store(&err)
		n.log.Error("stopped", "err", err)
	}
	close(n.dead)
	n.pubChange.notify()
	if err != nil && n.cfg.OnFatal != nil {
		n.cfg.OnFatal(err)
	}
}

func (n *Node) wakeup() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// beside runs f until it ends by itself, which it must do soon once n.stop or n.dead is closed: Stop waits for it.
func (n *Node) beside(f func()) {
	n.wg.Add(1)
	n.tasks.Go(func() {
		defer n.wg.Done()
		f()
	})
}

// Tasks runs what works beside the node, for as long as the node does.
func (n *Node) Tasks() task.Runner { return n.tasks }

// Mono is this member's monotonic clock.
func (n *Node) Mono() time.Duration { return n.clock.Mono() }

// Ident gives the readers of the identity machine: who may do what. Read after Linearize, or accept any age.
func (n *Node) Ident() *mident.Machine { return n.idents }

// Tick is the cluster tick in milliseconds as this member would stamp it now: it advances by the local monotonic clock
// from the last applied stamp, never back, and does not jump at a change of leader (DECISIONS A10). Loop or worker.
func (n *Node) Tick() int64 { return n.tickAt(n.clock.Mono()) }

func (n *Node) tickAt(now time.Duration) int64 {
	p := n.tick.Load()
	return p.base + int64((now-p.mono)/time.Millisecond)
}

// tickPoint ties the cluster tick to the local monotonic clock.
type tickPoint struct {
	base int64
	mono time.Duration
}

// stamp is what the leader writes on the next entry. Loop only.
func (n *Node) stamp() entry.Header {
	wall := max(n.clock.Wall().UnixNano(), n.lastWall)
	n.lastWall = wall
	idx, hash := n.applier.Hash()
	return entry.Header{WallNs: wall, TickMs: n.Tick(), HashIndex: idx, Hash: hash}
}
