package crash

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestLargeTransactionsOverKills changes all rows of a table by one UPDATE, which is staged. Its member dies by kill -9 at any moment of
// it: before the commit, at it, or while rows move. Readers see each UPDATE whole or not at all, one that was answered with OK stays, and
// nothing is staged in the end.
func TestLargeTransactionsOverKills(t *testing.T) {
	processTest(t, false)
	beside(t)
	t.Run("one member", func(t *testing.T) { largeOverKills(t, 1, count("LARGE_ROUNDS", 2, 50)) })
	t.Run("three members", func(t *testing.T) { largeOverKills(t, 3, count("LARGE_MEMBERS_ROUNDS", 1, 20)) })
}

// stagedMost is how long rows may be staged behind the start of a member that was killed. The long run judges it.
const stagedMost = 10 * time.Second

// largeRows are more than 4 MiB with their entries.
const largeRows = 24_000

// turning is a table whose rows all say how often it was turned.
type turning struct {
	t *testing.T
	c *proctest.Cluster
}

// conn connects to a member.
func (w *turning) conn(ctx context.Context, n *proctest.Node) (*sql.Conn, func(), error) {
	conf := mysql.NewConfig()
	conf.Net, conf.Addr, conf.User, conf.Timeout = "tcp", n.Addr("sql"), "root", 5*time.Second
	conf.Logger = &mysql.NopLogger{}
	to, err := mysql.NewConnector(conf)
	if err != nil {
		return nil, nil, err
	}
	db := sql.OpenDB(to)
	c, err := db.Conn(ctx)
	if err != nil {
		_ = db.Close() // nothing was asked
		return nil, nil, err
	}
	return c, func() { _ = c.Close(); _ = db.Close() }, nil
}

