package kv

import (
	"bytes"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// The functions below turn the generated messages into the log's structs: slowly and obviously, as the oracle of the
// decoders.

func limitEnum(v int32, limit int32) uint8 {
	if v < 0 || v > limit {
		return invalidEnum
	}
	return uint8(v)
}

func fromPut(r *pb.PutRequest) *kvpart.Put {
	return &kvpart.Put{Key: r.Key, Value: r.Value, Lease: r.Lease, PrevKV: r.PrevKv, IgnoreValue: r.IgnoreValue, IgnoreLease: r.IgnoreLease}
}

func fromRange(r *pb.RangeRequest) *kvpart.Range {
	return &kvpart.Range{
		Key: r.Key, End: r.RangeEnd, Limit: r.Limit, Revision: r.Revision,
		Order:    kvpart.SortOrder(limitEnum(int32(r.SortOrder), 2)),
		Target:   kvpart.SortTarget(limitEnum(int32(r.SortTarget), 4)),
		KeysOnly: r.KeysOnly, CountOnly: r.CountOnly,
		MinMod: r.MinModRevision, MaxMod: r.MaxModRevision, MinCreate: r.MinCreateRevision, MaxCreate: r.MaxCreateRevision,
	}
}

func fromDelete(r *pb.DeleteRangeRequest) *kvpart.DeleteRange {
	return &kvpart.DeleteRange{Key: r.Key, End: r.RangeEnd, PrevKV: r.PrevKv}
}

func fromCompare(c *pb.Compare) kvpart.Compare {
	out := kvpart.Compare{
		Key: c.Key, End: c.RangeEnd,
		Result: kvpart.CompareResult(limitEnum(int32(c.Result), 3)),
		Target: kvpart.CompareTarget(limitEnum(int32(c.Target), 4)),
	}
	switch c.Target {
	case pb.Compare_VERSION:
		out.Int = c.GetVersion()
	case pb.Compare_CREATE:
		out.Int = c.GetCreateRevision()
	case pb.Compare_MOD:
		out.Int = c.GetModRevision()
	case pb.Compare_LEASE:
		out.Int = c.GetLease()
	case pb.Compare_VALUE:
		out.Value = c.GetValue()
	}
	return out
}

func fromOps(ops []*pb.RequestOp) (out []kvpart.Op) {
	for _, op := range ops {
		var o kvpart.Op
		switch r := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			o.Range = fromRange(r.RequestRange)
		case *pb.RequestOp_RequestPut:
			o.Put = fromPut(r.RequestPut)
		case *pb.RequestOp_RequestDeleteRange:
			o.Delete = fromDelete(r.RequestDeleteRange)
		case *pb.RequestOp_RequestTxn:
			o.Txn = fromTxn(r.RequestTxn)
		}
		out = append(out, o)
	}
	return out
}

func fromTxn(r *pb.TxnRequest) *kvpart.Txn {
	t := &kvpart.Txn{Then: fromOps(r.Success), Else: fromOps(r.Failure)}
	for _, c := range r.Compare {
		t.Compare = append(t.Compare, fromCompare(c))
	}
	return t
}

func readOnly(r *pb.TxnRequest) (readOnly, serializable bool) {
	readOnly, serializable = true, true
	for _, op := range append(append([]*pb.RequestOp(nil), r.Success...), r.Failure...) {
		rr := op.GetRequestRange()
		readOnly = readOnly && rr != nil
		serializable = serializable && rr != nil && rr.Serializable
	}
	return readOnly, serializable
}

func equalRange(a, b *kvpart.Range) bool {
	x, y := *a, *b
	x.Key, x.End, y.Key, y.End = nil, nil, nil, nil
	return x.Limit == y.Limit && x.Revision == y.Revision && x.Order == y.Order && x.Target == y.Target &&
		x.KeysOnly == y.KeysOnly && x.CountOnly == y.CountOnly && x.MinMod == y.MinMod && x.MaxMod == y.MaxMod &&
		x.MinCreate == y.MinCreate && x.MaxCreate == y.MaxCreate &&
		bytes.Equal(a.Key, b.Key) && bytes.Equal(a.End, b.End)
}

