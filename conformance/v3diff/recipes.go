package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	epb "go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	lpb "go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/protobuf/proto"
)

var (
	lockCall     = method{lpb.Lock_Lock_FullMethodName, func() proto.Message { return new(lpb.LockResponse) }}
	unlockCall   = method{lpb.Lock_Unlock_FullMethodName, func() proto.Message { return new(lpb.UnlockResponse) }}
	campaignCall = method{epb.Election_Campaign_FullMethodName, func() proto.Message { return new(epb.CampaignResponse) }}
	proclaimCall = method{epb.Election_Proclaim_FullMethodName, func() proto.Message { return new(epb.ProclaimResponse) }}
	resignCall   = method{epb.Election_Resign_FullMethodName, func() proto.Message { return new(epb.ResignResponse) }}
	leaderCall   = method{epb.Election_Leader_FullMethodName, func() proto.Message { return new(epb.LeaderResponse) }}
)

// recipe draws a request of etcd's Lock and Election services, or a short story of several clients.
func (s *script) recipe() error {
	switch k := s.r.IntN(100); {
	case k < 18:
		id := s.ownLease()
		return s.unary(lockCall, &lpb.LockRequest{Name: s.recipeName("lock", id), Lease: id})
	case k < 34:
		id := s.ownLease()
		key := fmt.Appendf(nil, "%s/%x", s.recipeName("lock", id), id)
		if s.chance(20) {
			key = s.key()
		}
		return s.unary(unlockCall, &lpb.UnlockRequest{Key: key})
	case k < 50:
		return s.campaign()
	case k < 62:
		return s.unary(proclaimCall, &epb.ProclaimRequest{Leader: s.leaderKey(), Value: s.value()})
	case k < 72:
		return s.unary(resignCall, &epb.ResignRequest{Leader: s.leaderKey()})
	case k < 82:
		return s.unary(leaderCall, &epb.LeaderRequest{Name: s.recipeName("elect", s.ownLease())})
	case k < 87:
		return s.leaseless()
	case k < 94:
		return s.contend()
	}
	return s.elect()
}

// ownLease draws the id of a lease whose id the script has chosen, rarely of none. A key of a recipe has its lease's id in its name. A
// lease whose id the server chose would give other keys on the two sides.
func (s *script) ownLease() int64 {
	var own []int64
	for _, id := range s.leases {
		if !marked(id, leaseMark) {
			own = append(own, id)
		}
	}
	if len(own) == 0 || s.chance(15) {
		return one(s.dice, int64(1), -1, 404)
	}
	return one(s.dice, own...)
}

// recipeName is the name of a lock or election that one lease uses alone: a request of another would wait for ever.
func (s *script) recipeName(of string, lease int64) []byte {
	return fmt.Appendf(nil, "%s%s-%x", s.prefix, of, lease)
}

func (s *script) campaign() error {
	id := s.ownLease()
	a, err := s.asked(campaignCall, &epb.CampaignRequest{Name: s.recipeName("elect", id), Lease: id, Value: s.value()})
	if err != nil {
		return err
	}
	if r, ok := a.message.(*epb.CampaignResponse); ok {
		key := proto.Clone(r.Leader).(*epb.LeaderKey)
		key.Rev += revisionMark - s.a.first
		s.leaders = append(s.leaders, key)
	}
	return nil
}

// leaderKey draws what a campaign has answered, at times with a change, rarely nothing.
func (s *script) leaderKey() *epb.LeaderKey {
	if len(s.leaders) == 0 || s.chance(8) {
		// A lease of 0 is not drawn: see differences.
		return one(s.dice, nil, &epb.LeaderKey{Lease: 1}, &epb.LeaderKey{Name: []byte("e"), Key: s.key(), Rev: s.at(), Lease: s.ownLease()})
	}
	key := proto.Clone(one(s.dice, s.leaders...)).(*epb.LeaderKey)
	if s.chance(10) {
		key.Rev = s.at()
	}
	if s.chance(10) {
		key.Lease = s.ownLease()
	}
	return key
}

// asked is unary for a caller that wants the original's answer.
func (s *script) asked(m method, req proto.Message) (*answer, error) {
	st := &step{method: m, req: req}
	return s.ask(kind(st), st.String(), req, func(x *side) (*answer, error) { return x.call(st) })
}

// leaseless locks or campaigns without a lease: the server makes one. The key has its id in its name, which text leaves out.
func (s *script) leaseless() error {
	name := []byte(s.prefix + "session")
	m, req := lockCall, proto.Message(&lpb.LockRequest{Name: name})
	if s.chance(50) {
		m, req = campaignCall, &epb.CampaignRequest{Name: name, Value: s.value()}
	}
	s.leases = append(s.leases, leaseMark+int64(s.named)) // the end of the script takes it back
	s.named++
	keys := map[*side][]byte{s.a: nil, s.b: nil}
	st := &step{method: m, req: req}
	_, err := s.ask(kind(st), st.String(), req, func(x *side) (*answer, error) {
		a, err := x.call(st)
		if err != nil {
			return nil, err
		}
		var key []byte
		switch r := a.message.(type) {
		case *lpb.LockResponse:
			key = r.Key
		case *epb.CampaignResponse:
			key = r.Leader.Key
		}
		id := int64(0)
		_, _ = fmt.Sscanf(string(key), string(name)+"/%x", &id) // 0: refused
		x.granted(id)
		s.mu.Lock()
		keys[x] = key
		s.mu.Unlock()
		return a, nil
	})
	if err != nil {
		return err
	}
	_, err = s.ask("Unlock", "Unlock (of that)", nil, func(x *side) (*answer, error) {
		return x.call(&step{method: unlockCall, req: &lpb.UnlockRequest{Key: keys[x]}})
	})
	return err
}

