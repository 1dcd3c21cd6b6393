package part

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/holdfastdb/holdfast/internal/wire"
)

// Flags of a definition.
const (
	defWait = 1 << iota
	defConcurrent
	defTimes
	allDef = 1<<iota - 1
)

// AppendDefinition appends d's encoding, which is the same in a part and in the store.
func AppendDefinition(dst []byte, d *Definition) []byte {
	o := &d.Options
	times := o.TimeoutMs|o.RequestTimeoutMs|o.RetryIntervalMs|o.RetryLimit != 0
	dst = append(dst, wire.Bit(o.WaitResult, defWait)|wire.Bit(o.Concurrent, defConcurrent)|wire.Bit(times, defTimes), byte(d.Mode))
	dst = wire.AppendBytes(dst, d.Gid)
	dst = wire.AppendBytes(dst, d.Protocol)
	dst = wire.AppendBytes(dst, d.QueryPrepared)
	dst = wire.AppendBytes(dst, d.CustomData)
	if times {
		dst = binary.AppendVarint(dst, o.TimeoutMs)
		dst = binary.AppendVarint(dst, o.RequestTimeoutMs)
		dst = binary.AppendVarint(dst, o.RetryIntervalMs)
		dst = binary.AppendVarint(dst, o.RetryLimit)
	}
	dst = binary.AppendUvarint(dst, uint64(len(d.Headers)))
	for i := range d.Headers {
		dst = wire.AppendBytes(wire.AppendBytes(dst, d.Headers[i].Name), d.Headers[i].Value)
	}
	return dst
}

// Gives reports whether d has an option or custom data that Take would take over.
func (d *Definition) Gives() bool {
	o := &d.Options
	return o.Concurrent || o.TimeoutMs|o.RequestTimeoutMs|o.RetryIntervalMs|o.RetryLimit != 0 || d.CustomData != "" || len(d.Headers) > 0
}

// Take replaces the options, headers and custom data of a prepared transaction by those of its submit, and reports whether anything
// changed. A zero option and an empty text are not given; headers are taken as a whole. WaitResult is a matter of the request and not of
// the transaction.
func (d *Definition) Take(given *Definition) (changed bool) {
	number := func(to *int64, ms int64) {
		if ms != 0 && *to != ms {
			*to, changed = ms, true
		}
	}
	o, g := &d.Options, &given.Options
	if g.Concurrent && !o.Concurrent {
		o.Concurrent, changed = true, true
	}
	number(&o.TimeoutMs, g.TimeoutMs)
	number(&o.RequestTimeoutMs, g.RequestTimeoutMs)
	number(&o.RetryIntervalMs, g.RetryIntervalMs)
	number(&o.RetryLimit, g.RetryLimit)
	if given.CustomData != "" && d.CustomData != given.CustomData {
		d.CustomData, changed = given.CustomData, true
	}
	if len(given.Headers) > 0 && !slices.Equal(d.Headers, given.Headers) {
		d.Headers, changed = given.Headers, true
	}
	return changed
}

// TakeDefinition decodes a definition from the front of b, into texts of their own, and returns what is left.
func TakeDefinition(b []byte) (d Definition, rest []byte, err error) {
	r := newReader(b)
	r.definition(&d)
	if err := r.Err(); err != nil {
		return Definition{}, nil, fmt.Errorf("decode definition: %w", err)
	}
	return d, r.Rest(), nil
}

func (r *reader) definition(d *Definition) {
	flags := r.Flags(allDef, ErrFlags)
	if d.Mode = Mode(r.Byte()); d.Mode == 0 || d.Mode > lastMode {
		r.Fail(ErrWord)
	}
	d.Gid = r.name(1, MaxGidBytes)
	d.Protocol = r.name(0, MaxGidBytes)
	d.QueryPrepared = r.name(0, MaxURLBytes)
	d.CustomData = r.name(0, MaxCustomBytes)
	o := &d.Options
	o.WaitResult, o.Concurrent = flags&defWait != 0, flags&defConcurrent != 0
	if flags&defTimes != 0 {
		o.TimeoutMs, o.RequestTimeoutMs, o.RetryIntervalMs, o.RetryLimit = r.Varint(), r.Varint(), r.Varint(), r.Varint()
	}
	if n := r.Count(MaxHeaders, 2); n > 0 {
		d.Headers = make([]Header, n)
		for i := range d.Headers {
			d.Headers[i] = Header{Name: r.name(0, MaxURLBytes), Value: r.name(0, MaxURLBytes)}
		}
	}
}

// reader takes the fields of this package's encodings. Its texts share one copy of the whole encoding if that is small. A transaction of
// two steps has twenty texts, and one allocation is cheaper than twenty.
type reader struct {
	wire.Reader
	all  string // the whole encoding; "" if it is large
	size int
}

const sharedText = 4 << 10

func newReader(b []byte) reader {
	r := reader{Reader: wire.NewReader(b), size: len(b)}
	if len(b) <= sharedText {
		r.all = string(b)
	}
	return r
}

// name takes a text of least to most bytes.
func (r *reader) name(least, most int) string {
	b := r.Bytes()
	switch {
	case len(b) < least || len(b) > most:
		r.Fail(fmt.Errorf("text of %d bytes where %d to %d may be: %w", len(b), least, most, ErrForm))
		return ""
	case len(b) == 0:
		return ""
	case r.all == "":
		return string(b)
	}
	end := r.size - r.Len()
	return r.all[end-len(b) : end]
}

// status takes a status, which may not be 0.
func (r *reader) status() Status {
	s := Status(r.Byte())
	if s == 0 || s > lastStatus {
		r.Fail(ErrWord)
	}
	return s
}

// branchStatus takes the status of a branch.
func (r *reader) branchStatus() Status {
	s := r.status()
	if s == Submitted || s == Aborting {
		r.Fail(fmt.Errorf("branch that is %s: %w", s, ErrForm))
	}
	return s
}
