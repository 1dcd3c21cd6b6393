package ident

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/internal/codectest"
)

// parts holds one of every kind with every field in use, and the smallest of some.
func parts() []*Part {
	token := [TokenBytes]byte{0: 1, 31: 0xff}
	hash := []Verifier{{Scheme: Bcrypt, Data: []byte("$2a$04$…")}, {Scheme: 9, Data: nil}}
	return []*Part{
		{Pass: &Pass{Revision: 300}},
		{Pass: &Pass{}},
		{Enable: &Enable{}},
		{Actor: "root", Disable: &Disable{}},
		{Actor: "root", UserAdd: &UserAdd{Name: "alice", Verifiers: hash}},
		{UserAdd: &UserAdd{Name: "cert", NoPassword: true}},
		{Actor: "root", UserDelete: &UserDelete{Name: "alice"}},
		{Actor: "root", UserPassword: &UserPassword{Name: "alice", Verifiers: hash}},
		{Actor: "root", UserPassword: &UserPassword{Name: "alice"}},
		{Actor: "root", UserGrant: &UserGrant{Name: "alice", Role: "reader"}},
		{Actor: "root", UserRevoke: &UserRevoke{Name: "alice", Role: "reader"}},
		{Actor: "root", RoleAdd: &RoleAdd{Name: "reader"}},
		{Actor: "root", RoleDelete: &RoleDelete{Name: "reader"}},
		{Actor: "root", RoleGrant: &RoleGrant{Name: "reader", Permission: Permission{Access: ReadWrite, Key: []byte("a"), End: []byte("b")}}},
		{RoleGrant: &RoleGrant{Name: "reader", Permission: Permission{Key: []byte("a"), End: []byte{0}}}},
		{Actor: "root", RoleRevoke: &RoleRevoke{Name: "reader", Key: []byte("a")}},
		{TokenIssue: &TokenIssue{User: "alice", Generation: 1 << 40, Token: token, TTLMs: 300_000}},
		{TokenTouch: &TokenTouch{Token: token}},
		{AccountCreate: &AccountCreate{By: RootAccount, IfNotExists: true, Accounts: []AccountLogin{
			{Name: AccountName{"sbtest", AnyHost}, Verifier: Verifier{Scheme: CachingSHA2, Data: []byte("$A$005$…")}},
			{Name: AccountName{"o'hara", Localhost}, Verifier: Verifier{Scheme: MySQLNative}}}}},
		{AccountAlter: &AccountAlter{By: RootAccount, IfExists: true, Accounts: []AccountLogin{
			{Name: RootAccount, Verifier: Verifier{Scheme: MySQLNative, Data: make([]byte, 20)}}}}},
		{AccountDrop: &AccountDrop{By: RootAccount, IfExists: true, Names: []AccountName{{"sbtest", AnyHost}}}},
		{AccountGrant: &AccountGrant{By: RootAccount, Database: `sb\_test`, Names: []AccountName{{"sbtest", AnyHost}}}},
		{AccountGrant: &AccountGrant{By: RootAccount, Option: true, Names: []AccountName{{"admin", Localhost}}}},
		{AccountRevoke: &AccountRevoke{By: RootAccount, Database: "sbtest", Names: []AccountName{{"sbtest", AnyHost}}}},
		{AccountRevoke: &AccountRevoke{By: RootAccount, Everything: true, Names: []AccountName{{"sbtest", AnyHost}, {"admin", Localhost}}}},
		{AccountDrop: &AccountDrop{}},
	}
}

func codec() *codectest.Codec[*Part] {
	return &codectest.Codec[*Part]{Samples: parts(), Append: AppendPart, Decode: DecodePart, Describe: Describe, Trailing: ErrMalformed, Exact: true}
}

func TestGolden(t *testing.T)    { codec().Golden(t, "testdata/parts.txt") }
func TestRoundTrip(t *testing.T) { codec().RoundTrip(t) }
func FuzzDecode(f *testing.F)    { codec().Fuzz(f) }

// A kind or flag of a later build stops the node; bytes that no build writes are one member's nonsense and are rejected.
func TestNewerIsToldFromMalformed(t *testing.T) {
	noPassword := AppendPart(nil, &Part{UserAdd: &UserAdd{Name: "a"}})
	noPassword[4] = 2
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"kind 0", []byte{0, 0}, ErrKind},
		{"the next kind", []byte{kindAccountRevoke + 1}, ErrKind},
		{"an unknown flag", noPassword, ErrKind},
		{"nothing", nil, ErrMalformed},
		{"a long form of a short number", []byte{kindPass, 0x80, 0}, ErrMalformed},
		{"a name longer than the part", []byte{kindRoleAdd, 0, 9, 'a'}, ErrMalformed},
		{"access 3", AppendPart(nil, &Part{RoleGrant: &RoleGrant{Name: "r", Permission: Permission{Access: 3}}}), ErrMalformed},
		{"many verifiers", AppendPart(nil, &Part{UserPassword: &UserPassword{Verifiers: make([]Verifier, MaxVerifiers+1)}}), ErrMalformed},
		{"a long verifier", AppendPart(nil, &Part{UserPassword: &UserPassword{
			Verifiers: []Verifier{{Data: make([]byte, MaxVerifierBytes+1)}}}}), ErrMalformed},
		{"an unknown flag of an account", []byte{kindAccountDrop, 0, 0, 2, 0}, ErrKind},
		{"a zero byte in a name", AppendPart(nil, &Part{AccountDrop: &AccountDrop{Names: []AccountName{{"a\x00b", AnyHost}}}}), ErrMalformed},
		{"many accounts", AppendPart(nil, &Part{AccountDrop: &AccountDrop{Names: make([]AccountName, MaxAccounts+1)}}), ErrMalformed},
		{"a long pattern", AppendPart(nil, &Part{AccountGrant: &AccountGrant{Database: strings.Repeat("x", MaxDatabaseBytes+1)}}), ErrMalformed},
	} {
		if p, err := DecodePart(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.name, p, err, c.want)
		}
	}
}

// TestAccountsBeginAtTheirLevel: a build that does not know accounts is never handed a part about one.
func TestAccountsBeginAtTheirLevel(t *testing.T) {
	for _, p := range parts() {
		about := p.AccountCreate != nil || p.AccountAlter != nil || p.AccountDrop != nil || p.AccountGrant != nil || p.AccountRevoke != nil
		if level := PartLevel(AppendPart(nil, p)); about != (level == AccountLevel) || !about && level != 0 {
			t.Errorf("%s: level %d", p, level)
		}
	}
}
