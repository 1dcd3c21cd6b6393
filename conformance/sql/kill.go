package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

const (
	writers   = 8
	movesOf   = 3   // rows that a transaction inserts into moves
	kept      = 100 // transactions of a writer whose moves are not deleted yet
	readyMost = 5 * time.Second
	// writerBase separates the transaction numbers of two writers.
	writerBase = 1_000_000_000
)

// writer is a client that records what it was told. Its transaction number n is id*writerBase + n, from 1 on. One goroutine writes.
type writer struct {
	id           int64
	setting      string       // a statement that each session begins with; "": none
	acknowledged atomic.Int64 // the last transaction whose COMMIT was answered with OK
	tried        atomic.Int64 // the last whose COMMIT may have been sent; at most one above acknowledged
}

func (w *writer) tx(n int64) int64 { return w.id*writerBase + n }

// write runs transactions until ctx ends or the connection breaks. Any other end is returned.
func (w *writer) write(ctx context.Context, n *proctest.Node, killed func() bool) error {
	c, err := connect(n, "kills")
	if err != nil {
		return w.ended(err, killed)
	}
	defer c.close()
	if w.setting != "" {
		if err := c.exec(w.setting); err != nil {
			return w.ended(err, killed)
		}
	}
	for ctx.Err() == nil {
		next := w.acknowledged.Load() + 1
		w.tried.Store(next)
		if err := w.transaction(c, next); err != nil {
			return w.ended(err, killed)
		}
		w.acknowledged.Store(next)
	}
	return nil
}

// ended decides whether an error is due: a server that was killed answers nothing.
func (w *writer) ended(err error, killed func() bool) error {
	if killed() && number(err) == 0 {
		return nil
	}
	return fmt.Errorf("writer %d, transaction %d: %w", w.id, w.tried.Load(), err)
}

// transaction inserts moves, changes the writer's head through a secondary index, and deletes the moves of an older transaction through another.
func (w *writer) transaction(c *client, n int64) error {
	tx := w.tx(n)
	if err := c.exec("BEGIN"); err != nil {
		return err
	}
	if err := changes(c, movesOf, fmt.Sprintf("INSERT INTO moves (id, tx, amount) VALUES (%d, %d, 1), (%d, %d, 2), (%d, %d, -3)",
		tx*movesOf, tx, tx*movesOf+1, tx, tx*movesOf+2, tx)); err != nil {
		return err
	}
	if err := changes(c, 1, fmt.Sprintf("UPDATE heads SET tx = %d WHERE tx = %d", tx, tx-1)); err != nil {
		return err
	}
	if n > kept {
		if err := changes(c, movesOf, fmt.Sprintf("DELETE FROM moves WHERE tx = %d", tx-kept)); err != nil {
			return err
		}
	}
	return c.exec("COMMIT")
}

func changes(c *client, want int64, text string) error {
	n, err := c.change(text)
	if err == nil && n != want {
		err = fmt.Errorf("%s: %d rows were changed, not %d", text, n, want)
	}
	return err
}

// kills kills a server under the writers and judges the rows after each start.
func (s *suite) kills() (string, error) {
	times := 100
	if s.quick {
		times = 5
	}
	cluster, err := server(s.bin, filepath.Join(s.dir, "killed"))
	if err != nil {
		return "", err
	}
	defer cluster.Close()
	n := cluster.Nodes[0]
	all, err := newWriters(n)
	if err != nil {
		return "", err
	}
	var ready []time.Duration
	var unknown int
	for kill := 1; kill <= times; kill++ {
		if err := writeUntilKilled(n, all, 200*time.Millisecond); err != nil {
			return "", fmt.Errorf("before kill %d: %w", kill, err)
		}
		took, err := start(n)
		if err != nil {
			return "", fmt.Errorf("after kill %d: %w", kill, err)
		}
		ready = append(ready, took)
		there, err := judge(n, all)
		if err != nil {
			return "", fmt.Errorf("after kill %d: %w", kill, err)
		}
		unknown += there
	}
	var transactions int64
	for _, w := range all {
		transactions += w.acknowledged.Load()
	}
	slices.Sort(ready)
	most := ready[len(ready)-1]
	note := fmt.Sprintf("%d kills, %d transactions, %d of them there without an answer; ready after %s in the median, %s at most",
		times, transactions, unknown, round(ready[len(ready)/2]), round(most))
	if most > readyMost {
		return "", fmt.Errorf("%s; %s is allowed", note, readyMost)
	}
	return note, nil
}

