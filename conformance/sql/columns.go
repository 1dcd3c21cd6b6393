package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// buildBeforePlaces is the last commit whose rows do not say how many columns they have.
const buildBeforePlaces = "a7b579b6"

// rowsOfColumns is how many rows the tables of these steps have.
const rowsOfColumns = 20_000

// columnsOverBuilds fills a table with rows of the previous build, takes the three members to this build one by one, and adds and drops
// columns. Beside a member of the previous build no column is added.
func (s *suite) columnsOverBuilds() (note string, err error) {
	before, err := proctest.Earlier(buildBeforePlaces)
	if err != nil {
		return "", err
	}
	c, err := members(before, filepath.Join(s.dir, "columns"), 3)
	if err != nil {
		return "", err
	}
	if err := c.Run(); err != nil {
		return "", err
	}
	defer c.Close()
	if err := risen(c); err != nil {
		return "", err
	}
	leader, err := c.WaitLeader(patience)
	if err != nil {
		return "", err
	}
	if err := onLeader(leader, fillOfColumns()...); err != nil {
		return "", err
	}
	for i, n := range c.Nodes {
		if err := n.Term(patience); err != nil {
			return "", err
		}
		c.Become(n, s.bin, "--sql", "{sql}")
		if err := c.Restart(n); err != nil {
			return "", err
		}
		if i < len(c.Nodes)-1 {
			if err := noColumnYet(c, n); err != nil {
				return "", err
			}
		}
	}
	if err := risen(c); err != nil {
		return "", err
	}
	if leader, err = c.WaitLeader(patience); err != nil {
		return "", err
	}
	took, err := columnsComeAndGo(leader)
	if err != nil {
		return "", err
	}
	if _, err := sameState(c); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d rows of the build before; a column came in %s; all values are right, and three members have one state", rowsOfColumns, took.Round(time.Millisecond)), nil
}

// fillOfColumns are statements that make a table and fill it.
func fillOfColumns() []string {
	all := []string{"CREATE DATABASE columns", "CREATE TABLE columns.t (id INT PRIMARY KEY, k INT NOT NULL, s VARCHAR(40), KEY by_k (k))"}
	const piece = 1000
	for from := 0; from < rowsOfColumns; from += piece {
		var values []string
		for id := from; id < from+piece; id++ {
			values = append(values, fmt.Sprintf("(%d, %d, 'row %d')", id, id%100, id))
		}
		all = append(all, "INSERT INTO columns.t VALUES "+strings.Join(values, ", "))
	}
	return all
}

// noColumnYet has a member of this build lead, and expects that no column comes while another build is there.
func noColumnYet(c *proctest.Cluster, n *proctest.Node) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.Lead(ctx, n); err != nil {
		return err
	}
	for _, text := range []string{"ALTER TABLE columns.t ADD COLUMN early INT", "ALTER TABLE columns.t FORCE"} {
		if err := onLeader(n, text); number(err) != 1290 || !strings.Contains(err.Error(), "holdfast status") {
			return fmt.Errorf("%s beside a member of the build before: %v", text, err)
		}
	}
	return onLeader(n, "ALTER TABLE columns.t ADD INDEX by_s (s)", "ALTER TABLE columns.t DROP INDEX by_s")
}

// columnsComeAndGo alters the table and looks at its rows. It returns how long a column took to come.
func columnsComeAndGo(n *proctest.Node) (took time.Duration, err error) {
	c, err := connect(n, "columns")
	if err != nil {
		return 0, err
	}
	defer c.close()
	began := time.Now()
	if err := c.exec("ALTER TABLE t ADD COLUMN d VARCHAR(10) NOT NULL DEFAULT 'was' FIRST"); err != nil {
		return 0, err
	}
	took = time.Since(began)
	if err := c.exec("ALTER TABLE t ALTER d SET DEFAULT 'is'", "INSERT INTO t (id, k) VALUES (-1, 7)", "ALTER TABLE t DROP COLUMN s, MODIFY k BIGINT NOT NULL"); err != nil {
		return 0, err
	}
	for _, again := range []string{"", "ALTER TABLE t FORCE"} {
		if again != "" {
			if err := c.exec(again); err != nil {
				return 0, err
			}
		}
		if err := rightColumns(c, "d = 'was' AND k = id % 100 OR id = -1 AND d = 'is' AND k = 7", rowsOfColumns+1); err != nil {
			return 0, err
		}
	}
	return took, nil
}

