package kv

import (
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/holdfastdb/holdfast/door/kv/ops"
	"github.com/holdfastdb/holdfast/internal/meter"
)

// codec is the door's message codec: our own messages read and write themselves, all others go through protobuf. It is
// forced on the server, so it also answers for clients that name another content subtype.
type codec struct {
	steps  *meter.Steps // not nil
	flight *flight
	counts *ops.Counts // not nil
}

// decoder is a request that reads itself. b is only valid during the call.
type decoder interface{ decode(b []byte) error }

// command is a request on its way into the log.
type command interface {
	decoder
	base() *call
}

// prepared is an answer whose bytes exist already, perhaps shared with other streams.
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
	c.counts.Received.Add(uint64(data.Len()))
	cmd, isCommand := v.(command)
	if isCommand {
		// Refused before it is copied: under a flood of large values that is where the memory goes.
		if !c.flight.take(cmd.base(), data.Len()) {
			return nil
		}
		began := c.steps.Decode.Begin()
		defer c.steps.Decode.End(began)
	}
	var b []byte
	if len(data) == 1 { // nearly always: a small message in one transport frame
		b = data[0].ReadOnlyData()
	} else {
		buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
		defer buf.Free()
		b = buf.ReadOnlyData()
	}
	switch m := v.(type) {
	case decoder:
		err := m.decode(b)
		if err != nil && isCommand {
			c.flight.give(cmd.base().held)
		}
		return err
	case proto.Message:
		return proto.Unmarshal(b, m)
	}
	return fmt.Errorf("unmarshal %T: not a message of this door", v)
}
