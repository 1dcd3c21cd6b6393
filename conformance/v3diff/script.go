package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	epb "go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// method is one unary call.
type method struct {
	path   string
	answer func() proto.Message
}

var (
	rangeCall   = method{pb.KV_Range_FullMethodName, func() proto.Message { return new(pb.RangeResponse) }}
	putCall     = method{pb.KV_Put_FullMethodName, func() proto.Message { return new(pb.PutResponse) }}
	deleteCall  = method{pb.KV_DeleteRange_FullMethodName, func() proto.Message { return new(pb.DeleteRangeResponse) }}
	txnCall     = method{pb.KV_Txn_FullMethodName, func() proto.Message { return new(pb.TxnResponse) }}
	compactCall = method{pb.KV_Compact_FullMethodName, func() proto.Message { return new(pb.CompactionResponse) }}
	grantCall   = method{pb.Lease_LeaseGrant_FullMethodName, func() proto.Message { return new(pb.LeaseGrantResponse) }}
	revokeCall  = method{pb.Lease_LeaseRevoke_FullMethodName, func() proto.Message { return new(pb.LeaseRevokeResponse) }}
	ttlCall     = method{pb.Lease_LeaseTimeToLive_FullMethodName, func() proto.Message { return new(pb.LeaseTimeToLiveResponse) }}
	leasesCall  = method{pb.Lease_LeaseLeases_FullMethodName, func() proto.Message { return new(pb.LeaseLeasesResponse) }}
)

// step is one unary request with marks in place of numbers (see frame).
type step struct {
	method    method
	req       proto.Message
	elsewhere int // how many members from the script's own
}

func (st *step) String() string {
	return st.method.path[strings.LastIndexByte(st.method.path, '/')+1:] + (&frame{}).text(st.req)
}

// script is one random sequence of requests below a prefix of its own. Nothing of it is left when it has ended.
type script struct {
	*dice
	steps int
	a, b  *side
	did   []string       // for people: what was sent
	count map[string]int // requests by kind
	known map[string]int // differences that are documented
	codes map[string]int // refusals by code and text
	diff  string

	leaders []*epb.LeaderKey // what campaigns have answered, with marks
	mu      sync.Mutex       // guards what both sides note at the same time
}

func newScript(r *rand.Rand, i int) *script {
	return &script{dice: newDice(r, i), steps: 15 + r.IntN(35), count: map[string]int{}, known: map[string]int{}, codes: map[string]int{}}
}

// play sends the script to both. Its error is that a server is gone or does not answer; what differs is in diff.
func (s *script) play(a, b *side) error {
	s.a, s.b = a, b
	for _, x := range []*side{a, b} {
		if err := x.begin(s.script); err != nil {
			return err
		}
	}
	defer s.hangUp()
	err := s.run()
	if err == nil && s.diff == "" {
		err = s.listen()
	}
	s.hangUp()
	if clean := s.clean(); err == nil {
		err = clean
	}
	if err != nil {
		return fmt.Errorf("%w\nafter:\n%s", err, strings.Join(s.did, "\n"))
	}
	return nil
}

func (s *script) run() error {
	for i := 0; i < s.steps && s.diff == ""; i++ {
		if err := s.next(); err != nil {
			return err
		}
	}
	return nil
}

func (s *script) next() error {
	if s.r.IntN(2000) == 0 {
		return s.expire()
	}
	switch k := s.r.IntN(112); {
	case k < 22:
		return s.unary(rangeCall, s.readRange())
	case k < 26:
		return s.stream(s.streamed())
	case k < 46:
		return s.unary(putCall, s.put())
	case k < 53:
		return s.unary(deleteCall, s.delete())
	case k < 77:
		return s.unary(txnCall, s.txn())
	case k < 79:
		if err := s.listen(); err != nil { // what a watch is told of a previous value depends on whether that is still there
			return err
		}
		return s.unary(compactCall, s.compact())
	case k < 83:
		return s.unary(grantCall, s.grant())
	case k < 84:
		return s.unary(revokeCall, &pb.LeaseRevokeRequest{ID: s.lease()})
	case k < 86:
		return s.unary(ttlCall, &pb.LeaseTimeToLiveRequest{ID: s.lease(), Keys: s.chance(70)})
	case k < 87:
		return s.unary(leasesCall, &pb.LeaseLeasesRequest{})
	case k < 89:
		return s.renew()
	case k < 95:
		return s.watch()
	case k < 97:
		return s.unwatch()
	case k < 98:
		return s.odd()
	case k < 104:
		return s.recipe()
	case k < 109:
		return s.json()
	case k < 111:
		return s.torn()
	}
	return s.listen()
}

// both does the same on both sides at the same time.
func (s *script) both(do func(x *side) (*answer, error)) (a, b *answer, err error) {
	type result struct {
		a   *answer
		err error
	}
	ours := make(chan result, 1)
	go func() {
		a, err := do(s.b)
		ours <- result{a, err}
	}()
	a, err = do(s.a)
	r := <-ours
	if err != nil {
		return nil, nil, fmt.Errorf("the original: %w", err)
	}
	if r.err != nil {
		return nil, nil, fmt.Errorf("ours: %w", r.err)
	}
	return a, r.a, nil
}

