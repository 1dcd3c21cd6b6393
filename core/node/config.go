package node

import (
	"log/slog"
	"path/filepath"
	"time"

	"github.com/holdfastdb/holdfast/core/clock"
	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/peer"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/internal/meter"
	"github.com/holdfastdb/holdfast/internal/task"
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

	// Machines apply what is logged, beside the two that every node has (identities and members). They are made for this
	// node alone and usable once it runs. They write and become visible at the end of an entry in this order. The order
	// is therefore part of the log's meaning: it is the same on all members and never changes. A new machine goes to the
	// end.
	Machines []machine.Machine
	// Lanes are those of the doors, beside LaneSystem.
	Lanes []LaneSpec
	// Scratch names directories below Dir for temporary work of others: leftovers of a crash are removed at the start.
	Scratch []string
	// Beside names entries of Dir that are made there before the node starts, such as a directory of keys. A directory that holds nothing
	// else counts as empty.
	Beside []string

	Dir string
	// WALDir is where the log's segments lie if not in DIR/wal: a disk of their own. It must be given at every start.
	WALDir string
	// ClientURLs are published in the member list.
	ClientURLs []string
	// TickInterval is the time between two heartbeats of a leader; 0 = 100 ms. A follower asks for votes after
	// ElectionTicks missing heartbeats; 0 = 10. All members should have the same.
	TickInterval  time.Duration
	ElectionTicks int
	// LooseReconfig lets this member, as leader, make membership changes that may cost the cluster its quorum.
	LooseReconfig bool
	// HealthyAfter is the time of unbroken connection after which a leader counts a member as healthy; 0 = 5 s. A change
	// is refused that would leave too few of those.
	HealthyAfter time.Duration
	// MaxLearners bounds learners in the cluster as far as this member, as leader, decides it; 0 = 1, etcd's default.
	MaxLearners int
	// MemoryBytes is the whole budget of the process; the node takes its shares of it (internal/budget). 0 = 256 MiB.
	MemoryBytes int64
	// Shares is how it is divided; nil: among the core alone.
	Shares *budget.Shares
	// SegmentBytes is the size of a log segment, 0 = the log's default. LogTailBytes is the length of log kept for slow followers beyond
	// the durable part of the store, 0 = 64 MiB. The simulation sets both small.
	SegmentBytes, LogTailBytes int64
	// LogRetention bounds, in bytes, the log kept for readers registered by Node.Retain, 0 = 1 GiB. Retain names those
	// for whom all of it is kept from the start on, until they have called Node.Retain themselves.
	LogRetention int64
	Retain       []string
	// Archive: the leading member ships the log to an archive, so that Node.Archived can be waited for. All members
	// should have the same.
	Archive bool
	// TruncateEvery is the interval between two checks for log that can be truncated, 0 = 5 s.
	TruncateEvery time.Duration
	Logger        *slog.Logger
	// Steps receives counts and times of each step of a write; nil: the node's own.
	Steps *meter.Steps
	// shares of MemoryBytes, set with the defaults.
	shares budget.Shares
	// Ticked is called about once a TickInterval, on the loop. It must not block. nil: nothing.
	Ticked func(Syncs)
	// Parallel is called when an entry begins to keep two goroutines busy. The applying goroutine calls it: the loop,
	// once the node has started. It may take milliseconds. nil: nothing.
	Parallel func()
	// OnFatal is called once, from any goroutine, when the node stops because it must; nil: nothing. The node does not
	// answer anything any more when it is called.
	OnFatal func(error)

	// stopped: this is a copy of a stopped member, opened to read all of it (SaveStopped).
	stopped bool
	// loaded is called in Open when the state is loaded and nothing has been changed or sent; its error refuses the start. nil: nothing is.
	loaded func(*Node) error
	// encrypted: members show each other certificates, so their URLs say https.
	encrypted bool
	// peers and override are StartOptions.Peers and PeerOverride.
	peers    map[string]string
	override map[uint64]string

	// Deliberate defects, with which tests of package sim show that the simulation finds them.
	Break Break
}

// Syncs says how long syncs of the log take: the recent mean, and the total of this process including the sync under way.
type Syncs struct{ Mean, Total time.Duration }

// Break names deliberate defects. Only the simulation sets them.
type Break struct {
	AckBeforeSync   bool // report writes as durable before the fsync
	ReadWithoutRead bool // a leader answers linearizable reads without asking whether it still leads
	NoTermFence     bool // stamp a worker's command with the entry's term instead of its own
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
		cfg.MemoryBytes = budget.Small
	}
	if cfg.shares = budget.Of(cfg.MemoryBytes); cfg.Shares != nil {
		cfg.shares = *cfg.Shares
	}
	if cfg.LogTailBytes == 0 {
		cfg.LogTailBytes = logTail
	}
	if cfg.LogRetention == 0 {
		cfg.LogRetention = logRetention
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
	return store.Open(dir, store.Options{CacheBytes: cfg.shares.Cache, MemtableBytes: cfg.shares.Memtable, OnFatal: onFatal, OnAhead: cfg.Parallel})
}
