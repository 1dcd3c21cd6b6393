package ident

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	"github.com/holdfastdb/holdfast/internal/golden"
)

func sampleRows() (*State, *User, *Role, *Token) {
	return &State{Enabled: true, Revision: 300},
		&User{Name: "alice", Generation: 7, Verifiers: hash("alice"), Roles: []string{"r", "root"}},
		&Role{Name: "r", Permissions: []eident.Permission{{Access: eident.ReadWrite, Key: []byte("a"), End: []byte{0}}, {Key: []byte("b")}}},
		&Token{User: "alice", TTLMs: 300_000, DeadlineMs: 1 << 33}
}

var sampleAccount = &Account{Name: sbtest, All: true, Option: true, Verifier: eident.Verifier{Scheme: eident.MySQLNative, Data: make([]byte, 20)},
	Databases: []string{"a%", "shop"}}

// The golden file pins the rows: a later build opens an earlier one's store.
func TestGolden(t *testing.T) {
	s, u, r, tok := sampleRows()
	var b strings.Builder
	for _, row := range []struct {
		name       string
		key, value []byte
	}{
		{"head", headKey, appendHead(nil, s)}, {"user", userKey(u.Name), appendUser(nil, u)},
		{"user without password", userKey("c"), appendUser(nil, &User{NoPassword: true, Generation: 2})},
		{"role", roleKey(r.Name), appendRole(nil, r)}, {"token", tokenKey(token(1)), appendToken(nil, tok)},
		{"account", accountKey(sampleAccount.Name), appendAccount(nil, sampleAccount)},
	} {
		fmt.Fprintf(&b, "%s\n%s%s\n", row.name, hex.Dump(row.key), hex.Dump(row.value))
	}
	golden.Check(t, "testdata/rows.txt", b.String())
}

func TestDamagedRowIsFatal(t *testing.T) {
	for name, row := range map[string][2][]byte{
		"an unknown space":              {[]byte("ix"), nil},
		"no space":                      {[]byte("i"), nil},
		"another version":               {headKey, []byte{2, 0, 1}},
		"revision 0":                    {headKey, []byte{1, 0, 0}},
		"an unknown flag":               {userKey("a"), []byte{2, 1, 0, 0}},
		"a cut user":                    {userKey("a"), []byte{0, 1}},
		"roles out of order":            {userKey("a"), appendUser(nil, &User{Roles: []string{"b", "a"}})},
		"a cut role":                    {roleKey("a"), []byte{1}},
		"a short token":                 {[]byte("itx"), appendToken(nil, &Token{})},
		"an account without a host":     {[]byte("iax"), appendAccount(nil, &Account{})},
		"an unknown flag of an account": {accountKey(sbtest), []byte{4, 3, 0, 0}},
		"grants out of order":           {accountKey(sbtest), appendAccount(nil, &Account{Databases: []string{"b", "a"}})},
		"a byte after a role":           {roleKey("a"), []byte{0, 0}},
	} {
		r := newRig(t)
		b := r.Store.NewBatch()
		b.Set(row[0], row[1])
		if err := r.Store.Commit(b, 1); err != nil {
			t.Fatal(err)
		}
		if err := New().Load(r.Store, nil); err == nil {
			t.Errorf("%s was loaded", name)
		}
	}
}

func TestRestoreLeavesTokensBehind(t *testing.T) {
	restored := func(k []byte) bool {
		_, keep, err := Spec.Restore(k, nil)
		return keep && err == nil
	}
	for _, k := range [][]byte{headKey, userKey("t"), roleKey("t"), accountKey(sbtest), []byte("i")} {
		if !restored(k) {
			t.Errorf("%q would be lost", k)
		}
	}
	if restored(tokenKey(token(1))) {
		t.Error("a token would be good in another cluster")
	}
}

// FuzzRows: no bytes may panic a decoder, and what decodes is written back as it was.
func FuzzRows(f *testing.F) {
	s, u, r, tok := sampleRows()
	f.Add(appendHead(nil, s))
	f.Add(appendUser(nil, u))
	f.Add(appendRole(nil, r))
	f.Add(appendToken(nil, tok))
	f.Add(appendAccount(nil, sampleAccount))
	f.Fuzz(func(t *testing.T, b []byte) {
		same := func(kind string, again []byte) {
			if !bytes.Equal(again, b) {
				t.Fatalf("%s %x came back as %x", kind, b, again)
			}
		}
		var s State
		if decodeHead(b, &s) == nil {
			same("head", appendHead(nil, &s))
		}
		if u, err := decodeUser("x", b); err == nil {
			same("user", appendUser(nil, u))
		}
		if r, err := decodeRole("x", b); err == nil {
			same("role", appendRole(nil, r))
		}
		if tok, err := decodeToken(b); err == nil {
			same("token", appendToken(nil, tok))
		}
		if a, err := decodeAccount(sbtest, b); err == nil {
			same("account", appendAccount(nil, a))
		}
	})
}

func TestDescribeRowTellsNoHash(t *testing.T) {
	s, u, r, tok := sampleRows()
	for _, c := range []struct {
		key, value []byte
		want       string
	}{
		{headKey, appendHead(nil, s), "identities: enabled=true revision=300"},
		{userKey(u.Name), appendUser(nil, u), `user "alice" roles=r,root verifiers=1 set at 7`},
		{roleKey(r.Name), appendRole(nil, r), `role "r": read and write ["a", …); read "b"`},
		{tokenKey(token(1)), appendToken(nil, tok), `token of "alice", lives 300000 ms unused, until tick 8589934592`},
		{accountKey(sbtest), appendAccount(nil, sampleAccount), `sql account 'sbtest'@'%' all=true option=true databases=a%,shop password=true`},
		{userKey("x"), []byte{9}, `"iux": damaged row of 1 bytes`},
	} {
		if got := DescribeRow(c.key, c.value); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}
