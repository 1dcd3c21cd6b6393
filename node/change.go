package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/entry"
	emember "github.com/holdfastdb/holdfast/entry/member"
	"github.com/holdfastdb/holdfast/replica"
)

// Errors of membership calls.
var (
	ErrNotLeader             = errors.New("not leader")
	ErrMemberNotFound        = errors.New("member not found")
	ErrMemberExists          = errors.New("member exists")
	ErrPeerAddrExists        = errors.New("peer address exists")
	ErrNotEnoughStarted      = errors.New("not enough started members")
	ErrUnhealthy             = errors.New("unhealthy cluster")
	ErrLearnerNotReady       = errors.New("learner not ready")
	ErrMemberNotLearner      = errors.New("member is not a learner")
	ErrTooManyLearners       = errors.New("too many learners")
	ErrTransferTargetUnknown = errors.New("transfer target unknown")
	ErrTimeoutTransfer       = errors.New("leader transfer timed out")
)

// healthyAfter is the default of Config.HealthyAfter, etcd's value.
const healthyAfter = 5 * time.Second

// maxLearners bounds learners in the cluster unless Config says otherwise (etcd's default).
const maxLearners = 1

// change is a membership change on its way.
type change struct {
	kind replica.ChangeKind
	id   uint64
}

// startChange proposes a membership change; one at a time, and only after an entry of this term was applied (raft turns
// a change it does not allow into an empty entry without a word). Loop only, leader only.
func (n *Node) startChange(p *pending) {
	if n.changing != nil || n.termApplied != n.rep.Term() {
		if len(n.changes) >= maxChanges {
			n.changes = slices.DeleteFunc(n.changes, func(p *pending) bool { return p.call == nil && p.state.Load() == stateAbandoned })
		}
		if len(n.changes) >= maxChanges {
			n.refused.Add(1)
			n.complete(p, nil, ErrOverloaded)
			return
		}
		n.changes = append(n.changes, p)
		return
	}
	if p.call == nil && !p.state.CompareAndSwap(stateQueued, stateDispatched) {
		return
	}
	term := n.rep.Term()
	n.track(p, term)
	buf := entry.AppendHeader(nil, n.stamp())
	buf = entry.AppendPacked(buf, entry.AppendCommand(nil, &entry.Command{Origin: n.origin, Seq: p.seq, Term: term, Parts: p.parts}))
	if err := n.rep.ProposeChange(replica.Change{Kind: p.change.kind, ID: p.change.id, Context: buf}); err != nil {
		n.untrack(p)
		n.lanes.unshift([]*pending{p})
		return
	}
	n.changing = p
}

// maxChanges bounds the membership changes that wait for the one in flight; further ones are refused.
const maxChanges = 64

// requeueChanges puts waiting membership changes back in front of their lane once the first of them can be proposed, or once this
// member does not lead any more: they then end as those do that come there. Loop only.
func (n *Node) requeueChanges() {
	if len(n.changes) == 0 || n.rep.IsLeader() && (n.changing != nil || n.termApplied != n.rep.Term()) {
		return
	}
	n.lanes.unshift(n.changes)
	clear(n.changes)
	n.changes = n.changes[:0]
}

// changeApplied does what an applied membership change means for this member. Loop only.
func (n *Node) changeApplied() error {
	n.changing = nil
	// The client may switch a removed member off at once. This member must not come back from a crash with the old
	// configuration, in which it would need that member's vote: so the change is durable before it is answered.
	if err := n.store.Flush(); err != nil {
		return fmt.Errorf("flush a membership change: %w", err)
	}
	if p := n.changed; p != nil {
		n.changed = nil
		n.complete(p, n.changedTo, nil)
	}
	n.soleVoter = isSole(n.rep.Conf(), n.id)
	n.aloneFrom = n.rep.Commit()
	n.syncPeers()
	n.publish(true)
	if n.members.Removed(n.id) && !n.cfg.stopped {
		n.later(func() error {
			// The others stop talking to it, so after a restart it would not hear of this again.
			if err := n.store.Flush(); err != nil {
				n.log.Warn("flush the store", "err", err)
			}
			return removedErr(n.id)
		})
	}
	return nil
}

