// Package ident is the deterministic machine that knows users, roles, the key ranges roles open, whether authentication is on, and which
// tokens are good. It is the one catalogue of all doors, with the meaning etcd gives these words. It also has the accounts of the sql door,
// with the meaning that MySQL gives them. A name in one list says nothing of the same name in the other.
//
// It compares no passwords, makes no tokens and reads no clock: doors do. It decides two things that cannot be decided anywhere else,
// because only in the log is there a before and an after. A Pass names the revision of the catalogue at which its command was found
// permitted, and is refused if the catalogue has changed since. While authentication is on, a command that only clients send is refused
// without a Pass (Admit). So a member that has not yet heard of the switch lets no client through.
//
// All of it is in memory, bounded by MaxBytes and MaxTokens. Readers get the catalogue as a State that never changes, for one atomic load;
// tokens are looked up one by one.
package ident

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/store"
)

// Machine is the identity machine. Check, Do, Admit, Publish and Load belong to the apply goroutine; State and Token may be
// called from anywhere.
type Machine struct {
	pub    atomic.Pointer[State] // the readers' state
	tokens tokens

	// Apply goroutine only.
	now  *State // with this entry's effects so far; the published one until something changes
	mine bool   // now is not published yet and may be written to
}

// New returns a machine without users; Load fills it.
func New() *Machine {
	m := &Machine{now: fresh()}
	m.tokens.reset()
	m.pub.Store(m.now)
	return m
}

// Spec is what others must know of this machine.
var Spec = machine.Spec{ID: entry.MachineIdent, Name: "ident", LastLevel: eident.AccountLevel, PartLevel: eident.PartLevel,
	DescribePart: eident.Describe, DescribeRow: DescribeRow, Restore: restoreRow,
	Census: func() machine.Census { return new(census) }}

// Spec implements machine.Machine.
func (m *Machine) Spec() *machine.Spec { return &Spec }

// State is the catalogue as of the last entry that changed it. To check a permission around a read, take the State after Linearize, and
// again after reading. If the State has changed by then, so may have the answer.
func (m *Machine) State() *State { return m.pub.Load() }

// Token returns what is known of the token with this hash. It may have ended: compare DeadlineMs with the cluster tick.
func (m *Machine) Token(hash [eident.TokenBytes]byte) (*Token, bool) { return m.tokens.get(hash) }

// Load implements machine.Machine.
func (m *Machine) Load(st store.Store, _ *machine.Gate) error {
	s, found, err := load(st)
	if err != nil {
		return fmt.Errorf("load identities: %w", err)
	}
	m.tokens.replace(found)
	m.now, m.mine = s, false
	m.pub.Store(s)
	return nil
}

// Admit implements machine.Gatekeeper.
func (m *Machine) Admit(c *entry.Command, fromClient func(*entry.Part) bool) *entry.Rejection {
	if !m.now.Enabled {
		return nil
	}
	asks := false
	for i := range c.Parts {
		if c.Parts[i].Machine == entry.MachineIdent {
			return nil // a Pass, or a part that names its user
		}
		asks = asks || fromClient(&c.Parts[i])
	}
	if asks {
		return reject(eident.PassMissing, "authentication is on")
	}
	return nil
}

// Check implements machine.Machine.
func (m *Machine) Check(_ *entry.Stamp, body []byte) (any, *entry.Rejection, error) {
	part, err := eident.DecodePart(body)
	if err != nil {
		if isNewer(err) {
			return nil, nil, err
		}
		return nil, reject(eident.Malformed, "%v", err), nil
	}
	p := &plan{part: part}
	if rej := p.judge(m); rej != nil {
		return nil, rej, nil
	}
	return p, nil, nil
}

// Readable implements machine.Machine.
func (m *Machine) Readable(body []byte) error {
	if _, err := eident.DecodePart(body); err != nil && isNewer(err) {
		return err
	}
	return nil // malformed in another way: Check rejects it
}

// Do implements machine.Machine. It has no result to give.
func (m *Machine) Do(st *entry.Stamp, pl any, b store.Batch, _ bool) (any, error) {
	p := pl.(*plan)
	switch part := p.part; {
	case part.Pass != nil || p.nothing:
		return nil, nil
	case p.accounts != nil:
		s := m.writable()
		p.accounts.write(s, b)
		s.bytes += p.grows
		return nil, nil
	case part.TokenIssue != nil:
		m.tokens.issue(st, part.TokenIssue, b)
		return nil, nil
	case part.TokenTouch != nil:
		m.tokens.touch(st, part.TokenTouch.Token, b)
		return nil, nil
	}
	s := m.writable()
	switch part := p.part; {
	case part.Enable != nil:
		s.Enabled = true // not a change of the catalogue: its revision stays, as in etcd
	case part.Disable != nil:
		s.Enabled = false
		s.Revision++
		m.tokens.end(b, func(*Token) bool { return true })
	default:
		s.Revision++
		m.write(s, p, b)
		if name := p.endsTokensOf; name != "" {
			m.tokens.end(b, func(t *Token) bool { return t.User == name })
		}
	}
	b.Set(headKey, appendHead(nil, s))
	return nil, nil
}

// write carries out what p found for users and roles.
func (m *Machine) write(s *State, p *plan, b store.Batch) {
	if p.oldUser != nil && p.newUser == nil {
		delete(s.users, p.oldUser.Name)
		b.Delete(userKey(p.oldUser.Name))
	}
	if u := p.newUser; u != nil {
		s.users[u.Name] = u
		b.Set(userKey(u.Name), appendUser(nil, u))
	}
	if p.oldRole != nil && p.newRole == nil {
		delete(s.roles, p.oldRole.Name)
		b.Delete(roleKey(p.oldRole.Name))
	}
	if r := p.newRole; r != nil {
		s.roles[r.Name] = r
		b.Set(roleKey(r.Name), appendRole(nil, r))
		// The permissions of these users are computed again.
		for name, u := range s.users { // any order: each user by itself, nothing is written
			if slices.Contains(u.Roles, r.Name) {
				s.users[name] = u.clone()
			}
		}
	}
	for _, u := range p.stripped {
		s.users[u.Name] = u
		b.Set(userKey(u.Name), appendUser(nil, u))
	}
	s.bytes += p.grows
}

// writable returns now, as a copy of its own if it is still the published one.
func (m *Machine) writable() *State {
	if !m.mine {
		m.now, m.mine = m.now.clone(), true
	}
	return m.now
}

// Publish implements machine.Machine. This machine publishes before those whose readers it judges, so no reader sees an entry's data under
// earlier permissions.
func (m *Machine) Publish(*entry.Stamp) {
	if m.mine {
		m.mine = false
		m.pub.Store(m.now)
	}
}
