package ident

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
)

// plan is what Check hands to Do: which user or role becomes what. An old value without a new one is deleted.
type plan struct {
	part             *eident.Part
	oldUser, newUser *User
	oldRole, newRole *Role
	stripped         []*User // users that lose a deleted role, by name
	endsTokensOf     string
	grows            int64 // the growth of the rows
	nothing          bool  // accepted, and nothing to do
	accounts         *accountPlan
}

func reject(code entry.Code, f string, args ...any) *entry.Rejection {
	return &entry.Rejection{Machine: entry.MachineIdent, Code: code, Detail: fmt.Sprintf(f, args...)}
}

func isNewer(err error) bool { return errors.Is(err, eident.ErrKind) }

// judge decides a part by etcd's rules, in etcd's order: the user first, then the request.
func (p *plan) judge(m *Machine) *entry.Rejection {
	s := m.now
	switch part := p.part; {
	case part.Pass != nil:
		if s.Enabled && part.Pass.Revision != s.Revision {
			return reject(eident.OldRevision, "permitted at revision %d, it is %d", part.Pass.Revision, s.Revision)
		}
		return nil
	case part.TokenIssue != nil:
		return judgeIssue(s, part.TokenIssue)
	case part.TokenTouch != nil:
		if _, ok := m.tokens.get(part.TokenTouch.Token); !ok {
			return reject(eident.TokenNotFound, "token has ended")
		}
		return nil
	}
	if rej, ok := p.judgeAccounts(s); ok {
		return rej
	}
	if code := s.Admin(p.part.Actor); code != 0 {
		return reject(code, "%q may not administer", p.part.Actor)
	}
	var rej *entry.Rejection
	switch part := p.part; {
	case part.Enable != nil:
		rej = p.enable(s)
	case part.Disable != nil:
		p.nothing = !s.Enabled
	case part.UserAdd != nil:
		rej = p.addUser(s, part.UserAdd)
	case part.UserDelete != nil:
		rej = p.deleteUser(s, part.UserDelete.Name)
	case part.UserPassword != nil:
		rej = p.password(s, part.UserPassword)
	case part.UserGrant != nil:
		rej = p.grantRole(s, part.UserGrant)
	case part.UserRevoke != nil:
		rej = p.revokeRole(s, part.UserRevoke)
	case part.RoleAdd != nil:
		rej = p.addRole(s, part.RoleAdd.Name)
	case part.RoleDelete != nil:
		rej = p.deleteRole(s, part.RoleDelete.Name)
	case part.RoleGrant != nil:
		rej = p.grantPermission(s, part.RoleGrant)
	case part.RoleRevoke != nil:
		rej = p.revokePermission(s, part.RoleRevoke)
	}
	if rej != nil {
		return rej
	}
	if p.measure(); p.grows > 0 && s.bytes+p.grows > MaxBytes {
		return reject(eident.Full, "users and roles take %d bytes already", s.bytes)
	}
	return nil
}

// measure computes the growth of the rows, to the byte: after a restart the sum of all rows must be the same as now.
func (p *plan) measure() {
	if p.oldUser != nil {
		p.grows -= p.oldUser.size()
	}
	if p.newUser != nil {
		p.grows += p.newUser.size()
	}
	if p.oldRole != nil {
		p.grows -= p.oldRole.size()
	}
	if p.newRole != nil {
		p.grows += p.newRole.size()
	}
}

func judgeIssue(s *State, t *eident.TokenIssue) *entry.Rejection {
	switch u := s.users[t.User]; {
	case !s.Enabled:
		return reject(eident.NotEnabled, "no tokens while authentication is off")
	case u == nil:
		return reject(eident.UserNotFound, "user %q", t.User)
	case u.Generation != t.Generation || u.NoPassword:
		return reject(eident.OldRevision, "the password of %q has changed", t.User)
	case t.TTLMs == 0 || t.TTLMs > maxTTLMs:
		return reject(eident.Malformed, "token for %d ms", t.TTLMs)
	}
	return nil
}

func (p *plan) enable(s *State) *entry.Rejection {
	root := s.users[eident.Root]
	switch {
	case s.Enabled:
		p.nothing = true
	case root == nil:
		return reject(eident.RootUserMissing, "there is no user root")
	case !root.Has(eident.Root):
		return reject(eident.RootRoleMissing, "user root does not have the role root")
	}
	return nil
}

func (p *plan) addUser(s *State, a *eident.UserAdd) *entry.Rejection {
	switch {
	case a.Name == "":
		return reject(eident.UserEmpty, "a user without a name")
	case s.users[a.Name] != nil:
		return reject(eident.UserExists, "user %q", a.Name)
	}
	p.newUser = &User{Name: a.Name, NoPassword: a.NoPassword, Generation: s.Revision + 1}
	if !a.NoPassword {
		p.newUser.Verifiers = a.Verifiers
	}
	return nil
}

