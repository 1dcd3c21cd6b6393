package ident

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Limits of what a part may hold; a decoder refuses more.
const (
	MaxVerifiers     = 8
	MaxVerifierBytes = 4 << 10
)

// ErrKind means that a newer build wrote the part: fatal to the node that applies it (DECISIONS A20). ErrMalformed says that
// the bytes make no sense; the machine rejects such a part, which is the same answer on every member.
var (
	ErrKind      = errors.New("ident part of a kind this build does not know")
	ErrMalformed = errors.New("malformed ident part")
)

// Kinds of parts; they are part of the log's format and never renumbered. Those from kindEnable to kindRoleRevoke have an
// actor.
const (
	kindPass = 1 + iota
	kindEnable
	kindDisable
	kindUserAdd
	kindUserDelete
	kindUserPassword
	kindUserGrant
	kindUserRevoke
	kindRoleAdd
	kindRoleDelete
	kindRoleGrant
	kindRoleRevoke
	kindTokenIssue
	kindTokenTouch
)

const flagNoPassword = 1

// AppendPart appends the encoding of p to b. Byte table: docs/formats/entry.md. A part with no pointer set is a programming
// error and panics.
func AppendPart(b []byte, p *Part) []byte {
	head := func(kind byte) []byte { return appendString(append(b, kind), p.Actor) }
	switch {
	case p.Pass != nil:
		return binary.AppendUvarint(append(b, kindPass), p.Pass.Revision)
	case p.Enable != nil:
		return head(kindEnable)
	case p.Disable != nil:
		return head(kindDisable)
	case p.UserAdd != nil:
		b = appendString(head(kindUserAdd), p.UserAdd.Name)
		if p.UserAdd.NoPassword {
			b = append(b, flagNoPassword)
		} else {
			b = append(b, 0)
		}
		return AppendVerifiers(b, p.UserAdd.Verifiers)
	case p.UserDelete != nil:
		return appendString(head(kindUserDelete), p.UserDelete.Name)
	case p.UserPassword != nil:
		return AppendVerifiers(appendString(head(kindUserPassword), p.UserPassword.Name), p.UserPassword.Verifiers)
	case p.UserGrant != nil:
		return appendString(appendString(head(kindUserGrant), p.UserGrant.Name), p.UserGrant.Role)
	case p.UserRevoke != nil:
		return appendString(appendString(head(kindUserRevoke), p.UserRevoke.Name), p.UserRevoke.Role)
	case p.RoleAdd != nil:
		return appendString(head(kindRoleAdd), p.RoleAdd.Name)
	case p.RoleDelete != nil:
		return appendString(head(kindRoleDelete), p.RoleDelete.Name)
	case p.RoleGrant != nil:
		return AppendPermission(appendString(head(kindRoleGrant), p.RoleGrant.Name), &p.RoleGrant.Permission)
	case p.RoleRevoke != nil:
		b = appendString(head(kindRoleRevoke), p.RoleRevoke.Name)
		return appendString(appendString(b, p.RoleRevoke.Key), p.RoleRevoke.End)
	case p.TokenIssue != nil:
		t := p.TokenIssue
		b = appendString(append(b, kindTokenIssue), t.User)
		b = binary.AppendUvarint(b, t.Generation)
		b = append(b, t.Token[:]...)
		return binary.AppendUvarint(b, t.TTLMs)
	case p.TokenTouch != nil:
		return append(append(b, kindTokenTouch), p.TokenTouch.Token[:]...)
	}
	panic("ident.AppendPart: empty part")
}

// AppendPermission encodes p: the body of RoleGrant and a piece of a role's row.
func AppendPermission(b []byte, p *Permission) []byte {
	return appendString(appendString(append(b, byte(p.Access)), p.Key), p.End)
}

// AppendVerifiers encodes a list of verifiers: a piece of two parts and of a user's row.
func AppendVerifiers(b []byte, all []Verifier) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for i := range all {
		b = appendString(append(b, byte(all[i].Scheme)), all[i].Data)
	}
	return b
}

