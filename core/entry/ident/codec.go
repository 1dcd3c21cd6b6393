package ident

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/holdfastdb/holdfast/internal/wire"
)

// Limits of a part; a decoder refuses more.
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
	kindAccountCreate // those about accounts begin at level 7 of the cluster
	kindAccountAlter
	kindAccountDrop
	kindAccountGrant
	kindAccountRevoke
)

const flagNoPassword = 1

// AppendPart appends the encoding of p to b. Byte table: docs/formats/entry.md. A part with no pointer set is a programming
// error and panics.
func AppendPart(b []byte, p *Part) []byte {
	head := func(kind byte) []byte { return wire.AppendBytes(append(b, kind), p.Actor) }
	switch {
	case p.Pass != nil:
		return binary.AppendUvarint(append(b, kindPass), p.Pass.Revision)
	case p.Enable != nil:
		return head(kindEnable)
	case p.Disable != nil:
		return head(kindDisable)
	case p.UserAdd != nil:
		b = append(wire.AppendBytes(head(kindUserAdd), p.UserAdd.Name), wire.Bit(p.UserAdd.NoPassword, flagNoPassword))
		return AppendVerifiers(b, p.UserAdd.Verifiers)
	case p.UserDelete != nil:
		return wire.AppendBytes(head(kindUserDelete), p.UserDelete.Name)
	case p.UserPassword != nil:
		return AppendVerifiers(wire.AppendBytes(head(kindUserPassword), p.UserPassword.Name), p.UserPassword.Verifiers)
	case p.UserGrant != nil:
		return wire.AppendBytes(wire.AppendBytes(head(kindUserGrant), p.UserGrant.Name), p.UserGrant.Role)
	case p.UserRevoke != nil:
		return wire.AppendBytes(wire.AppendBytes(head(kindUserRevoke), p.UserRevoke.Name), p.UserRevoke.Role)
	case p.RoleAdd != nil:
		return wire.AppendBytes(head(kindRoleAdd), p.RoleAdd.Name)
	case p.RoleDelete != nil:
		return wire.AppendBytes(head(kindRoleDelete), p.RoleDelete.Name)
	case p.RoleGrant != nil:
		return AppendPermission(wire.AppendBytes(head(kindRoleGrant), p.RoleGrant.Name), &p.RoleGrant.Permission)
	case p.RoleRevoke != nil:
		b = wire.AppendBytes(head(kindRoleRevoke), p.RoleRevoke.Name)
		return wire.AppendBytes(wire.AppendBytes(b, p.RoleRevoke.Key), p.RoleRevoke.End)
	case p.TokenIssue != nil:
		t := p.TokenIssue
		b = wire.AppendBytes(append(b, kindTokenIssue), t.User)
		b = binary.AppendUvarint(b, t.Generation)
		b = append(b, t.Token[:]...)
		return binary.AppendUvarint(b, t.TTLMs)
	case p.TokenTouch != nil:
		return append(append(b, kindTokenTouch), p.TokenTouch.Token[:]...)
	}
	if b = appendAccountPart(b, p); b != nil {
		return b
	}
	panic("ident.AppendPart: empty part")
}

// AppendPermission encodes p: the body of RoleGrant and a piece of a role's row.
func AppendPermission(b []byte, p *Permission) []byte {
	return wire.AppendBytes(wire.AppendBytes(append(b, byte(p.Access)), p.Key), p.End)
}

// AppendVerifiers encodes a list of verifiers: a piece of two parts and of a user's row.
func AppendVerifiers(b []byte, all []Verifier) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for i := range all {
		b = AppendVerifier(b, all[i])
	}
	return b
}

// AppendVerifier encodes one verifier.
func AppendVerifier(b []byte, v Verifier) []byte {
	return wire.AppendBytes(append(b, byte(v.Scheme)), v.Data)
}

