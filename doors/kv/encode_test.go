package kv

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/serve/port"
)

var (
	testHeader = header{cluster: math.MaxUint64, member: 1 << 40, revision: 77, term: 3}
	testKVs    = []kvpart.KeyValue{
		{Key: []byte("a"), Value: []byte("1"), CreateRevision: 2, ModRevision: 70, Version: 9, Lease: -1},
		{Key: []byte("b"), ModRevision: 300},
		{},
	}
)

func wantHeader(h header) *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: h.cluster, MemberId: h.member, Revision: h.revision, RaftTerm: h.term}
}

func wantKVs(kvs []kvpart.KeyValue) (out []*mvccpb.KeyValue) {
	for i := range kvs {
		out = append(out, pbKV(&kvs[i]))
	}
	return out
}

// encoded is what goes to the transport; its size must have been foretold.
func encoded(t *testing.T, m message) []byte {
	t.Helper()
	n := m.size()
	b := m.append(nil)
	if len(b) != n {
		t.Errorf("%T: %d bytes, foretold %d", m, len(b), n)
	}
	return b
}

// TestEncodersMatchProtobuf holds every hand-written encoder to the bytes protobuf makes of the same message.
func TestEncodersMatchProtobuf(t *testing.T) {
	rng := &kvpart.RangeResult{KVs: testKVs, More: true, Count: 1 << 33}
	del := &kvpart.DeleteResult{Revision: 77, Deleted: 3, Prevs: testKVs}
	wantRange := &pb.RangeResponse{Header: wantHeader(testHeader), Kvs: wantKVs(testKVs), More: true, Count: 1 << 33}
	txn := &kvpart.TxnResult{Revision: 77, Succeeded: true, Ops: []kvpart.OpResult{
		{Range: &kvpart.RangeResult{Revision: 76, KVs: testKVs, More: true, Count: 1 << 33}},
		{Delete: &kvpart.DeleteResult{Revision: 76}},
		{Put: &kvpart.PutResult{Revision: 77, Prev: &testKVs[0]}},
		{Txn: &kvpart.TxnResult{Ops: []kvpart.OpResult{{Delete: del}, {Range: &kvpart.RangeResult{Revision: 77}}}}},
		{Put: &kvpart.PutResult{Revision: 77}},
	}}
	at := func(revision int64) *pb.ResponseHeader { return &pb.ResponseHeader{Revision: revision} }
	wantTxn := &pb.TxnResponse{Header: wantHeader(testHeader), Succeeded: true, Responses: []*pb.ResponseOp{
		{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{
			Header: at(76), Kvs: wantKVs(testKVs), More: true, Count: 1 << 33}}},
		{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: &pb.DeleteRangeResponse{Header: at(76)}}},
		{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{Header: at(77), PrevKv: pbKV(&testKVs[0])}}},
		{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: &pb.TxnResponse{Header: &pb.ResponseHeader{}, Responses: []*pb.ResponseOp{
			{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: &pb.DeleteRangeResponse{
				Header: at(77), Deleted: 3, PrevKvs: wantKVs(testKVs)}}},
			{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{Header: at(77)}}},
		}}}},
		{Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{Header: at(77)}}},
	}}
	for _, c := range []struct {
		name string
		ours message
		want proto.Message
	}{
		{"put", &putAnswer{header: testHeader}, &pb.PutResponse{Header: wantHeader(testHeader)}},
		{"put with previous", &putAnswer{header: testHeader, prev: &testKVs[0]},
			&pb.PutResponse{Header: wantHeader(testHeader), PrevKv: pbKV(&testKVs[0])}},
		{"empty header", &putAnswer{}, &pb.PutResponse{Header: &pb.ResponseHeader{}}},
		{"range", &rangeAnswer{header: testHeader, result: rng}, wantRange},
		{"range chunk", &rangeStreamAnswer{rangeAnswer: rangeAnswer{noHeader: true, result: &kvpart.RangeResult{KVs: testKVs}}},
			&pb.RangeStreamResponse{RangeResponse: &pb.RangeResponse{Kvs: wantKVs(testKVs)}}},
		{"last range chunk", &rangeStreamAnswer{rangeAnswer: rangeAnswer{header: testHeader, result: rng}}, &pb.RangeStreamResponse{RangeResponse: wantRange}},
		{"delete", &deleteAnswer{header: testHeader, result: del},
			&pb.DeleteRangeResponse{Header: wantHeader(testHeader), Deleted: 3, PrevKvs: wantKVs(testKVs)}},
		{"txn", answerTxn(testHeader, txn), wantTxn},
		{"keep-alive", &keepAliveAnswer{header: testHeader, id: -9, ttl: 60},
			&pb.LeaseKeepAliveResponse{Header: wantHeader(testHeader), ID: -9, TTL: 60}},
		{"keep-alive of none", &keepAliveAnswer{header: testHeader, id: 9}, &pb.LeaseKeepAliveResponse{Header: wantHeader(testHeader), ID: 9}},
		{"created", &watchAnswer{header: testHeader, id: 3, created: true}, &pb.WatchResponse{Header: wantHeader(testHeader), WatchId: 3, Created: true}},
		{"refused", &watchAnswer{header: testHeader, id: -1, created: true, canceled: true, reason: "no"},
			&pb.WatchResponse{Header: wantHeader(testHeader), WatchId: -1, Created: true, Canceled: true, CancelReason: "no"}},
		{"compacted", &watchAnswer{header: testHeader, canceled: true, compact: 9, fragment: true},
			&pb.WatchResponse{Header: wantHeader(testHeader), Canceled: true, CompactRevision: 9, Fragment: true}},
	} {
		if got, want := encoded(t, c.ours), mustMarshal(t, c.want); !bytes.Equal(got, want) {
			t.Errorf("%s:\n got %x\nwant %x", c.name, got, want)
		}
	}
}

