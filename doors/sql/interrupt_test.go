package sql

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// waiting is a statement that waits for what another session has locked.
type waiting struct {
	name         string
	locks        []string // by the session that is not interrupted
	before, text string   // by the other one
}

// waits are all kinds of locks for which a statement waits.
var waits = []waiting{
	{name: "a row", locks: []string{"BEGIN", "UPDATE t SET k = 2"}, text: "UPDATE t SET k = 3"},
	{name: "a row that is read", locks: []string{"BEGIN", "UPDATE t SET k = 2"}, text: "SELECT * FROM t FOR SHARE"},
	{name: "a range", locks: []string{"SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "BEGIN", "SELECT * FROM t"}, text: "INSERT INTO t VALUES (2, 2)"},
	{name: "a definition", locks: []string{"BEGIN", "SELECT * FROM t"}, text: "TRUNCATE TABLE t"},
	{name: "a table", locks: []string{"LOCK TABLES t WRITE"}, text: "SELECT * FROM t"},
	{name: "LOCK TABLES", locks: []string{"BEGIN", "UPDATE t SET k = 2"}, text: "LOCK TABLES t READ"},
	{name: "a name", locks: []string{"SELECT GET_LOCK('x', 0)"}, text: "SELECT GET_LOCK('x', -1)"},
	{name: "frozen writes", locks: []string{"FLUSH TABLES WITH READ LOCK"}, text: "INSERT INTO t VALUES (2, 2)"},
	{name: "a frozen commit", locks: []string{"FLUSH TABLES WITH READ LOCK"}, before: "BEGIN", text: "COMMIT"},
}

// TestKillEndsWaits: KILL QUERY ends every wait, and the session goes on. A client that is gone waits for nothing any more, and its session's locks are free.
func TestKillEndsWaits(t *testing.T) {
	t.Parallel()
	for _, w := range waits {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			a, b := r.connect("test"), r.connect("test")
			r.exec(a, "CREATE TABLE t (id INT PRIMARY KEY, k INT)")
			r.exec(a, "INSERT INTO t VALUES (1, 1)")
			id := connection(t, b)
			begin := func(ctx context.Context, c *sql.Conn) <-chan error {
				done := make(chan error, 1)
				if w.before != "" {
					r.exec(c, w.before)
					r.exec(c, "INSERT INTO t VALUES (5, 5)")
				}
				for _, text := range w.locks {
					r.exec(a, text)
				}
				go func() {
					rows, err := c.QueryContext(ctx, w.text)
					if err == nil {
						for rows.Next() {
						}
						err = errors.Join(rows.Err(), rows.Close())
					}
					done <- err
				}()
				wait.Until(t, "it waits", func() bool { return r.options.Worker.Waiting() > 0 })
				return done
			}
			done := begin(context.Background(), b)
			admin := r.connect("")
			r.exec(admin, "KILL QUERY "+id)
			if err := wait.For(t, "the statement ends", done); number(err) != 1317 {
				t.Errorf("%v, want 1317", err)
			}
			if got, err := query(b, "SELECT 1"); got != "1\n" || err != nil {
				t.Errorf("behind it: %q %v", got, err)
			}
			r.exec(a, "ROLLBACK")
			r.exec(a, "UNLOCK TABLES")
			r.exec(b, "ROLLBACK")
			// A client that goes.
			c := r.connect("test")
			ctx, cut := context.WithCancel(context.Background())
			done = begin(ctx, c)
			cut() // the driver closes the connection
			wait.Until(t, "nobody waits", func() bool { return r.options.Worker.Waiting() == 0 })
			if err := wait.For(t, "the client hears", done); err == nil {
				t.Error("the client that was cut has an answer")
			}
		})
	}
}

