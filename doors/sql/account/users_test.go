package account

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	eident "github.com/holdfastdb/holdfast/core/entry/ident"
	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// rig is the accounts of a machine to which commands are applied at once.
type rig struct {
	*Users
	t      *testing.T
	root   *Client
	logged [][]byte // the bodies of all parts
	fail   error    // of the next proposals; nil: they are applied
	behind error    // of the next confirmations
}

func newRig(t *testing.T) *rig {
	m := mident.New()
	r := &rig{t: t}
	log := machinetest.Open(t, store.NewMem(), m)
	r.Users = New(Options{State: m.State, Confirm: func(context.Context) error { return r.behind },
		Propose: func(_ context.Context, parts ...entry.Part) (*entry.Result, error) {
			if r.fail != nil {
				return nil, r.fail
			}
			r.logged = append(r.logged, parts[0].Body)
			return log.Apply(parts)[0], nil
		}})
	r.root = r.Client(&wire.Client{User: "root", AccountHost: eident.Localhost, Addr: loopback})
	return r
}

var (
	loopback  = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	elsewhere = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}
)

// run runs a statement of root.
func (r *rig) run(text string) error {
	r.t.Helper()
	st, rest, ok, err := Parse(text, Mode{})
	if err != nil || !ok || rest != "" {
		r.t.Fatalf("%s: %v, %v, %q", text, ok, err, rest)
	}
	_, err = r.Run(r.t.Context(), r.root, st, "")
	return err
}

// TestWhereAccountsLetIn: an account without a password is there for clients from loopback alone, and so is root.
func TestWhereAccountsLetIn(t *testing.T) {
	r := newRig(t)
	for _, text := range []string{"CREATE USER bare", "CREATE USER safe IDENTIFIED BY 'x'", "CREATE USER near@localhost IDENTIFIED BY 'x'",
		"CREATE USER old IDENTIFIED WITH mysql_native_password BY 'x'"} {
		if err := r.run(text); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		user            string
		near, elsewhere bool
		plugin          string
	}{
		{"root", true, false, wire.CachingSHA2}, {"bare", true, false, wire.CachingSHA2}, {"safe", true, true, wire.CachingSHA2},
		{"near", true, false, wire.CachingSHA2}, {"old", true, true, wire.NativePassword}, {"nobody", false, false, ""},
	} {
		for from, want := range map[net.Addr]bool{loopback: c.near, elsewhere: c.elsewhere} {
			a, ok, err := r.Account(t.Context(), c.user, from)
			if ok != want || err != nil || ok && a.Plugin != c.plugin {
				t.Errorf("%s from %s: %v %q %v, want %v", c.user, from, ok, a.Plugin, err, want)
			}
		}
	}
	if r.RootHasPassword() {
		t.Error("root has a password")
	}
	if err := r.run("ALTER USER root IDENTIFIED BY 'x'"); err != nil || !r.RootHasPassword() {
		t.Errorf("root has none: %v", err)
	}
}

// TestNoLoginByAnOldState: a member that cannot tell whether it knows all accounts lets nobody in.
func TestNoLoginByAnOldState(t *testing.T) {
	r := newRig(t)
	r.behind = node.ErrNoLeader
	if _, ok, err := r.Account(t.Context(), "root", loopback); ok || err == nil {
		t.Errorf("%v %v", ok, err)
	}
}

// TestNoPasswordInTheLog: a part and its description hold nothing by which a password could be read.
func TestNoPasswordInTheLog(t *testing.T) {
	r := newRig(t)
	for _, text := range []string{"CREATE USER a IDENTIFIED BY 'sesame'", "CREATE USER b IDENTIFIED WITH mysql_native_password BY 'sesame'",
		"ALTER USER a IDENTIFIED BY 'sesame2'", "SET PASSWORD FOR b = 'sesame3'"} {
		if err := r.run(text); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.logged) != 4 {
		t.Errorf("%d commands, want one of each statement", len(r.logged))
	}
	for _, body := range r.logged {
		if strings.Contains(string(body), "sesame") || strings.Contains(eident.Describe(body), "$A$") || strings.Contains(eident.Describe(body), "sesame") {
			t.Errorf("%q", body)
		}
	}
}

// TestTheLogsErrors: every answer to a failure says whether the statement may have taken effect.
func TestTheLogsErrors(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		err  error
		want uint16
	}{{node.ErrLevel, 1235}, {node.ErrOverloaded, 1203}, {node.ErrNoLeader, 1290}, {node.ErrUnknown, wire.ErrShutdown}, {context.Canceled, wire.ErrInterrupted}} {
		r.fail = c.err
		var e *wire.Error
		if err := r.run("CREATE USER a"); !errors.As(err, &e) || e.Code != c.want {
			t.Errorf("%v: %v, want %d", c.err, err, c.want)
		}
	}
}

// TestOtherStatementsAreLeftAlone: Parse takes no statement that is not one about accounts.
func TestOtherStatementsAreLeftAlone(t *testing.T) {
	for _, text := range []string{"", ";", "SELECT 1", "CREATE TABLE user (id INT)", "create", "ALTER TABLE user ADD INDEX (id)", "DROP TABLE user", "SET @password = 1",
		"SHOW TABLES", "FLUSH TABLES", "FLUSH LOCAL TABLES", "'grant'", "`grant` all", "users", "CREATE USERS x"} {
		if st, _, ok, err := Parse(text, Mode{}); ok || err != nil {
			t.Errorf("%q: %+v, %v", text, st, err)
		}
	}
}

// TestTextsBySQLMode: what a backslash and double quotes mean depends on sql_mode.
func TestTextsBySQLMode(t *testing.T) {
	for _, c := range []struct {
		text string
		mode Mode
		want string
	}{
		{`CREATE USER a IDENTIFIED BY 'x\'y\\'`, Mode{}, `x'y\`}, {`CREATE USER a IDENTIFIED BY 'x\n\%'`, Mode{}, "x\n\\%"},
		{`CREATE USER a IDENTIFIED BY 'x\'`, Mode{NoBackslash: true}, `x\`}, {`CREATE USER a IDENTIFIED BY "x""y"`, Mode{}, `x"y`},
		{`CREATE USER "a" IDENTIFIED BY "x"`, Mode{AnsiQuotes: true}, `x`},
	} {
		st, _, _, err := Parse(c.text, c.mode)
		if err != nil || st.Users[0].Password != c.want || st.Users[0].Name != "a" {
			t.Errorf("%s: %+v, %v", c.text, st, err)
		}
	}
}

// FuzzParse: no text makes the parser panic or go on for ever, and what it takes it takes again.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"CREATE USER IF NOT EXISTS 'a'@'%' IDENTIFIED WITH mysql_native_password BY 'x', b", "GRANT ALL PRIVILEGES ON `a%`.* TO a@localhost WITH GRANT OPTION",
		"REVOKE ALL, GRANT OPTION FROM a; SELECT 1", "SET PASSWORD FOR a = PASSWORD('x')", "SHOW GRANTS FOR CURRENT_USER()", "/*!50001 FLUSH */ PRIVILEGES", "DROP USER a /* x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		st, rest, ok, err := Parse(text, Mode{})
		if err != nil || !ok {
			return
		}
		if len(rest) > len(text) || st.Verb == 0 {
			t.Errorf("%q: %+v, %q", text, st, rest)
		}
	})
}