// on runs something on the member that leads, as often as it takes.
func (w *turning) on(do func(ctx context.Context, c *sql.Conn) error) {
	w.t.Helper()
	if err := untilAnswered(w.t, func(context.Context) (err error) {
		ctx, cancel := context.WithTimeout(w.t.Context(), wait.Limit(w.t))
		defer cancel()
		for _, n := range w.c.Nodes {
			var c *sql.Conn
			var closed func()
			if c, closed, err = w.conn(ctx, n); err != nil {
				continue
			}
			err = do(ctx, c)
			closed()
			if err == nil {
				return nil
			}
		}
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
}

// turns reads how often the table was turned. Rows that differ are the error errHalf.
func (w *turning) turns(ctx context.Context, c *sql.Conn) (n int, err error) {
	var low, high, rows int
	if err := c.QueryRowContext(ctx, "SELECT MIN(turn), MAX(turn), COUNT(*) FROM large.t").Scan(&low, &high, &rows); err != nil {
		return 0, err
	}
	if low != high || rows != largeRows {
		return 0, fmt.Errorf("%w: %d rows, of turns %d to %d", errHalf, rows, low, high)
	}
	return low, nil
}

var errHalf = errors.New("half of a transaction is seen")

func largeOverKills(t *testing.T, members, rounds int) {
	w := &turning{t: t, c: start(t, members, "--sql", "{sql}")}
	for _, n := range w.c.Nodes {
		wait.Until(t, "the level is reached", func() bool { return levelOf(t, n) == newest })
	}
	w.on(func(ctx context.Context, c *sql.Conn) error {
		for _, text := range []string{"CREATE DATABASE IF NOT EXISTS large", "DROP TABLE IF EXISTS large.t",
			"CREATE TABLE large.t (id INT PRIMARY KEY, turn INT, pad CHAR(150), KEY by_turn (turn))"} {
			if _, err := c.ExecContext(ctx, text); err != nil {
				return err
			}
		}
		for i := 0; i < largeRows; i += 2000 {
			var all []string
			for k := range 2000 {
				all = append(all, fmt.Sprintf("(%d, 0, REPEAT('x', 150))", i+k))
			}
			if _, err := c.ExecContext(ctx, "INSERT INTO large.t VALUES "+strings.Join(all, ",")); err != nil {
				return err
			}
		}
		return nil
	})
	// Readers look all the time.
	over, looks := make(chan struct{}), 0
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			for _, n := range w.c.Nodes {
				select {
				case <-over:
					return
				default:
				}
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				if c, closed, err := w.conn(ctx, n); err == nil {
					if _, err := w.turns(ctx, c); errors.Is(err, errHalf) {
						t.Error(err)
					} else if err == nil {
						looks++
					}
					closed()
				}
				cancel()
				time.Sleep(20 * time.Millisecond)
			}
		}
	})
	defer func() {
		close(over)
		reader.Wait()
	}()
	r := rng(t)
	known, whole, none, answered := 0, 0, 0, 0
	took, gone := 500*time.Millisecond, time.Duration(0)
	for round := range rounds + 1 {
		var victim *proctest.Node
		for _, n := range w.c.Nodes {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			if c, closed, err := w.conn(ctx, n); err == nil {
				if _, err := w.turns(ctx, c); err == nil {
					victim = n
				}
				closed()
			}
			cancel()
		}
		if victim == nil {
			t.Fatal("no member answers")
		}
		ended := make(chan error, 1)
		began := time.Now()
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
			defer cancel()
			c, closed, err := w.conn(ctx, victim)
			if err == nil {
				_, err = c.ExecContext(ctx, "UPDATE large.t SET turn = turn + 1")
				closed()
			}
			ended <- err
		}()
		var err error
		if round == 0 { // it says how long one takes
			err = <-ended
			took = time.Since(began)
		} else {
			time.Sleep(time.Duration(r.Int64N(int64(took * 2))))
			if err := victim.Kill(); err != nil {
				t.Fatal(err)
			}
			err = <-ended
			if err := victim.Start(); err != nil {
				t.Fatal(err)
			}
		}
		if err == nil {
			answered++
		}
		var is int
		w.on(func(ctx context.Context, c *sql.Conn) (err error) {
			is, err = w.turns(ctx, c)
			return err
		})
		switch {
		case is == known+1:
			whole++
		case is == known && err != nil:
			none++
		default:
			t.Fatalf("round %d: the table was turned %d times, and then %d; the client was told: %v", round, known, is, err)
		}
		known = is
		if round == 0 && err != nil {
			t.Fatalf("an UPDATE that nobody has disturbed: %v", err)
		}
		if err := w.c.WaitReady(); err != nil { // a member that begins has no metrics yet
			t.Fatal(err)
		}
		ready := time.Now()
		wait.Until(t, "nothing is staged", func() bool {
			staged, found := 0.0, false
			for _, n := range w.c.Nodes {
				sum, has := metric(t, n, "holdfast_sql_staged_transactions")
				staged, found = staged+sum, found || has
			}
			return found && staged == 0
		})
		gone = max(gone, time.Since(ready))
	}
	w.on(func(ctx context.Context, c *sql.Conn) error {
		var table, op, kind, text string
		if err := c.QueryRowContext(ctx, "CHECK TABLE large.t").Scan(&table, &op, &kind, &text); err != nil {
			return err
		}
		if text != "OK" {
			t.Errorf("CHECK TABLE says %s %s", kind, text)
		}
		return nil
	})
	t.Logf("%d kills: %d transactions whole, %d of them answered, %d not there; one takes %v, and readers have looked %d times; what was staged is gone %v behind the start at most", rounds, whole, answered, none,
		took.Round(time.Millisecond), looks, gone.Round(time.Millisecond))
	if long && gone > stagedMost {
		t.Errorf("rows are staged %v behind the start, and %v is allowed", gone, stagedMost)
	}
	if long && (whole == answered || none == 0) {
		t.Error("no kill has come between a commit and its answer, or before a commit")
	}
}

