package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// twoViews has the cases: a plain SELECT reads the snapshot of its transaction, what locks or writes reads the newest rows.
const twoViews = "conformance/sql/testdata/views.txt"

// viewCases is how many cases there are.
const viewCases = 22

// Statements around each case.
var (
	viewTables = []string{"CREATE DATABASE IF NOT EXISTS two_views", "USE two_views", "DROP TABLE IF EXISTS t", "DROP TABLE IF EXISTS u", "DROP TABLE IF EXISTS w",
		"CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL, KEY by_k (k))", "CREATE TABLE u (id INT PRIMARY KEY, v INT NOT NULL)",
		"CREATE TABLE w (id INT PRIMARY KEY, k INT NOT NULL)", "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)", "INSERT INTO u VALUES (1, 100), (2, 200), (3, 300)"}
	viewSnapshot = []string{"USE two_views", "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SET innodb_lock_wait_timeout = 5", "BEGIN", "SELECT * FROM t", "SELECT * FROM u"}
	viewChange   = []string{"USE two_views", "BEGIN", "UPDATE t SET k = k + 1 WHERE id = 2", "INSERT INTO t VALUES (4, 40)", "DELETE FROM t WHERE id = 3",
		"UPDATE u SET v = v + 1 WHERE id = 2", "INSERT INTO u VALUES (4, 400)", "COMMIT"}
	// viewEnd is both sides' view while the transaction is open, and the state after its commit.
	viewEnd = []string{"a> SELECT * FROM t ORDER BY id", "b> SELECT * FROM t ORDER BY id", "a> COMMIT", "a> SELECT * FROM t ORDER BY id"}
)

// viewOver stands between the lines of a case and viewEnd.
const viewOver = "--\n"

// views plays the cases and compares the answers with MariaDB's: with those that were written down, and a full run with those of a server.
func (s *suite) views() (string, error) {
	b, err := os.ReadFile(twoViews)
	if err != nil {
		return "", err
	}
	then, told := string(b), fmt.Sprintf("%d cases answer as MariaDB was seen to", viewCases)
	if !s.quick {
		now, err := viewsOfMariaDB(then)
		if err != nil {
			return "", err
		}
		if s.rewrite {
			return "written", os.WriteFile(twoViews, []byte(now), 0o644)
		}
		if now != then {
			return "", fmt.Errorf("MariaDB answers otherwise than it was written down: %w", difference(now, then, twoViews))
		}
		told = fmt.Sprintf("%d cases answer as MariaDB does beside it", viewCases)
	}
	now, err := play(then, func() (*client, error) { return connect(s.node(), "") })
	if err != nil {
		return "", err
	}
	if now != then {
		return "", difference(now, then, twoViews)
	}
	return told, nil
}

// viewsOfMariaDB plays the cases against a server of Debian's.
func viewsOfMariaDB(script string) (now string, err error) {
	m, err := proctest.NewMariaDB("--loose-innodb-snapshot-isolation=OFF", "--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if _, err := m.SQL("CREATE USER 'views'@'127.0.0.1'; GRANT ALL ON *.* TO 'views'@'127.0.0.1'"); err != nil {
		return "", err
	}
	return play(script, func() (*client, error) { return connectTo("views@tcp(" + m.Addr + ")/") })
}

// play runs every case of a script, each with two new clients, and returns the script with the answers that came.
func play(script string, connect func() (*client, error)) (string, error) {
	var out strings.Builder
	head, rest, _ := strings.Cut(script, "\n= ")
	out.WriteString(head)
	cases := strings.Split(rest, "\n= ")
	if len(cases) != viewCases {
		return "", fmt.Errorf("%s has %d cases, not %d", twoViews, len(cases), viewCases)
	}
	for _, text := range cases {
		name, lines, _ := strings.Cut(text, "\n")
		fmt.Fprintf(&out, "\n= %s\n", name)
		said, err := playCase(lines, connect)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		out.WriteString(said)
	}
	return out.String(), nil
}

// playCase runs one case and returns its lines with their answers.
func playCase(lines string, connect func() (*client, error)) (string, error) {
	a, err := connect()
	if err != nil {
		return "", err
	}
	defer a.close()
	b, err := connect()
	if err != nil {
		return "", err
	}
	defer b.close()
	if err := b.exec(viewTables...); err != nil {
		return "", err
	}
	if err := a.exec(viewSnapshot...); err != nil {
		return "", err
	}
	if err := b.exec(viewChange...); err != nil {
		return "", err
	}
	var out strings.Builder
	say := func(line string) {
		who, text, _ := strings.Cut(line, "> ")
		c := a
		if who == "b" {
			c = b
		}
		fmt.Fprintf(&out, "%s\n%s", line, c.answer(text))
	}
	own, _, _ := strings.Cut(lines, viewOver) // the rest is the same in every case
	for line := range strings.Lines(own) {
		if line = strings.TrimRight(line, "\n"); strings.HasPrefix(line, "a> ") || strings.HasPrefix(line, "b> ") {
			say(line)
		}
	}
	out.WriteString(viewOver)
	for _, line := range viewEnd {
		say(line)
	}
	return out.String(), nil
}

// answer runs a statement and returns what came, each line behind two blanks. Of an error only its number counts: the texts are each server's own.
func (c *client) answer(text string) string {
	var lines []string
	var err error
	if strings.HasPrefix(text, "SELECT") {
		if lines, err = c.lines(text); err == nil && len(lines) == 0 {
			lines = []string{"no rows"}
		}
	} else {
		var n int64
		n, err = c.change(text)
		lines = []string{fmt.Sprintf("ok, %d rows", n)}
	}
	var of *mysql.MySQLError
	switch {
	case errors.As(err, &of):
		lines = []string{fmt.Sprintf("error %d %s", of.Number, of.SQLState)}
	case err != nil:
		lines = []string{err.Error()}
	}
	return "  " + strings.Join(lines, "\n  ") + "\n"
}
