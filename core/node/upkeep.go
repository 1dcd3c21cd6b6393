package node

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/core/wal"
)

// upkeep is when what need not be done at once is due. Loop only, but for truncating.
type upkeep struct {
	truncateAt time.Duration
	logged     int // bytes written to the log since it was looked at
	finishAt   time.Duration
	truncating atomic.Bool // the log is being truncated beside the loop
}

// housekeeping does periodic work that is not urgent. Loop only.
func (n *Node) housekeeping() {
	now := n.clock.Mono()
	if now >= n.resendAt {
		n.resendAt = now + resendAfter/4
		for _, p := range n.inflight {
			if p.term == n.rep.Term() && now-p.sentAt > resendAfter {
				n.resend(n.rep.Leader())
				n.resendWait = min(2*n.resendWait, resendMost)
				n.resendAt = now + n.resendWait
				break
			}
		}
		n.forgetAbandoned()
	}
	n.finishUp(now)
	if now >= n.truncateAt || n.logged >= n.cfg.truncateBytes() {
		n.truncateAt, n.logged = now+n.cfg.TruncateEvery, 0
		n.truncate()
	}
	if now >= n.promoteAt {
		n.promoteAt = now + lookInterval
		n.views.expire(now, n.store.Superseded(), n.applier.Applied(), func() int64 {
			m := n.store.Metrics()
			return m.DiskBytes + m.MemtableBytes
		})
		n.promoteLearners()
		if n.rep.IsLeader() {
			n.introduce()
		}
		n.publishProgress()
		n.lookAround(now)
	}
}

// forgetAbandoned drops commands whose callers have left and whose term is long over in every other way.
func (n *Node) forgetAbandoned() {
	if len(n.inflight) < 4096 {
		return
	}
	for _, p := range n.inflight {
		if p.call == nil && p.state.Load() == stateAbandoned {
			n.forget(p)
		}
	}
}

// logTail and truncateEvery are the defaults of Config.LogTailBytes and Config.TruncateEvery.
const (
	logTail       = 64 << 20
	truncateEvery = 5 * time.Second
)

// truncateBytes is the amount of new log after which truncation is checked ahead of time. The log then gives its segments back as fast as
// it takes new ones (wal, maxSpares). A new segment is filled with zeros, which doubles the bytes written.
func (cfg *Config) truncateBytes() int {
	return 2 * int(cmp.Or(cfg.SegmentBytes, wal.DefaultSegmentBytes))
}

// finishUp proposes an empty entry when a machine has work left over that only entries advance, such as dropping compacted history.
// Otherwise a cluster that refuses puts because it is full would never free any space. Loop only.
func (n *Node) finishUp(now time.Duration) {
	if now < n.finishAt || n.writesOut > 0 || n.lanes.queued.Load() > 0 || !n.rep.IsLeader() || n.termApplied != n.rep.Term() ||
		n.transferring() || !n.applier.Unfinished() {
		return
	}
	n.finishAt = now + 10*time.Millisecond
	if n.rep.Propose(entry.AppendHeader(nil, n.stamp())) == nil {
		n.wakeup()
	}
}

// truncate drops log that the store holds durably (DECISIONS A4). Loop only.
func (n *Node) truncate() {
	durable, err := n.store.DurableApplied()
	if err != nil {
		if !errors.Is(err, store.ErrReplaced) {
			n.log.Warn("read durable applied index", "err", err)
		}
		return
	}
	to := min(durable, n.appliedIdx)
	for _, idx := range n.snapshots {
		to = min(to, idx)
	}
	if !n.soleVoter || len(n.rep.Conf().Learners) > 0 {
		to = min(to, n.wal.IndexBefore(n.cfg.LogTailBytes))
	}
	to = n.retention.upTo(to, n.wal.IndexWithin(n.cfg.LogRetention))
	if n.wal.Droppable(to) == 0 || n.truncating.Swap(true) {
		return
	}
	n.letGo(to, "it has reached its limit")
	work := func() {
		defer n.truncating.Store(false)
		if err := n.wal.Truncate(to); err != nil && !errors.Is(err, wal.ErrClosed) {
			n.fatalLater(fmt.Errorf("truncate log to %d: %w", to, err))
		}
	}
	if n.cfg.Manual {
		work()
	} else {
		n.wg.Go(work)
	}
}
