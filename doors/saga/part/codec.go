package part

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/holdfastdb/holdfast/internal/wire"
)

// Errors of decoders, beside those of wire. The first three are fatal to the node that applies (another build wrote the part, see
// Foreign); the rest is rejected as malformed.
var (
	ErrKind  = errors.New("saga part of a kind this build does not know")
	ErrFlags = errors.New("saga part with a flag this build does not know")
	ErrWord  = errors.New("saga part with a status, mode or op this build does not know")
	ErrForm  = errors.New("saga part with a field out of its bounds")
)

// Foreign reports whether err says that another build wrote what does not decode: no member of this build may apply it.
func Foreign(err error) bool {
	return errors.Is(err, ErrKind) || errors.Is(err, ErrFlags) || errors.Is(err, ErrWord)
}

// Flags of a Begin.
const (
	beginExists = 1 << iota
	beginFresh
)

// Flags of a Change. FromClient looks at the first three.
const (
	changeResults = 1 << iota
	changePass
	changeWorker
	changeTimer
	changeNumber
	changeReason
	changeResult
	changeRetries
)

// statusBits are the statuses a set may have.
const statusBits = Statuses(1<<(lastStatus+1) - 2)

// Append appends p's encoding to dst. A branch without a status is written as Prepared.
func Append(dst []byte, p *Part) []byte {
	dst = append(dst, byte(p.Kind))
	switch p.Kind {
	case Begin, Submit:
		g := p.Begin
		dst = append(dst, wire.Bit(g.Exists, beginExists)|wire.Bit(g.Fresh, beginFresh), byte(g.Status))
		dst = binary.AppendVarint(dst, g.FirstMs)
		dst = binary.AppendVarint(dst, g.IntervalMs)
		return AppendBranches(AppendDefinition(dst, &g.Definition), g.Branches)
	case Change:
		return appendChange(dst, p.Change)
	case Register:
		return AppendBranches(wire.AppendBytes(dst, p.Register.Gid), p.Register.Branches)
	case Subscribe:
		dst = wire.AppendBytes(dst, p.Topic.Topic)
		dst = wire.AppendBytes(dst, p.Topic.URL)
		return wire.AppendBytes(dst, p.Topic.Remark)
	case Unsubscribe:
		return wire.AppendBytes(wire.AppendBytes(dst, p.Topic.Topic), p.Topic.URL)
	case Drop:
		return wire.AppendBytes(dst, p.Topic.Topic)
	case Elapse:
		return binary.AppendUvarint(dst, uint64(p.ElapseMs))
	case Retain:
		return binary.AppendUvarint(dst, uint64(p.RetainMs))
	}
	return dst
}

func appendChange(dst []byte, c *ChangePart) []byte {
	dst = append(dst, wire.Bit(len(c.Results) > 0, changeResults)|wire.Bit(c.Pass, changePass)|wire.Bit(c.Worker, changeWorker)|
		wire.Bit(c.Timer, changeTimer)|wire.Bit(c.Number != 0, changeNumber)|wire.Bit(c.Reason != "", changeReason)|
		wire.Bit(c.Result != "", changeResult)|wire.Bit(c.Retries != 0, changeRetries), byte(c.To))
	dst = binary.AppendUvarint(dst, uint64(c.From))
	dst = wire.AppendBytes(dst, c.Gid)
	if c.Number != 0 {
		dst = binary.AppendUvarint(dst, c.Number)
	}
	if c.Timer {
		dst = binary.AppendVarint(dst, c.NextMs)
		dst = binary.AppendVarint(dst, c.IntervalMs)
	}
	if c.Retries != 0 {
		dst = binary.AppendVarint(dst, c.Retries)
	}
	if len(c.Results) > 0 {
		dst = binary.AppendUvarint(dst, uint64(len(c.Results)))
		for _, r := range c.Results {
			dst = append(binary.AppendUvarint(dst, uint64(r.Branch)), byte(r.Status))
		}
	}
	if c.Reason != "" {
		dst = wire.AppendBytes(dst, c.Reason)
	}
	if c.Result != "" {
		dst = wire.AppendBytes(dst, c.Result)
	}
	return dst
}