func removedErr(id uint64) error {
	return fmt.Errorf("member %x was removed from the cluster; its data can be deleted", id)
}

// syncPeers gives the network the present members and their addresses. Loop only.
func (n *Node) syncPeers() {
	for _, m := range n.members.List() {
		n.connect(m.ID, m.PeerURLs)
	}
	for _, id := range slices.Sorted(maps.Keys(n.peered)) {
		if n.members.Removed(id) {
			n.net.RemovePeer(id)
			delete(n.peered, id)
		}
	}
}

func (n *Node) connect(id uint64, urls []string) {
	if id == n.id || len(urls) == 0 {
		return
	}
	n.peered[id] = struct{}{}
	if _, ok := n.members.Get(id); !ok {
		n.pending.add(id)
	}
	n.net.SetPeer(id, dialable(urls))
}

// dialable turns the peer URLs of one member into what the network dials.
func dialable(urls []string) string {
	var all []string
	for _, u := range urls {
		all = append(all, HostPort(u))
	}
	return strings.Join(all, ",")
}

// HostPort turns a peer URL into an address to dial: host:port without the scheme, or unix:PATH.
func HostPort(peerURL string) string {
	u, err := url.Parse(peerURL)
	switch {
	case err == nil && (u.Scheme == "unix" || u.Scheme == "unixs"):
		return "unix:" + u.Host + u.Path
	case err == nil && u.Host != "":
		return u.Host
	}
	return strings.TrimPrefix(peerURL, "//")
}

// peerURLs turns an address as StartOptions has it into the URLs of the member list.
func peerURLs(addr string) []string {
	if addr == "" {
		return nil
	}
	var urls []string
	for _, a := range strings.Split(addr, ",") {
		if !strings.Contains(a, "://") {
			a = "http://" + a
		}
		urls = append(urls, a)
	}
	return urls
}

// Member is one member as the log knows it.
type Member struct {
	ID         uint64
	Name       string // empty = added but never started
	PeerURLs   []string
	ClientURLs []string
	Learner    bool
}

func publicMember(m emember.Member) Member {
	return Member{ID: m.ID, Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, Learner: m.Learner}
}

// Members lists the cluster as applied here, by id.
func (n *Node) Members() []Member {
	var out []Member
	for _, m := range n.members.List() {
		out = append(out, publicMember(m))
	}
	return out
}

// AddMember adds a voter or a learner that will listen for members at peerURLs; the leader makes its id. The same checks
// as etcd's strict reconfiguration apply. Works on every member.
func (n *Node) AddMember(ctx context.Context, peerURLs []string, learner bool) (Member, error) {
	m := emember.Member{PeerURLs: peerURLs, Learner: learner}
	b, err := n.Call(ctx, "member.add", emember.AppendMember(nil, &m))
	if err != nil {
		return Member{}, err
	}
	m, err = emember.DecodeMember(b)
	return publicMember(m), err
}

// RemoveMember removes a member for good.
func (n *Node) RemoveMember(ctx context.Context, id uint64) error {
	_, err := n.Call(ctx, "member.remove", emember.AppendPart(nil, &emember.Part{Remove: &emember.Remove{ID: id}}))
	return err
}

// PromoteMember makes a learner that has caught up a voter.
func (n *Node) PromoteMember(ctx context.Context, id uint64) error {
	_, err := n.Call(ctx, "member.promote", emember.AppendPart(nil, &emember.Part{Promote: &emember.Promote{ID: id}}))
	return err
}

// UpdateMember changes a member's peer addresses.
func (n *Node) UpdateMember(ctx context.Context, id uint64, peerURLs []string) error {
	return n.memberCommand(ctx, &emember.Part{SetPeers: &emember.SetPeers{ID: id, PeerURLs: peerURLs}})
}

// Announce publishes this member's name and client addresses if the log does not have them yet, and its peer address if
// it changed. Called by the process once the node is ready.
func (n *Node) Announce(ctx context.Context) error {
	m, ok := n.members.Get(n.id)
	if !ok {
		return nil // a learner that has not caught up to its own addition; the caller tries again
	}
	if m.Name != n.ident.Name || !slices.Equal(m.ClientURLs, n.cfg.ClientURLs) {
		if err := n.memberCommand(ctx, &emember.Part{Publish: &emember.Publish{ID: n.id, Name: n.ident.Name, ClientURLs: n.cfg.ClientURLs}}); err != nil {
			return err
		}
	}
	urls := peerURLs(n.ident.PeerAddr)
	if len(urls) == 0 || n.keepURLs && len(m.PeerURLs) > 0 || dialable(m.PeerURLs) == dialable(urls) {
		return nil
	}
	return n.UpdateMember(ctx, n.id, urls)
}