// DecodePart decodes what AppendPart wrote. The result owns its memory.
func DecodePart(b []byte) (*Part, error) {
	r := wire.NewReader(b)
	kind := r.Byte()
	p := &Part{}
	if kind >= kindEnable && kind <= kindRoleRevoke {
		p.Actor = r.Text()
	}
	switch kind {
	case kindPass:
		p.Pass = &Pass{Revision: r.Uvarint()}
	case kindEnable:
		p.Enable = &Enable{}
	case kindDisable:
		p.Disable = &Disable{}
	case kindUserAdd:
		p.UserAdd = &UserAdd{Name: r.Text(), NoPassword: r.Flags(flagNoPassword, ErrKind) != 0, Verifiers: TakeVerifiers(&r)}
	case kindUserDelete:
		p.UserDelete = &UserDelete{Name: r.Text()}
	case kindUserPassword:
		p.UserPassword = &UserPassword{Name: r.Text(), Verifiers: TakeVerifiers(&r)}
	case kindUserGrant:
		p.UserGrant = &UserGrant{Name: r.Text(), Role: r.Text()}
	case kindUserRevoke:
		p.UserRevoke = &UserRevoke{Name: r.Text(), Role: r.Text()}
	case kindRoleAdd:
		p.RoleAdd = &RoleAdd{Name: r.Text()}
	case kindRoleDelete:
		p.RoleDelete = &RoleDelete{Name: r.Text()}
	case kindRoleGrant:
		p.RoleGrant = &RoleGrant{Name: r.Text(), Permission: TakePermission(&r)}
	case kindRoleRevoke:
		p.RoleRevoke = &RoleRevoke{Name: r.Text(), Key: takeOwn(&r), End: takeOwn(&r)}
	case kindTokenIssue:
		p.TokenIssue = &TokenIssue{User: r.Text(), Generation: r.Uvarint(), Token: takeToken(&r), TTLMs: r.Uvarint()}
	case kindTokenTouch:
		p.TokenTouch = &TokenTouch{Token: takeToken(&r)}
	case kindAccountCreate, kindAccountAlter, kindAccountDrop, kindAccountGrant, kindAccountRevoke:
		takeAccountPart(kind, &r, p)
	default:
		if len(b) > 0 {
			return nil, fmt.Errorf("decode ident part of kind %d: %w", kind, ErrKind)
		}
	}
	switch err := r.End(); {
	case errors.Is(err, ErrKind):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("decode ident part: %w: %w", ErrMalformed, err)
	}
	return p, nil
}

// takeOwn takes bytes into memory of their own; nil if there are none.
func takeOwn(r *wire.Reader) []byte { return append([]byte(nil), r.Bytes()...) }

// takeToken takes a token's hash.
func takeToken(r *wire.Reader) (t [TokenBytes]byte) {
	copy(t[:], r.Take(TokenBytes))
	return t
}

// TakePermission takes what AppendPermission wrote. The result owns its memory.
func TakePermission(r *wire.Reader) Permission {
	p := Permission{Access: Access(r.Byte()), Key: takeOwn(r), End: takeOwn(r)}
	if p.Access > ReadWrite {
		r.Fail(ErrMalformed)
		return Permission{}
	}
	return p
}

// TakeVerifiers takes what AppendVerifiers wrote. The result owns its memory. An unknown scheme is kept: it is for a door this build
// does not have.
func TakeVerifiers(r *wire.Reader) []Verifier {
	n := r.Count(MaxVerifiers, 2)
	if n == 0 {
		return nil
	}
	all := make([]Verifier, n)
	for i := range all {
		all[i] = TakeVerifier(r)
	}
	return all
}

// TakeVerifier takes what AppendVerifier wrote. The result owns its memory.
func TakeVerifier(r *wire.Reader) Verifier {
	v := Verifier{Scheme: Scheme(r.Byte()), Data: takeOwn(r)}
	if len(v.Data) > MaxVerifierBytes {
		r.Fail(ErrMalformed)
	}
	return v
}
