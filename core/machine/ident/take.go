package ident

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	"github.com/holdfastdb/holdfast/core/store"
)

// Read returns the catalogue that a View holds.
func Read(r store.Reader) (*State, error) {
	s, _, err := load(r)
	if err != nil {
		return nil, fmt.Errorf("read identities: %w", err)
	}
	return s, nil
}

// Taken is a catalogue of another server.
type Taken struct {
	Enabled  bool
	Revision uint64
	Users    []*User
	Roles    []*Role
}

// Take fills an empty machine with another server's catalogue. It is no command: an import or restore calls it between Check
// and Finish of an entry. Apply goroutine only.
func (m *Machine) Take(t *Taken, b store.Batch) error {
	s := m.writable()
	s.Enabled, s.Revision = t.Enabled, max(t.Revision, s.Revision)
	for _, u := range t.Users {
		if u.Name == "" {
			return errors.New("take users: one without a name")
		}
		slices.Sort(u.Roles)
		u.Roles = slices.Compact(u.Roles)
		u.Generation = s.Revision
		s.users[u.Name] = u
		s.bytes += u.size()
		b.Set(userKey(u.Name), appendUser(nil, u))
	}
	for _, r := range t.Roles {
		if r.Name == "" {
			return errors.New("take roles: one without a name")
		}
		slices.SortStableFunc(r.Permissions, func(a, b eident.Permission) int { return bytes.Compare(a.Key, b.Key) })
		s.roles[r.Name] = r
		s.bytes += r.size()
		b.Set(roleKey(r.Name), appendRole(nil, r))
	}
	if s.bytes > MaxBytes {
		return fmt.Errorf("take users and roles: they take %d bytes, more than %d", s.bytes, MaxBytes)
	}
	if s.Enabled && !(s.users[eident.Root] != nil && s.users[eident.Root].Has(eident.Root)) {
		return errors.New("take users: authentication is on and nobody is root")
	}
	b.Set(headKey, appendHead(nil, s))
	return nil
}