// Announced reports whether the log knows this member by its name.
func (n *Node) Announced() bool {
	m, ok := n.members.Get(n.id)
	return ok && m.Name == n.ident.Name && slices.Equal(m.ClientURLs, n.cfg.ClientURLs)
}

func (n *Node) memberCommand(ctx context.Context, p *emember.Part) error {
	res, err := n.Propose(ctx, LaneSystem, entry.Part{Machine: entry.MachineMember, Body: emember.AppendPart(nil, p)})
	return memberErr(res, err)
}

func memberErr(res *entry.Result, err error) error {
	if err != nil {
		return err
	}
	if res == nil || res.Rejection == nil {
		return nil
	}
	switch res.Rejection.Code {
	case emember.NotFound:
		return ErrMemberNotFound
	case emember.Exists, emember.WasRemoved:
		return ErrMemberExists
	case emember.PeerURLExists:
		return ErrPeerAddrExists
	case emember.NotLearner:
		return ErrMemberNotLearner
	case emember.LastVoter:
		return ErrNotEnoughStarted
	}
	return res.Rejection
}

// registerMembership installs the leader's side of the membership calls.
func (n *Node) registerMembership() {
	n.Handle("member.add", func(ctx context.Context, req []byte) ([]byte, error) {
		m, err := emember.DecodeMember(req)
		if err != nil {
			return nil, err
		}
		m, err = n.addMember(ctx, m)
		return emember.AppendMember(nil, &m), err
	})
	n.Handle("member.remove", func(ctx context.Context, req []byte) ([]byte, error) {
		p, err := emember.DecodePart(req)
		if err != nil || p.Remove == nil {
			return nil, emember.ErrMalformed
		}
		return nil, n.removeMember(ctx, p.Remove.ID)
	})
	n.Handle("member.promote", func(ctx context.Context, req []byte) ([]byte, error) {
		p, err := emember.DecodePart(req)
		if err != nil || p.Promote == nil {
			return nil, emember.ErrMalformed
		}
		return nil, n.promoteMember(ctx, p.Promote.ID)
	})
	n.Handle("member.join", n.handleJoin)
	n.Handle("leader.transfer", n.handleTransfer)
}

func (n *Node) propChange(ctx context.Context, kind replica.ChangeKind, id uint64, p *emember.Part) error {
	res, err := n.propose(ctx, LaneSystem, 0, &change{kind: kind, id: id},
		[]entry.Part{{Machine: entry.MachineMember, Body: emember.AppendPart(nil, p)}})
	return memberErr(res, err)
}

// addMember runs on the leader.
func (n *Node) addMember(ctx context.Context, m emember.Member) (emember.Member, error) {
	if len(m.PeerURLs) == 0 {
		return m, errors.New("a member needs a peer address")
	}
	started, learners := 0, 0
	members := n.members.List()
	voters := 0
	for _, o := range members {
		for _, u := range m.PeerURLs {
			if slices.Contains(o.PeerURLs, u) {
				return m, ErrPeerAddrExists
			}
		}
		if o.Learner {
			learners++
			continue
		}
		voters++
		if o.Name != "" {
			started++
		}
	}
	if m.Learner && learners >= n.cfg.MaxLearners {
		return m, ErrTooManyLearners
	}
	// Adding a voter raises the quorum: there must be enough started members for the new one (etcd's strict check; with a
	// single started voter the second may be added).
	if !m.Learner && !n.cfg.LooseReconfig && started < (voters+1)/2+1 && !(voters == 1 && started == 1) {
		return m, ErrNotEnoughStarted
	}
	if !slices.ContainsFunc(members, func(o emember.Member) bool { return len(o.PeerURLs) > 0 }) {
		// The new member could reach none of the others, and as a voter it would make the quorum unreachable for good.
		return m, fmt.Errorf("%w: no member has a peer address; start this one with --peer first", ErrUnhealthy)
	}
	// Whether it votes or not: etcd counts the new member as one that is down, unless there is a single voter.
	if !n.cfg.LooseReconfig && voters > 1 && n.healthyVoters(members) < (voters+1)/2+1 {
		return m, ErrUnhealthy
	}
	m.ID = randomID()
	kind := replica.AddVoter
	if m.Learner {
		kind = replica.AddLearner
	}
	return m, n.propChange(ctx, kind, m.ID, &emember.Part{Add: &emember.Add{Member: m}})
}

