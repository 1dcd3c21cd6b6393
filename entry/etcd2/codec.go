package etcd2

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// What a decoder can find wrong. ErrKind and ErrFlags are fatal to the node that applies (another build wrote the part);
// the rest is rejected as malformed.
var (
	ErrKind  = errors.New("etcd2 part of a kind this build does not know")
	ErrFlags = errors.New("etcd2 part with a flag this build does not know")
	ErrShort = errors.New("etcd2 part ends early")
	ErrTrail = errors.New("bytes after the end of an etcd2 part")
	ErrPath  = errors.New("etcd2 part with a path that is not clean")
)

const (
	flagDir = 1 << iota
	flagRecursive
	flagRefresh
	flagTTL
	flagPrevValue
	flagPrevIndex
	allFlags = 1<<iota - 1
)

// Append appends p's encoding to dst.
func Append(dst []byte, p *Part) []byte {
	dst = append(dst, byte(p.Kind))
	if p.Kind == Expire {
		return binary.AppendUvarint(dst, uint64(p.Limit))
	}
	flags := byte(0)
	set := func(on bool, flag byte) {
		if on {
			flags |= flag
		}
	}
	set(p.Dir, flagDir)
	set(p.Recursive, flagRecursive)
	set(p.Refresh, flagRefresh)
	set(p.HasTTL, flagTTL)
	set(len(p.PrevValue) > 0, flagPrevValue)
	set(p.PrevIndex != 0, flagPrevIndex)
	dst = append(dst, flags)
	if p.HasTTL {
		dst = binary.AppendVarint(dst, p.TTL)
	}
	if p.PrevIndex != 0 {
		dst = binary.AppendUvarint(dst, p.PrevIndex)
	}
	if len(p.PrevValue) > 0 {
		dst = appendBytes(dst, p.PrevValue)
	}
	dst = appendBytes(dst, p.Path)
	return appendBytes(dst, p.Value)
}

func appendBytes(dst, b []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// Decode decodes b into p, whose byte fields alias it. After an error p is of no use.
func (p *Part) Decode(b []byte) error {
	if len(b) == 0 {
		return fmt.Errorf("decode: %w", ErrShort)
	}
	*p = Part{Kind: Kind(b[0])}
	if p.Kind == 0 || p.Kind > lastKind {
		return fmt.Errorf("decode kind %d: %w", b[0], ErrKind)
	}
	r := reader{b: b[1:]}
	if p.Kind == Expire {
		limit := r.uvarint()
		p.Limit = uint32(min(limit, 1<<31))
		return r.end()
	}
	flags := r.byte()
	if flags&^byte(allFlags) != 0 {
		return fmt.Errorf("decode flags %x: %w", flags, ErrFlags)
	}
	p.Dir, p.Recursive, p.Refresh = flags&flagDir != 0, flags&flagRecursive != 0, flags&flagRefresh != 0
	if p.HasTTL = flags&flagTTL != 0; p.HasTTL {
		p.TTL = r.varint()
	}
	if flags&flagPrevIndex != 0 {
		p.PrevIndex = r.uvarint()
	}
	if flags&flagPrevValue != 0 {
		p.PrevValue = r.bytes()
	}
	p.Path = r.bytes()
	p.Value = r.bytes()
	if err := r.end(); err != nil {
		return err
	}
	if !Clean(p.Path) {
		return fmt.Errorf("decode path %q: %w", p.Path[:min(len(p.Path), 64)], ErrPath)
	}
	return nil
}

// Clean tells whether path is absolute and has neither empty components nor "." nor "..".
func Clean(path []byte) bool {
	if len(path) == 0 || path[0] != '/' {
		return false
	}
	if len(path) == 1 {
		return true
	}
	start := 1
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		switch name := path[start:i]; {
		case len(name) == 0, len(name) == 1 && name[0] == '.', len(name) == 2 && name[0] == '.' && name[1] == '.':
			return false
		}
		start = i + 1
	}
	return true
}

// reader takes values off the front of b. The first error sticks and every later value is zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) fail() { r.b, r.bad = nil, true }

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) end() error {
	switch {
	case r.bad:
		return fmt.Errorf("decode: %w", ErrShort)
	case len(r.b) > 0:
		return fmt.Errorf("decode: %w", ErrTrail)
	}
	return nil
}
