package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// driver talks to the server with go-sql-driver: text has the driver put parameters into the statement, where the server prepares it otherwise.
func (s *suite) driver(text bool) (string, error) {
	db, err := open(s.node(), "", fmt.Sprintf("interpolateParams=%t&parseTime=true&multiStatements=%[1]t", text))
	if err != nil {
		return "", err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	exec := func(q string, args ...any) (sql.Result, error) {
		res, err := db.ExecContext(ctx, q, args...)
		if err != nil {
			err = fmt.Errorf("%s: %w", q, err)
		}
		return res, err
	}
	for _, q := range []string{"CREATE DATABASE IF NOT EXISTS driver", "USE driver", "DROP TABLE IF EXISTS t",
		"CREATE TABLE t (id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40) NOT NULL UNIQUE, amount DECIMAL(10,2), at DATETIME(6), body BLOB, " +
			"ratio DOUBLE, small TINYINT)"} {
		if _, err := exec(q); err != nil {
			return "", err
		}
	}
	at, body := time.Date(2024, 2, 29, 23, 59, 58, 123456000, time.UTC), []byte{0, 1, '\'', '\\', 0xff}
	insert := "INSERT INTO t (name, amount, at, body, ratio, small) VALUES (?, ?, ?, ?, ?, ?)"
	res, err := exec(insert, "Grüße €", "12.30", at, body, 0.1, -7)
	if err != nil {
		return "", err
	}
	if id, err := res.LastInsertId(); err != nil || id != 1 {
		return "", fmt.Errorf("the first id is %d: %w", id, err)
	}
	if _, err := exec(insert, "nothing", nil, nil, nil, nil, nil); err != nil {
		return "", err
	}
	row := struct {
		id, small    int64
		name, amount string
		at           time.Time
		body         []byte
		ratio        float64
	}{}
	if err := db.QueryRowContext(ctx, "SELECT id, name, amount, at, body, ratio, small FROM t WHERE name = ? AND id < ?", "Grüße €", 5).
		Scan(&row.id, &row.name, &row.amount, &row.at, &row.body, &row.ratio, &row.small); err != nil {
		return "", err
	}
	if row.id != 1 || row.name != "Grüße €" || row.amount != "12.30" || !row.at.Equal(at) || string(row.body) != string(body) ||
		row.ratio != 0.1 || row.small != -7 {
		return "", fmt.Errorf("read back: %+v", row)
	}
	if err := nulls(ctx, db); err != nil {
		return "", err
	}
	for i, q := range []struct {
		text   string
		number uint16
		state  string
	}{
		{"INSERT INTO t (name) VALUES ('nothing')", 1062, "23000"},
		{"INSERT INTO t (name) VALUES (NULL)", 1048, "23000"},
		{"SELECT * FROM none", 1146, "42S02"},
		{"SELECT none FROM t", 1054, "42S22"},
		{"SELEC 1", 1064, "42000"},
		{"USE none", 1049, "42000"},
		{"CREATE TABLE t (id INT PRIMARY KEY)", 1050, "42S01"},
		{"INSERT INTO t (name, small) VALUES ('large', 300)", 1264, "22003"},
		{"CREATE TABLE u (id INT PRIMARY KEY) PARTITION BY HASH (id)", 1235, "42000"},
	} {
		_, err := exec(q.text)
		if err := expect(err, q.number, q.state); err != nil {
			return "", fmt.Errorf("mistake %d: %w", i+1, err)
		}
	}
	if err := rolledBack(ctx, db); err != nil {
		return "", err
	}
	return "7 types read back, 9 mistakes with their numbers, a rollback", nil
}

// nulls reads the row that has nothing but its name.
func nulls(ctx context.Context, db *sql.DB) error {
	var amount, at, body, ratio, small any
	err := db.QueryRowContext(ctx, "SELECT amount, at, body, ratio, small FROM t WHERE id = ?", 2).Scan(&amount, &at, &body, &ratio, &small)
	if err == nil && (amount != nil || at != nil || body != nil || ratio != nil || small != nil) {
		err = fmt.Errorf("not NULL: %v %v %v %v %v", amount, at, body, ratio, small)
	}
	return err
}

// rolledBack has a transaction of the driver rolled back, whose rows must be gone.
func rolledBack(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	stmt, err := tx.PrepareContext(ctx, "UPDATE t SET small = small + ? WHERE id = ?")
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	for i := range 3 {
		res, err := stmt.ExecContext(ctx, i+1, 1)
		if err != nil {
			return errors.Join(err, tx.Rollback())
		}
		if n, err := res.RowsAffected(); err != nil || n != 1 {
			return errors.Join(fmt.Errorf("%d rows were changed: %w", n, err), tx.Rollback())
		}
	}
	var inside, after int
	if err := tx.QueryRowContext(ctx, "SELECT small FROM t WHERE id = 1").Scan(&inside); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err := tx.Rollback(); err != nil {
		return err
	}
	if err := db.QueryRowContext(ctx, "SELECT small FROM t WHERE id = 1").Scan(&after); err != nil {
		return err
	}
	if inside != -1 || after != -7 {
		return fmt.Errorf("%d inside the transaction and %d after it", inside, after)
	}
	return nil
}

// foreignClient is a program in another language: its arguments are the host and the port. It prints what it did, and ends with 1 on a surprise.
type foreignClient struct {
	name    string
	program string        // below the directory of clients, or in PATH where it has no slash
	script  string        // below the repository
	env     []string      // further variables; CLIENTS stands for the directory of clients
	most    time.Duration // how long it may take; 0: patience
}

var foreign = []foreignClient{
	{name: "PyMySQL, text", program: "sql-python/bin/python", script: "conformance/sql/clients/text.py"},
	{name: "mysql-connector-python, prepared", program: "sql-python/bin/python", script: "conformance/sql/clients/prepared.py"},
	{name: "mysql2 for Node.js", program: "node", script: "conformance/sql/clients/mysql2.js",
		env: []string{"NODE_PATH=CLIENTS/sql-node/node_modules"}},
	{name: "Django's own tests", program: "sql-django/bin/python", script: "conformance/sql/clients/django/run.py", most: 15 * time.Minute},
}

func (s *suite) foreign(c foreignClient) (string, error) {
	clients, err := filepath.Abs(s.clients)
	if err != nil {
		return "", err
	}
	program := c.program
	if strings.Contains(program, "/") {
		program = filepath.Join(clients, program)
	}
	host, port := place(s.node())
	most := patience
	if c.most > 0 {
		most = c.most
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, c.script, host, port)
	cmd.Env = os.Environ()
	for _, e := range c.env {
		cmd.Env = append(cmd.Env, strings.ReplaceAll(e, "CLIENTS", clients))
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("%w; run scripts/sqlclients.sh", err)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, last(out))
	}
	return strings.TrimSpace(string(out)), nil
}