// healthyVoters counts the voters that have been connected to this leader without a break for a while, itself among them.
func (n *Node) healthyVoters(members []emember.Member) int {
	healthy := 0
	for _, o := range members {
		if !o.Learner && (o.ID == n.id || time.Duration(n.net.ConnectedFor(o.ID)) >= n.cfg.HealthyAfter) {
			healthy++
		}
	}
	return healthy
}

// removeMember runs on the leader.
func (n *Node) removeMember(ctx context.Context, id uint64) error {
	members := n.members.List()
	m, ok := n.members.Get(id)
	if !ok {
		return ErrMemberNotFound
	}
	if !m.Learner {
		voters, started := 0, 0
		for _, o := range members {
			if o.Learner {
				continue
			}
			if o.ID == id {
				continue
			}
			voters++
			if o.Name != "" {
				started++
			}
		}
		if voters == 0 || !n.cfg.LooseReconfig && started < voters/2+1 {
			return ErrNotEnoughStarted
		}
		// A leader does not remove itself: once it is gone the others might not know that the change was committed, and
		// would go on asking for its vote. The caller goes on with the next leader.
		if id == n.id {
			switch err := n.transfer(ctx, 0); {
			case errors.Is(err, ErrTransferTargetUnknown):
				return ErrUnhealthy
			case err != nil:
				return err
			}
			return ErrNotLeader
		}
		// A member that is down is no part of the active quorum and may go; a live one only if the rest stays healthy.
		if n.net.ConnectedFor(id) > 0 && !n.cfg.LooseReconfig {
			if n.healthyVoters(members)-1 < voters/2+1 {
				return ErrUnhealthy
			}
		}
	}
	return n.propChange(ctx, replica.Remove, id, &emember.Part{Remove: &emember.Remove{ID: id}})
}

// promoteMember runs on the leader.
func (n *Node) promoteMember(ctx context.Context, id uint64) error {
	m, ok := n.members.Get(id)
	if !ok {
		return ErrMemberNotFound
	}
	if !m.Learner {
		return ErrMemberNotLearner
	}
	voters, started := 1, 1 // with the one to be promoted
	for _, o := range n.members.List() {
		if o.Learner {
			continue
		}
		voters++
		if o.Name != "" {
			started++
		}
	}
	if !n.cfg.LooseReconfig && started < voters/2+1 {
		return ErrNotEnoughStarted
	}
	switch near, err := n.near(ctx, id); {
	case err != nil:
		return err
	case !near:
		return ErrLearnerNotReady
	}
	return n.propChange(ctx, replica.AddVoter, id, &emember.Part{Promote: &emember.Promote{ID: id}})
}

// near asks the loop whether a learner has caught up, because what is published may be half a second old.
func (n *Node) near(ctx context.Context, id uint64) (bool, error) {
	answer := false
	if err := n.onLoop(ctx, func() { answer = n.caughtUp(id) }); err != nil {
		return false, err
	}
	return answer, nil
}

// caughtUp: the learner's log holds at least nine tenths of the leader's (etcd's measure). Loop only.
func (n *Node) caughtUp(id uint64) bool {
	for _, pr := range n.rep.Progress() {
		if pr.ID == id {
			return pr.Match > 0 && pr.Match*10 >= n.rep.Commit()*9
		}
	}
	return false
}

