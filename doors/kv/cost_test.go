package kv

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/holdfastdb/holdfast/doors/kv/ops"
	"github.com/holdfastdb/holdfast/internal/meter"
	"github.com/holdfastdb/holdfast/internal/spent"
)

// filled is a message of a quarter of a megabyte: one field again and again.
func filled(id protowire.Number, value []byte) []byte {
	one := protowire.AppendBytes(protowire.AppendTag(nil, id, protowire.BytesType), value)
	return bytes.Repeat(one, 1<<18/len(one))
}

// costlyTxns are transactions that cost as much as one of their size can.
func costlyTxns(t *testing.T) map[string][]byte {
	all := map[string][]byte{"a value": mustMarshal(t, &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{
		RequestPut: &pb.PutRequest{Key: []byte("k"), Value: make([]byte, 1<<20)}}}}})}
	for id := range protowire.Number(3) {
		what := []string{"comparisons", "operations", "operations otherwise"}[id]
		all[what+" of nothing"] = filled(id+1, nil)
		for op := range protowire.Number(4) {
			all[fmt.Sprintf("%s of kind %d", what, op+1)] = filled(id+1, protowire.AppendBytes(protowire.AppendTag(nil, op+1, protowire.BytesType), nil))
		}
	}
	// Each level has half of what its parent has left.
	nested := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), []byte{0x12, 3, 0x0a, 1, 'k'})
	for _, n := range []int{32, 16, 16, 32, 32} {
		txn := protowire.AppendBytes(protowire.AppendTag(nil, 4, protowire.BytesType), bytes.Repeat(nested, n))
		if len(txn) > 1<<18 {
			break
		}
		nested = protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), txn)
	}
	all["transactions in transactions"] = nested
	deletes := new(pb.TxnRequest)
	for i := range 128 {
		deletes.Success = append(deletes.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
			RequestDeleteRange: &pb.DeleteRangeRequest{Key: fmt.Appendf(nil, "%03d%s", i, strings.Repeat("k", 4000)), RangeEnd: fmt.Appendf(nil, "%03d%s", i, strings.Repeat("l", 4000))}}})
	}
	all["128 deletes"] = mustMarshal(t, deletes)
	return all
}

// TestARequestCostsWhatItsSizeIsWorth: decoding and judging the costliest requests there are is linear, and holds little more than they are.
func TestARequestCostsWhatItsSizeIsWorth(t *testing.T) {
	for what, b := range costlyTxns(t) {
		spent.Within(t, "a Txn of "+what, len(b), func() { _ = (&txnCall{maxOps: 128}).decode(b) })
	}
	for id := range protowire.Number(8) {
		b := filled(id+1, []byte("k"))
		spent.Within(t, fmt.Sprintf("field %d of a Range again and again", id+1), len(b), func() { _ = new(rangeCall).decode(b) })
		spent.Within(t, fmt.Sprintf("field %d of a Put again and again", id+1), len(b), func() { _ = new(putCall).decode(b) })
		spent.Within(t, fmt.Sprintf("field %d of a DeleteRange again and again", id+1), len(b), func() { _ = new(deleteCall).decode(b) })
	}
	large := map[string][]byte{"a Put": mustMarshal(t, &pb.PutRequest{Key: []byte("k"), Value: make([]byte, 1<<20)}),
		"a DeleteRange": mustMarshal(t, &pb.DeleteRangeRequest{Key: make([]byte, 1<<19), RangeEnd: make([]byte, 1<<19)})}
	for what, b := range large {
		spent.Within(t, what, len(b), func() { _, _ = new(putCall).decode(b), new(deleteCall).decode(b) })
	}
	c := codec{steps: new(meter.Steps), counts: new(ops.Counts)}
	for _, m := range []proto.Message{new(pb.WatchRequest), new(pb.LeaseGrantRequest), new(pb.LeaseRevokeRequest), new(pb.LeaseKeepAliveRequest), new(pb.LeaseTimeToLiveRequest),
		new(pb.CompactionRequest), new(pb.MemberAddRequest), new(pb.MemberUpdateRequest), new(pb.AuthUserAddRequest), new(pb.AuthUserChangePasswordRequest),
		new(pb.AuthRoleGrantPermissionRequest), new(pb.AuthenticateRequest), new(pb.AlarmRequest), new(pb.SnapshotRequest), new(pb.HashKVRequest)} {
		for id := range protowire.Number(4) {
			for what, b := range map[string][]byte{"empty fields": filled(id+1, nil), "fields of a byte": filled(id+1, []byte{1}),
				"one large field":   protowire.AppendBytes(protowire.AppendTag(nil, id+1, protowire.BytesType), bytes.Repeat([]byte{1}, 1<<18)),
				"a field of fields": protowire.AppendBytes(protowire.AppendTag(nil, id+1, protowire.BytesType), filled(5, bytes.Repeat([]byte{1}, 100)))} {
				spent.Within(t, fmt.Sprintf("%T, %d: %s", m, id+1, what), len(b), func() {
					proto.Reset(m)
					_ = c.Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, m)
				})
			}
		}
	}
}