// TestPreparedOverKills: what XA PREPARE was answered for is there under every leader, keeps its rows, and a range without rows, from others, and is committed by another session. A
// transaction that was not prepared when its member died is gone.
func TestPreparedOverKills(t *testing.T) {
	processTest(t, false)
	beside(t)
	w := &turning{t: t, c: start(t, 3, "--sql", "{sql}")}
	for _, n := range w.c.Nodes {
		wait.Until(t, "the level is reached", func() bool { return levelOf(t, n) == newest })
	}
	exec := func(ctx context.Context, c *sql.Conn, all ...string) error {
		for _, text := range all {
			if _, err := c.ExecContext(ctx, text); err != nil {
				return fmt.Errorf("%s: %w", text, err)
			}
		}
		return nil
	}
	w.on(func(ctx context.Context, c *sql.Conn) error {
		return exec(ctx, c, "CREATE DATABASE IF NOT EXISTS xa", "CREATE TABLE IF NOT EXISTS xa.t (id INT PRIMARY KEY, k INT)", "REPLACE INTO xa.t VALUES (1, 0), (2, 0), (3, 0)")
	})
	rounds := count("PREPARED_ROUNDS", 2, 20)
	for round := 1; round <= rounds; round++ {
		name, lost := fmt.Sprintf("'kept-%d'", round), fmt.Sprintf("'lost-%d'", round)
		w.on(func(ctx context.Context, c *sql.Conn) error {
			err := exec(ctx, c, "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", "XA START "+name, "SELECT COUNT(*) FROM xa.t WHERE id BETWEEN 10 AND 20", fmt.Sprintf("UPDATE xa.t SET k = %d WHERE id = 1", round), "SELECT * FROM xa.t WHERE id = 2 FOR UPDATE", "XA END "+name, "XA PREPARE "+name)
			if numberOf(err) == 1440 {
				return nil // by the attempt before
			}
			return err
		})
		leader, err := w.c.WaitLeader(wait.Limit(t))
		if err != nil {
			t.Fatal(err)
		}
		if c, closed, err := w.conn(t.Context(), leader); err == nil { // if another member leads by now there is nothing to lose
			_ = exec(t.Context(), c, "XA START "+lost, "UPDATE xa.t SET k = -1 WHERE id = 3", "XA END "+lost)
			defer closed()
		}
		if err := leader.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := leader.Start(); err != nil {
			t.Fatal(err)
		}
		w.on(func(ctx context.Context, c *sql.Conn) error {
			var format, global, branch int
			var data string
			if err := c.QueryRowContext(ctx, "XA RECOVER").Scan(&format, &global, &branch, &data); err != nil {
				return err
			}
			if "'"+data+"'" != name || format != 1 || global != len(data) || branch != 0 {
				t.Errorf("XA RECOVER names %d %d %d %q, and %s is prepared", format, global, branch, data, name)
			}
			for id, want := range map[int]uint16{1: 3572, 2: 3572, 3: 0, 15: 3572, 21: 0} {
				if err := exec(ctx, c, fmt.Sprintf("SELECT * FROM xa.t WHERE id = %d FOR UPDATE NOWAIT", id)); numberOf(err) != want || want == 0 && err != nil {
					return fmt.Errorf("row %d: %w, want %d", id, err, want)
				}
			}
			var k int
			if err := c.QueryRowContext(ctx, "SELECT k FROM xa.t WHERE id = 1").Scan(&k); err != nil || k != round-1 {
				return fmt.Errorf("before the commit the row has %d, %w", k, err)
			}
			return nil
		})
		w.on(func(ctx context.Context, c *sql.Conn) error {
			if err := exec(ctx, c, "XA COMMIT "+name); err != nil && numberOf(err) != 1397 { // by an attempt that has heard nothing
				return err
			}
			var k, other int
			if err := c.QueryRowContext(ctx, "SELECT k, (SELECT k FROM xa.t WHERE id = 3) FROM xa.t WHERE id = 1 FOR UPDATE").Scan(&k, &other); err != nil {
				return err
			}
			if k != round || other != 0 {
				t.Errorf("round %d: behind the commit the row has %d, and the other one %d", round, k, other)
			}
			return nil
		})
	}
}
