package entry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/holdfastdb/holdfast/internal/wire"
)

// FormatVersion is the first byte of every raft entry's data. A build that meets another one must stop (ErrVersion):
// guessing at the meaning of a logged command would let members drift apart.
const FormatVersion = 1

// Size limits, in bytes. A packer stops at about 1 MiB, but a single command may be larger. So an entry may hold one command of the
// greatest size beside a full pack.
const (
	MaxCommandBytes = 8 << 20
	MaxEntryBytes   = MaxCommandBytes + 1<<20
	MaxParts        = 16
)

// Errors of decoders, beside those of wire. All are fatal to the node that applies: the log's checksums have passed, so a build that
// disagrees with this one wrote those bytes.
var (
	ErrVersion   = errors.New("entry has a format version this build does not know")
	ErrRange     = errors.New("entry holds a time out of range")
	ErrParts     = errors.New("command has too many parts, or two for one machine")
	ErrTooLarge  = errors.New("command or entry too large")
	errNoCommand = errors.New("no command left in entry")
)

// Header is the leader's stamp on a raft entry. Hash is the rolling state hash the leader had after applying entry HashIndex (0 = no
// stamp); members that still remember that index compare.
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
	return wire.AppendBytes(dst, cmd)
}

// AppendPackedCommand is AppendPacked of a command's encoding, without a copy of it in between.
func AppendPackedCommand(dst []byte, c *Command) []byte {
	n := 8 + wire.UvarintLen(c.Seq) + wire.UvarintLen(c.Term) + wire.UvarintLen(uint64(len(c.Parts)))
	for i := range c.Parts {
		body := len(c.Parts[i].Body)
		n += 1 + wire.UvarintLen(uint64(body)) + body
	}
	return AppendCommand(binary.AppendUvarint(dst, uint64(n)), c)
}

// DecodeHeader splits a raft entry's data into its header and the packed commands, which Next walks. rest aliases b.
func DecodeHeader(b []byte) (h Header, rest []byte, err error) {
	if len(b) > MaxEntryBytes {
		return h, nil, fmt.Errorf("decode entry of %d bytes: %w", len(b), ErrTooLarge)
	}
	if len(b) == 0 {
		return h, nil, fmt.Errorf("decode entry: %w", wire.ErrShort)
	}
	if b[0] != FormatVersion {
		return h, nil, fmt.Errorf("decode entry of version %d: %w", b[0], ErrVersion)
	}
	r := wire.NewReader(b[1:])
	tick, wall := r.Uvarint(), r.Uint64()
	h.HashIndex, h.Hash = r.Uvarint(), r.Uint64()
	if err := r.Err(); err != nil {
		return Header{}, nil, fmt.Errorf("decode entry header: %w", err)
	}
	if tick > math.MaxInt64 || wall > math.MaxInt64 {
		return Header{}, nil, fmt.Errorf("decode entry header: %w", ErrRange)
	}
	h.TickMs, h.WallNs = int64(tick), int64(wall)
	return h, r.Rest(), nil
}

// Next takes the first packed command off rest; both results alias it. Call it while len(rest) > 0.
func Next(rest []byte) (cmd, tail []byte, err error) {
	if len(rest) == 0 {
		return nil, nil, errNoCommand
	}
	r := wire.NewReader(rest)
	cmd = r.Bytes()
	if err := r.Err(); err != nil {
		return nil, nil, fmt.Errorf("split entry: %w", err)
	}
	if len(cmd) > MaxCommandBytes {
		return nil, nil, fmt.Errorf("split entry: command of %d bytes: %w", len(cmd), ErrTooLarge)
	}
	return cmd, r.Rest(), nil
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
	r := wire.NewReader(b)
	c.Origin, c.Seq, c.Term = r.Uint64(), r.Uvarint(), r.Uvarint()
	n := r.Uvarint()
	c.Parts = c.Parts[:0]
	if n > MaxParts {
		return fmt.Errorf("decode command with %d parts: %w", n, ErrParts)
	}
	var seen [256 / 64]uint64 // a bit per machine letter
	for range n {
		m := r.Byte()
		body := r.Bytes()
		if r.Err() != nil {
			break
		}
		if seen[m/64]&(1<<(m%64)) != 0 {
			return fmt.Errorf("decode command with two parts for machine %q: %w", m, ErrParts)
		}
		seen[m/64] |= 1 << (m % 64)
		c.Parts = append(c.Parts, Part{Machine: Machine(m), Body: body})
	}
	if err := r.End(); err != nil {
		return fmt.Errorf("decode command: %w", err)
	}
	return nil
}

// DecodeCommandID reads only who proposed a command and under which term, without looking at its parts.
func DecodeCommandID(b []byte) (origin, seq, term uint64, err error) {
	r := wire.NewReader(b)
	origin, seq, term = r.Uint64(), r.Uvarint(), r.Uvarint()
	if err := r.Err(); err != nil {
		return 0, 0, 0, fmt.Errorf("decode command id: %w", err)
	}
	return origin, seq, term, nil
}
