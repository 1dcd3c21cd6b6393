package ident

import (
	"maps"
	"slices"
	"sync/atomic"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
)

// MaxBytes bounds the rows of users, roles and accounts, which are all kept in memory. It is a limit of the log's meaning, not of one
// member: all refuse the same part.
const MaxBytes = 64 << 20

// State is the catalogue after some entry. It never changes once published, and may be kept and shared freely.
type State struct {
	// Enabled: authentication is on.
	Enabled bool
	// Revision counts changes of users and roles, from 1. Changes of accounts do not count.
	Revision uint64

	users    map[string]*User
	roles    map[string]*Role
	accounts map[eident.AccountName]*Account // without RootAccount until it was changed
	bytes    int64                           // of all rows of users, roles and accounts
}

// User is one user; read only.
type User struct {
	Name string
	// NoPassword: known by certificate alone.
	NoPassword bool
	Verifiers  []eident.Verifier
	Roles      []string // in order
	// Generation is the revision at which the verifiers were set.
	Generation uint64

	// merged is the union of the roles, computed when first needed.
	merged atomic.Pointer[permits]
}

// Role is one role; read only.
type Role struct {
	Name        string
	Permissions []eident.Permission // by key; those of equal keys in the order of their grant
}

func fresh() *State {
	return &State{Revision: 1, users: map[string]*User{}, roles: map[string]*Role{}, accounts: map[eident.AccountName]*Account{}}
}

func (s *State) clone() *State {
	return &State{Enabled: s.Enabled, Revision: s.Revision, users: maps.Clone(s.users), roles: maps.Clone(s.roles), accounts: maps.Clone(s.accounts),
		bytes: s.bytes}
}

// clone copies a user without what was worked out for it.
func (u *User) clone() *User {
	return &User{Name: u.Name, NoPassword: u.NoPassword, Verifiers: u.Verifiers, Roles: u.Roles, Generation: u.Generation}
}

// withRoles is clone with other roles.
func (u *User) withRoles(roles []string) *User {
	c := u.clone()
	c.Roles = roles
	return c
}

// Has reports whether the user has a role.
func (u *User) Has(role string) bool {
	_, ok := slices.BinarySearch(u.Roles, role)
	return ok
}

// Verifier returns what passwords are compared with in one scheme; nil if there is nothing.
func (u *User) Verifier(s eident.Scheme) []byte {
	for i := range u.Verifiers {
		if u.Verifiers[i].Scheme == s {
			return u.Verifiers[i].Data
		}
	}
	return nil
}

// Bytes is the size of the rows of users, roles and accounts. In memory they take about twice that.
func (s *State) Bytes() int64 { return s.bytes }

// User returns a user, nil if there is none of that name.
func (s *State) User(name string) *User { return s.users[name] }

// Role returns a role, nil if there is none of that name.
func (s *State) Role(name string) *Role { return s.roles[name] }

// Users lists the names of all users in order.
func (s *State) Users() []string { return slices.Sorted(maps.Keys(s.users)) }

// Roles lists the names of all roles in order.
func (s *State) Roles() []string { return slices.Sorted(maps.Keys(s.roles)) }

// Admin returns why a user may not administer: UserEmpty, UserNotFound or Denied; 0 if the user may. While authentication is off, every
// user may.
func (s *State) Admin(name string) entry.Code {
	if !s.Enabled {
		return 0
	}
	if name == "" {
		return eident.UserEmpty
	}
	u := s.users[name]
	switch {
	case u == nil:
		return eident.UserNotFound
	case !u.Has(eident.Root):
		return eident.Denied
	}
	return 0
}

// Permits reports whether a user may read (access Read) or write (access Write) all keys of [key, end). The interval is read as in a Range:
// end empty = the one key, "\0" = to the last. It need not be called while authentication is off.
func (s *State) Permits(name string, access eident.Access, key, end []byte) bool {
	u := s.users[name]
	if u == nil {
		return false
	}
	if u.Has(eident.Root) {
		return true
	}
	p := s.permits(u)
	if access == eident.Write {
		return p.write.cover(key, end)
	}
	return p.read.cover(key, end)
}

// Writable returns the ranges a user may write, in order and disjoint; all is true if that is everything.
func (s *State) Writable(name string) (_ Spans, all bool) {
	u := s.users[name]
	if u == nil {
		return nil, false
	}
	if u.Has(eident.Root) {
		return nil, true
	}
	return s.permits(u).write, false
}