func newWriters(n *proctest.Node) (all []*writer, err error) {
	c, err := connect(n, "")
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := c.exec("CREATE DATABASE kills", "USE kills",
		"CREATE TABLE moves (id BIGINT PRIMARY KEY, tx BIGINT NOT NULL, amount INT NOT NULL, KEY by_tx (tx))",
		"CREATE TABLE heads (id INT PRIMARY KEY, tx BIGINT NOT NULL, KEY by_tx (tx))",
		"CREATE TABLE starts (id INT PRIMARY KEY, n INT NOT NULL)", "INSERT INTO starts VALUES (1, 0)"); err != nil {
		return nil, err
	}
	for id := int64(1); id <= writers; id++ {
		w := &writer{id: id}
		if err := c.exec(fmt.Sprintf("INSERT INTO heads VALUES (%d, %d)", id, w.tx(0))); err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	key, err := c.keyOf(fmt.Sprintf("UPDATE heads SET tx = 1 WHERE tx = %d", writerBase))
	if err == nil && key != "by_tx" {
		err = fmt.Errorf("heads is changed through %q, not through by_tx", key)
	}
	return all, err
}

// writeUntilKilled lets the writers run for the least time or a little longer and kills the server. The moment is random.
func writeUntilKilled(n *proctest.Node, all []*writer, least time.Duration) error {
	var mu sync.Mutex
	dead := false
	killed := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return dead
	}
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, w := range all {
		wg.Go(func() { errs[i] = w.write(context.Background(), n, killed) })
	}
	time.Sleep(least + rand.N(400*time.Millisecond))
	mu.Lock()
	dead = true
	mu.Unlock()
	err := n.Kill()
	wg.Wait()
	return errors.Join(append(errs, err)...)
}

// start starts the server and returns how long it took until a client had a write committed.
func start(n *proctest.Node) (time.Duration, error) {
	began := time.Now()
	if err := n.Start(); err != nil {
		return 0, err
	}
	for {
		err := writes(n)
		took := time.Since(began)
		switch {
		case err == nil:
			return took, nil
		case !n.Running(), took > patience:
			return took, fmt.Errorf("no write after %s: %w; last lines: %s", round(took), err, n.LogTail(5))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func writes(n *proctest.Node) error {
	db, err := open(n, "kills", "")
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err = db.ExecContext(ctx, "UPDATE starts SET n = n + 1 WHERE id = 1")
	return err
}

// judge compares the tables with what each writer was told. It returns how many transactions are there whose COMMIT had no answer, and has
// their writers take them for acknowledged.
func judge(n *proctest.Node, all []*writer) (unknown int, err error) {
	at, err := positions(n, all, func(w *writer) (least, most int64) { return w.acknowledged.Load(), w.tried.Load() })
	if err != nil {
		return 0, err
	}
	for i, w := range all {
		if at[i] > w.acknowledged.Load() {
			unknown++
		}
		w.acknowledged.Store(at[i])
		w.tried.Store(at[i])
	}
	return unknown, nil
}

// positions returns the transaction that each writer is at. It fails if one is not between the writer's bounds, or if a transaction is
// there in part. It also fails if an index has other rows than its table.
func positions(n *proctest.Node, all []*writer, bounds func(*writer) (least, most int64)) (at []int64, err error) {
	c, err := connect(n, "kills")
	if err != nil {
		return nil, err
	}
	defer c.close()
	for _, t := range []string{"moves", "heads"} {
		if _, err := c.agree(t, "tx", "by_tx"); err != nil {
			return nil, err
		}
	}
	moves, err := movesByTx(c)
	if err != nil {
		return nil, err
	}
	for _, w := range all {
		var head int64
		if err := c.one(fmt.Sprintf("SELECT tx FROM heads WHERE id = %d", w.id), &head); err != nil {
			return nil, err
		}
		is := head - w.tx(0)
		if least, most := bounds(w); is < least || is > most {
			return nil, fmt.Errorf("writer %d is at transaction %d; %d to %d are due", w.id, is, least, most)
		}
		for i := max(1, is-kept+1); i <= is; i++ {
			if got := moves[w.tx(i)]; got != movesOf {
				return nil, fmt.Errorf("transaction %d of writer %d, which is at %d, has %d of its %d moves", i, w.id, is, got, movesOf)
			}
			delete(moves, w.tx(i))
		}
		at = append(at, is)
	}
	for tx, got := range moves {
		return nil, fmt.Errorf("%d moves of the transaction %d are there, which was deleted or never committed", got, tx)
	}
	return at, nil
}

// movesByTx counts the rows of each transaction, by primary key.
func movesByTx(c *client) (map[int64]int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	rows, err := c.QueryContext(ctx, "SELECT id, tx FROM moves")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	moves := map[int64]int{}
	for rows.Next() {
		var id, tx int64
		if err := rows.Scan(&id, &tx); err != nil {
			return nil, err
		}
		if id/movesOf != tx {
			return nil, fmt.Errorf("the move %d has the transaction %d", id, tx)
		}
		moves[tx]++
	}
	return moves, rows.Err()
}
