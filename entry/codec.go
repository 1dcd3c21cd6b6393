package entry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// FormatVersion is the first byte of every raft entry's data. A build that meets another one must stop (ErrVersion):
// guessing at the meaning of a logged command would let members drift apart.
const FormatVersion = 1

// Size limits, in bytes. A packer stops at about 1 MiB; a single command may be larger, so an entry may hold one command
// of the greatest size beside a full pack.
const (
	MaxCommandBytes = 8 << 20
	MaxEntryBytes   = MaxCommandBytes + 1<<20
	MaxParts        = 16
)

// What a decoder can find wrong. All are fatal to the node that applies: the log's checksums have passed, so such bytes
// were written by a build that does not agree with this one.
var (
	ErrShort     = errors.New("entry ends early")
	ErrVersion   = errors.New("entry has a format version this build does not know")
	ErrRange     = errors.New("entry holds a number out of range")
	ErrParts     = errors.New("command has too many parts, or two for one machine")
	ErrTrailing  = errors.New("bytes after the end of a command")
	ErrTooLarge  = errors.New("command or entry too large")
	errNoCommand = errors.New("no command left in entry")
)

// Header is what the leader stamps once on every raft entry. Hash is the rolling state hash the leader had after applying
// entry HashIndex (0 = no stamp); members that still remember that index compare.
type Header struct {
	TickMs    int64
	WallNs    int64
	HashIndex uint64
	Hash      uint64
}

// AppendHeader appends the head of a raft entry's data to dst; packed commands follow it. Negative times are written as 0.
func AppendHeader(dst []byte, h Header) []byte {
	dst = append(dst, FormatVersion)
	dst = binary.AppendUvarint(dst, uint64(max(h.TickMs, 0)))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(max(h.WallNs, 0)))
	dst = binary.AppendUvarint(dst, h.HashIndex)
	return binary.LittleEndian.AppendUint64(dst, h.Hash)
}

// AppendPacked appends one encoded command as the next of an entry. The packer never decodes: a command arrives encoded
// from the member it began on, and the leader only joins the bytes.
func AppendPacked(dst, cmd []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(cmd)))
	return append(dst, cmd...)
}

// DecodeHeader splits a raft entry's data into its header and the packed commands, which Next walks. rest aliases b.
func DecodeHeader(b []byte) (h Header, rest []byte, err error) {
	if len(b) > MaxEntryBytes {
		return h, nil, fmt.Errorf("decode entry of %d bytes: %w", len(b), ErrTooLarge)
	}
	if len(b) == 0 {
		return h, nil, fmt.Errorf("decode entry: %w", ErrShort)
	}
	if b[0] != FormatVersion {
		return h, nil, fmt.Errorf("decode entry of version %d: %w", b[0], ErrVersion)
	}
	r := reader{b: b[1:]}
	tick, wall := r.uvarint(), r.fixed64()
	h.HashIndex, h.Hash = r.uvarint(), r.fixed64()
	if r.err != nil {
		return Header{}, nil, fmt.Errorf("decode entry header: %w", r.err)
	}
	if tick > math.MaxInt64 || wall > math.MaxInt64 {
		return Header{}, nil, fmt.Errorf("decode entry header: %w", ErrRange)
	}
	h.TickMs, h.WallNs = int64(tick), int64(wall)
	return h, r.b, nil
}

// Next takes the first packed command off rest; both results alias it. Call it while len(rest) > 0.
func Next(rest []byte) (cmd, tail []byte, err error) {
	if len(rest) == 0 {
		return nil, nil, errNoCommand
	}
	r := reader{b: rest}
	cmd = r.bytes()
	if r.err != nil {
		return nil, nil, fmt.Errorf("split entry: %w", r.err)
	}
	if len(cmd) > MaxCommandBytes {
		return nil, nil, fmt.Errorf("split entry: command of %d bytes: %w", len(cmd), ErrTooLarge)
	}
	return cmd, r.b, nil
}

// AppendCommand appends c's encoding to dst. It does not judge sizes: the proposer does, against MaxCommandBytes.
func AppendCommand(dst []byte, c *Command) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, c.Origin)
	dst = binary.AppendUvarint(dst, c.Seq)
	dst = binary.AppendUvarint(dst, c.Term)
	dst = binary.AppendUvarint(dst, uint64(len(c.Parts)))
	for i := range c.Parts {
		dst = append(dst, byte(c.Parts[i].Machine))
		dst = AppendPacked(dst, c.Parts[i].Body)
	}
	return dst
}

// DecodeCommand decodes one command; the bodies of its parts alias b.
func DecodeCommand(b []byte) (Command, error) {
	var c Command
	err := c.Decode(b)
	return c, err
}

// Decode is DecodeCommand into c, reusing the memory of c.Parts: the applier decodes every command of the log into the
// same one. On an error c is of no use.
func (c *Command) Decode(b []byte) error {
	if len(b) > MaxCommandBytes {
		return fmt.Errorf("decode command of %d bytes: %w", len(b), ErrTooLarge)
	}
	r := reader{b: b}
	c.Origin, c.Seq, c.Term = r.fixed64(), r.uvarint(), r.uvarint()
	n := r.uvarint()
	c.Parts = c.Parts[:0]
	if r.err == nil && n > MaxParts {
		return fmt.Errorf("decode command with %d parts: %w", n, ErrParts)
	}
	var seen [256 / 64]uint64 // a bit per machine letter
	for range n {
		m := r.byte()
		body := r.bytes()
		if r.err != nil {
			break
		}
		if seen[m/64]&(1<<(m%64)) != 0 {
			return fmt.Errorf("decode command with two parts for machine %q: %w", m, ErrParts)
		}
		seen[m/64] |= 1 << (m % 64)
		c.Parts = append(c.Parts, Part{Machine: Machine(m), Body: body})
	}
	if r.err != nil {
		return fmt.Errorf("decode command: %w", r.err)
	}
	if len(r.b) != 0 {
		return fmt.Errorf("decode command: %w", ErrTrailing)
	}
	return nil
}

// DecodeCommandID reads only who proposed a command and under which term, without looking at its parts.
func DecodeCommandID(b []byte) (origin, seq, term uint64, err error) {
	r := reader{b: b}
	origin, seq, term = r.fixed64(), r.uvarint(), r.uvarint()
	if r.err != nil {
		return 0, 0, 0, fmt.Errorf("decode command id: %w", r.err)
	}
	return origin, seq, term, nil
}

// reader takes values off the front of b. The first error sticks and every later value is zero, so that callers check once.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.b = nil
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail(ErrShort)
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	switch {
	case n == 0:
		r.fail(ErrShort)
		return 0
	case n < 0:
		r.fail(ErrRange)
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) fixed64() uint64 {
	if len(r.b) < 8 {
		r.fail(ErrShort)
		return 0
	}
	v := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

// bytes takes a length and that many bytes, with its capacity cut so that an append by the caller cannot reach the rest.
func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.fail(ErrShort)
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}
