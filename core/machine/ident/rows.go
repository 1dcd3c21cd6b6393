package ident

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// The rows, below the machine's letter. Byte table: docs/formats/store.md.
const (
	spaceHead    = 's'
	spaceUser    = 'u'
	spaceRole    = 'r'
	spaceToken   = 't'
	spaceAccount = 'a'

	headVersion    = 1
	headEnabled    = 1
	userNoPassword = 1
)

var (
	headKey = []byte{byte(entry.MachineIdent), spaceHead}

	errRow = errors.New("damaged row of the identity machine")
)

func userKey(name string) []byte { return append([]byte{byte(entry.MachineIdent), spaceUser}, name...) }
func roleKey(name string) []byte { return append([]byte{byte(entry.MachineIdent), spaceRole}, name...) }
func tokenKey(hash [eident.TokenBytes]byte) []byte {
	return append([]byte{byte(entry.MachineIdent), spaceToken}, hash[:]...)
}

// restoreRow leaves tokens out of a restored cluster: they were given out by another one.
func restoreRow(key, value []byte) (row []byte, keep bool, err error) {
	return value, len(key) < 2 || key[1] != spaceToken, nil
}

// census counts users, roles and accounts.
type census struct{ users, roles, accounts int64 }

func (c *census) Row(key, _ []byte) error {
	if len(key) > 1 {
		switch key[1] {
		case spaceUser:
			c.users++
		case spaceRole:
			c.roles++
		case spaceAccount:
			c.accounts++
		}
	}
	return nil
}

func (c *census) Counts() []machine.Count {
	return []machine.Count{{Name: "users", N: c.users}, {Name: "roles", N: c.roles}, {Name: "sql accounts", N: c.accounts}}
}

func appendHead(b []byte, s *State) []byte {
	b = append(b, headVersion, wire.Bit(s.Enabled, headEnabled))
	return binary.AppendUvarint(b, s.Revision)
}

func decodeHead(b []byte, s *State) error {
	r := wire.NewReader(b)
	version := r.Byte()
	s.Enabled, s.Revision = r.Flags(headEnabled, errRow) != 0, r.Uvarint()
	if r.End() != nil || version != headVersion || s.Revision == 0 {
		return errRow
	}
	return nil
}

func appendUser(b []byte, u *User) []byte {
	b = append(b, wire.Bit(u.NoPassword, userNoPassword))
	b = binary.AppendUvarint(b, u.Generation)
	b = eident.AppendVerifiers(b, u.Verifiers)
	b = binary.AppendUvarint(b, uint64(len(u.Roles)))
	for _, r := range u.Roles {
		b = wire.AppendBytes(b, r)
	}
	return b
}

func decodeUser(name string, b []byte) (*User, error) {
	r := wire.NewReader(b)
	u := &User{Name: name, NoPassword: r.Flags(userNoPassword, errRow) != 0, Generation: r.Uvarint(), Verifiers: eident.TakeVerifiers(&r)}
	for range r.Count(math.MaxInt32, 1) {
		u.Roles = append(u.Roles, r.Text())
	}
	if r.End() != nil || !slices.IsSorted(u.Roles) {
		return nil, errRow
	}
	return u, nil
}

func appendRole(b []byte, r *Role) []byte {
	b = binary.AppendUvarint(b, uint64(len(r.Permissions)))
	for i := range r.Permissions {
		b = eident.AppendPermission(b, &r.Permissions[i])
	}
	return b
}

func decodeRole(name string, b []byte) (*Role, error) {
	r := wire.NewReader(b)
	role := &Role{Name: name}
	for range r.Count(math.MaxInt32, 3) {
		role.Permissions = append(role.Permissions, eident.TakePermission(&r))
	}
	if r.End() != nil {
		return nil, errRow
	}
	return role, nil
}

func appendToken(b []byte, t *Token) []byte {
	b = wire.AppendBytes(b, t.User)
	b = binary.AppendUvarint(b, uint64(t.TTLMs))
	return binary.AppendUvarint(b, uint64(t.DeadlineMs))
}

func decodeToken(b []byte) (*Token, error) {
	r := wire.NewReader(b)
	t := &Token{User: r.Text()}
	ttl, deadline := r.Uvarint(), r.Uvarint()
	if r.End() != nil || ttl > maxTTLMs || deadline > math.MaxInt64 {
		return nil, errRow
	}
	t.TTLMs, t.DeadlineMs = int64(ttl), int64(deadline)
	return t, nil
}

// size is the size of a row, key and value.
func (u *User) size() int64 { return int64(2 + len(u.Name) + len(appendUser(nil, u))) }
func (r *Role) size() int64 { return int64(2 + len(r.Name) + len(appendRole(nil, r))) }

// load reads everything the machine owns.
func load(st store.Reader) (*State, map[[eident.TokenBytes]byte]*Token, error) {
	s, all := fresh(), map[[eident.TokenBytes]byte]*Token{}
	it, err := st.NewIter([]byte{byte(entry.MachineIdent)}, []byte{byte(entry.MachineIdent) + 1})
	if err != nil {
		return nil, nil, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return nil, nil, err
		}
		if err := s.take(it.Key()[1:], v, all); err != nil {
			return nil, nil, fmt.Errorf("row %.40x: %w", it.Key(), err)
		}
	}
	return s, all, it.Error()
}

// take adds one row; key is without the machine's letter.
func (s *State) take(key, v []byte, all map[[eident.TokenBytes]byte]*Token) error {
	if len(key) == 0 {
		return errRow
	}
	switch name := string(key[1:]); key[0] {
	case spaceHead:
		return decodeHead(v, s)
	case spaceUser:
		u, err := decodeUser(name, v)
		if err != nil {
			return err
		}
		s.users[name] = u
		s.bytes += u.size()
	case spaceRole:
		r, err := decodeRole(name, v)
		if err != nil {
			return err
		}
		s.roles[name] = r
		s.bytes += r.size()
	case spaceToken:
		t, err := decodeToken(v)
		if err != nil || len(name) != eident.TokenBytes {
			return errRow
		}
		all[[eident.TokenBytes]byte(key[1:])] = t
	case spaceAccount:
		n, ok := accountOf(key[1:])
		if !ok {
			return errRow
		}
		a, err := decodeAccount(n, v)
		if err != nil {
			return err
		}
		s.accounts[n] = a
		s.bytes += a.size()
	default:
		return errRow
	}
	return nil
}
