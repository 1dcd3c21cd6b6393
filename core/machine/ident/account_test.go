package ident

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
)

var (
	sbtest = eident.AccountName{User: "sbtest", Host: eident.AnyHost}
	admin  = eident.AccountName{User: "admin", Host: eident.Localhost}
	nobody = eident.AccountName{User: "nobody", Host: eident.AnyHost}
)

func login(n eident.AccountName, password string) eident.AccountLogin {
	return eident.AccountLogin{Name: n, Verifier: eident.Verifier{Scheme: eident.MySQLNative, Data: []byte(password)}}
}

func createBy(by eident.AccountName, all ...eident.AccountLogin) eident.Part {
	return eident.Part{AccountCreate: &eident.AccountCreate{By: by, Accounts: all}}
}
func create(all ...eident.AccountLogin) eident.Part { return createBy(eident.RootAccount, all...) }
func alterBy(by eident.AccountName, all ...eident.AccountLogin) eident.Part {
	return eident.Part{AccountAlter: &eident.AccountAlter{By: by, Accounts: all}}
}
func drop(all ...eident.AccountName) eident.Part {
	return eident.Part{AccountDrop: &eident.AccountDrop{By: eident.RootAccount, Names: all}}
}
func grantBy(by eident.AccountName, database string, option bool, all ...eident.AccountName) eident.Part {
	return eident.Part{AccountGrant: &eident.AccountGrant{By: by, Database: database, Option: option, Names: all}}
}
func revoke(database string, everything bool, all ...eident.AccountName) eident.Part {
	return eident.Part{AccountRevoke: &eident.AccountRevoke{By: eident.RootAccount, Database: database, Everything: everything, Names: all}}
}

// accounts prints the accounts of a State.
func accounts(s *State) string {
	var all []string
	for _, a := range s.Accounts() {
		all = append(all, fmt.Sprintf("%s %s all=%v option=%v %v", a.Name, a.Verifier.Data, a.All, a.Option, a.Databases))
	}
	return strings.Join(all, "\n")
}

// TestAccounts: each statement is done for all of its accounts or for none, and only with permission.
func TestAccounts(t *testing.T) {
	r := newRig(t)
	root := eident.RootAccount
	for _, s := range []struct {
		part eident.Part
		want entry.Code
	}{
		{createBy(sbtest, login(sbtest, "x")), eident.Denied},
		{create(login(sbtest, "one")), 0},
		{create(login(admin, "two"), login(sbtest, "three")), eident.UserExists},
		{eident.Part{AccountCreate: &eident.AccountCreate{By: root, IfNotExists: true, Accounts: []eident.AccountLogin{login(admin, "two"), login(sbtest, "three")}}}, 0},
		{create(login(eident.AccountName{Host: eident.AnyHost}, "")), eident.Malformed},
		{create(login(eident.AccountName{User: "x", Host: "10.%"}, "")), eident.Malformed},
		{create(eident.AccountLogin{Name: nobody, Verifier: eident.Verifier{Scheme: eident.Bcrypt}}), eident.Malformed},
		{create(login(nobody, "a"), login(nobody, "b")), eident.UserExists}, // one name twice
		{createBy(sbtest, login(nobody, "")), eident.Denied},
		{alterBy(sbtest, login(sbtest, "own")), 0},
		{alterBy(sbtest, login(sbtest, "own"), login(root, "")), eident.Denied},
		{alterBy(root, login(nobody, "")), eident.UserNotFound},
		{eident.Part{AccountAlter: &eident.AccountAlter{By: root, IfExists: true, Accounts: []eident.AccountLogin{login(nobody, "")}}}, 0},
		{alterBy(nobody, login(nobody, "")), eident.Denied},
		{grantBy(sbtest, "shop", false, sbtest), eident.Denied},
		{grantBy(root, "shop", false, sbtest), 0},
		{grantBy(root, "shop", false, sbtest), 0},
		{grantBy(root, "a%", false, sbtest, admin), 0},
		{grantBy(root, "shop", true, admin), eident.Malformed},
		{grantBy(root, "shop", false, admin, nobody), eident.UserNotFound},
		{grantBy(root, "", false, admin), 0},
		{grantBy(admin, "", false, sbtest), eident.Denied}, // without the option
		{createBy(admin, login(nobody, "")), 0},
		{grantBy(root, "", true, admin), 0},
		{grantBy(admin, "x", false, nobody), 0},
		{revoke("", false, root), eident.ManagementRefused},
		{revoke("none", false, sbtest), eident.PermissionNotGranted},
		{revoke("", false, sbtest), eident.PermissionNotGranted},
		{revoke("shop", false, sbtest), 0},
		{revoke("", false, admin), 0},
		{grantBy(admin, "x", false, nobody), eident.Denied}, // the option alone is not enough
		{revoke("", true, nobody), 0},
		{revoke("", true, nobody), 0},
		{alterBy(root, login(root, "secret")), 0},
		{drop(root), eident.ManagementRefused},
		{drop(sbtest, eident.AccountName{User: "none", Host: eident.AnyHost}), eident.UserNotFound},
		{drop(nobody), 0},
		{drop(nobody), eident.UserNotFound},
		{eident.Part{AccountDrop: &eident.AccountDrop{By: root, IfExists: true, Names: []eident.AccountName{nobody}}}, 0},
	} {
		before := accounts(r.m.State())
		if got := r.apply(s.part)[0]; got != s.want {
			t.Errorf("%s: code %d, want %d", &s.part, got, s.want)
		}
		if after := accounts(r.m.State()); s.want != 0 && after != before {
			t.Errorf("%s was refused and has changed\n%s\nto\n%s", &s.part, before, after)
		}
	}
	const want = `'admin'@'localhost' two all=false option=true [a%]
'root'@'localhost' secret all=true option=true []
'sbtest'@'%' own all=false option=false [a%]`
	if got := accounts(r.m.State()); got != want {
		t.Errorf("accounts are\n%s\nwant\n%s", got, want)
	}
	if got := r.m.State().Revision; got != 1 {
		t.Errorf("revision %d: accounts are no users of etcd's, whose passes must stay good", got)
	}
	again := openRig(t, r.Store).m.State()
	if got, had := accounts(again), accounts(r.m.State()); got != had || again.bytes != r.m.State().bytes {
		t.Errorf("loaded %d bytes\n%s\nhad %d\n%s", again.bytes, got, r.m.State().bytes, had)
	}
}

