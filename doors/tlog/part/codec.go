package part

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// Errors of decoders, beside those of wire. ErrKind and ErrFlags are fatal to the node that applies (another build wrote the
// part); the rest is rejected as malformed.
var (
	ErrKind  = errors.New("tree part of a kind this build does not know")
	ErrFlags = errors.New("tree part with a flag this build does not know")
	ErrForm  = errors.New("tree part that makes no sense")
)

// FlagHurry is Part.Hurry in the second byte of an encoded Append, so that it can be set on one that was built up.
const FlagHurry = 1

const (
	flagDedup = 1
	flagIndex = 2
)

// AppendPart appends p's encoding to dst.
func AppendPart(dst []byte, p *Part) []byte {
	dst = append(dst, byte(p.Kind))
	switch p.Kind {
	case Append:
		dst = append(dst, wire.Bit(p.Hurry, FlagHurry))
		dst = binary.AppendUvarint(dst, p.Log)
		return append(dst, p.Entries...)
	case Create, CreateMore:
		return AppendSpec(dst, &p.Spec)
	case Checkpoint:
		dst = binary.AppendUvarint(dst, uint64(len(p.Checkpoints)))
		for i := range p.Checkpoints {
			c := &p.Checkpoints[i]
			dst = binary.AppendUvarint(dst, c.Log)
			dst = AppendSigned(dst, c)
		}
		return dst
	case Resume:
		dst = binary.AppendUvarint(dst, p.Log)
		dst = binary.AppendUvarint(dst, p.Size)
		return append(dst, p.Root[:]...)
	}
	return dst
}

// PartLevel is the cluster's level from which on an encoded part may be proposed, if that is later than the machine's own.
func PartLevel(body []byte) uint16 {
	if len(body) > 0 && Kind(body[0]) == CreateMore {
		return MoreLevel
	}
	return 0
}

// AppendSpec appends what is fixed of a log; it is also part of the log's row in the store.
func AppendSpec(dst []byte, s *LogSpec) []byte {
	dst = append(dst, wire.Bit(s.Dedup, flagDedup)|wire.Bit(s.Index, flagIndex))
	dst = wire.AppendBytes(dst, s.Name)
	dst = wire.AppendBytes(dst, s.Key.Name)
	dst = append(dst, byte(s.Key.Alg))
	return wire.AppendBytes(dst, s.Key.Key)
}

// AppendSigned appends a checkpoint without its log; it is also the checkpoint's row in the store.
func AppendSigned(dst []byte, c *Signed) []byte {
	dst = binary.AppendUvarint(dst, c.Size)
	dst = append(dst, c.Root[:]...)
	return wire.AppendBytes(dst, c.Note)
}

// Decode decodes b into p, whose byte fields alias it. After an error p is of no use.
func (p *Part) Decode(b []byte) error {
	if len(b) == 0 {
		return fmt.Errorf("decode: %w", wire.ErrShort)
	}
	*p = Part{Kind: Kind(b[0]), Checkpoints: p.Checkpoints[:0]}
	if p.Kind == 0 || p.Kind > lastKind {
		return fmt.Errorf("decode kind %d: %w", b[0], ErrKind)
	}
	r := wire.NewReader(b[1:])
	switch p.Kind {
	case Append:
		p.Hurry = r.Flags(FlagHurry, ErrFlags) != 0
		p.Log = r.Uvarint()
		p.Entries = r.Rest() // judged where they are read
	case Create, CreateMore:
		p.Spec = spec(&r)
	case Checkpoint:
		n := r.Count(MaxCheckpoints, 1+1+tiles.HashSize+1)
		if n == 0 {
			r.Fail(ErrForm)
		}
		for range n {
			c := Signed{Log: r.Uvarint()}
			signed(&r, &c)
			p.Checkpoints = append(p.Checkpoints, c)
		}
	case Resume:
		p.Log, p.Size = r.Uvarint(), r.Uvarint()
		copy(p.Root[:], r.Take(tiles.HashSize))
	}
	return ended(&r)
}

// DecodeSpec is the inverse of AppendSpec. The result shares no memory with b.
func DecodeSpec(b []byte) (LogSpec, error) {
	r := wire.NewReader(b)
	s := spec(&r)
	return s, ended(&r)
}

// DecodeSigned is the inverse of AppendSigned; the note aliases b.
func DecodeSigned(b []byte) (Signed, error) {
	r := wire.NewReader(b)
	var c Signed
	signed(&r, &c)
	return c, ended(&r)
}

func spec(r *wire.Reader) LogSpec {
	flags := r.Flags(flagDedup|flagIndex, ErrFlags)
	s := LogSpec{Dedup: flags&flagDedup != 0, Index: flags&flagIndex != 0, Name: r.Text()}
	s.Key.Name = r.Text()
	s.Key.Alg = tiles.Algorithm(r.Byte())
	s.Key.Key = append([]byte(nil), r.Bytes()...)
	if !ValidName(s.Name) || !tiles.ValidKeyName(s.Key.Name) || len(s.Key.Key) == 0 || len(s.Key.Key) > maxKey {
		r.Fail(ErrForm)
	}
	return s
}

// maxKey bounds a public key; ML-DSA-87's has 2,592 bytes.
const maxKey = 4096

func signed(r *wire.Reader, c *Signed) {
	c.Size = r.Uvarint()
	copy(c.Root[:], r.Take(tiles.HashSize))
	if c.Note = r.Bytes(); len(c.Note) > MaxNote || c.Size > tiles.MaxSize {
		r.Fail(ErrForm)
	}
}

func ended(r *wire.Reader) error {
	if err := r.End(); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}
