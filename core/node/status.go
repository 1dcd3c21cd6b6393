package node

import (
	"time"

	"github.com/holdfastdb/holdfast/core/peer"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/core/wal"
)

// Status is a snapshot of this member for operators and doors.
type Status struct {
	ClusterID, MemberID uint64
	Name                string
	Leader              uint64 // 0 = none known
	Term                uint64
	Commit, Applied     uint64
	Learner             bool
	// Joining: it is a learner that the leader makes a voter by itself, once it has caught up.
	Joining bool
	// Level is that of the cluster as applied here, KnownLevel the highest that this member could follow.
	Level, KnownLevel uint16
	// Ready: an entry of the current term was applied here and a leader is known.
	Ready     bool
	DiskBytes int64
}

// Status is cheap enough to be called with every request.
func (n *Node) Status() Status {
	p := n.pub.Load()
	learner := p.conf.Learner(n.id)
	joining := false
	if learner {
		m, known := n.members.Get(n.id)
		joining = !known || m.AutoPromote
	}
	return Status{ClusterID: n.identity.Cluster, MemberID: n.id, Name: n.identity.Name, Leader: p.leader, Term: p.term, Commit: n.commitIdx.Load(),
		Applied: n.shownIdx.Load(), Learner: learner, Joining: joining, Ready: p.ready,
		Level: n.members.Level(), KnownLevel: n.known}
}

// IDs returns what never changes: cluster and member id.
func (n *Node) IDs() (cluster, member uint64) { return n.identity.Cluster, n.id }

// Term is the current raft term.
func (n *Node) Term() uint64 { return n.pub.Load().term }

// Follower is how far the leader knows another member to be.
type Follower struct {
	ID, Match    uint64
	Active       bool
	Snapshotting bool
	Latency      Latency
	// Lost is how long the leader has not reached the member, and Why is the fault on the way; 0 and "" if it does.
	Lost time.Duration `json:",omitempty"`
	Why  string        `json:",omitempty"`
}

// Followers is filled on the leader only, refreshed twice a second.
func (n *Node) Followers() []Follower {
	var out []Follower
	known := map[uint64]Contact{}
	for _, c := range n.Contacts() {
		known[c.ID] = c
	}
	pub := n.pub.Load()
	for _, p := range pub.progress {
		// Raft resets its own mark of activity once per election timeout, so it would flicker.
		f := Follower{ID: p.ID, Match: p.Match, Active: p.ID == n.id, Snapshotting: p.Snapshotting, Latency: pub.latency[p.ID]}
		switch c, ok := known[p.ID]; {
		case p.ID == n.id:
		case !ok:
			f.Active = n.net.ConnectedFor(p.ID) > 0
		default:
			if f.Active = c.Lost == 0 && c.Ever; !f.Active {
				f.Lost, f.Why = c.Lost, c.Why()
			}
		}
		out = append(out, f)
	}
	return out
}

// Peer is what this member knows of its connections with another one.
type Peer struct {
	ID        uint64
	Connected bool          // in both directions
	Traffic   *peer.Traffic // nil: nothing is counted
}

// Peers lists the other members as this one knows them, on every member.
func (n *Node) Peers() []Peer {
	var out []Peer
	for _, m := range n.members.List() {
		if m.ID != n.id {
			out = append(out, Peer{ID: m.ID, Connected: n.net.ConnectedFor(m.ID) > 0, Traffic: n.net.Traffic(m.ID)})
		}
	}
	return out
}

// Removed reports whether id belonged to a member that was removed, as far as this member has heard.
func (n *Node) Removed(id uint64) bool { return n.members.Removed(id) }

// Leadership returns the term in which this member leads and has applied an entry of that term; 0 = it does not lead. The channel is closed
// when that may have changed.
func (n *Node) Leadership() (term uint64, changed <-chan struct{}) {
	c := n.pubChange.wait()
	return n.pub.Load().leads, c
}

// LeaderChanged returns a channel closed when the known leader may have changed or been lost.
func (n *Node) LeaderChanged() <-chan struct{} { return n.pubChange.wait() }

// Counters are for metrics.
type Counters struct {
	Refused, Superseded, SnapshotsInstalled int64
	FramesLost                              int64     // from other members: there was no room while the loop was busy
	Queued                                  []LaneUse // before the log, by lane
	Store                                   store.Metrics
	WAL                                     wal.Stats
	Views                                   ViewCounts
	HashIndex, Hash                         uint64
	Installing                              bool // a snapshot, at this moment
}

// Counters reads the node's counters.
func (n *Node) Counters() Counters {
	n.inbox.mu.Lock()
	lost := n.inbox.lost
	n.inbox.mu.Unlock()
	return Counters{FramesLost: lost, Refused: n.refused.Load(), Superseded: n.superseded.Load(), SnapshotsInstalled: n.replaced.Load(), Installing: n.installing.Load(),
		Queued: n.lanes.usage(), Store: n.store.Metrics(), WAL: n.wal.Stats(), Views: n.ViewCounts()}
}
