package node

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/holdfastdb/holdfast/core/peer"
	"github.com/holdfastdb/holdfast/core/raft"
	"github.com/holdfastdb/holdfast/core/store"
)

// applying is how far this member has applied the log. Loop only.
type applying struct {
	appliedIdx  uint64
	termApplied uint64 // term of the last applied entry
	termLed     uint64 // the last in which this member began to stamp
	knownCommit uint64 // when it was opened, with Config.stopped
	level       uint16 // of the cluster, as far as its consequences were seen to
}

// Reconnected implements peer.Handler: earlier frames to the leader may be lost.
func (n *Node) Reconnected(to uint64, channel peer.Channel) {
	if channel != peer.ChannelForward && (channel != peer.ChannelControl || !n.cfg.Archive) {
		return
	}
	n.later(func() error {
		if channel == peer.ChannelForward {
			n.tellAddress(to)
		}
		switch {
		case to != n.rep.Leader():
		case channel == peer.ChannelForward:
			n.resend(to)
		default:
			n.watermark.asked = false
		}
		return nil
	})
}

// run is the loop goroutine.
func (n *Node) run() {
	err := func() (err error) {
		defer func() {
			// A broken invariant in raft or a machine, or a log that raft could not read: stop before anything is answered.
			switch r := recover().(type) {
			case nil:
			case error:
				err = fmt.Errorf("broken invariant: %w\n%s", r, debug.Stack())
			default:
				err = fmt.Errorf("broken invariant: %v\n%s", r, debug.Stack())
			}
		}()
		// Set for the moment when raft's clock advances next: a loop that looks more often is most of the work of an idle
		// process.
		t := time.NewTimer(0)
		defer t.Stop()
		armed := time.Duration(-1) // the tick behind which t is set
		n.lookAgain = time.NewTimer(time.Hour)
		defer n.lookAgain.Stop()
		for {
			select {
			case <-n.stop:
				return nil
			case <-n.wake:
			case <-t.C:
				armed = -1
			case <-n.lookAgain.C:
			}
			if err := n.Pump(); err != nil {
				return err
			}
			if armed != n.lastTick {
				armed = n.lastTick
				if n.cfg.Ticked != nil {
					n.cfg.Ticked(n.writer.syncs(n.clock.Mono()))
				}
				t.Reset(armed + n.cfg.TickInterval - n.clock.Mono())
			}
		}
	}()
	n.die(err)
	n.writer.close()
}

// Pump does everything that can be done now and returns; an error is fatal. The driver calls it (the loop goroutine, or
// the simulation).
func (n *Node) Pump() error {
	if err := n.drainInbox(); err != nil {
		return err
	}
	if err := n.finishWrites(); err != nil {
		return err
	}
	n.tickIfDue()
	for {
		n.requeueChanges()
		// New work goes to the disk before committed work is applied, so that the disk is busy meanwhile.
		if err := n.dispatch(); err != nil {
			return err
		}
		n.startReadRound()
		if !n.rep.Ready(&n.rd) {
			if n.writeHere() {
				if err := n.finishWrites(); err != nil {
					return err
				}
				continue
			}
			break
		}
		if err := n.handleReady(&n.rd); err != nil {
			return err
		}
		n.tickIfDue() // a long catch-up must not starve heartbeats
	}
	n.kickWriter()
	n.housekeeping()
	if n.cfg.Archive {
		n.tellArchived()
	}
	n.publish(false)
	return nil
}

func (n *Node) tickIfDue() {
	now := n.clock.Mono()
	for i := 0; now-n.lastTick >= n.cfg.TickInterval; i++ {
		if i == n.cfg.ElectionTicks { // after a pause (laptop lid, stopped process) do not run an election's worth at once
			n.lastTick = now
			break
		}
		n.lastTick += n.cfg.TickInterval
		n.rep.Tick()
	}
}

func (n *Node) handleReady(rd *raft.Ready) error {
	n.noticeTerm()
	for i := range rd.Send {
		n.send(&rd.Send[i])
	}
	for _, w := range rd.Writes {
		if k := len(w.Batch.Entries); k > 0 {
			n.packedIndex = w.Batch.Entries[k-1].Index
			if n.packed.index == 0 && n.rep.IsLeader() {
				n.packed = sample{n.packedIndex, n.clock.Mono()}
			}
		}
		if w.Snapshot != nil {
			if err := n.installSnapshot(w); err != nil {
				return err
			}
			continue
		}
		n.submit(w)
	}
	for i := range rd.Reads {
		n.readAnswered(rd.Reads[i])
	}
	if len(rd.Commits) > 0 {
		n.kickWriter()
		if err := n.apply(rd.Commits); err != nil {
			return err
		}
		n.rep.Applied(rd)
	}
	n.readsApplied()
	return nil
}

