package crash

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestSQLUsersAreOnEveryMember: what one member has acknowledged of users counts at the next login on each of them, and after kill -9 of all.
func TestSQLUsersAreOnEveryMember(t *testing.T) {
	processTest(t, false)
	beside(t)
	c := start(t, 3, "--sql", "{sql}")
	wait.Until(t, "the cluster is at the level of accounts", func() bool {
		return sqlExec(c.Nodes[0], "root", "", "CREATE USER IF NOT EXISTS sbtest IDENTIFIED BY 'one'") == nil
	})
	everywhere := func(when, user, password string, want uint16) {
		t.Helper()
		for _, n := range c.Nodes {
			if err := sqlExec(n, user, password, "SHOW GRANTS"); numberOf(err) != want || want == 0 && err != nil {
				t.Errorf("%s: %s on %s: %v, want %d", when, user, n.Name, err, want)
			}
		}
	}
	everywhere("created", "sbtest", "one", 0)
	for i, password := range []string{"two", "three", "four"} {
		if err := sqlExec(c.Nodes[i], "root", "", "ALTER USER sbtest IDENTIFIED BY '"+password+"'"); err != nil {
			t.Fatal(err)
		}
		everywhere("with another password", "sbtest", password, 0)
		everywhere("with an old password", "sbtest", "one", 1045)
	}
	for _, n := range c.Nodes {
		if err := n.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range c.Nodes {
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.WaitReady(); err != nil {
		t.Fatal(err)
	}
	everywhere("behind kill -9 of all", "sbtest", "four", 0)
	if err := sqlExec(c.Nodes[1], "root", "", "DROP USER sbtest"); err != nil {
		t.Fatal(err)
	}
	everywhere("dropped", "sbtest", "four", 1045)
}

// sqlExec runs one statement on a connection of its own.
func sqlExec(n *proctest.Node, user, password, text string) error {
	conf := mysql.NewConfig()
	conf.Net, conf.Addr, conf.User, conf.Passwd = "tcp", n.Addr("sql"), user, password
	to, err := mysql.NewConnector(conf)
	if err != nil {
		return err
	}
	db := sql.OpenDB(to)
	defer db.Close()
	_, err = db.ExecContext(context.Background(), text)
	return err
}

// numberOf is the number of an error that the server told, 0 of every other.
func numberOf(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}
