package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Requests that no well-behaved client sends: bytes that are no message, a message in pieces that must be merged, and unknown fields. Also
// requests about as large as is allowed or larger, methods that do not exist, and leases that hardly live.
func (s *script) odd() error {
	switch k := s.r.IntN(100); {
	case k < 35:
		return s.broken()
	case k < 60:
		return s.merged()
	case k < 75:
		return s.large()
	case k < 90:
		return s.brief()
	}
	return s.unknown()
}

// wire is a request as bytes.
type wire []byte

// wireCodec sends wire as it is; all else is protobuf.
type wireCodec struct{ encoding.CodecV2 }

func (c wireCodec) Marshal(v any) (mem.BufferSlice, error) {
	if b, ok := v.(wire); ok {
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// raw calls m with bytes. The documented differences judge their meaning, if any, as a message like the given one.
func (s *script) raw(m method, what string, like proto.Message, bytesOf func(x *side) []byte) error {
	var req proto.Message
	if meant := like.ProtoReflect().New().Interface(); proto.Unmarshal(bytesOf(s.a), meant) == nil {
		req = meant
	}
	_, err := s.ask("(odd bytes)", what, req, func(x *side) (*answer, error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		res := m.answer()
		err := x.conns[x.home].Invoke(ctx, m.path, wire(bytesOf(x)), res, append(x.options(), grpc.ForceCodecV2(wireCodec{encoding.GetCodecV2("proto")}))...)
		if err := x.alive(err); err != nil {
			return nil, err
		}
		return x.judge(res, err), nil
	})
	return err
}

// plain draws a request that does no harm however its bytes are changed. It is neither a Txn (see harmless) nor a grant, which might leave
// an unknown lease.
func (s *script) plain() (method, proto.Message) {
	switch s.r.IntN(5) {
	case 0:
		return putCall, s.put()
	case 1:
		return deleteCall, s.delete()
	case 2:
		return revokeCall, &pb.LeaseRevokeRequest{ID: s.lease()}
	case 3:
		return ttlCall, &pb.LeaseTimeToLiveRequest{ID: s.lease(), Keys: true}
	}
	return rangeCall, s.readRange()
}

// broken sends a request with a few bytes changed, added or cut off.
func (s *script) broken() error {
	// The same bytes for both, or they break in different places: each server may have drawn a lease's id itself. A question for a lease's
	// time would be answered with the id in the broken bytes.
	m, req := s.plain()
	for m.path == ttlCall.path || !bytes.Equal(encoded(s.a.fill(req)), encoded(s.b.fill(req))) {
		m, req = s.plain()
	}
	change, at, with := s.r.IntN(3), s.r.IntN(1<<16), byte(s.r.IntN(256))
	what := fmt.Sprintf("%s with a byte %s: %s", kind(&step{method: m}), []string{"changed", "added", "cut off"}[change], (&frame{}).text(req))
	return s.raw(m, what, req, func(x *side) []byte {
		b := encoded(x.fill(req))
		if len(b) == 0 {
			return []byte{with}
		}
		at := at % len(b)
		switch change {
		case 0:
			b[at] = with
		case 1:
			b = slices.Insert(b, at, with)
		default:
			b = b[:at]
		}
		return b
	})
}

// tearing is gzip of which a side's tear changes what is sent.
type tearing struct{ x *side }

func (tearing) Type() string { return "gzip" }

func (t tearing) Do(w io.Writer, p []byte) error {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(p) // never fails in memory
	_ = z.Close()
	_, err := w.Write(t.x.tear(b.Bytes()))
	return err
}

// torn sends a message in gzip that is none, is cut off, or becomes larger than any message may be.
func (s *script) torn() error {
	m, req := s.plain()
	for m.path == ttlCall.path || !bytes.Equal(encoded(s.a.fill(req)), encoded(s.b.fill(req))) {
		m, req = s.plain()
	}
	how, at, with := s.r.IntN(5), s.r.IntN(1<<16), byte(1+s.r.IntN(255))
	tear := func(b []byte) []byte {
		at := at % len(b)
		switch how {
		case 0:
			b = b[:at]
		case 1: // not the flags: an optional field may be added by one of them
			b[4+at%(len(b)-4)] ^= with
		case 2:
			b = append(b, with)
		case 3:
			b = append(b, b...) // two members: one message of twice the content
		default:
			var bomb bytes.Buffer
			z := gzip.NewWriter(&bomb)
			_, _ = z.Write(make([]byte, 3<<20)) // never fails in memory
			_ = z.Close()
			b = bomb.Bytes()
		}
		return b
	}
	what := fmt.Sprintf("%s in gzip, %s: %s", kind(&step{method: m}), []string{"cut off", "with a byte changed", "with a byte behind", "twice", "a bomb"}[how], (&frame{}).text(req))
	_, err := s.ask("(torn gzip)", what, req, func(x *side) (*answer, error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		x.tear = tear
		res := m.answer()
		err := x.torn[x.home].Invoke(ctx, m.path, x.fill(req), res)
		if err := x.alive(err); err != nil {
			return nil, err
		}
		return x.judge(res, err), nil
	})
	return err
}

// merged sends two requests one after another as one message, at times with unknown fields: protobuf puts them together.
func (s *script) merged() error {
	m, first := s.plain()
	second := first
	for i := 0; i == 0 || second.ProtoReflect().Descriptor() != first.ProtoReflect().Descriptor(); i++ {
		_, second = s.plain()
	}
	if s.chance(50) {
		m, first, second = txnCall, s.txn(), s.txn()
		whole := proto.Clone(first)
		proto.Merge(whole, second)
		before := proto.Clone(whole)
		if harmless(whole.(*pb.TxnRequest)); !proto.Equal(before, whole) || oddCompare(whole) {
			return nil
		}
	}
	odd := s.chance(40)
	what := kind(&step{method: m}) + " of " + (&frame{}).text(first) + " and " + (&frame{}).text(second)
	return s.raw(m, what, first, func(x *side) []byte {
		b := encoded(x.fill(first))
		if odd {
			b = protowire.AppendTag(b, 99, protowire.Fixed64Type)
			b = protowire.AppendFixed64(b, 7)
			b = protowire.AppendTag(b, 2000, protowire.BytesType)
			b = protowire.AppendBytes(b, []byte("unknown"))
			b = protowire.AppendTag(b, 1, protowire.VarintType) // a field of another type than it has
			b = protowire.AppendVarint(b, math.MaxUint64)
		}
		return append(b, encoded(x.fill(second))...)
	})
}

func encoded(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err) // every drawn message can be encoded
	}
	return b
}

