package saga

import (
	"errors"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// The messages of DTM's gRPC service, read and written by hand. There are few of them, and their generated types come with a registry of
// names of which a process may have one. descriptor.go describes them for reflection, and a test holds one against the other.

// errWire is that of bytes that are no message, or not this one.
var errWire = errors.New("no message of dtmgimp")

// fields calls fn with each field of a message. v is the value of a field with bytes, n of a field with a number; other kinds are skipped,
// as are unknown fields.
func fields(b []byte, fn func(num protowire.Number, v []byte, n uint64) error) error {
	for len(b) > 0 {
		num, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return errWire
		}
		b = b[size:]
		var v []byte
		var n uint64
		switch kind {
		case protowire.BytesType:
			v, size = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(b)
		default:
			size = protowire.ConsumeFieldValue(num, kind, b)
		}
		if size < 0 {
			return errWire
		}
		b = b[size:]
		if kind == protowire.BytesType || kind == protowire.VarintType {
			if err := fn(num, v, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// pair is an element of a map of texts.
func pair(b []byte, put func(key, value string)) error {
	var key, value string
	err := fields(b, func(num protowire.Number, v []byte, _ uint64) error {
		switch num {
		case 1:
			key = string(v)
		case 2:
			value = string(v)
		}
		return nil
	})
	if err == nil {
		put(key, value)
	}
	return err
}

// dtmRequest is DtmRequest.
type dtmRequest struct{ request }

// decode implements decoder. Payloads are copied: b is the transport's.
func (r *dtmRequest) decode(b []byte) error {
	r.Protocol = "grpc"
	return fields(b, func(num protowire.Number, v []byte, _ uint64) error {
		switch num {
		case 1:
			r.Gid = string(v)
		case 2:
			r.mode = string(v)
		case 3:
			return r.options(v)
		case 4:
			r.CustomData = string(v)
		case 5:
			if len(r.payloads) < sagapart.MaxBranches { // those that no step has are not looked at
				r.payloads = append(r.payloads, slices.Clone(v))
			}
		case 6:
			r.QueryPrepared = string(v)
		case 7:
			return r.textSteps(v)
		case 8:
			return pair(v, r.setExtra)
		case 9:
			r.reason = string(v)
		}
		return nil
	})
}

// turnAway notes why the message did not come.
func (r *dtmRequest) turnAway(why error) { r.broken = why }

// options reads DtmTransOptions. Times that are below zero or far too long are taken as what they cannot be.
func (r *dtmRequest) options(b []byte) error {
	o := &r.Options
	ms := func(n uint64) int64 { return min(max(int64(n), 0), maxSeconds) * 1000 }
	return fields(b, func(num protowire.Number, v []byte, n uint64) error {
		switch num {
		case 1:
			o.WaitResult = n != 0
		case 2:
			o.TimeoutMs = ms(n)
		case 3:
			o.RetryIntervalMs = ms(n)
		case 5:
			return pair(v, r.setHeader)
		case 6:
			o.RequestTimeoutMs = ms(n)
		case 7:
			o.RetryLimit = max(int64(n), 0)
		}
		return nil
	})
}

// textSteps reads the steps, which are JSON in a text; "" and "null" are none. check reports their faults, because an error here would be
// one of the transport.
func (r *dtmRequest) textSteps(b []byte) error {
	if len(b) == 0 || r.broken != nil {
		return nil
	}
	v, err := parse(b)
	if err == nil {
		r.steps, err = v.steps(r.steps[:0])
	}
	if err != nil {
		var f *failure
		if !errors.As(err, &f) {
			f = &failure{500, "Steps: " + err.Error()}
		}
		r.broken = f
	}
	return nil
}

// dtmBranch is DtmBranchRequest.
type dtmBranch struct{ registration }

// decode implements decoder.
func (r *dtmBranch) decode(b []byte) error {
	return fields(b, func(num protowire.Number, v []byte, _ uint64) error {
		switch num {
		case 1:
			r.gid = string(v)
		case 2:
			r.mode = string(v)
		case 3:
			r.branch = string(v)
		case 5: // 4 is Op, which DTM's own server does not read either: a workflow's is in the map
			return pair(v, r.set)
		case 6:
			r.data = slices.Clone(v)
		}
		return nil
	})
}

// turnAway notes why the message did not come.
func (r *dtmBranch) turnAway(why error) { r.broken = why }

// dtmTopic is DtmTopicRequest.
type dtmTopic struct{ topic, url, remark string }

// decode implements decoder.
func (r *dtmTopic) decode(b []byte) error {
	return fields(b, func(num protowire.Number, v []byte, _ uint64) error {
		switch num {
		case 1:
			r.topic = string(v)
		case 2:
			r.url = string(v)
		case 3:
			r.remark = string(v)
		}
		return nil
	})
}

// nothing is google.protobuf.Empty.
type nothing struct{}

func (*nothing) decode(b []byte) error {
	return fields(b, func(protowire.Number, []byte, uint64) error { return nil })
}
func (*nothing) encode() []byte { return nil }

// gidReply is DtmGidReply.
type gidReply string

func (r gidReply) encode() []byte { return appendText(nil, 1, string(r)) }

// progressReply is DtmProgressesReply, encoded.
type progressReply []byte

func (r progressReply) encode() []byte { return r }

func appendText(b []byte, num protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), s)
}

func appendMessage(b []byte, num protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), message)
}
