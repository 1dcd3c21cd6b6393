package node

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"path/filepath"

	"github.com/holdfastdb/holdfast/core/machine"
	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	mmember "github.com/holdfastdb/holdfast/core/machine/member"
	"github.com/holdfastdb/holdfast/core/raft"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/core/wal"
)

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
	n = &Node{cfg: cfg,
		self:       self{id: ident.Member, identity: *ident},
		seams:      seams{clock: cfg.Clock, fs: cfg.FS, net: cfg.Net, tasks: cfg.Tasks, log: cfg.Logger, steps: cfg.Steps},
		wake:       make(chan struct{}, 1),
		life:       life{dead: make(chan struct{}), stop: make(chan struct{})},
		proposals:  proposals{nextSeq: 1, inflight: map[uint64]*pending{}},
		forwarding: forwarding{accepted: map[uint64]uint64{}, turnedAway: map[commandID]struct{}{}},
		membership: membership{peered: map[uint64]struct{}{}},
		transfers:  transfers{snapshots: map[uint64]uint64{}},
		samples:    samples{sent: map[uint64]sample{}, latency: map[uint64]*Latency{}}}
	var o [8]byte
	if _, err := rand.Read(o[:]); err != nil {
		return nil, err
	}
	n.origin = binary.LittleEndian.Uint64(o[:])
	n.pubChange.init()
	n.calls.init()
	n.feed.more.init()
	n.watermark.more.init()
	for _, name := range cfg.Retain {
		n.retention.set(name, 0)
	}
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
	n.feed.log = n.wal
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
	if cfg.loaded != nil {
		if err := cfg.loaded(n); err != nil {
			return nil, err
		}
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
	n.members, n.users = mmember.New(), mident.New()
	n.enterShares()
	n.applier = n.cfg.newApplier(n.store, n.users, n.members)
	if err := n.applier.Load(); err != nil {
		return err
	}
	n.level, n.known = n.members.Level(), n.cfg.knownLevel()
	if err := n.cfg.follows(n.level); err != nil {
		return err
	}
	return n.separateValues()
}

// newApplier joins the machines of this configuration with the two that every node has.
func (cfg *Config) newApplier(st store.Store, users *mident.Machine, members *mmember.Machine) *machine.Applier {
	// Neither of the two writes at the end of an entry, so it is no matter to the state hash that they come first.
	return machine.NewApplier(st, append([]machine.Machine{users, members}, cfg.Machines...)...)
}

// logHolds reports whether the log goes through p or begins after it. A longer log may lack p too. A deposed leader wrote
// entries that were never committed; only their term tells them from the entries that the snapshot covers.
func (n *Node) logHolds(p raft.SnapshotPoint) bool {
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
	n.lastWall, n.heardMs = st.WallNs, st.TickMs
	id := n.id
	if n.cfg.stopped {
		id = nobodysID // an only voter would elect itself and add to the log
	}
	n.rep, err = raft.New(raft.Config{ID: id, WAL: n.wal, Conf: conf, Applied: n.appliedIdx, ElectionTicks: n.cfg.ElectionTicks,
		HeartbeatTicks: heartbeatTicks, MaxUncommittedBytes: uint64(n.cfg.shares.Uncommitted), SnapshotPoint: func() (uint64, raft.Conf) { return n.appliedIdx, n.rep.Conf() },
		Readable: n.readable, Logger: n.log})
	if err != nil {
		return err
	}
	// Known before anything is applied: a member that missed nothing is ready with its first leader, not with the next write.
	if n.termApplied, err = n.wal.Term(n.appliedIdx); err != nil {
		return fmt.Errorf("the term of entry %d, which the store holds: %w", n.appliedIdx, err)
	}
	n.soleVoter = isSole(conf, n.id)
	if err := n.prepareAddresses(); err != nil {
		return err
	}
	n.syncPeers()
	n.connectJoined() // a joining member knows the others from the answer until the log tells
	return nil
}

func isSole(c raft.Conf, id uint64) bool { return len(c.Voters) == 1 && c.Voters[0] == id }