// promoteLearners promotes learners that joined by themselves once they have caught up. Loop only.
func (n *Node) promoteLearners() {
	if !n.rep.IsLeader() || n.changing != nil || n.rep.Term() != n.termApplied {
		return
	}
	for _, m := range n.members.List() {
		if !m.Learner || !m.AutoPromote || m.Name == "" || !n.caughtUp(m.ID) {
			continue
		}
		p := &pending{lane: LaneSystem, size: overheadBytes, change: &change{kind: replica.AddVoter, id: m.ID},
			parts: []entry.Part{{Machine: entry.MachineMember, Body: emember.AppendPart(nil, &emember.Part{Promote: &emember.Promote{ID: m.ID}})}},
			call:  func(*entry.Result, error) {}}
		n.startChange(p)
		return
	}
}

// publishProgress refreshes the leader's view of the others for status and promotion. Loop only.
func (n *Node) publishProgress() {
	pr := n.rep.Progress()
	if pr == nil && n.pub.Load().progress == nil {
		return
	}
	p := *n.pub.Load()
	p.progress, p.latency = pr, make(map[uint64]Latency, len(pr))
	for i := range pr {
		if l := n.latency[pr[i].ID]; l != nil {
			p.latency[pr[i].ID] = *l
		}
	}
	if len(n.latency) > len(p.latency) && pr != nil { // a member has gone
		maps.DeleteFunc(n.latency, func(id uint64, _ *Latency) bool { _, there := p.latency[id]; return !there })
	}
	n.pub.Store(&p)
}

// TransferLeader hands leadership to another member; to 0 picks the voter whose log is furthest. It returns once this
// cluster has the new leader. ErrTimeoutTransfer if the target did not take over in time.
func (n *Node) TransferLeader(ctx context.Context, to uint64) error {
	_, err := n.Call(ctx, "leader.transfer", emember.AppendPart(nil, &emember.Part{Promote: &emember.Promote{ID: to}}))
	return err
}

func (n *Node) handleTransfer(ctx context.Context, req []byte) ([]byte, error) {
	part, err := emember.DecodePart(req)
	if err != nil || part.Promote == nil {
		return nil, emember.ErrMalformed
	}
	return nil, n.transfer(ctx, part.Promote.ID)
}

// transfer runs on the leader and returns once another member leads.
func (n *Node) transfer(ctx context.Context, to uint64) error {
	if to == n.id {
		return nil
	}
	target := uint64(0)
	if err := n.onLoop(context.Background(), func() {
		if n.rep.IsLeader() {
			target = transferTarget(n.rep.Progress(), n.id, to)
		}
		if target != 0 {
			n.startTransfer(target)
		}
	}); err != nil {
		return err
	}
	if target == 0 {
		return ErrTransferTargetUnknown
	}
	deadline := n.clock.Mono() + 3*time.Duration(n.cfg.ElectionTicks)*n.cfg.TickInterval
	for {
		changed := n.pubChange.wait()
		if l := n.pub.Load().leader; l != n.id && l != 0 {
			return nil
		}
		switch n.tasks.Wait(max(deadline-n.clock.Mono(), 0), changed, ctx.Done(), n.dead) {
		case -1, 1:
			return ErrTimeoutTransfer
		case 2:
			return ErrStopped
		}
	}
}

// transferTarget is the voter asked for, or, for 0, the active one that has most of the log: nothing is proposed until the
// target has all of it, so one that has just been restarted would hold everybody up. 0 = there is none.
func transferTarget(all []replica.Progress, self, asked uint64) (target uint64) {
	most := uint64(0)
	for _, pr := range all {
		switch {
		case pr.ID == self || pr.Learner:
		case asked != 0:
			if pr.ID == asked {
				return asked
			}
		case pr.Active && (target == 0 || pr.Match > most):
			target, most = pr.ID, pr.Match
		}
	}
	return target
}

// startTransfer tells raft; nothing new is proposed until the target leads or an election's time is over. Loop only.
func (n *Node) startTransfer(to uint64) {
	n.rep.Transfer(to)
	n.xferTo, n.xferUntil = to, n.clock.Mono()+time.Duration(n.cfg.ElectionTicks)*n.cfg.TickInterval
}

// transferring: while leadership is being handed over nothing new is proposed, it would be dropped. Loop only.
func (n *Node) transferring() bool {
	if n.xferTo == 0 {
		return false
	}
	if n.clock.Mono() > n.xferUntil {
		n.xferTo = 0
		return false
	}
	return true
}