// rightColumns counts the rows of which something is true, and checks the table.
func rightColumns(c *client, condition string, want int) error {
	var n int
	if err := c.one("SELECT COUNT(*) FROM t WHERE "+condition, &n); err != nil {
		return err
	}
	if n != want {
		return fmt.Errorf("%d rows of %d are right", n, want)
	}
	var table, op, kind, text string
	if err := c.one("CHECK TABLE t", &table, &op, &kind, &text); err != nil {
		return err
	}
	if text != "OK" {
		return errors.New("CHECK TABLE: " + text)
	}
	return nil
}

// killsOfCopies kills a server while it copies a table. Behind each start the table is the one from before or the new one, whole, and it can be copied again.
func (s *suite) killsOfCopies() (note string, err error) {
	times := 20
	if s.quick {
		times = 3
	}
	cluster, err := server(s.bin, filepath.Join(s.dir, "copied"))
	if err != nil {
		return "", err
	}
	defer cluster.Close()
	n := cluster.Nodes[0]
	if err := onLeader(n, fillOfColumns()...); err != nil {
		return "", err
	}
	changed, wide := 0, false
	for kill := 1; kill <= times; kill++ {
		now, err := copyUntilKilled(n, wide)
		if err != nil {
			return "", fmt.Errorf("kill %d: %w", kill, err)
		}
		if now != wide {
			wide = now
			changed++
		}
	}
	return fmt.Sprintf("%d kills; the table was changed behind %d of them and as before behind the others", times, changed), nil
}

// copyUntilKilled changes the type of a column, kills the server at a random moment, starts it and looks at the table. wide: the column is a text before.
func copyUntilKilled(n *proctest.Node, wide bool) (now bool, err error) {
	c, err := connect(n, "columns")
	if err != nil {
		return false, err
	}
	text := "ALTER TABLE t MODIFY k VARCHAR(20) NOT NULL"
	if wide {
		text = "ALTER TABLE t MODIFY k INT NOT NULL"
	}
	ended := make(chan error, 1)
	go func() { ended <- c.exec(text) }()
	time.Sleep(time.Duration(rand.Int64N(int64(500 * time.Millisecond))))
	if err := n.Kill(); err != nil {
		return false, err
	}
	told := <-ended
	c.close()
	if c, err = readsAgain(n); err != nil {
		return false, err
	}
	defer c.close()
	var kind string
	if err := c.one("SELECT DATA_TYPE FROM information_schema.columns WHERE TABLE_SCHEMA = 'columns' AND TABLE_NAME = 't' AND COLUMN_NAME = 'k'", &kind); err != nil {
		return false, err
	}
	if now = kind == "varchar"; told == nil && now == wide {
		return false, fmt.Errorf("%s was acknowledged, and the column is %s", text, kind)
	}
	var tables int
	var name sql.NullString
	if err := c.one("SELECT COUNT(*), MAX(TABLE_NAME) FROM information_schema.tables WHERE TABLE_SCHEMA = 'columns'", &tables, &name); err != nil {
		return false, err
	}
	if tables != 1 {
		return false, fmt.Errorf("there are %d tables, one of them %q", tables, name.String)
	}
	return now, rightColumns(c, "k = id % 100 AND s = CONCAT('row ', id)", rowsOfColumns)
}

// readsAgain starts a server that was killed, and connects to it once it reads the table.
func readsAgain(n *proctest.Node) (*client, error) {
	if err := n.Start(); err != nil {
		return nil, err
	}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		c, err := connect(n, "columns")
		if err == nil {
			var id int
			if err = c.one("SELECT id FROM t WHERE id = 1", &id); err == nil {
				return c, nil
			}
			c.close()
		}
		if !n.Running() || time.Since(began) > patience {
			return nil, fmt.Errorf("no row is read after %s: %w; last lines: %s", round(time.Since(began)), err, n.LogTail(5))
		}
	}
}