// two grants the leases of two clients of a story.
func (s *script) two() (first, second int64, err error) {
	first = int64(s.script)*1000 + 7_000_700
	second = first + 1
	for _, id := range []int64{first, second} {
		if err := s.unary(grantCall, &pb.LeaseGrantRequest{ID: id, TTL: 1000}); err != nil {
			return 0, 0, err
		}
	}
	return first, second, nil
}

// over takes them back.
func (s *script) over(ids ...int64) error {
	for _, id := range ids {
		if err := s.unary(revokeCall, &pb.LeaseRevokeRequest{ID: id}); err != nil {
			return err
		}
	}
	return nil
}

// waits makes a call that has to wait for others, does what ends the wait once the call has its key, and returns its answer.
func (x *side) waits(st *step, prefix []byte, then ...*step) (*answer, error) {
	type result struct {
		a   *answer
		err error
	}
	done := make(chan result, 1)
	waiting := &side{frame: x.frame, cluster: x.cluster, conns: x.conns, home: x.home, packed: x.packed}
	go func() {
		a, err := waiting.call(st)
		done <- result{a, err}
	}()
	end := slices.Concat(prefix[:len(prefix)-1], []byte{'/' + 1})
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		a, err := x.call(&step{method: rangeCall, req: &pb.RangeRequest{Key: prefix, RangeEnd: end, CountOnly: true}})
		if err != nil {
			return nil, err
		}
		if r, ok := a.message.(*pb.RangeResponse); ok && r.Count == 2 {
			break
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%s does not wait: %s", st, a.text)
		}
	}
	for _, t := range then {
		if _, err := x.call(t); err != nil {
			return nil, err
		}
	}
	r := <-done
	return r.a, r.err
}

// contend: two clients want one lock. The second gets it when the first gives it back or dies; or it dies while it waits.
func (s *script) contend() error {
	first, second, err := s.two()
	if err != nil {
		return err
	}
	name := []byte(s.prefix + "contended")
	prefix := append(slices.Clone(name), '/')
	if err := s.unary(lockCall, &lpb.LockRequest{Name: name, Lease: first}); err != nil {
		return err
	}
	unlock := &step{method: unlockCall, req: &lpb.UnlockRequest{Key: fmt.Appendf(nil, "%s%x", prefix, first)}}
	dies := func(id int64) *step { return &step{method: revokeCall, req: &pb.LeaseRevokeRequest{ID: id}} }
	then := one(s.dice, []*step{unlock}, []*step{dies(first)}, []*step{dies(second), unlock})
	st := &step{method: lockCall, req: &lpb.LockRequest{Name: name, Lease: second}}
	if _, err := s.ask("Lock", st.String()+" waits, until "+fmt.Sprint(then), nil, func(x *side) (*answer, error) { return x.waits(st, prefix, then...) }); err != nil {
		return err
	}
	return s.over(first, second)
}

// hear reads one message of an Observe.
func (x *side) observed(stream epb.Election_ObserveClient) (*answer, error) {
	r, err := stream.Recv()
	if err := x.alive(err); err != nil {
		return nil, err
	}
	if err != nil {
		return x.judge(nil, err), nil
	}
	return x.judge(r, nil), nil
}

// elect: two clients want to lead while a third looks on.
func (s *script) elect() error {
	first, second, err := s.two()
	if err != nil {
		return err
	}
	name := []byte(s.prefix + "contested")
	prefix := append(slices.Clone(name), '/')
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s.pack()
	streams := map[*side]epb.Election_ObserveClient{}
	for _, x := range []*side{s.a, s.b} {
		if streams[x], err = epb.NewElectionClient(x.conns[x.home]).Observe(ctx, &epb.LeaderRequest{Name: name}, x.options()...); err != nil {
			return err
		}
	}
	observe := func() error {
		_, err := s.ask("Observe", "(observed)", nil, func(x *side) (*answer, error) { return x.observed(streams[x]) })
		return err
	}
	if err := s.unary(leaderCall, &epb.LeaderRequest{Name: name}); err != nil { // there is no leader
		return err
	}
	a, err := s.asked(campaignCall, &epb.CampaignRequest{Name: name, Lease: first, Value: s.value()})
	if err != nil {
		return err
	}
	r, ok := a.message.(*epb.CampaignResponse)
	if !ok {
		return s.over(first, second) // it differs, or a limit was met on both sides
	}
	if err := observe(); err != nil {
		return err
	}
	leader := proto.Clone(r.Leader).(*epb.LeaderKey)
	leader.Rev += revisionMark - s.a.first
	for range s.r.IntN(3) {
		if err := s.unary(proclaimCall, &epb.ProclaimRequest{Leader: leader, Value: s.value()}); err != nil {
			return err
		}
		if err := observe(); err != nil {
			return err
		}
	}
	then := one(s.dice, &step{method: resignCall, req: &epb.ResignRequest{Leader: leader}}, &step{method: revokeCall, req: &pb.LeaseRevokeRequest{ID: first}})
	st := &step{method: campaignCall, req: &epb.CampaignRequest{Name: name, Lease: second, Value: s.value()}}
	if _, err := s.ask("Campaign", st.String()+" waits, until "+then.String(), nil, func(x *side) (*answer, error) { return x.waits(st, prefix, then) }); err != nil {
		return err
	}
	if err := observe(); err != nil {
		return err
	}
	if err := s.unary(leaderCall, &epb.LeaderRequest{Name: name}); err != nil {
		return err
	}
	return s.over(first, second)
}
