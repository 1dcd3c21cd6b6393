package ident

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/holdfastdb/holdfast/internal/wire"
)

// AccountLevel is the cluster's level from which on parts about accounts may be proposed: a build before it stops at them.
const AccountLevel = 7

// Limits of a part about accounts; a decoder refuses more.
const (
	MaxAccounts      = 256 // accounts of one part
	MaxAccountUser   = 128 // bytes: 32 characters
	MaxAccountHost   = 255 // bytes
	MaxDatabaseBytes = 512 // of the pattern of a grant: 64 characters, each behind a backslash
)

// Hosts of accounts.
const (
	AnyHost   = "%"
	Localhost = "localhost"
)

// AccountName names an account of the sql door. Accounts are no users of etcd's: the same name in both means nothing.
type AccountName struct {
	User string
	Host string // from where the user comes: Localhost or AnyHost
}

// RootAccount is the account that every cluster has. It has all privileges, and no password until one is set. It cannot be dropped.
var RootAccount = AccountName{User: Root, Host: Localhost}

// String prints a name as SQL writes it.
func (n AccountName) String() string { return sqlText(n.User) + "@" + sqlText(n.Host) }

// sqlText is a text in SQL's quotes.
func sqlText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// AccountLogin is an account with what its password is compared with. The scheme is CachingSHA2 or MySQLNative. Without data the account has no
// password.
type AccountLogin struct {
	Name     AccountName
	Verifier Verifier
}

// Parts about accounts. Each is one statement and takes effect for all of its accounts or for none. By is the account that asks.
type (
	AccountCreate struct {
		By AccountName
		// IfNotExists: accounts that exist stay as they are.
		IfNotExists bool
		Accounts    []AccountLogin
	}
	// AccountAlter sets passwords. Everybody may set their own.
	AccountAlter struct {
		By AccountName
		// IfExists: accounts that do not exist are passed over.
		IfExists bool
		Accounts []AccountLogin
	}
	AccountDrop struct {
		By       AccountName
		IfExists bool
		Names    []AccountName
	}
	// AccountGrant gives all privileges on the databases whose names match a pattern of LIKE, or on everything where it is empty.
	AccountGrant struct {
		By       AccountName
		Database string
		// Option lets the accounts grant and revoke. It is given on everything only.
		Option bool
		Names  []AccountName
	}
	// AccountRevoke takes back what one AccountGrant with the same pattern gave, but for its option.
	AccountRevoke struct {
		By       AccountName
		Database string
		// Everything: all grants of the accounts, with the option. Database is empty.
		Everything bool
		Names      []AccountName
	}
)

const (
	flagIf         = 1 // IF EXISTS and IF NOT EXISTS
	flagOption     = 1
	flagEverything = 1
)

// appendAccountPart encodes the parts about accounts. nil: p is none of them.
func appendAccountPart(b []byte, p *Part) []byte {
	head := func(kind byte, by AccountName, flag bool, bit byte) []byte {
		return append(AppendAccountName(append(b, kind), by), wire.Bit(flag, bit))
	}
	switch {
	case p.AccountCreate != nil:
		return appendLogins(head(kindAccountCreate, p.AccountCreate.By, p.AccountCreate.IfNotExists, flagIf), p.AccountCreate.Accounts)
	case p.AccountAlter != nil:
		return appendLogins(head(kindAccountAlter, p.AccountAlter.By, p.AccountAlter.IfExists, flagIf), p.AccountAlter.Accounts)
	case p.AccountDrop != nil:
		return appendNames(head(kindAccountDrop, p.AccountDrop.By, p.AccountDrop.IfExists, flagIf), p.AccountDrop.Names)
	case p.AccountGrant != nil:
		g := p.AccountGrant
		return appendNames(wire.AppendBytes(head(kindAccountGrant, g.By, g.Option, flagOption), g.Database), g.Names)
	case p.AccountRevoke != nil:
		r := p.AccountRevoke
		return appendNames(wire.AppendBytes(head(kindAccountRevoke, r.By, r.Everything, flagEverything), r.Database), r.Names)
	}
	return nil
}