// pack draws whether the next calls have their messages in gzip.
func (s *script) pack() bool {
	packed := s.chance(25)
	s.a.packed, s.b.packed = packed, packed
	return packed
}

// ask does the same on both sides and compares the answers.
func (s *script) ask(kind, what string, req proto.Message, do func(x *side) (*answer, error)) (*answer, error) {
	s.count[kind]++
	if s.pack() {
		s.count["(in gzip)"]++
		what += " (in gzip)"
	}
	s.did = append(s.did, what)
	a, b, err := s.both(do)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if a.code != codes.OK {
		s.codes[a.text[strings.LastIndex(a.text, "] ")+1:]]++ // of JSON without the headers
	}
	s.revision = max(s.revision, a.revision)
	s.compare(req, a, b)
	return a, nil
}

// compare notes the first difference that is not a documented one.
func (s *script) compare(req proto.Message, a, b *answer) {
	if a.text == b.text || s.diff != "" {
		return
	}
	for _, d := range differences {
		if d.covers != nil && d.covers(req, a, b) {
			s.known[d.name]++
			return
		}
	}
	s.diff = strings.Join(s.did, "\n") + "\n  etcd " + a.text + "\n  ours " + b.text
}

func (s *script) unary(m method, req proto.Message) error {
	st := &step{method: m, req: req}
	// Acknowledged writes of one member are visible through any other to requests that ask for that.
	if !mayBeOld(req) && s.chance(10) {
		st.elsewhere = 1
	}
	a, err := s.ask(kind(st), st.String(), req, func(x *side) (*answer, error) { return x.call(st) })
	if err != nil {
		return err
	}
	if c, ok := req.(*pb.CompactionRequest); ok && a.code == codes.OK {
		s.compacted = max(s.compacted, s.a.number(c.Revision)-s.a.first)
	}
	return nil
}

// mayBeOld reports whether a request is content with what one member has: a serializable Range, and a Txn of nothing else.
func mayBeOld(req proto.Message) bool {
	switch r := req.(type) {
	case *pb.RangeRequest:
		return r.Serializable
	case *pb.TxnRequest:
		for _, op := range slices.Concat(r.Success, r.Failure) {
			if t := op.GetRequestTxn(); t != nil && !mayBeOld(t) || t == nil && !op.GetRequestRange().GetSerializable() {
				return false
			}
		}
		return len(r.Success)+len(r.Failure) > 0
	}
	return false
}

// kind is what a request counts as in the results.
func kind(st *step) string { return st.method.path[strings.LastIndexByte(st.method.path, '/')+1:] }

func (s *script) stream(r *pb.RangeRequest) error {
	st := &step{req: r}
	_, err := s.ask("RangeStream", "RangeStream"+(&frame{}).text(r), r, func(x *side) (*answer, error) { return x.stream(st) })
	return err
}

func (s *script) renew() error {
	var ids []int64
	for range 1 + s.r.IntN(3) {
		ids = append(ids, s.lease())
	}
	if s.chance(5) {
		ids = append(ids, 0)
	}
	var texts []string
	for _, id := range ids {
		texts = append(texts, (&frame{}).int64("ID", id))
	}
	s.count["LeaseKeepAlive"] += len(ids) - 1
	_, err := s.ask("LeaseKeepAlive", "LeaseKeepAlive "+strings.Join(texts, " "), nil, func(x *side) (*answer, error) { return x.keepAlive(ids) })
	return err
}

// expire gives a key a lease that ends while the script waits. A lease lives no shorter than two seconds in the original.
func (s *script) expire() error {
	id := int64(s.script)*1000 + 7_000_500
	key := []byte(s.name())
	s.revision++
	if err := s.unary(grantCall, &pb.LeaseGrantRequest{ID: id, TTL: 1}); err != nil {
		return err
	}
	for _, p := range []*pb.PutRequest{{Key: key, Value: []byte("short"), Lease: id}, {Key: append(key, '!'), Lease: id}} {
		if err := s.unary(putCall, p); err != nil {
			return err
		}
	}
	_, err := s.ask("(expiry)", "(both are gone)", nil, func(x *side) (*answer, error) {
		st := &step{method: rangeCall, req: &pb.RangeRequest{Key: key, RangeEnd: append(slices.Clone(key), '"')}}
		for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			a, err := x.call(st)
			if err != nil {
				return nil, err
			}
			if r, ok := a.message.(*pb.RangeResponse); !ok || r.Count == 0 || time.Now().After(deadline) {
				return a, nil
			}
		}
	})
	return err
}

// clean always leaves nothing behind; that too must be the same.
func (s *script) clean() error {
	differed := s.diff != ""
	for _, id := range s.leases {
		if err := s.unary(revokeCall, &pb.LeaseRevokeRequest{ID: id}); err != nil {
			return err
		}
	}
	if err := s.unary(deleteCall, &pb.DeleteRangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, PrevKv: true}); err != nil {
		return err
	}
	if differed {
		return nil
	}
	return s.unary(leasesCall, &pb.LeaseLeasesRequest{})
}
