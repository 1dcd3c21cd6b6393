package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// jobs has workers drain a queue, each with the first row that no other has locked. Every job is done once.
func (s *suite) jobs() (string, error) {
	const workers = 20
	count := 10_000
	if s.quick {
		count = 500
	}
	if err := onLeader(s.node(), "CREATE DATABASE IF NOT EXISTS queue", "DROP TABLE IF EXISTS queue.jobs, queue.done",
		"CREATE TABLE queue.jobs (id INT PRIMARY KEY, state VARCHAR(10) NOT NULL, pad CHAR(40) NOT NULL, KEY by_state (state, id))",
		"CREATE TABLE queue.done (job INT NOT NULL, worker INT NOT NULL, KEY by_job (job))"); err != nil {
		return "", err
	}
	for from := 0; from < count; from += 1000 {
		var all []string
		for id := from; id < min(from+1000, count); id++ {
			all = append(all, fmt.Sprintf("(%d, 'waits', 'what is to be done for %d')", id, id))
		}
		if err := onLeader(s.node(), "INSERT INTO queue.jobs VALUES "+strings.Join(all, ", ")); err != nil {
			return "", err
		}
	}
	var again atomic.Int64
	done, errs := make([]int, workers), make([]error, workers)
	began := time.Now()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { done[w], errs[w] = s.drain(w, &again) })
	}
	wg.Wait()
	took := time.Since(began)
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	c, err := connect(s.node(), "queue")
	if err != nil {
		return "", err
	}
	defer c.close()
	var rows, different, waiting, sum, most int
	if err := c.one("SELECT COUNT(*), COUNT(DISTINCT job), MAX(job) FROM done", &rows, &different, &most); err != nil {
		return "", err
	}
	if err := c.one("SELECT COUNT(*) FROM jobs WHERE state <> 'done'", &waiting); err != nil {
		return "", err
	}
	least := count
	for _, n := range done {
		sum, least = sum+n, min(least, n)
	}
	note := fmt.Sprintf("%d workers have done %d jobs in %s, each once, %.0f/s; %d at least by each, %d deadlocks", workers, rows, took.Round(100*time.Millisecond), float64(rows)/took.Seconds(), least, again.Load())
	if rows != count || different != count || most != count-1 || sum != count || waiting != 0 {
		return "", fmt.Errorf("%s; of %d jobs %d different ones are done, the workers count %d, and %d wait", note, count, different, sum, waiting)
	}
	return note, c.checkTables("jobs", "done")
}

// drain takes jobs until none waits. It returns how many it has done.
func (s *suite) drain(worker int, again *atomic.Int64) (done int, err error) {
	c, err := connect(s.node(), "queue")
	if err != nil {
		return 0, err
	}
	defer c.close()
	for {
		switch took, err := c.takeJob(worker); {
		case number(err) == 1213:
			again.Add(1)
		case err != nil:
			return done, err
		case took:
			done++
		default:
			// All that wait are locked, or none waits.
			var waiting int
			if err := c.one("SELECT COUNT(*) FROM jobs WHERE state = 'waits'", &waiting); err != nil || waiting == 0 {
				return done, err
			}
		}
	}
}

// takeJob does one job in one transaction. false: it has found none.
func (c *client) takeJob(worker int) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tx, err := c.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }() // it does nothing behind a commit
	var id int
	err = tx.QueryRowContext(ctx, "SELECT id FROM jobs WHERE state = 'waits' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED").Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	for _, text := range []string{fmt.Sprintf("UPDATE jobs SET state = 'done' WHERE id = %d", id), fmt.Sprintf("INSERT INTO done VALUES (%d, %d)", id, worker)} {
		if err == nil {
			_, err = tx.ExecContext(ctx, text)
		}
	}
	if err != nil {
		return false, err
	}
	return true, tx.Commit()
}
