package part

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/holdfastdb/holdfast/internal/wire"
)

// Errors of decoders, beside those of wire. ErrKind and ErrFlags are fatal to the node that applies (another build wrote the
// part); the rest is rejected as malformed.
var (
	ErrKind  = errors.New("etcd2 part of a kind this build does not know")
	ErrFlags = errors.New("etcd2 part with a flag this build does not know")
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
	dst = append(dst, wire.Bit(p.Dir, flagDir)|wire.Bit(p.Recursive, flagRecursive)|wire.Bit(p.Refresh, flagRefresh)|
		wire.Bit(p.HasTTL, flagTTL)|wire.Bit(len(p.PrevValue) > 0, flagPrevValue)|wire.Bit(p.PrevIndex != 0, flagPrevIndex))
	if p.HasTTL {
		dst = binary.AppendVarint(dst, p.TTL)
	}
	if p.PrevIndex != 0 {
		dst = binary.AppendUvarint(dst, p.PrevIndex)
	}
	if len(p.PrevValue) > 0 {
		dst = wire.AppendBytes(dst, p.PrevValue)
	}
	dst = wire.AppendBytes(dst, p.Path)
	return wire.AppendBytes(dst, p.Value)
}

// Decode decodes b into p, whose byte fields alias it. After an error p is of no use.
func (p *Part) Decode(b []byte) error {
	if len(b) == 0 {
		return fmt.Errorf("decode: %w", wire.ErrShort)
	}
	*p = Part{Kind: Kind(b[0])}
	if p.Kind == 0 || p.Kind > lastKind {
		return fmt.Errorf("decode kind %d: %w", b[0], ErrKind)
	}
	r := wire.NewReader(b[1:])
	if p.Kind == Expire {
		limit := r.Uvarint()
		p.Limit = uint32(min(limit, 1<<31))
		return decoded(&r)
	}
	flags := r.Flags(allFlags, ErrFlags)
	p.Dir, p.Recursive, p.Refresh = flags&flagDir != 0, flags&flagRecursive != 0, flags&flagRefresh != 0
	if p.HasTTL = flags&flagTTL != 0; p.HasTTL {
		p.TTL = r.Varint()
	}
	if flags&flagPrevIndex != 0 {
		p.PrevIndex = r.Uvarint()
	}
	if flags&flagPrevValue != 0 {
		p.PrevValue = r.Bytes()
	}
	p.Path = r.Bytes()
	p.Value = r.Bytes()
	if err := decoded(&r); err != nil {
		return err
	}
	if !Clean(p.Path) {
		return fmt.Errorf("decode path %q: %w", p.Path[:min(len(p.Path), 64)], ErrPath)
	}
	return nil
}

// decoded returns the error of a part whose fields have been read.
func decoded(r *wire.Reader) error {
	if err := r.End(); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}

// Clean reports whether path is absolute and has neither empty components nor "." nor "..".
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
