package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/results"
)

// patience bounds one statement of a step, and one run of a client. A longer one counts as hung.
const patience = 60 * time.Second

// suite is one server and the steps against it. It belongs to one goroutine.
type suite struct {
	bin, dir, clients string
	quick, rewrite    bool
	only              *regexp.Regexp // of the names of steps

	cluster *proctest.Cluster
	steps   results.Steps
}

// do runs a step whose name was asked for.
func (s *suite) do(name string, step func() (string, error)) {
	if !s.only.MatchString(name) {
		return
	}
	s.steps.Do(name, func() (string, error) {
		note, err := step()
		if err != nil && !s.node().Running() {
			err = fmt.Errorf("%w; the server has ended: %s", err, s.node().LogTail(5))
		}
		return note, err
	})
}

func (s *suite) node() *proctest.Node { return s.cluster.Nodes[0] }

// serve starts the server that all steps share, except those that kill their own.
func (s *suite) serve() (err error) {
	s.cluster, err = server(s.bin, filepath.Join(s.dir, "shared"))
	return err
}

func (s *suite) close() { s.cluster.Close() }

// server starts a server with the door, below a directory, and waits until it has the level of its build.
func server(bin, dir string, flags ...string) (*proctest.Cluster, error) {
	c, err := members(bin, dir, 1, flags...)
	if err != nil {
		return nil, err
	}
	if err := c.Run(); err != nil {
		return nil, err
	}
	return c, risen(c)
}

// members describes n members with the door, below a directory. The caller runs and closes the cluster.
func members(bin, dir string, n int, flags ...string) (*proctest.Cluster, error) {
	return proctest.New(dir, proctest.Holdfast(bin, append([]string{"--sql", "{sql}"}, flags...)...), n)
}

// place returns the host and the port of a node's door.
func place(n *proctest.Node) (host, port string) {
	host, port, err := net.SplitHostPort(n.Addr("sql"))
	if err != nil {
		panic(err) // proctest makes the address
	}
	return host, port
}

// open returns a pool of connections to a node. settings are the driver's, as a=b&c=d. The caller closes it.
func open(n *proctest.Node, database, settings string) (*sql.DB, error) {
	return sql.Open("mysql", "root:@tcp("+n.Addr("sql")+")/"+database+"?timeout=10s&"+settings)
}

// client is one connection. The caller closes it.
type client struct {
	*sql.Conn
	db *sql.DB
}

func connect(n *proctest.Node, database string) (*client, error) {
	return connectTo("root:@tcp(" + n.Addr("sql") + ")/" + database + "?timeout=10s")
}

// connectTo opens a connection to a place in the driver's form.
func connectTo(at string) (*client, error) {
	db, err := sql.Open("mysql", at)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &client{c, db}, nil
}

func (c *client) close() {
	_ = c.Conn.Close() // the pool goes with it
	_ = c.db.Close()
}

// exec runs statements one after another. Its error names the statement.
func (c *client) exec(texts ...string) error {
	for _, text := range texts {
		if _, err := c.change(text); err != nil {
			return err
		}
	}
	return nil
}

// change runs one statement and returns how many rows it has changed.
func (c *client) change(text string, args ...any) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	res, err := c.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", text, err)
	}
	return res.RowsAffected()
}

// one reads one row into the given places.
func (c *client) one(text string, into ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.QueryRowContext(ctx, text).Scan(into...); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return nil
}

// number is the number of an error that the server told, 0 of every other.
func number(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// expect judges an error by the number and the SQLSTATE that MySQL gives it.
func expect(err error, number uint16, state string) error {
	var e *mysql.MySQLError
	switch {
	case err == nil:
		return fmt.Errorf("no error, where %d (%s) is due", number, state)
	case !errors.As(err, &e) || e.Number != number || string(e.SQLState[:]) != state:
		return fmt.Errorf("want %d (%s): %w", number, state, err)
	}
	return nil
}

// figure is a count and a sum of a table, as one of its indexes has them.
type figure struct {
	count int64
	sum   sql.NullInt64
}

// byIndex counts a table and adds one of its columns up by the index that is named. It fails if the plan takes another one.
func (c *client) byIndex(table, column, index string) (f figure, err error) {
	from := fmt.Sprintf("FROM %s FORCE INDEX (%s) WHERE %s >= -9000000000000000000", table, index, column)
	key, err := c.keyOf("SELECT COUNT(*) " + from)
	if err != nil {
		return f, err
	}
	if key != index {
		return f, fmt.Errorf("%s is read by %q, where %s is forced", table, key, index)
	}
	return f, c.one("SELECT COUNT(*), SUM("+column+") "+from, &f.count, &f.sum)
}

// agree judges that a table has the same count and sum by its primary key and by an index, and returns them.
func (c *client) agree(table, column, index string) (figure, error) {
	var f figure
	if err := c.one(fmt.Sprintf("SELECT COUNT(*), SUM(%s) FROM %s", column, table), &f.count, &f.sum); err != nil {
		return f, err
	}
	g, err := c.byIndex(table, column, index)
	if err == nil && f != g {
		err = fmt.Errorf("%s has %d rows with the sum %d by its primary key, and %d with %d by %s",
			table, f.count, f.sum.Int64, g.count, g.sum.Int64, index)
	}
	return f, err
}

// keyOf returns the key that EXPLAIN names.
func (c *client) keyOf(text string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	rows, err := c.QueryContext(ctx, "EXPLAIN "+text)
	if err != nil {
		return "", fmt.Errorf("EXPLAIN %s: %w", text, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return "", err
	}
	values, into := make([]sql.NullString, len(names)), make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	key := ""
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return "", err
		}
		for i, n := range names {
			if n == "key" {
				key = values[i].String
			}
		}
	}
	return key, rows.Err()
}