// takeAccountPart takes what appendAccountPart wrote behind the kind.
func takeAccountPart(kind byte, r *wire.Reader, p *Part) {
	by, flag := TakeAccountName(r), r.Flags(1, ErrKind) != 0
	switch kind {
	case kindAccountCreate:
		p.AccountCreate = &AccountCreate{By: by, IfNotExists: flag, Accounts: takeLogins(r)}
	case kindAccountAlter:
		p.AccountAlter = &AccountAlter{By: by, IfExists: flag, Accounts: takeLogins(r)}
	case kindAccountDrop:
		p.AccountDrop = &AccountDrop{By: by, IfExists: flag, Names: takeNames(r)}
	case kindAccountGrant:
		p.AccountGrant = &AccountGrant{By: by, Option: flag, Database: TakeDatabase(r), Names: takeNames(r)}
	case kindAccountRevoke:
		p.AccountRevoke = &AccountRevoke{By: by, Everything: flag, Database: TakeDatabase(r), Names: takeNames(r)}
	}
}

// AppendAccountName encodes a name: a piece of the parts about accounts.
func AppendAccountName(b []byte, n AccountName) []byte {
	return wire.AppendBytes(wire.AppendBytes(b, n.User), n.Host)
}

// TakeAccountName takes what AppendAccountName wrote. A zero byte in it is malformed: it separates user and host in the key of a row.
func TakeAccountName(r *wire.Reader) AccountName {
	n := AccountName{User: r.Text(), Host: r.Text()}
	if len(n.User) > MaxAccountUser || len(n.Host) > MaxAccountHost || strings.IndexByte(n.User+n.Host, 0) >= 0 {
		r.Fail(ErrMalformed)
	}
	return n
}

// TakeDatabase takes the pattern of a grant.
func TakeDatabase(r *wire.Reader) string {
	s := r.Text()
	if len(s) > MaxDatabaseBytes {
		r.Fail(ErrMalformed)
	}
	return s
}

func appendNames(b []byte, all []AccountName) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for _, n := range all {
		b = AppendAccountName(b, n)
	}
	return b
}

func takeNames(r *wire.Reader) (all []AccountName) {
	for range r.Count(MaxAccounts, 2) {
		all = append(all, TakeAccountName(r))
	}
	return all
}

func appendLogins(b []byte, all []AccountLogin) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for i := range all {
		b = AppendVerifier(AppendAccountName(b, all[i].Name), all[i].Verifier)
	}
	return b
}

func takeLogins(r *wire.Reader) (all []AccountLogin) {
	for range r.Count(MaxAccounts, 4) {
		all = append(all, AccountLogin{Name: TakeAccountName(r), Verifier: TakeVerifier(r)})
	}
	return all
}

// describeAccountPart prints a part about accounts, without verifiers. "": p is none.
func describeAccountPart(p *Part) string {
	switch {
	case p.AccountCreate != nil:
		return fmt.Sprintf("ident.account-create %s by %s", namesOf(p.AccountCreate.Accounts), p.AccountCreate.By)
	case p.AccountAlter != nil:
		return fmt.Sprintf("ident.account-alter %s by %s", namesOf(p.AccountAlter.Accounts), p.AccountAlter.By)
	case p.AccountDrop != nil:
		return fmt.Sprintf("ident.account-drop %s by %s", joined(p.AccountDrop.Names), p.AccountDrop.By)
	case p.AccountGrant != nil:
		option := ""
		if p.AccountGrant.Option {
			option = " with grant option"
		}
		return fmt.Sprintf("ident.account-grant on %s to %s%s by %s", scope(p.AccountGrant.Database), joined(p.AccountGrant.Names), option, p.AccountGrant.By)
	case p.AccountRevoke != nil:
		on := "on " + scope(p.AccountRevoke.Database)
		if p.AccountRevoke.Everything {
			on = "everything"
		}
		return fmt.Sprintf("ident.account-revoke %s from %s by %s", on, joined(p.AccountRevoke.Names), p.AccountRevoke.By)
	}
	return ""
}

func scope(database string) string {
	if database == "" {
		return "*.*"
	}
	return fmt.Sprintf("%q.*", database)
}

func joined(all []AccountName) string {
	texts := make([]string, len(all))
	for i := range all {
		texts[i] = all[i].String()
	}
	return strings.Join(texts, ",")
}

func namesOf(all []AccountLogin) string {
	names := make([]AccountName, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	return joined(names)
}

// PartLevel is the cluster's level from which on an encoded part may be proposed; 0: from the first on.
func PartLevel(body []byte) uint16 {
	if len(body) > 0 && body[0] >= kindAccountCreate && body[0] <= kindAccountRevoke {
		return AccountLevel
	}
	return 0
}