func (n *Node) send(o *raft.Outgoing) {
	if o.Snapshot != nil {
		n.sendSnapshot(o)
		return
	}
	if _, timing := n.sent[o.To]; o.Last != 0 && !timing { // one sample at a time per member
		n.sent[o.To] = sample{o.Last, n.clock.Mono()}
	}
	if !n.net.Send(o.To, o.Lane, o.Frame) && o.Lane == peer.ChannelAppend {
		n.rep.ReportUnreachable(o.To)
		if o.Last != 0 {
			n.latencyOf(o.To).Failed++
		}
	}
}

// sample is an entry whose time through a step is being taken.
type sample struct {
	index uint64
	at    time.Duration
}

// noticeTerm reacts to a new term or leader. Loop only.
func (n *Node) noticeTerm() {
	if term := n.rep.Term(); term != n.acceptTerm {
		n.acceptTerm = term
		clear(n.accepted)
		clear(n.turnedAway)
		clear(n.sent)
		n.packed = sample{}
		n.xferTo = 0
	}
	if !n.rep.IsLeader() {
		n.counted = n.counted || n.rep.Leader() != 0
		if n.changing != nil && n.changing.seq == 0 {
			n.complete(n.changing, nil, ErrNotLeader)
		}
		n.changing = nil
		n.xferTo = 0
	}
}

// apply carries committed entries out. Loop only.
func (n *Node) apply(cs []raft.Committed) error {
	start := n.clock.Mono()
	stamped := uint64(0) // the term of the last entry with a stamp
	for i := range cs {
		n.tasks.Yield() // another member may apply it, and answer, before it is applied here
		c := &cs[i]
		data := c.Data
		var extra func(store.Batch) error
		if c.Change != nil {
			data = c.Change.Context
			extra = func(b store.Batch) error {
				conf := n.rep.ApplyChange(c.Change, !n.members.TakeAccepted())
				b.Set(confKey, conf.Encode())
				return nil
			}
		}
		// Commands of this member were encoded together (pack); commands of another member lie in a frame with other
		// entries.
		n.applier.Own(n.rep.IsLeader() && c.Term == n.rep.Term())
		// The commit point of the state: one store batch with all effects and the applied index.
		if err := n.applier.ApplyWith(c.Index, c.Term, data, extra, n.wanted, n.applied); err != nil {
			return fmt.Errorf("apply %d@%d: %w", c.Index, c.Term, err)
		}
		n.appliedIdx = c.Index
		if len(data) > 0 {
			stamped = c.Term
		}
		if level := n.members.Level(); level != n.level {
			if err := n.levelRaised(level); err != nil {
				return err
			}
		}
		if c.Term != n.termApplied {
			n.termApplied = c.Term
			n.supersede(c.Term)
		}
		if c.Change != nil {
			if err := n.changeApplied(); err != nil {
				return err
			}
		}
		if n.members.Changes() != n.heardOf { // a member has moved
			n.syncPeers()
		}
	}
	now := n.clock.Mono()
	if n.packed.index != 0 && n.packed.index <= n.appliedIdx {
		n.steps.Commit.Done(1, start-n.packed.at)
		n.packed = sample{}
	}
	n.steps.Apply.Done(len(cs), now-start)
	if stamped != 0 { // raft's first entry of a term has no stamp, and says nothing of the time
		st, ofTerm := n.applier.Stamp(), stamped == n.rep.Term()
		n.heard(st.TickMs, now, ofTerm && !n.rep.IsLeader(), ofTerm && n.rep.IsLeader())
		n.lastWall = max(n.lastWall, st.WallNs)
	}
	return nil
}

// publish copies the loop's state to where other goroutines read it, if it has changed.
func (n *Node) publish(force bool) {
	old := n.pub.Load()
	term := n.rep.Term()
	conf := n.rep.Conf()
	ready := n.rep.Leader() != 0 && n.termApplied == term && term != 0
	n.commitIdx.Store(n.rep.Commit())
	n.shownIdx.Store(n.appliedIdx)
	n.feed.grew()
	p := published{leader: n.rep.Leader(), term: term, ready: ready}
	if ready && n.rep.IsLeader() {
		p.leads = term
		p.sole = n.soleVoter && len(conf.Learners) == 0 && n.appliedIdx >= n.aloneFrom
	}
	if old != nil && !force && old.leader == p.leader && old.term == p.term && old.leads == p.leads && old.sole == p.sole &&
		old.ready == p.ready {
		return
	}
	p.conf = conf
	if old != nil && old.leader != p.leader {
		switch {
		case p.leader == n.id:
			n.log.Info("leader", "term", p.term)
		case p.leader != 0:
			n.log.Info("follows", "leader", fmt.Sprintf("%x", p.leader), "term", p.term)
		default:
			n.log.Info("no leader", "term", p.term)
		}
	}
	n.pub.Store(&p)
	n.pubChange.notify()
}

func (n *Node) fatalLater(err error) { n.later(func() error { return err }) }
