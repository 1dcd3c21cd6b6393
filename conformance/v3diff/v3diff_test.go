package main

import (
	"math/rand/v2"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// A comparison that sees no difference anywhere would also be satisfied.
func TestDifferencesAreSeen(t *testing.T) {
	one := func(key, value string, mod int64) *mvccpb.KeyValue {
		return &mvccpb.KeyValue{Key: []byte(key), Value: []byte(value), CreateRevision: 11, ModRevision: mod, Version: 1}
	}
	header := func(cluster uint64, revision int64) *pb.ResponseHeader {
		return &pb.ResponseHeader{ClusterId: cluster, MemberId: cluster, RaftTerm: cluster, Revision: revision}
	}
	base := &pb.RangeResponse{Header: header(1, 13), Kvs: []*mvccpb.KeyValue{one("a", "v", 12)}, Count: 1}
	for _, c := range []struct {
		what  string
		first int64
		other proto.Message
		same  bool
	}{
		{"another cluster", 10, &pb.RangeResponse{Header: header(2, 13), Kvs: []*mvccpb.KeyValue{one("a", "v", 12)}, Count: 1}, true},
		{"a header without a term", 10, &pb.RangeResponse{Header: &pb.ResponseHeader{ClusterId: 1, MemberId: 1, Revision: 13}, Kvs: base.Kvs, Count: 1}, false},
		{"a later revision of both", 11, &pb.RangeResponse{Header: header(1, 14), Kvs: []*mvccpb.KeyValue{{Key: []byte("a"), Value: []byte("v"),
			CreateRevision: 12, ModRevision: 13, Version: 1}}, Count: 1}, true},
		{"another revision", 10, &pb.RangeResponse{Header: header(1, 14), Kvs: base.Kvs, Count: 1}, false},
		{"another value", 10, &pb.RangeResponse{Header: header(1, 13), Kvs: []*mvccpb.KeyValue{one("a", "w", 12)}, Count: 1}, false},
		{"one more", 10, &pb.RangeResponse{Header: header(1, 13), Kvs: base.Kvs, Count: 1, More: true}, false},
		{"no content", 10, &pb.RangeResponse{Header: header(1, 13), Count: 1}, false},
	} {
		s := newScript(rand.New(rand.NewPCG(1, 1)), 1)
		a, b := &side{frame: &frame{first: 10}}, &side{frame: &frame{first: c.first}}
		s.compare(&pb.RangeRequest{}, a.judge(base, nil), b.judge(c.other, nil))
		if (s.diff == "") != c.same {
			t.Errorf("%s: %q", c.what, s.diff)
		}
	}
	s := newScript(rand.New(rand.NewPCG(1, 1)), 1)
	if s.compare(nil, &answer{text: "NotFound: x", code: codes.NotFound}, &answer{text: "NotFound: y", code: codes.NotFound}); s.diff == "" {
		t.Error("another text of the same code is not seen")
	}
}

func TestASeedGivesTheSameScript(t *testing.T) {
	draw := func() string {
		var all strings.Builder
		d := newDice(rand.New(rand.NewPCG(7, 3)), 3)
		for range 50 {
			for _, m := range []proto.Message{d.readRange(), d.put(), d.delete(), d.txn(), d.grant(), d.compact(), d.watch()} {
				all.WriteString((&frame{}).text(m) + "\n")
			}
		}
		return all.String()
	}
	if first, second := draw(), draw(); first != second {
		t.Error("two scripts of one seed differ")
	}
}

// Marks stand for each side's own numbers on the way out, and the same numbers are made alike on the way back.
func TestNumbersAreEachSidesOwn(t *testing.T) {
	put := &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Lease: leaseMark + 1}}}},
		Compare: []*pb.Compare{{TargetUnion: &pb.Compare_ModRevision{ModRevision: revisionMark + 2}}}}
	var texts []string
	for _, f := range []*frame{{first: 10, leases: []int64{5, 6}}, {first: 30, leases: []int64{8, 7}}} {
		m := f.fill(put).(*pb.TxnRequest)
		if got := m.Compare[0].GetModRevision(); got != f.first+2 {
			t.Errorf("revision %d of a script that began at %d", got, f.first)
		}
		if got := m.Success[0].GetRequestPut().Lease; got != f.leases[1] {
			t.Errorf("lease %d of %v", got, f.leases)
		}
		texts = append(texts, f.text(&mvccpb.KeyValue{Lease: f.leases[1], ModRevision: f.first + 2}))
	}
	if texts[0] != texts[1] || texts[0] != "{mod_revision:+2 lease:L1}" {
		t.Errorf("%q", texts)
	}
}

func TestOnlyTheOrderOfEqualsIsForgiven(t *testing.T) {
	answerOf := func(more bool, keys ...string) *answer {
		r := &pb.RangeResponse{More: more, Count: 20}
		for _, k := range keys {
			r.Kvs = append(r.Kvs, &mvccpb.KeyValue{Key: []byte(k), Version: int64(len(k))})
		}
		return &answer{message: r, in: &frame{}}
	}
	req := &pb.RangeRequest{SortTarget: pb.RangeRequest_VERSION}
	for _, c := range []struct {
		what string
		a, b *answer
		want bool
	}{
		{"equals in another order", answerOf(false, "a", "b", "aa", "bb"), answerOf(false, "b", "a", "bb", "aa"), true},
		{"not sorted", answerOf(false, "a", "aa", "b"), answerOf(false, "a", "b", "aa"), false},
		{"another key", answerOf(false, "a", "b", "aa"), answerOf(false, "a", "c", "aa"), false},
		{"cut through equals", answerOf(true, "a", "aa"), answerOf(true, "a", "bb"), true},
		{"cut, and another key before", answerOf(true, "a", "aa"), answerOf(true, "b", "aa"), false},
		{"cut shorter", answerOf(true, "a", "aa"), answerOf(true, "a"), false},
	} {
		if untied(req, c.a, c.b) != c.want {
			t.Errorf("%s: want %v", c.what, c.want)
		}
	}
	if untied(&pb.RangeRequest{}, answerOf(false, "a", "b"), answerOf(false, "b", "a")) {
		t.Error("in the order of keys there are no equals")
	}
}

// The original must live to the end of a run.
func TestFatalTxnsAreNotDrawn(t *testing.T) {
	d := newDice(rand.New(rand.NewPCG(3, 1)), 1)
	deletes := 0
	for range 20_000 {
		txn := d.txn()
		var puts [][]byte
		walk(txn, func(op *pb.RequestOp) {
			if p := op.GetRequestPut(); p != nil {
				puts = append(puts, p.Key)
			}
		})
		walk(txn, func(op *pb.RequestOp) {
			r := op.GetRequestDeleteRange()
			if r == nil || string(r.RangeEnd) != "\x00" {
				return
			}
			deletes++
			for _, key := range puts {
				if string(key) >= string(r.Key) {
					t.Fatalf("deletes from %q on and puts %q: %s", r.Key, key, (&frame{}).text(txn))
				}
			}
		})
	}
	if deletes == 0 {
		t.Error("no Txn deletes to the last key at all")
	}
}