// TestAccountsAreInTheStateHash: members that have different accounts notice.
func TestAccountsAreInTheStateHash(t *testing.T) {
	hashAfter := func(password string) uint64 {
		r := newRig(t)
		if got := r.apply(create(login(sbtest, password)))[0]; got != 0 {
			t.Fatalf("code %d", got)
		}
		_, h := r.Applier.Hash()
		return h
	}
	if one, again, other := hashAfter("a"), hashAfter("a"), hashAfter("b"); one != again || one == other {
		t.Error("the hash does not follow the accounts")
	}
}

// TestRootIsThereBeforeItsRow, and is found from localhost alone.
func TestRootIsThereBeforeItsRow(t *testing.T) {
	s := newRig(t).m.State()
	if a := s.AccountFor("root", true); a == nil || !a.MayGrant() || !a.MayManage() || !a.MayUse("x") || len(a.Verifier.Data) != 0 {
		t.Errorf("root is %+v", a)
	}
	if a := s.AccountFor("root", false); a != nil {
		t.Errorf("from elsewhere root is %+v", a)
	}
	if a := s.AccountFor("nobody", true); a != nil || a.MayUse("x") || a.MayManage() || a.MayGrant() {
		t.Errorf("nobody is %+v", a)
	}
}

// TestLocalhostGoesFirst: as in MySQL, the account for localhost hides the one for every host.
func TestLocalhostGoesFirst(t *testing.T) {
	r := newRig(t)
	local := eident.AccountName{User: "sbtest", Host: eident.Localhost}
	r.apply(create(login(sbtest, "far"), login(local, "near")))
	s := r.m.State()
	if a := s.AccountFor("sbtest", true); a == nil || a.Name != local {
		t.Errorf("from localhost it is %+v", a)
	}
	if a := s.AccountFor("sbtest", false); a == nil || a.Name != sbtest {
		t.Errorf("from elsewhere it is %+v", a)
	}
}

func TestPatternsOfDatabases(t *testing.T) {
	for _, c := range []struct {
		name, pattern string
		want          bool
	}{
		{"shop", "shop", true}, {"shop", "sho", false}, {"sho", "shop", false}, {"shop", "%", true}, {"", "%", true}, {"", "", true},
		{"shop1", "shop_", true}, {"shop", "shop_", false}, {"shop_1", `shop\_1`, true}, {"shopx1", `shop\_1`, false}, {"shopx1", "shop_1", true},
		{"a%b", `a\%b`, true}, {"axb", `a\%b`, false}, {"abcabc", "%abc", true}, {"abcabd", "%abc", false}, {"aXbXc", "a%b%c", true},
		{"ab", `a\`, false}, {"größe", "gr__e", true}, {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", strings.Repeat("a%", 16) + "c", false},
	} {
		if got := (&Account{Databases: []string{c.pattern}}).MayUse(c.name); got != c.want {
			t.Errorf("%q matches %q: %v, want %v", c.name, c.pattern, got, c.want)
		}
	}
}

// TestAccountsAreBounded: one account's grants, and the rows of all.
func TestAccountsAreBounded(t *testing.T) {
	r := newRig(t)
	r.apply(create(login(sbtest, "x")))
	for i := range MostGrants + 1 {
		want := entry.Code(0)
		if i == MostGrants {
			want = eident.Full
		}
		if got := r.apply(grantBy(eident.RootAccount, fmt.Sprint("d", i), false, sbtest))[0]; got != want {
			t.Fatalf("grant %d: code %d", i, got)
		}
	}
	r.m.now.bytes = MaxBytes - 10
	if got := r.apply(create(login(admin, "x")))[0]; got != eident.Full {
		t.Errorf("code %d", got)
	}
	if got := r.apply(drop(sbtest))[0]; got != 0 {
		t.Errorf("a drop: code %d", got)
	}
}
