package main

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// Times that a client may expect of a lock.
const (
	deadlockMost  = 50 * time.Millisecond // in the median, from the statement that closes the circle to its error
	deadlockTries = 11
	lockWait      = time.Second // innodb_lock_wait_timeout of the step
	lockWaitMost  = 2 * time.Second
)

// counters makes a table with the rows 1 to count, in each of which k is 0, and returns its clients. The caller closes these.
func counters(n *proctest.Node, table string, count, clients int) (all []*client, err error) {
	defer func() {
		if err != nil {
			closeAll(all)
		}
	}()
	for range clients {
		c, err := connect(n, "")
		if err != nil {
			return all, err
		}
		all = append(all, c)
	}
	first := all[0]
	err = first.exec("CREATE DATABASE IF NOT EXISTS locks", "DROP TABLE IF EXISTS locks."+table,
		"CREATE TABLE locks."+table+" (id INT PRIMARY KEY, k INT NOT NULL, KEY by_k (k))")
	for i := 1; i <= count && err == nil; i++ {
		err = first.exec(fmt.Sprintf("INSERT INTO locks.%s VALUES (%d, 0)", table, i))
	}
	for _, c := range all {
		err = errors.Join(err, c.exec("USE locks"))
	}
	return all, err
}

func closeAll(all []*client) {
	for _, c := range all {
		c.close()
	}
}

// sameRow has clients add to one row at the same time. Each must have been counted.
func (s *suite) sameRow() (string, error) {
	const clients = 16
	each := 200
	if s.quick {
		each = 25
	}
	all, err := counters(s.node(), "same", 1, clients)
	if err != nil {
		return "", err
	}
	defer closeAll(all)
	began := time.Now()
	errs := make([]error, clients)
	var wg sync.WaitGroup
	for i, c := range all {
		wg.Go(func() {
			for range each {
				n, err := c.change("UPDATE same SET k = k + 1 WHERE id = 1")
				if err == nil && n != 1 {
					err = fmt.Errorf("an update changed %d rows", n)
				}
				if err != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	f, err := all[0].agree("same", "k", "by_k")
	if err != nil {
		return "", err
	}
	if f.sum.Int64 != int64(clients*each) {
		return "", fmt.Errorf("the sum is %d after %d updates", f.sum.Int64, clients*each)
	}
	return fmt.Sprintf("%d updates, all counted, %.0f/s", clients*each, float64(clients*each)/took.Seconds()), nil
}

// deadlock has two transactions take two rows crosswise, several times.
func (s *suite) deadlock() (string, error) {
	all, err := counters(s.node(), "crosswise", 2, 2)
	if err != nil {
		return "", err
	}
	defer closeAll(all)
	var took []time.Duration
	for try := 1; try <= deadlockTries; try++ {
		t, err := crosswise(all[0], all[1], try*10)
		if err != nil {
			return "", fmt.Errorf("try %d: %w", try, err)
		}
		took = append(took, t)
	}
	slices.Sort(took)
	median, most := took[len(took)/2], took[len(took)-1]
	note := fmt.Sprintf("1213 after %s in the median of %d, %s at most", round(median), len(took), round(most))
	if median >= deadlockMost {
		return "", fmt.Errorf("%s; %s is allowed", note, deadlockMost)
	}
	return note, nil
}

// crosswise returns the time from when both transactions ask for the other's row until one is told. The one writes mark, the other mark+1.
func crosswise(a, b *client, mark int) (time.Duration, error) {
	write := func(c *client, row, k int) error {
		return c.exec(fmt.Sprintf("UPDATE crosswise SET k = %d WHERE id = %d", k, row))
	}
	if err := errors.Join(a.exec("BEGIN"), b.exec("BEGIN"), write(a, 1, mark), write(b, 2, mark+1)); err != nil {
		return 0, err
	}
	type outcome struct {
		err error
		at  time.Time
	}
	asked := func(c *client, row, k int) chan outcome {
		out := make(chan outcome, 1)
		go func() {
			err := write(c, row, k)
			out <- outcome{err, time.Now()}
		}()
		return out
	}
	fromA := asked(a, 2, mark)
	began := time.Now()
	fromB := asked(b, 1, mark+1)
	oa, ob := <-fromA, <-fromB // the victim's rows are free at once, so both return
	victim, survivor, lost, won := a, b, oa, mark+1
	if oa.err == nil {
		victim, survivor, lost, won = b, a, ob, mark
	}
	if oa.err == nil && ob.err == nil || oa.err != nil && ob.err != nil {
		return 0, fmt.Errorf("not one victim: %w", errors.Join(oa.err, ob.err, errors.New("both were told the same")))
	}
	if err := expect(lost.err, 1213, "40001"); err != nil {
		return 0, err
	}
	if err := survivor.exec("COMMIT"); err != nil {
		return 0, err
	}
	// A victim whose transaction was still open would commit its first row here.
	if err := victim.exec("COMMIT"); err != nil {
		return 0, err
	}
	for row := 1; row <= 2; row++ {
		var k int
		if err := victim.one(fmt.Sprintf("SELECT k FROM crosswise WHERE id = %d", row), &k); err != nil {
			return 0, err
		}
		if k != won {
			return 0, fmt.Errorf("row %d has %d, not the survivor's %d: the victim was not rolled back", row, k, won)
		}
	}
	return lost.at.Sub(began), nil
}

// lockWait has a statement wait longer than it may. It alone is undone.
func (s *suite) lockWait() (string, error) {
	all, err := counters(s.node(), "waits", 3, 2)
	if err != nil {
		return "", err
	}
	defer closeAll(all)
	holder, waiter := all[0], all[1]
	if err := errors.Join(holder.exec("BEGIN", "UPDATE waits SET k = 1 WHERE id = 3"),
		waiter.exec(fmt.Sprintf("SET SESSION innodb_lock_wait_timeout = %.0f", lockWait.Seconds()), "BEGIN",
			"UPDATE waits SET k = 10 WHERE id = 1")); err != nil {
		return "", err
	}
	began := time.Now()
	_, err = waiter.change("UPDATE waits SET k = k + 100") // it has changed the rows 1 and 2 when it comes to the third
	took := time.Since(began)
	if err := expect(err, 1205, "HY000"); err != nil {
		return "", err
	}
	if took < lockWait*9/10 || took > lockWaitMost {
		return "", fmt.Errorf("1205 after %s, with a timeout of %s", round(took), lockWait)
	}
	if err := errors.Join(waiter.exec("COMMIT"), holder.exec("COMMIT")); err != nil {
		return "", err
	}
	for row, want := range []int{10, 0, 1} {
		var k int
		if err := holder.one(fmt.Sprintf("SELECT k FROM waits WHERE id = %d", row+1), &k); err != nil {
			return "", err
		}
		if k != want {
			return "", fmt.Errorf("row %d has %d, not %d", row+1, k, want)
		}
	}
	if _, err := holder.agree("waits", "k", "by_k"); err != nil {
		return "", err
	}
	return fmt.Sprintf("1205 after %s, the statement undone, the transaction committed", round(took)), nil
}

func round(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}
