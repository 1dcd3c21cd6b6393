package ident

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	"github.com/holdfastdb/holdfast/internal/like"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// Account is an account of the sql door; read only.
type Account struct {
	Name eident.AccountName
	// Verifier is compared with the password. Without data there is no password.
	Verifier eident.Verifier
	// All: every privilege on everything. Option: the account may grant and revoke, if All is set too.
	All, Option bool
	// Databases are patterns of LIKE, in order: every privilege on the databases whose names match one.
	Databases []string
}

// rootAccount is RootAccount as long as it has no row.
var rootAccount = &Account{Name: eident.RootAccount, Verifier: eident.Verifier{Scheme: eident.CachingSHA2}, All: true, Option: true}

// Account returns an account, nil if there is none of that name.
func (s *State) Account(n eident.AccountName) *Account {
	if a := s.accounts[n]; a != nil || n != eident.RootAccount {
		return a
	}
	return rootAccount
}

// AccountFor returns the account of a user that connects from this host (local) or from another host. nil: there is none. As in MySQL the
// account for localhost goes before the one for every host.
func (s *State) AccountFor(user string, local bool) *Account {
	if local {
		if a := s.Account(eident.AccountName{User: user, Host: eident.Localhost}); a != nil {
			return a
		}
	}
	return s.Account(eident.AccountName{User: user, Host: eident.AnyHost})
}

// Accounts lists all accounts by user and host.
func (s *State) Accounts() []*Account {
	all := slices.Collect(maps.Values(s.accounts))
	if s.accounts[eident.RootAccount] == nil {
		all = append(all, rootAccount)
	}
	slices.SortFunc(all, func(a, b *Account) int {
		return cmp.Or(cmp.Compare(a.Name.User, b.Name.User), cmp.Compare(a.Name.Host, b.Name.Host))
	})
	return all
}

// MayUse reports whether the account has every privilege on a database. nil: it may use none.
func (a *Account) MayUse(database string) bool {
	return a != nil && (a.All || slices.ContainsFunc(a.Databases, func(pattern string) bool { return like.Match(database, pattern) }))
}

// MayManage reports whether the account may create, change and drop accounts.
func (a *Account) MayManage() bool { return a != nil && a.All }

// MayGrant reports whether the account may grant and revoke.
func (a *Account) MayGrant() bool { return a != nil && a.All && a.Option }

// Has reports whether a grant with exactly this pattern was made; "": one on everything.
func (a *Account) Has(database string) bool {
	if database == "" {
		return a.All
	}
	_, ok := slices.BinarySearch(a.Databases, database)
	return ok
}

const (
	accountAll    = 1
	accountOption = 2
)

func accountKey(n eident.AccountName) []byte {
	b := append([]byte{byte(entry.MachineIdent), spaceAccount}, n.User...)
	return append(append(b, 0), n.Host...)
}

// accountOf reads the name in the key of a row, behind the letter of its space.
func accountOf(key []byte) (n eident.AccountName, ok bool) {
	user, host, ok := bytes.Cut(key, []byte{0})
	return eident.AccountName{User: string(user), Host: string(host)}, ok && bytes.IndexByte(host, 0) < 0
}

func appendAccount(b []byte, a *Account) []byte {
	b = append(b, wire.Bit(a.All, accountAll)|wire.Bit(a.Option, accountOption))
	b = eident.AppendVerifier(b, a.Verifier)
	b = binary.AppendUvarint(b, uint64(len(a.Databases)))
	for _, d := range a.Databases {
		b = wire.AppendBytes(b, d)
	}
	return b
}

func decodeAccount(n eident.AccountName, b []byte) (*Account, error) {
	r := wire.NewReader(b)
	flags := r.Flags(accountAll|accountOption, errRow)
	a := &Account{Name: n, All: flags&accountAll != 0, Option: flags&accountOption != 0, Verifier: eident.TakeVerifier(&r)}
	for range r.Count(math.MaxInt32, 1) {
		a.Databases = append(a.Databases, eident.TakeDatabase(&r))
	}
	if r.End() != nil || !slices.IsSorted(a.Databases) {
		return nil, errRow
	}
	return a, nil
}

// size is the size of the row, key and value.
func (a *Account) size() int64 {
	return int64(len(accountKey(a.Name)) + len(appendAccount(nil, a)))
}