func (p *plan) deleteUser(s *State, name string) *entry.Rejection {
	if s.Enabled && name == eident.Root {
		return reject(eident.ManagementRefused, "the user root is needed while authentication is on")
	}
	u := s.users[name]
	if u == nil {
		return reject(eident.UserNotFound, "user %q", name)
	}
	p.oldUser, p.endsTokensOf = u, name
	return nil
}

func (p *plan) password(s *State, w *eident.UserPassword) *entry.Rejection {
	u := s.users[w.Name]
	if u == nil {
		return reject(eident.UserNotFound, "user %q", w.Name)
	}
	next := u.clone()
	next.Verifiers, next.Generation = nil, s.Revision+1
	if !u.NoPassword { // a user without a password keeps none, and the command is accepted, as in etcd
		next.Verifiers = w.Verifiers
	}
	p.oldUser, p.newUser, p.endsTokensOf = u, next, w.Name
	return nil
}

func (p *plan) grantRole(s *State, g *eident.UserGrant) *entry.Rejection {
	u := s.users[g.Name]
	if u == nil {
		return reject(eident.UserNotFound, "user %q", g.Name)
	}
	if g.Role != eident.Root && s.roles[g.Role] == nil { // the role root needs no row to mean something
		return reject(eident.RoleNotFound, "role %q", g.Role)
	}
	at, has := slices.BinarySearch(u.Roles, g.Role)
	if has {
		p.nothing = true
		return nil
	}
	p.oldUser, p.newUser = u, u.withRoles(slices.Insert(slices.Clone(u.Roles), at, g.Role))
	return nil
}

func (p *plan) revokeRole(s *State, r *eident.UserRevoke) *entry.Rejection {
	if s.Enabled && r.Name == eident.Root && r.Role == eident.Root {
		return reject(eident.ManagementRefused, "the user root needs its role while authentication is on")
	}
	u := s.users[r.Name]
	if u == nil {
		return reject(eident.UserNotFound, "user %q", r.Name)
	}
	if !u.Has(r.Role) {
		return reject(eident.RoleNotGranted, "user %q does not have the role %q", r.Name, r.Role)
	}
	p.oldUser, p.newUser = u, u.without(r.Role)
	return nil
}

func (u *User) without(role string) *User {
	return u.withRoles(slices.DeleteFunc(slices.Clone(u.Roles), func(r string) bool { return r == role }))
}

func (p *plan) addRole(s *State, name string) *entry.Rejection {
	switch {
	case name == "":
		return reject(eident.RoleEmpty, "a role without a name")
	case s.roles[name] != nil:
		return reject(eident.RoleExists, "role %q", name)
	}
	p.newRole = &Role{Name: name}
	return nil
}

func (p *plan) deleteRole(s *State, name string) *entry.Rejection {
	if s.Enabled && name == eident.Root {
		return reject(eident.ManagementRefused, "the role root is needed while authentication is on")
	}
	r := s.roles[name]
	if r == nil {
		return reject(eident.RoleNotFound, "role %q", name)
	}
	p.oldRole = r
	for _, user := range s.Users() { // by name: their rows are written in this order
		if u := s.users[user]; u.Has(name) {
			next := u.without(name)
			p.stripped = append(p.stripped, next)
			p.grows += next.size() - u.size()
		}
	}
	return nil
}

func (p *plan) grantPermission(s *State, g *eident.RoleGrant) *entry.Rejection {
	q := &g.Permission
	openEnded := bytes.Equal(q.End, []byte{0})
	if len(q.Key) == 0 || len(q.End) > 0 && !openEnded && bytes.Compare(q.Key, q.End) >= 0 {
		return reject(eident.ManagementRefused, "no key lies in %q", q.Key)
	}
	r := s.roles[g.Name]
	if r == nil {
		return reject(eident.RoleNotFound, "role %q", g.Name)
	}
	next := &Role{Name: r.Name, Permissions: slices.Clone(r.Permissions)}
	at, found := next.find(q.Key, q.End)
	if found {
		next.Permissions[at].Access = q.Access
	} else {
		next.Permissions = slices.Insert(next.Permissions, at, *q)
	}
	p.oldRole, p.newRole = r, next
	return nil
}

func (p *plan) revokePermission(s *State, v *eident.RoleRevoke) *entry.Rejection {
	r := s.roles[v.Name]
	if r == nil {
		return reject(eident.RoleNotFound, "role %q", v.Name)
	}
	at, found := r.find(v.Key, v.End)
	if !found {
		return reject(eident.PermissionNotGranted, "role %q does not have this permission", v.Name)
	}
	next := &Role{Name: r.Name, Permissions: slices.Delete(slices.Clone(r.Permissions), at, at+1)}
	p.oldRole, p.newRole = r, next
	return nil
}

// find returns the place of the permission with exactly this range, or the place for a new one: behind all of its key.
func (r *Role) find(key, end []byte) (at int, found bool) {
	all := r.Permissions
	at = sort.Search(len(all), func(i int) bool { return bytes.Compare(all[i].Key, key) >= 0 })
	for ; at < len(all) && bytes.Equal(all[at].Key, key); at++ {
		if bytes.Equal(all[at].End, end) {
			return at, true
		}
	}
	return at, false
}
