package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// killedMoving kills the leader of three members at moments of an UPDATE of a whole table. They are while it is staged, and while its rows
// move to their places behind the commit. Each time the table has all of it or nothing, soon after there is a leader and before its rows
// have moved. They have moved soon.
func (s *suite) killedMoving() (string, error) {
	table, rounds := padded{"moving.t", 800_000}, 4
	if s.quick {
		table.rows, rounds = 40_000, 2
	}
	cluster, err := members(s.bin, filepath.Join(s.dir, "moving"), 3)
	if err != nil {
		return "", err
	}
	defer cluster.Close()
	if err := errors.Join(cluster.Run(), risen(cluster)); err != nil {
		return "", err
	}
	n, err := cluster.WaitLeader(patience)
	if err != nil {
		return "", err
	}
	if err := table.create(n); err != nil {
		return "", err
	}
	whole, none := 0, 0
	slowest, value := time.Duration(0), "first"
	if err := turn(n, table, value); err != nil {
		return "", err
	}
	for round := 1; round <= rounds; round++ {
		state := []string{"committed", "open"}[round%2]
		next := fmt.Sprintf("round %d", round)
		ended := make(chan error, 1)
		go func() { ended <- turn(n, table, next) }()
		if err := stagedAs(n, state, ended); err != nil {
			return "", fmt.Errorf("round %d: %w", round, err)
		}
		if err := n.Kill(); err != nil {
			return "", err
		}
		told := <-ended
		began := time.Now()
		victim := n
		if n, err = cluster.WaitLeader(patience); err != nil {
			return "", err
		}
		is, err := turnOf(cluster, table)
		if err != nil {
			return "", fmt.Errorf("round %d, killed while the transaction was %s: %w", round, state, err)
		}
		if is != next && (is != value || told == nil || state == "committed") {
			return "", fmt.Errorf("round %d, killed while the transaction was %s: the table has %q behind %q, and the client was told: %v", round, state, is, value, told)
		}
		if is == next {
			whole++
		} else {
			none++
		}
		value = is
		if err := cluster.Restart(victim); err != nil {
			return "", err
		}
		if _, err := unstaged(cluster); err != nil {
			return "", fmt.Errorf("round %d, killed while the transaction was %s: %w", round, state, err)
		}
		slowest = max(slowest, time.Since(began))
		if n, err = cluster.WaitLeader(patience); err != nil {
			return "", err
		}
	}
	c, err := connect(n, "")
	if err != nil {
		return "", err
	}
	defer c.close()
	if err := agreed(c, table, false); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d rows, %d kills: %d times all of it, %d times nothing; nothing staged any more %s behind the kill at most", table.rows, rounds, whole, none, round(slowest)), nil
}

// turn changes all rows of a table by one statement.
func turn(n *proctest.Node, table padded, to string) error {
	c, err := connect(n, "")
	if err != nil {
		return err
	}
	defer c.close()
	_, err = c.large(fmt.Sprintf("UPDATE %s SET pad = '%s'", table.name, to))
	return err
}

// turnOf reads what all rows have, once there is a leader that answers. Rows that differ are an error.
func turnOf(cluster *proctest.Cluster, table padded) (string, error) {
	var last error
	for began := time.Now(); time.Since(began) < patience; time.Sleep(20 * time.Millisecond) {
		n, err := cluster.WaitLeader(patience)
		if err != nil {
			return "", err
		}
		c, err := connect(n, "")
		if err != nil {
			last = err
			continue
		}
		var least, most string
		var rows int
		err = c.one("SELECT MIN(pad), MAX(pad), COUNT(*) FROM "+table.name, &least, &most, &rows)
		c.close()
		switch {
		case err != nil:
			last = err
		case least != most || rows != table.rows:
			return "", fmt.Errorf("half of a transaction: %d rows have %q to %q", rows, least, most)
		default:
			return least, nil
		}
	}
	return "", last
}

// stagedAs waits until a transaction is staged in a state, a moment longer where it is open, or until its statement has ended.
func stagedAs(n *proctest.Node, state string, ended chan error) error {
	for began := time.Now(); time.Since(began) < largeMost; time.Sleep(10 * time.Millisecond) {
		if staged, err := metric(n, fmt.Sprintf("holdfast_sql_staged_transactions{state=%q}", state)); err != nil || staged > 0 {
			if state == "open" {
				time.Sleep(500 * time.Millisecond)
			}
			return err
		}
		select {
		case err := <-ended:
			return fmt.Errorf("the statement has ended before it was %s: %w", state, err)
		default:
		}
	}
	return fmt.Errorf("nothing is %s after %s", state, largeMost)
}