// large sends about as much as is allowed, or more. Between the surely allowed and the surely refused size, the two count the bytes around
// a request differently.
func (s *script) large() error {
	size := one(s.dice, 1_000_000, 1_572_000, 1_580_000, 2_000_000, 2_090_000, 2_100_000, 3_000_000)
	value := bytes.Repeat([]byte{'x'}, size)
	key := []byte(s.name())
	if s.chance(20) {
		key, value = append(key, value[:size/200]...), nil
	}
	if s.chance(50) {
		return s.unary(putCall, &pb.PutRequest{Key: key, Value: value, PrevKv: s.chance(30)})
	}
	half := len(value) / 2
	return s.unary(txnCall, &pb.TxnRequest{Success: []*pb.RequestOp{
		{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Value: value[:half]}}},
		{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: append(slices.Clone(key), '2'), Value: value[:half], PrevKv: true}}},
	}})
}

// brief grants a lease that would hardly live and takes it back before it ends.
func (s *script) brief() error {
	id := int64(s.script)*1000 + 7_000_600
	ttl := one(s.dice, int64(0), -1, 1, 2, math.MinInt64, 5)
	if err := s.unary(grantCall, &pb.LeaseGrantRequest{ID: id, TTL: ttl}); err != nil {
		return err
	}
	if err := s.unary(putCall, &pb.PutRequest{Key: []byte(s.name()), Lease: id}); err != nil {
		return err
	}
	return s.unary(revokeCall, &pb.LeaseRevokeRequest{ID: id})
}

// unknown calls what is not there.
func (s *script) unknown() error {
	path := one(s.dice, "/etcdserverpb.KV/Nothing", "/etcdserverpb.Nothing/Range", "/v3lockpb.Lock/Nothing", "/etcdserverpb.Watch/Nothing", "/x/y")
	m := method{path, rangeCall.answer}
	return s.unary(m, &pb.RangeRequest{Key: []byte("a")})
}