func TestEventEncoding(t *testing.T) {
	events := []kvmachine.Event{{Type: kvmachine.EventPut, KV: testKVs[0]}, {Type: kvmachine.EventDelete, KV: testKVs[1]}}
	var got []byte
	got = appendEvent(got, &events[0], nil)
	got = appendEvent(got, &events[1], &testKVs[0])
	want := mustMarshal(t, &pb.WatchResponse{Events: []*mvccpb.Event{
		{Kv: pbKV(&testKVs[0])},
		{Type: mvccpb.Event_DELETE, Kv: pbKV(&testKVs[1]), PrevKv: pbKV(&testKVs[0])},
	}})
	if !bytes.Equal(got, want) {
		t.Errorf("\n got %x\nwant %x", got, want)
	}
}

func TestMarshalPoolsLargeAnswers(t *testing.T) {
	for _, n := range []int{0, 10, 1000, 5000, 1 << 20} {
		a := &rangeAnswer{header: testHeader, result: &kvpart.RangeResult{KVs: []kvpart.KeyValue{{Key: []byte("k"), Value: make([]byte, n)}}}}
		parts := marshal(a, nil)
		if got := parts.Materialize(); !bytes.Equal(got, a.append(nil)) {
			t.Errorf("value of %d bytes: the buffer differs", n)
		}
		parts.Free()
	}
}

// TestLargeValuesAreSentFromWhereTheyLie: the bytes are those of any other answer, and no large value is copied. The room is given back
// when the last part is released.
func TestLargeValuesAreSentFromWhereTheyLie(t *testing.T) {
	for _, sizes := range [][]int{{1025}, {100, 1024, 5000, 0, 20000, 7}, {3000, 4000}} {
		var kvs []kvpart.KeyValue
		for i, n := range sizes {
			kvs = append(kvs, kvpart.KeyValue{Key: fmt.Appendf(nil, "key%d", i), Value: bytes.Repeat([]byte{byte(i + 1)}, n),
				CreateRevision: 5, ModRevision: 300, Version: 2, Lease: int64(i) << 40})
		}
		a := &rangeAnswer{header: testHeader, result: &kvpart.RangeResult{KVs: kvs, More: true, Count: 1 << 20}}
		held := &holding{port: port.New(port.Options{AnswerBytes: 1 << 20})}
		if held.bytes = 1000; !held.port.TakeAnswer(nil, held.bytes) {
			t.Fatal("no room")
		}
		parts := marshal(a, &room{held: held})
		if got := parts.Materialize(); !bytes.Equal(got, a.append(nil)) {
			t.Errorf("%v: the bytes differ", sizes)
		}
		for i := range kvs {
			v := kvs[i].Value
			at := slices.IndexFunc(parts, func(p mem.Buffer) bool { return len(v) > 0 && p.Len() == len(v) && &p.ReadOnlyData()[0] == &v[0] })
			if (at >= 0) != (len(v) > 1024) {
				t.Errorf("%v: value %d is part %d", sizes, i, at)
			}
		}
		if held.port.TakeAnswer(nil, 1<<20) {
			t.Errorf("%v: the room is free before the answer is sent", sizes)
		}
		parts.Free()
		if !held.port.TakeAnswer(nil, 1<<20) {
			t.Errorf("%v: the room is still held", sizes)
		}
	}
}

func BenchmarkEncodePut(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		marshal(&putAnswer{header: testHeader}, nil).Free()
	}
}
