package tree

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/holdfastdb/holdfast/tiles"
)

// What a decoder can find wrong. ErrKind and ErrFlags are fatal to the node that applies (another build wrote the part);
// the rest is rejected as malformed.
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
		dst = append(dst, bitIf(p.Hurry, FlagHurry))
		dst = binary.AppendUvarint(dst, p.Log)
		return append(dst, p.Entries...)
	case Create:
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

// AppendSpec appends what is fixed of a log; it is also part of the log's row in the store.
func AppendSpec(dst []byte, s *LogSpec) []byte {
	dst = append(dst, bitIf(s.Dedup, flagDedup)|bitIf(s.Index, flagIndex))
	dst = appendBytes(dst, []byte(s.Name))
	dst = appendBytes(dst, []byte(s.Key.Name))
	dst = append(dst, byte(s.Key.Alg))
	return appendBytes(dst, s.Key.Key)
}

// AppendSigned appends a checkpoint without its log; it is also the checkpoint's row in the store.
func AppendSigned(dst []byte, c *Signed) []byte {
	dst = binary.AppendUvarint(dst, c.Size)
	dst = append(dst, c.Root[:]...)
	return appendBytes(dst, c.Note)
}

func bitIf(on bool, bit byte) byte {
	if on {
		return bit
	}
	return 0
}

func appendBytes(dst, b []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// Decode decodes b into p, whose byte fields alias it. After an error p is of no use.
func (p *Part) Decode(b []byte) error {
	if len(b) == 0 {
		return fmt.Errorf("decode: %w", ErrForm)
	}
	*p = Part{Kind: Kind(b[0]), Checkpoints: p.Checkpoints[:0]}
	if p.Kind == 0 || p.Kind > lastKind {
		return fmt.Errorf("decode kind %d: %w", b[0], ErrKind)
	}
	r := reader{b: b[1:]}
	switch p.Kind {
	case Append:
		flags := r.byte()
		if flags&^FlagHurry != 0 {
			return fmt.Errorf("decode flags %x: %w", flags, ErrFlags)
		}
		p.Hurry = flags&FlagHurry != 0
		p.Log = r.uvarint()
		p.Entries, r.b = r.b, nil
		return r.end() // the entries are judged where they are read
	case Create:
		spec, err := r.spec()
		if err != nil {
			return err
		}
		p.Spec = spec
	case Checkpoint:
		n := r.uvarint()
		if n == 0 || n > MaxLogs {
			r.bad = true
		}
		for i := uint64(0); i < n && !r.bad; i++ {
			c := Signed{Log: r.uvarint()}
			r.signed(&c)
			p.Checkpoints = append(p.Checkpoints, c)
		}
	case Resume:
		p.Log, p.Size = r.uvarint(), r.uvarint()
		p.Root = r.hash()
	}
	return r.end()
}

// DecodeSpec is the inverse of AppendSpec. The result shares no memory with b.
func DecodeSpec(b []byte) (LogSpec, error) {
	r := reader{b: b}
	s, err := r.spec()
	if err != nil {
		return s, err
	}
	return s, r.end()
}

// DecodeSigned is the inverse of AppendSigned; the note aliases b.
func DecodeSigned(b []byte) (Signed, error) {
	r := reader{b: b}
	var c Signed
	r.signed(&c)
	return c, r.end()
}

// reader takes values off the front of b. The first error sticks and every later value is zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) spec() (LogSpec, error) {
	flags := r.byte()
	if flags&^(flagDedup|flagIndex) != 0 {
		return LogSpec{}, fmt.Errorf("decode flags %x: %w", flags, ErrFlags)
	}
	s := LogSpec{Dedup: flags&flagDedup != 0, Index: flags&flagIndex != 0, Name: string(r.bytes())}
	s.Key.Name = string(r.bytes())
	s.Key.Alg = tiles.Algorithm(r.byte())
	s.Key.Key = append([]byte(nil), r.bytes()...)
	if r.bad || !ValidName(s.Name) || !tiles.ValidKeyName(s.Key.Name) || len(s.Key.Key) == 0 || len(s.Key.Key) > 4096 {
		return s, fmt.Errorf("decode log: %w", ErrForm)
	}
	return s, nil
}

func (r *reader) signed(c *Signed) {
	c.Size, c.Root = r.uvarint(), r.hash()
	if c.Note = r.bytes(); len(c.Note) > MaxNote || c.Size > tiles.MaxSize {
		r.bad = true
	}
}

func (r *reader) byte() byte {
	if r.bad || len(r.b) == 0 {
		r.bad = true
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if r.bad || n <= 0 || n > 1 && r.b[n-1] == 0 { // one spelling for each number
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if r.bad || n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) hash() (h tiles.Hash) {
	if r.bad || len(r.b) < len(h) {
		r.bad = true
		return h
	}
	copy(h[:], r.b)
	r.b = r.b[len(h):]
	return h
}

func (r *reader) end() error {
	if r.bad || len(r.b) > 0 {
		return fmt.Errorf("decode: %w", ErrForm)
	}
	return nil
}