func appendString[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// DecodePart decodes what AppendPart wrote. The result owns its memory.
func DecodePart(b []byte) (*Part, error) {
	r := Reader{b: b}
	kind := r.Byte()
	p := &Part{}
	if kind >= kindEnable && kind <= kindRoleRevoke {
		p.Actor = r.String()
	}
	switch kind {
	case kindPass:
		p.Pass = &Pass{Revision: r.Uvarint()}
	case kindEnable:
		p.Enable = &Enable{}
	case kindDisable:
		p.Disable = &Disable{}
	case kindUserAdd:
		p.UserAdd = &UserAdd{Name: r.String(), NoPassword: r.Flags(flagNoPassword) != 0, Verifiers: r.Verifiers()}
	case kindUserDelete:
		p.UserDelete = &UserDelete{Name: r.String()}
	case kindUserPassword:
		p.UserPassword = &UserPassword{Name: r.String(), Verifiers: r.Verifiers()}
	case kindUserGrant:
		p.UserGrant = &UserGrant{Name: r.String(), Role: r.String()}
	case kindUserRevoke:
		p.UserRevoke = &UserRevoke{Name: r.String(), Role: r.String()}
	case kindRoleAdd:
		p.RoleAdd = &RoleAdd{Name: r.String()}
	case kindRoleDelete:
		p.RoleDelete = &RoleDelete{Name: r.String()}
	case kindRoleGrant:
		p.RoleGrant = &RoleGrant{Name: r.String(), Permission: r.Permission()}
	case kindRoleRevoke:
		p.RoleRevoke = &RoleRevoke{Name: r.String(), Key: r.Bytes(), End: r.Bytes()}
	case kindTokenIssue:
		p.TokenIssue = &TokenIssue{User: r.String(), Generation: r.Uvarint(), Token: r.Token(), TTLMs: r.Uvarint()}
	case kindTokenTouch:
		p.TokenTouch = &TokenTouch{Token: r.Token()}
	default:
		if len(b) > 0 {
			return nil, fmt.Errorf("decode ident part of kind %d: %w", kind, ErrKind)
		}
	}
	if err := r.End(); err != nil {
		return nil, err
	}
	return p, nil
}

// Reader takes fields off the front of an encoding: of a part here, of a row in machine/ident. The first error sticks and
// every later value is zero, so that callers ask once, at the end. What it returns owns its memory.
type Reader struct {
	b   []byte
	bad bool
	new bool // what was met is not wrong but of a later build
}

// NewReader reads b.
func NewReader(b []byte) *Reader { return &Reader{b: b} }

// End returns what was wrong, bytes left over included.
func (r *Reader) End() error {
	switch {
	case r.new:
		return ErrKind
	case r.bad || len(r.b) != 0:
		return ErrMalformed
	}
	return nil
}

func (r *Reader) fail() { r.bad, r.b = true, nil }

// Byte takes one byte.
func (r *Reader) Byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

// Flags takes a byte of which only the known bits may be set: another would change the meaning of the rest.
func (r *Reader) Flags(known byte) byte {
	v := r.Byte()
	if v&^known != 0 {
		r.new = true
		r.fail()
		return 0
	}
	return v
}

// Uvarint takes an unsigned varint in its shortest form, so that one meaning has one encoding.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || n > 1 && r.b[n-1] == 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *Reader) field() []byte {
	n := r.Uvarint()
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

// String takes a length and that many bytes.
func (r *Reader) String() string { return string(r.field()) }

// Bytes is String as a slice; nil if it is empty.
func (r *Reader) Bytes() []byte { return append([]byte(nil), r.field()...) }

// Token takes a token's hash.
func (r *Reader) Token() (t [TokenBytes]byte) {
	if len(r.b) < TokenBytes {
		r.fail()
		return t
	}
	copy(t[:], r.b)
	r.b = r.b[TokenBytes:]
	return t
}

// Count takes the length of a list of at most limit elements that take at least min bytes each.
func (r *Reader) Count(limit, min int) int {
	n := r.Uvarint()
	if n > uint64(limit) || n > uint64(len(r.b)/min) {
		r.fail()
		return 0
	}
	return int(n)
}

// Permission takes what AppendPermission wrote.
func (r *Reader) Permission() Permission {
	p := Permission{Access: Access(r.Byte()), Key: r.Bytes(), End: r.Bytes()}
	if p.Access > ReadWrite {
		r.fail()
		return Permission{}
	}
	return p
}

// Verifiers takes what AppendVerifiers wrote. An unknown scheme is kept: it is for a door this build does not have.
func (r *Reader) Verifiers() []Verifier {
	n := r.Count(MaxVerifiers, 2)
	if n == 0 {
		return nil
	}
	all := make([]Verifier, n)
	for i := range all {
		all[i].Scheme = Scheme(r.Byte())
		if all[i].Data = r.Bytes(); len(all[i].Data) > MaxVerifierBytes {
			r.fail()
		}
	}
	return all
}
