package kv

import (
	"errors"
	"fmt"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/holdfastdb/holdfast/doors/kv/ops"
	"github.com/holdfastdb/holdfast/internal/meter"
	"github.com/holdfastdb/holdfast/serve/port"
)

// codec is the door's message codec: our own messages read and write themselves, all others go through protobuf. It is
// forced on the server, so it also answers for clients that name another content subtype.
type codec struct {
	steps  *meter.Steps // not nil
	counts *ops.Counts  // not nil
}

// refused keeps the error of a unary call for its handler, because the gRPC server has one code, Internal, for all errors of a
// codec. On streams that code stays: watches of etcd's client begin again after it, and would end after a more fitting one.
func refused(err error) error {
	if s, ok := status.FromError(err); ok && s.Code() == codes.Internal && strings.HasSuffix(s.Message(), tooMany) {
		return errTurnedAway
	}
	return err
}

// decoder is a request that reads itself. b is only valid during the call.
type decoder interface{ decode(b []byte) error }

// command is a request on its way into the log.
type command interface {
	decoder
	base() *call
}

// prepared is an answer that is encoded already, perhaps shared with other streams.
type prepared struct{ parts mem.BufferSlice }

func (codec) Name() string { return "proto" }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	parts, err := c.marshal(v)
	c.counts.Sent.Add(uint64(parts.Len()))
	return parts, err
}

func (c codec) marshal(v any) (mem.BufferSlice, error) {
	switch v.(type) {
	case *putAnswer, *deleteAnswer, *txnAnswer:
		began := c.steps.Reply.Begin()
		defer c.steps.Reply.End(began)
	}
	switch m := v.(type) {
	case *rangeCall:
		parts := marshal(&m.answer, m.room)
		m.recycle()
		return parts, nil
	case *txnAnswer:
		return marshal(m, m.room), nil
	case *rangeStreamAnswer:
		return marshal(m, m.room), nil
	case message:
		return marshal(m, nil), nil
	case prepared:
		return m.parts, nil
	case proto.Message:
		b, err := proto.Marshal(m)
		if err != nil {
			return nil, err
		}
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return nil, fmt.Errorf("marshal %T: not a message of this door", v)
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(*inflated); ok {
		return m.decode(c, data)
	}
	c.counts.Received.Add(uint64(data.Len()))
	cmd, isCommand := v.(command)
	if isCommand {
		began := c.steps.Decode.Begin()
		defer c.steps.Decode.End(began)
	}
	var b []byte
	if len(data) == 1 { // nearly always: a small message in one transport frame
		b = data[0].ReadOnlyData()
	} else if put, ok := v.(*putCall); ok {
		return put.decodeInto(data)
	} else {
		buf := data.MaterializeToBuffer(pool)
		defer buf.Free()
		b = buf.ReadOnlyData()
	}
	if port.TurnedAway(b) {
		if !isCommand {
			return errors.New(tooMany)
		}
		cmd.base().refusal = errTurnedAway
		return nil
	}
	switch m := v.(type) {
	case decoder:
		return m.decode(b)
	case proto.Message:
		_, watch := m.(*pb.WatchRequest)
		if manyFields(b, mostFields, watch) {
			return fmt.Errorf("unmarshal %T: too many fields", v)
		}
		return proto.Unmarshal(b, m)
	}
	return fmt.Errorf("unmarshal %T: not a message of this door", v)
}

// mostFields bounds the fields of a message that protobuf reads. An empty element of a list takes two bytes of it, and sixteen of memory or
// more. No client sends as many: the longest list is one of URLs. mostOfWatch bounds the fields of a message in a WatchRequest. One field
// is a list of numbers, which protobuf copies for each field that extends it.
const mostFields, mostOfWatch = 4096, 64

// manyFields reports whether a message has more than most fields, or with watch one in it more than mostOfWatch. One that is malformed is protobuf's to
// refuse.
func manyFields(b []byte, most int, watch bool) bool {
	for n := 0; len(b) > 0; n++ {
		if n == most {
			return true
		}
		_, typ, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			return false
		}
		_, _, size := protowire.ConsumeField(b)
		if size < 0 {
			return false
		}
		if watch && typ == protowire.BytesType {
			if v, _ := protowire.ConsumeBytes(b[tag:]); manyFields(v, mostOfWatch, false) {
				return true
			}
		}
		b = b[size:]
	}
	return false
}