// TestAClientThatGoes ends its statement wherever that is: while it reads, sorts, waits between rows, changes a whole table, or builds an index. Nothing is left
// of the statement.
func TestAClientThatGoes(t *testing.T) {
	t.Parallel()
	const rows = 2000
	for name, text := range map[string]string{
		"a read":             "SELECT COUNT(*) FROM t a JOIN t b JOIN t c WHERE a.k + b.k + c.k = -1",
		"a sort":             "SELECT a.id FROM t a JOIN t b JOIN t c ORDER BY a.u, b.u, c.u LIMIT 1",
		"a result":           "SELECT a.id FROM t a JOIN t b JOIN t c",
		"a sleep":            "SELECT SLEEP(600)",
		"a large UPDATE":     "UPDATE t SET k = k + 1, pad = IF(id = 1000, SLEEP(600), 'changed')",
		"an INSERT … SELECT": "INSERT INTO t (k, u) SELECT a.k, CONCAT('n', a.id, '-', b.id) FROM s a JOIN s b",
		"a multiple DELETE":  "DELETE a FROM t a JOIN t b JOIN t c ON a.k + b.k + c.k = -1",
		"a build":            "CREATE INDEX later ON t (pad, id)",
	} { // any order: each by itself
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLarge(t, rows)
			l.exec(l.c, "CREATE TABLE s (id INT PRIMARY KEY, k INT)")
			l.exec(l.c, "INSERT INTO s SELECT id, k FROM t")
			gone := l.connect("test")
			ctx, cut := context.WithCancel(context.Background())
			pieces := 0
			l.OnPropose(func(parts []entry.Part) (*entry.Result, error) {
				if isPiece(parts) && name == "a build" {
					if pieces++; pieces > 1 {
						return nil, node.ErrOverloaded // the log has no room for another one
					}
				}
				return l.propose(parts)
			})
			heard := make(chan error, 1)
			go func() {
				rows, err := gone.QueryContext(ctx, text)
				if err == nil {
					for rows.Next() {
						if name == "a result" {
							<-ctx.Done() // it reads no more: the server's sends stand still
						}
					}
					err = errors.Join(rows.Err(), rows.Close())
				}
				heard <- err
			}()
			listed := func() bool {
				got, err := query(l.c, "SHOW FULL PROCESSLIST")
				if err != nil {
					t.Error(err)
				}
				return strings.Contains(got, "|"+text+"\n")
			}
			wait.Until(t, "the statement runs", listed)
			switch name {
			case "a large UPDATE", "an INSERT … SELECT":
				wait.Until(t, "something is staged", func() bool { return len(l.m.Staged().All) > 0 })
			case "a build":
				wait.Until(t, "the index is Building", func() bool { return len(l.m.Catalogue().Database("test").Table("t").Indexes) == 3 })
			}
			cut() // the driver closes the connection
			began := time.Now()
			wait.Until(t, "the statement has ended", func() bool { return !listed() })
			t.Logf("%s has ended %v behind its client", name, time.Since(began).Round(time.Millisecond))
			if err := wait.For(t, "the client hears", heard); err == nil {
				t.Error("the client that was cut has an answer")
			}
			wait.Until(t, "no index is Building", func() bool { return len(l.m.Catalogue().Database("test").Table("t").Indexes) == 2 })
			wait.Until(t, "nothing is locked", func() bool { return l.options.Worker.HeldLocks() == 0 })
			l.sound(rows)
		})
	}
}

// TestTimeLimit: a SELECT ends with 3024 when its time is over, of the session or of a hint, while it computes and while it waits. Nothing else does.
func TestTimeLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := r.connect("test"), r.connect("test")
	r.exec(a, "CREATE TABLE t (id INT PRIMARY KEY, k INT)")
	r.exec(a, "INSERT INTO t VALUES (1, 1)")
	r.exec(a, "BEGIN")
	r.exec(a, "UPDATE t SET k = 2")
	for _, c := range []struct {
		text string
		code uint16
	}{
		{"SELECT /*+ MAX_EXECUTION_TIME(20) */ * FROM t FOR UPDATE", 3024},
		{"SELECT /*+ MAX_EXECUTION_TIME(20) */ SLEEP(600) FROM t", 3024},
		{"SELECT /*+ MAX_EXECUTION_TIME(0) */ 1", 0},
		{"SELECT /* MAX_EXECUTION_TIME(1) */ SLEEP(0.1)", 0},
		{"SET max_execution_time = 20", 0},
		{"SELECT * FROM t FOR SHARE", 3024},
		{"SELECT SLEEP(600)", 3024},
		{"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT COUNT(*) FROM n a, n b, n c, n d", 3024},
		{"SET innodb_lock_wait_timeout = 1", 0},
		{"UPDATE t SET k = 3", 1205},
		{"SET max_execution_time = 0", 0},
		{"SELECT SLEEP(0.1)", 0},
	} {
		if _, err := query(b, c.text); number(err) != c.code || err != nil && c.code == 0 {
			t.Errorf("%s: %v, want %d", c.text, err, c.code)
		}
	}
}

// TestMemoryLimit: a statement that keeps more rows than it may ends with 1105, which names the limit. One that keeps fewer does not, however many it reads.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const most = 256 << 10
	c := r.connectTo(r.another(func(o *Options) { o.MaxKept = most }), "test")
	r.exec(c, "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(200), KEY (s))")
	for i := range 20 {
		r.exec(c, "INSERT INTO t SELECT n, CONCAT(n, REPEAT('x', 100)) FROM (WITH RECURSIVE n (n) AS (SELECT ? UNION ALL SELECT n + 1 FROM n WHERE n < ?) SELECT n FROM n) x",
			i*100, i*100+99)
	}
	for text, code := range map[string]uint16{
		"SELECT s FROM t ORDER BY CONCAT(s, id)": 1105, "SELECT CONCAT(s, 'x') g, COUNT(*) FROM t GROUP BY g": 1105,
		"SELECT COUNT(*) FROM t GROUP BY (SELECT x.id FROM t x WHERE x.id >= t.id LIMIT 2)": 1242, // an error behind some rows ends the statement
		"SELECT COUNT(*) FROM t": 0, "SELECT s FROM t ORDER BY id": 0, "SELECT id % 3, COUNT(*) FROM t GROUP BY id % 3": 0,
		"SELECT s FROM t ORDER BY CONCAT(s, id) LIMIT 3": 0,
	} { // any order: each by itself
		_, err := query(c, text)
		if number(err) != code || code == 1105 && !strings.Contains(err.Error(), "262144") {
			t.Errorf("%s: %v, want %d", text, err, code)
		}
	}
}