// Decode decodes b into p. Payloads alias b; texts do not. After an error p is of no use.
func (p *Part) Decode(b []byte) error {
	if len(b) == 0 {
		return fmt.Errorf("decode: %w", wire.ErrShort)
	}
	*p = Part{Kind: Kind(b[0])}
	if p.Kind == 0 || p.Kind > lastKind {
		return fmt.Errorf("decode kind %d: %w", b[0], ErrKind)
	}
	r := newReader(b[1:])
	switch p.Kind {
	case Begin, Submit:
		g := new(BeginPart)
		p.Begin = g
		flags := r.Flags(beginExists|beginFresh, ErrFlags)
		g.Exists, g.Fresh = flags&beginExists != 0, flags&beginFresh != 0
		g.Status = r.status()
		g.FirstMs, g.IntervalMs = r.Varint(), r.Varint()
		r.definition(&g.Definition)
		g.Branches = r.branches(nil)
		if !Of(Prepared, Submitted).Has(g.Status) {
			r.Fail(fmt.Errorf("begin as %s: %w", g.Status, ErrForm))
		}
		if p.Kind == Submit && g.Status != Submitted {
			r.Fail(fmt.Errorf("submit as %s: %w", g.Status, ErrForm))
		}
	case Change:
		p.Change = r.change()
	case Register:
		p.Register = &RegisterPart{Gid: r.name(1, MaxGidBytes)}
		p.Register.Branches = r.branches(nil)
	case Subscribe, Unsubscribe, Drop:
		p.Topic = &TopicPart{Topic: r.name(1, MaxTopicBytes)}
		if p.Kind != Drop {
			p.Topic.URL = r.name(1, MaxURLBytes)
		}
		if p.Kind == Subscribe {
			p.Topic.Remark = r.name(0, MaxURLBytes)
		}
	case Elapse:
		p.ElapseMs = r.time("elapse")
	case Retain:
		p.RetainMs = r.time("retain")
	}
	if err := r.End(); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}

// time takes a time from one millisecond on.
func (r *reader) time(of string) int64 {
	ms := r.Uvarint()
	if ms == 0 || ms > MaxElapseMs {
		r.Fail(fmt.Errorf("%s of %d ms: %w", of, ms, ErrForm))
	}
	return int64(ms)
}

func (r *reader) change() *ChangePart {
	c := new(ChangePart)
	flags := r.Byte()
	if c.To = Status(r.Byte()); c.To > lastStatus {
		r.Fail(ErrWord)
	}
	from := r.Uvarint()
	if from&^uint64(statusBits) != 0 {
		r.Fail(ErrWord)
	}
	c.From = Statuses(from)
	c.Pass, c.Worker = flags&changePass != 0, flags&changeWorker != 0
	c.Gid = r.name(1, MaxGidBytes)
	if flags&changeNumber != 0 {
		c.Number = r.Uvarint()
	}
	if c.Timer = flags&changeTimer != 0; c.Timer {
		c.NextMs, c.IntervalMs = r.Varint(), r.Varint()
	}
	if flags&changeRetries != 0 {
		c.Retries = r.Varint()
	}
	if flags&changeResults != 0 {
		n := r.Count(MaxBranches, 2)
		c.Results = make([]BranchResult, n)
		for i := range c.Results {
			branch := r.Uvarint()
			if branch >= MaxBranches {
				r.Fail(ErrForm)
			}
			c.Results[i] = BranchResult{Branch: uint32(branch), Status: r.branchStatus()}
		}
	}
	if flags&changeReason != 0 {
		c.Reason = r.name(0, MaxReasonBytes)
	}
	if flags&changeResult != 0 {
		c.Result = r.name(0, MaxResultBytes)
	}
	return c
}

// FromClient reports whether an encoded part is one that clients send. That is every kind but Resume, Elapse and Retain, and a Change
// unless it is the worker's. It reads no more than two bytes, because it is called for every command while authentication is on.
func FromClient(body []byte) bool {
	if len(body) == 0 {
		return false
	}
	switch Kind(body[0]) {
	case Resume, Elapse, Retain:
		return false
	case Change:
		return len(body) < 2 || body[1]&(changeResults|changePass|changeWorker) == 0
	}
	return true
}

// PartLevel is the cluster's level from which on an encoded part may be proposed, if that is later than the machine's own.
func PartLevel(body []byte) uint16 {
	if len(body) == 0 {
		return 0
	}
	switch Kind(body[0]) {
	case Elapse:
		return ElapseLevel
	case Submit:
		return SubmitLevel
	case Retain:
		return RetainLevel
	}
	return 0
}

// EncodeElapse returns the encoding of an Elapse of so many milliseconds, at most MaxElapseMs.
func EncodeElapse(ms int64) []byte {
	return Append(nil, &Part{Kind: Elapse, ElapseMs: min(ms, MaxElapseMs)})
}