func equalPut(a, b *kvpart.Put) bool {
	return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) && a.Lease == b.Lease && a.PrevKV == b.PrevKV &&
		a.IgnoreValue == b.IgnoreValue && a.IgnoreLease == b.IgnoreLease
}

func equalDelete(a, b *kvpart.DeleteRange) bool {
	return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.End, b.End) && a.PrevKV == b.PrevKV
}

func equalCompare(a, b *kvpart.Compare) bool {
	return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.End, b.End) && a.Result == b.Result && a.Target == b.Target &&
		a.Int == b.Int && bytes.Equal(a.Value, b.Value)
}

func equalOps(a, b []kvpart.Op) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := &a[i], &b[i]
		if (x.Range == nil) != (y.Range == nil) || (x.Put == nil) != (y.Put == nil) ||
			(x.Delete == nil) != (y.Delete == nil) || (x.Txn == nil) != (y.Txn == nil) ||
			x.Range != nil && !equalRange(x.Range, y.Range) ||
			x.Put != nil && !equalPut(x.Put, y.Put) ||
			x.Delete != nil && !equalDelete(x.Delete, y.Delete) ||
			x.Txn != nil && !equalTxn(x.Txn, y.Txn) {
			return false
		}
	}
	return true
}

func equalTxn(a, b *kvpart.Txn) bool {
	if len(a.Compare) != len(b.Compare) || !equalOps(a.Then, b.Then) || !equalOps(a.Else, b.Else) {
		return false
	}
	for i := range a.Compare {
		if !equalCompare(&a.Compare[i], &b.Compare[i]) {
			return false
		}
	}
	return true
}

// sampleTxn has every kind of operation and operand.
func sampleTxn() *pb.TxnRequest {
	put := &pb.PutRequest{Key: []byte("k"), Value: []byte("v"), Lease: -5, PrevKv: true}
	rng := &pb.RangeRequest{Key: []byte("a"), RangeEnd: []byte{0}, Limit: 7, SortOrder: 2, SortTarget: 4, Serializable: true, KeysOnly: true}
	return &pb.TxnRequest{
		Compare: []*pb.Compare{
			{Key: []byte("k"), Target: pb.Compare_VALUE, TargetUnion: &pb.Compare_Value{Value: []byte("x")}},
			{Key: []byte("k"), Result: pb.Compare_LESS, Target: pb.Compare_LEASE, TargetUnion: &pb.Compare_Lease{Lease: 9}, RangeEnd: []byte("l")},
			{Key: []byte("k"), Result: pb.Compare_NOT_EQUAL, Target: pb.Compare_MOD, TargetUnion: &pb.Compare_Version{Version: 3}},
		},
		Success: []*pb.RequestOp{
			{Request: &pb.RequestOp_RequestPut{RequestPut: put}},
			{Request: &pb.RequestOp_RequestRange{RequestRange: rng}},
			{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{Failure: []*pb.RequestOp{{}}}}},
		},
		Failure: []*pb.RequestOp{
			{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte("z"), PrevKv: true}}},
		},
	}
}

func mustMarshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// FuzzDecode holds the hand-written decoders against protobuf: they accept the same inputs and read the same from them.
func FuzzDecode(f *testing.F) {
	f.Add(mustMarshal(f, sampleTxn()))
	f.Add(mustMarshal(f, &pb.PutRequest{Key: []byte("key"), Value: bytes.Repeat([]byte("v"), 200), Lease: 1 << 40, IgnoreLease: true}))
	f.Add(mustMarshal(f, &pb.RangeRequest{Key: []byte("a"), Revision: -1, CountOnly: true, MinModRevision: 3, MaxCreateRevision: 9, SortOrder: 77}))
	f.Add(mustMarshal(f, &pb.LeaseKeepAliveRequest{ID: -7}))
	f.Add([]byte{0x0a, 1, 'a', 0x0a, 1, 'b', 0x13, 0x08, 1, 0x14, 0xf8, 0xff, 0xff, 0xff, 0x0f, 0})
	f.Add([]byte{0x12, 2, 0x12, 0, 0x12, 6, 0x12, 0, 0x0a, 2, 0x38, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		var put kvpart.Put
		var pbPut pb.PutRequest
		if compareErrors(t, "put", decodePut(b, &put), proto.Unmarshal(b, &pbPut)) && !equalPut(&put, fromPut(&pbPut)) {
			t.Errorf("put: %+v, protobuf says %+v", put, fromPut(&pbPut))
		}
		var rng kvpart.Range
		var pbRange pb.RangeRequest
		serializable, err := decodeRange(b, &rng, false)
		if compareErrors(t, "range", err, proto.Unmarshal(b, &pbRange)) {
			if !equalRange(&rng, fromRange(&pbRange)) || serializable != pbRange.Serializable {
				t.Errorf("range: %+v, protobuf says %+v", rng, fromRange(&pbRange))
			}
		}
		var del kvpart.DeleteRange
		var pbDelete pb.DeleteRangeRequest
		if compareErrors(t, "delete", decodeDelete(b, &del), proto.Unmarshal(b, &pbDelete)) && !equalDelete(&del, fromDelete(&pbDelete)) {
			t.Errorf("delete: %+v, protobuf says %+v", del, fromDelete(&pbDelete))
		}
		var keep keepAliveRequest
		var pbKeep pb.LeaseKeepAliveRequest
		if compareErrors(t, "keep-alive", keep.decode(b), proto.Unmarshal(b, &pbKeep)) && keep.id != pbKeep.ID {
			t.Errorf("keep-alive: %d, protobuf says %d", keep.id, pbKeep.ID)
		}
		var txn kvpart.Txn
		var traits txnTraits
		var pbTxn pb.TxnRequest
		err = decodeTxn(b, &txn, &traits)
		if traits.tooDeep {
			return
		}
		if compareErrors(t, "txn", err, proto.Unmarshal(b, &pbTxn)) {
			if want := fromTxn(&pbTxn); !equalTxn(&txn, want) {
				t.Errorf("txn: %+v, protobuf says %+v", txn, want)
			}
			// An operation replaced inside its oneof may leave "writes" set, which only costs a trip through the log.
			ro, serializable := readOnly(&pbTxn)
			if !traits.writes && !ro {
				t.Errorf("a txn that writes was taken for one that reads")
			}
			if traits.allSerializable != serializable {
				t.Errorf("all serializable: %v, want %v", traits.allSerializable, serializable)
			}
		}
	})
}

// compareErrors reports whether both accepted the input.
func compareErrors(t *testing.T, what string, ours, theirs error) bool {
	t.Helper()
	if (ours == nil) != (theirs == nil) {
		t.Errorf("%s: we say %v, protobuf says %v", what, ours, theirs)
	}
	return ours == nil && theirs == nil
}

func TestDecodeDeepNesting(t *testing.T) {
	var b []byte
	for range 2000 { // txn in an operation in a txn …
		b = protowire.AppendBytes([]byte{0x22}, b)
		b = protowire.AppendBytes([]byte{0x12}, b)
	}
	var txn kvpart.Txn
	var traits txnTraits
	if err := decodeTxn(b, &txn, &traits); err != nil || !traits.tooDeep {
		t.Errorf("error %v, too deep %v; want the depth reported", err, traits.tooDeep)
	}
}

func BenchmarkDecodePut(b *testing.B) {
	wire := mustMarshal(b, &pb.PutRequest{Key: []byte("12345678"), Value: bytes.Repeat([]byte("v"), 64)})
	c := new(putCall)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.decode(wire); err != nil {
			b.Fatal(err)
		}
	}
}
