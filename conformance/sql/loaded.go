package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// rowsOfPrepare names the variable of the environment that has the rows of each of the 10 tables which a server holds when it is killed.
const rowsOfPrepare = "ROWS"

// loaded is the table size that a full run is asked for.
func loaded() (tables, error) {
	t := tables{n: 10, rows: 100_000}
	text := os.Getenv(rowsOfPrepare)
	if text == "" {
		return t, nil
	}
	var err error
	if t.rows, err = strconv.Atoi(text); err != nil || t.rows < 1 {
		return t, fmt.Errorf("%s=%s is not a number of rows", rowsOfPrepare, text)
	}
	return t, nil
}

// killsLoaded loads a server by sysbench prepare, kills it at once, and then again and again under oltp_write_only and under writers that record.
func (s *suite) killsLoaded() (string, error) {
	const kills = 10
	t, err := loaded()
	if err != nil {
		return "", err
	}
	cluster, err := server(s.bin, filepath.Join(s.dir, "loaded"))
	if err != nil {
		return "", err
	}
	defer cluster.Close()
	n := cluster.Nodes[0]
	all, err := newWriters(n)
	if err != nil {
		return "", err
	}
	note, err := prepareAndKill(n, t)
	if err != nil {
		return "", err
	}
	first, err := start(n)
	if err != nil {
		return "", err
	}
	if err := whole(n, t); err != nil {
		return "", fmt.Errorf("killed behind prepare: %w", err)
	}
	var ready []time.Duration
	for kill := 1; kill <= kills; kill++ {
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			// The server goes away under it, so its outcome says nothing. The tables are judged below.
			_, _ = sysbench(ctx, n, t, 16, "oltp_write_only", "run", "--time=60", "--mysql-ignore-errors=1213,1205,1020,1062")
		}()
		err := writeUntilKilled(n, all, time.Second)
		stop()
		<-ended
		if err != nil {
			return "", fmt.Errorf("before kill %d: %w", kill, err)
		}
		took, err := start(n)
		if err != nil {
			return "", fmt.Errorf("after kill %d: %w", kill, err)
		}
		ready = append(ready, took)
		if _, err := judge(n, all); err != nil {
			return "", fmt.Errorf("after kill %d: %w", kill, err)
		}
	}
	if err := whole(n, t); err != nil {
		return "", err
	}
	slices.Sort(ready)
	most := max(first, ready[kills-1])
	note = fmt.Sprintf("%s; killed behind it, ready after %s; %d kills under oltp_write_only, ready after %s in the median, %s at most, tables and indexes whole",
		note, round(first), kills, round(ready[kills/2]), round(ready[kills-1]))
	if most > readyMost {
		return "", fmt.Errorf("%s; %s is allowed", note, readyMost)
	}
	return note, nil
}

// prepareAndKill loads the tables and kills the server before anything else is asked of it.
func prepareAndKill(n *proctest.Node, t tables) (string, error) {
	note, err := load(n, t)
	if err != nil {
		return "", err
	}
	return note, n.Kill()
}
