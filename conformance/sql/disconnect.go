package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// goneMost is how long a statement may go on whose client is gone.
const goneMost = time.Second

// clientsGo has clients go away in the middle of statements that would take long. Nothing is left of the statements, and soon.
func (s *suite) clientsGo() (string, error) {
	table := padded{"gone.t", 300_000}
	if s.quick {
		table.rows = 30_000
	}
	if err := table.create(s.node()); err != nil {
		return "", err
	}
	c, err := connect(s.node(), "gone")
	if err != nil {
		return "", err
	}
	defer c.close()
	holder, err := connect(s.node(), "gone")
	if err != nil {
		return "", err
	}
	defer holder.close()
	if err := holder.exec("CREATE TABLE s (id INT PRIMARY KEY, k INT, c CHAR(120), pad CHAR(60))", "INSERT INTO s SELECT id, k, c, pad FROM t", "CREATE TABLE held (id INT PRIMARY KEY)", "INSERT INTO held VALUES (1)", "BEGIN", "DELETE FROM held"); err != nil {
		return "", err
	}
	var notes []string
	slowest := time.Duration(0)
	for _, text := range []string{
		"SELECT COUNT(*) FROM t a JOIN t b ON a.k < b.k AND a.pad = b.c",
		"SELECT a.id FROM t a JOIN t b ON a.k < b.k ORDER BY a.pad, b.c LIMIT 1",
		"SELECT * FROM held FOR UPDATE",
		"UPDATE t SET c = CONCAT(c, IF(id = 20000, SLEEP(100), ''))",
		"INSERT INTO t SELECT a.id + 1000000 * b.id, a.k, a.c, a.pad FROM s a JOIN s b ON b.id < 1000",
		"CREATE INDEX by_c ON t (c)",
	} {
		took, err := c.goesDuring(s, text)
		if err != nil {
			return "", err
		}
		slowest = max(slowest, took)
		notes = append(notes, fmt.Sprintf("%s %s", text[:strings.IndexByte(text, ' ')], round(took)))
	}
	if err := holder.exec("ROLLBACK"); err != nil {
		return "", err
	}
	if _, err := unstaged(s.cluster); err != nil {
		return "", err
	}
	if err := agreed(c, table, false); err != nil {
		return "", err
	}
	if err := c.exec("CREATE INDEX by_c ON t (id)", "DROP DATABASE gone"); err != nil { // the name is free
		return "", err
	}
	note := "a statement has ended behind its client: " + strings.Join(notes, ", ")
	if slowest > goneMost && !s.quick {
		return "", fmt.Errorf("%s; %s is allowed", note, goneMost)
	}
	return note, nil
}

// goesDuring has a client go away a moment after it has begun a statement. It returns how long the server still shows the statement.
func (c *client) goesDuring(s *suite, text string) (time.Duration, error) {
	gone, err := connect(s.node(), "gone")
	if err != nil {
		return 0, err
	}
	ctx, cut := context.WithCancel(context.Background())
	defer cut()
	ended := make(chan error, 1)
	go func() {
		rows, err := gone.QueryContext(ctx, text)
		if err == nil {
			err = errors.Join(errors.New("it has a result"), rows.Close())
		}
		ended <- err
	}()
	listed := func() (bool, error) {
		lines, err := c.lines("SHOW FULL PROCESSLIST")
		for _, l := range lines {
			if strings.HasSuffix(l, "|"+text) {
				return true, err
			}
		}
		return false, err
	}
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		runs, err := listed()
		if err != nil {
			return 0, err
		}
		if runs {
			break
		}
		if time.Since(began) > patience {
			return 0, fmt.Errorf("%s has not begun: %w", text, <-ended)
		}
	}
	time.Sleep(300 * time.Millisecond)
	select {
	case err := <-ended:
		return 0, fmt.Errorf("%s has ended before its client has gone: %w", text, err)
	default:
	}
	cut() // the driver closes the connection
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		runs, err := listed()
		if took := time.Since(began); err != nil || !runs || took > patience {
			<-ended
			gone.close()
			if runs {
				err = fmt.Errorf("%s runs %s behind its client", text, round(took))
			}
			return took, err
		}
	}
}
