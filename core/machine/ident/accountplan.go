package ident

import (
	"slices"
	"strings"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	"github.com/holdfastdb/holdfast/core/store"
)

// accountPlan is the changes of a statement about accounts. A nil value: the account is dropped.
type accountPlan struct {
	s     *State
	next  map[eident.AccountName]*Account
	order []eident.AccountName // of next, as the part names them
	lost  []string             // accounts for which the statement fails
}

// MostGrants bounds the patterns of one account: each statement of a client may look at all of them.
const MostGrants = 1024

// judgeAccounts decides a part about accounts. false: the part is none.
func (p *plan) judgeAccounts(s *State) (_ *entry.Rejection, ok bool) {
	x := &accountPlan{s: s, next: map[eident.AccountName]*Account{}}
	var rej *entry.Rejection
	switch part := p.part; {
	case part.AccountCreate != nil:
		rej = x.create(part.AccountCreate)
	case part.AccountAlter != nil:
		rej = x.alter(part.AccountAlter)
	case part.AccountDrop != nil:
		rej = x.drop(part.AccountDrop)
	case part.AccountGrant != nil:
		rej = x.grant(part.AccountGrant)
	case part.AccountRevoke != nil:
		rej = x.revoke(part.AccountRevoke)
	default:
		return nil, false
	}
	if rej != nil {
		return rej, true
	}
	for _, n := range x.order {
		if was := s.accounts[n]; was != nil {
			p.grows -= was.size()
		}
		if a := x.next[n]; a != nil {
			p.grows += a.size()
		}
	}
	if p.grows > 0 && s.bytes+p.grows > MaxBytes {
		return reject(eident.Full, "users, roles and accounts take %d bytes already", s.bytes), true
	}
	p.accounts = x
	return nil, true
}

// get is the account as the part has left it so far.
func (x *accountPlan) get(n eident.AccountName) *Account {
	if a, ok := x.next[n]; ok {
		return a
	}
	return x.s.Account(n)
}

func (x *accountPlan) set(n eident.AccountName, a *Account) {
	if _, ok := x.next[n]; !ok {
		x.order = append(x.order, n)
	}
	x.next[n] = a
}

// change has a copy of an account changed.
func (x *accountPlan) change(a *Account, change func(*Account)) {
	next := &Account{Name: a.Name, Verifier: a.Verifier, All: a.All, Option: a.Option, Databases: slices.Clone(a.Databases)}
	change(next)
	x.set(a.Name, next)
}

// failed is the rejection for the accounts in lost; nil: there are none.
func (x *accountPlan) failed(code entry.Code) *entry.Rejection {
	if len(x.lost) == 0 {
		return nil
	}
	return reject(code, "%s", strings.Join(x.lost, ","))
}

func (x *accountPlan) lose(n eident.AccountName) { x.lost = append(x.lost, n.String()) }

func denied(by eident.AccountName) *entry.Rejection {
	return reject(eident.Denied, "%s may not administer accounts", by)
}

func wellFormed(v eident.Verifier) bool {
	return v.Scheme == eident.CachingSHA2 || v.Scheme == eident.MySQLNative
}

func (x *accountPlan) create(c *eident.AccountCreate) *entry.Rejection {
	if !x.s.Account(c.By).MayManage() {
		return denied(c.By)
	}
	for i := range c.Accounts {
		n, v := c.Accounts[i].Name, c.Accounts[i].Verifier
		switch {
		case n.User == "" || n.Host != eident.AnyHost && n.Host != eident.Localhost || !wellFormed(v):
			return reject(eident.Malformed, "account %s", n)
		case x.get(n) == nil:
			x.set(n, &Account{Name: n, Verifier: v})
		case !c.IfNotExists:
			x.lose(n)
		}
	}
	return x.failed(eident.UserExists)
}

func (x *accountPlan) alter(c *eident.AccountAlter) *entry.Rejection {
	own := x.s.Account(c.By) != nil && !slices.ContainsFunc(c.Accounts, func(l eident.AccountLogin) bool { return l.Name != c.By })
	if !own && !x.s.Account(c.By).MayManage() {
		return denied(c.By)
	}
	for i := range c.Accounts {
		n, v := c.Accounts[i].Name, c.Accounts[i].Verifier
		a := x.get(n)
		switch {
		case !wellFormed(v):
			return reject(eident.Malformed, "account %s", n)
		case a != nil:
			x.change(a, func(a *Account) { a.Verifier = v })
		case !c.IfExists:
			x.lose(n)
		}
	}
	return x.failed(eident.UserNotFound)
}

func (x *accountPlan) drop(c *eident.AccountDrop) *entry.Rejection {
	if !x.s.Account(c.By).MayManage() {
		return denied(c.By)
	}
	for _, n := range c.Names {
		switch {
		case n == eident.RootAccount: // without its row it would be let in without a password
			return reject(eident.ManagementRefused, "%s", n)
		case x.get(n) != nil:
			x.set(n, nil)
		case !c.IfExists:
			x.lose(n)
		}
	}
	return x.failed(eident.UserNotFound)
}

func (x *accountPlan) grant(g *eident.AccountGrant) *entry.Rejection {
	if !x.s.Account(g.By).MayGrant() {
		return denied(g.By)
	}
	if g.Option && g.Database != "" {
		return reject(eident.Malformed, "grant option on less than everything")
	}
	for _, n := range g.Names {
		a := x.get(n)
		switch {
		case a == nil:
			x.lose(n)
		case g.Database == "":
			x.change(a, func(a *Account) { a.All, a.Option = true, a.Option || g.Option })
		case a.Has(g.Database):
		case len(a.Databases) >= MostGrants:
			return reject(eident.Full, "%s has %d grants already", n, MostGrants)
		default:
			x.change(a, func(a *Account) {
				at, _ := slices.BinarySearch(a.Databases, g.Database)
				a.Databases = slices.Insert(a.Databases, at, g.Database)
			})
		}
	}
	return x.failed(eident.UserNotFound)
}

func (x *accountPlan) revoke(r *eident.AccountRevoke) *entry.Rejection {
	if !x.s.Account(r.By).MayGrant() {
		return denied(r.By)
	}
	for _, n := range r.Names {
		a := x.get(n)
		switch {
		case n == eident.RootAccount:
			return reject(eident.ManagementRefused, "%s", n)
		case a == nil, !r.Everything && !a.Has(r.Database):
			x.lose(n)
		case r.Everything:
			x.change(a, func(a *Account) { a.All, a.Option, a.Databases = false, false, nil })
		case r.Database == "":
			x.change(a, func(a *Account) { a.All = false })
		default:
			x.change(a, func(a *Account) {
				a.Databases = slices.DeleteFunc(a.Databases, func(d string) bool { return d == r.Database })
			})
		}
	}
	return x.failed(eident.PermissionNotGranted)
}

// write carries the plan out. The catalogue's revision stays: no permission of etcd's clients has changed.
func (x *accountPlan) write(s *State, b store.Batch) {
	for _, n := range x.order {
		if a := x.next[n]; a != nil {
			s.accounts[n] = a
			b.Set(accountKey(n), appendAccount(nil, a))
		} else {
			delete(s.accounts, n)
			b.Delete(accountKey(n))
		}
	}
}
