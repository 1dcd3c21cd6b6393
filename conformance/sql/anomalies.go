package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// The transactions of one run. Each kind breaks in a way of its own where isolation does.
const (
	counterRows  = 4   // that are read with FOR UPDATE, and written as one more: lost updates
	pairRows     = 3   // pairs of which one stays on duty, at SERIALIZABLE: write skew
	accountRows  = 8   // whose sum stays, read in two halves of one snapshot: read skew
	accountSum   = 800 // what they have together
	listsAtATime = 4   // lists that are appended to and read at SERIALIZABLE, and read from snapshots: list-append cycles, long forks
	listLength   = 200 // transactions after which other lists are taken
	anomalists   = 8   // clients
)

// trial is one run of the clients, and the answers they got. Its lists belong to mu.
type trial struct {
	cluster *proctest.Cluster
	next    atomic.Int64 // number of a transaction
	over    atomic.Bool
	found   error // the first anomaly that a client has met itself; of mu

	mu       sync.Mutex
	counters [counterRows][]int64 // what was read by those that took effect
	open     [counterRows]int     // additions of which nothing is known
	records  []*record
	took     int // transactions that took effect
}

// anomalies runs the clients over kill -9 of the leader, several times. It then runs them against a program with a deliberate fault, which
// they must find.
func (s *suite) anomalies() (string, error) {
	runs, length := 30, 20*time.Second
	if s.quick {
		runs, length = 1, 4*time.Second
	}
	dir := filepath.Join(s.dir, "anomalies")
	cluster, err := members(s.bin, dir, 3)
	if err != nil {
		return "", err
	}
	defer cluster.Close()
	if err := errors.Join(cluster.Run(), risen(cluster)); err != nil {
		return "", err
	}
	kills, total, lists, open := 0, 0, 0, 0
	for n := 1; n <= runs; n++ {
		r := &trial{cluster: cluster}
		killed, err := r.during(length, true)
		if err != nil {
			return "", fmt.Errorf("run %d: %w", n, err)
		}
		kills, total, lists = kills+killed, total+r.took, lists+len(r.records)
		for _, x := range r.records {
			if x.told == unknown {
				open++
			}
		}
	}
	note := fmt.Sprintf("%d runs of %s, %d kills of the leader, %d transactions that took effect, %d of lists, %d of these with an open outcome: no anomaly", runs, length, kills, total, lists, open)
	if s.quick {
		return note, nil
	}
	planted, err := plantedAnomaly(filepath.Join(s.dir, "planted"))
	return note + "; a row that is read before its lock is granted is found: " + planted, err
}

// plantedAnomaly runs the clients against a program that reads a locked row from a view which is older than the lock. It returns what they have found.
func plantedAnomaly(dir string) (string, error) {
	bin, err := proctest.Broken(dir, "doors/sql/program/door.go", "Lane: lane,\n", "Lane: lane, Break: txn.Break{ViewBeforeLock: true},\n")
	if err != nil {
		return "", err
	}
	cluster, err := server(bin, dir)
	if err != nil {
		return "", err
	}
	defer cluster.Close()
	r := &trial{cluster: cluster}
	if _, err = r.during(20*time.Second, false); err == nil {
		return "", errors.New("no anomaly was found in a program that is broken on purpose")
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text[:min(len(text), 120)], nil
}

// during runs the clients for some time on fresh tables, and judges. It returns how often the leader was killed.
func (r *trial) during(length time.Duration, kill bool) (kills int, err error) {
	if err := r.tables(); err != nil {
		return 0, err
	}
	var wg sync.WaitGroup
	for range anomalists {
		wg.Go(r.client)
	}
	for end := time.Now().Add(length); time.Now().Before(end) && err == nil; {
		if !kill {
			time.Sleep(100 * time.Millisecond)
			r.mu.Lock()
			found := r.found
			r.mu.Unlock()
			if found != nil {
				break
			}
			continue
		}
		time.Sleep(length/10 + rand.N(length/4))
		var leader *proctest.Node
		if leader, err = r.cluster.WaitLeader(patience); err == nil {
			err = leader.Kill()
		}
		if err == nil {
			kills++
			err = r.cluster.Restart(leader)
		}
	}
	r.over.Store(true)
	wg.Wait()
	if err == nil {
		err = r.judge()
	}
	return kills, err
}

// tables makes the tables, again and again until a leader has done it.
func (r *trial) tables() (err error) {
	texts := []string{"DROP DATABASE IF EXISTS anomalies", "CREATE DATABASE anomalies", "USE anomalies",
		"CREATE TABLE counters (id INT PRIMARY KEY, n BIGINT NOT NULL)", "CREATE TABLE duty (id INT PRIMARY KEY, present INT NOT NULL)",
		"CREATE TABLE accounts (id INT PRIMARY KEY, amount INT NOT NULL)", "CREATE TABLE lists (id INT PRIMARY KEY, v TEXT NOT NULL)"}
	for id := range counterRows {
		texts = append(texts, fmt.Sprintf("INSERT INTO counters VALUES (%d, 0)", id))
	}
	for id := range pairRows * 2 {
		texts = append(texts, fmt.Sprintf("INSERT INTO duty VALUES (%d, 1)", id))
	}
	for id := range accountRows {
		texts = append(texts, fmt.Sprintf("INSERT INTO accounts VALUES (%d, %d)", id, accountSum/accountRows))
	}
	for began := time.Now(); time.Since(began) < patience; time.Sleep(50 * time.Millisecond) {
		var n *proctest.Node
		if n, err = r.cluster.WaitLeader(patience); err == nil {
			if err = onLeader(n, texts...); err == nil {
				return nil
			}
		}
	}
	return err
}

// client runs transactions, at the leading member, until the run is over.
func (r *trial) client() {
	for !r.over.Load() {
		n, err := r.cluster.WaitLeader(patience)
		if err != nil {
			continue
		}
		c, err := connect(n, "anomalies")
		if err != nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		for err == nil && !r.over.Load() {
			switch rand.IntN(6) {
			case 0:
				err = r.count(c)
			case 1:
				err = r.duty(c)
			case 2:
				err = r.transfer(c)
			case 3:
				err = r.total(c)
			case 4:
				err = r.lists(c)
			default:
				err = r.snapshot(c)
			}
			if n := number(err); n == 1213 || n == 1205 {
				err = c.exec("ROLLBACK")
			}
		}
		c.close()
	}
}

// anomaly notes what a client has met itself.
func (r *trial) anomaly(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.found == nil {
		r.found = err
	}
}

// begin begins a transaction at a level.
func begin(c *client, level string) error {
	return c.exec("SET TRANSACTION ISOLATION LEVEL "+level, "BEGIN")
}

// commit ends a transaction, and says what its client knows. The error is the connection's.
func commit(c *client) (told, error) {
	err := c.exec("COMMIT")
	switch n := number(err); {
	case err == nil:
		return took, nil
	case n == 0 || n == 1053:
		return unknown, err
	default:
		return withoutEffect, err
	}
}

// count adds one to a counter, by its own read.
func (r *trial) count(c *client) error {
	id := rand.IntN(counterRows)
	var n int64
	err := begin(c, "REPEATABLE READ")
	if err == nil {
		err = c.one(fmt.Sprintf("SELECT n FROM counters WHERE id = %d FOR UPDATE", id), &n)
	}
	if err == nil {
		err = c.exec(fmt.Sprintf("UPDATE counters SET n = %d WHERE id = %d", n+1, id))
	}
	if err != nil {
		return err
	}
	t, err := commit(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch t {
	case took:
		r.counters[id] = append(r.counters[id], n)
		r.took++
	case unknown:
		r.open[id]++
	}
	return err
}

// duty has one of a pair go off duty if the other one is on, and come back otherwise.
func (r *trial) duty(c *client) error {
	pair, one := rand.IntN(pairRows), rand.IntN(2)
	var present int
	err := begin(c, "SERIALIZABLE")
	if err == nil {
		err = c.one(fmt.Sprintf("SELECT SUM(present) FROM duty WHERE id >= %d AND id < %d", pair*2, pair*2+2), &present)
	}
	if err == nil {
		text := fmt.Sprintf("UPDATE duty SET present = 1 WHERE id >= %d AND id < %d", pair*2, pair*2+2)
		if present == 2 {
			text = fmt.Sprintf("UPDATE duty SET present = 0 WHERE id = %d", pair*2+one)
		}
		err = c.exec(text)
	}
	if err != nil {
		return err
	}
	t, err := commit(c)
	if t == took {
		if present == 0 {
			r.anomaly(errWriteSkew)
		}
		r.add(nil)
	}
	return err
}

// transfer moves something from one account to another.
func (r *trial) transfer(c *client) error {
	ids, amount := rand.Perm(accountRows)[:2], rand.IntN(30)
	err := begin(c, "REPEATABLE READ")
	if err == nil {
		err = c.exec(fmt.Sprintf("UPDATE accounts SET amount = amount - %d WHERE id = %d", amount, ids[0]), fmt.Sprintf("UPDATE accounts SET amount = amount + %d WHERE id = %d", amount, ids[1]))
	}
	if err != nil {
		return err
	}
	t, err := commit(c)
	if t == took {
		r.add(nil)
	}
	return err
}

// total adds the accounts up in two reads of one snapshot.
func (r *trial) total(c *client) error {
	var one, two int
	err := begin(c, "REPEATABLE READ")
	if err == nil {
		err = c.one(fmt.Sprintf("SELECT SUM(amount) FROM accounts WHERE id < %d", accountRows/2), &one)
	}
	if err == nil {
		err = c.one(fmt.Sprintf("SELECT SUM(amount) FROM accounts WHERE id >= %d", accountRows/2), &two)
	}
	if err != nil {
		return err
	}
	if one+two != accountSum {
		r.anomaly(fmt.Errorf("read skew: the accounts have %d and %d, and %d together", one, two, accountSum))
	}
	_, err = commit(c)
	return err
}

// list draws a list of those that are used now.
func (r *trial) list(n int64) int { return int(n/listLength)*listsAtATime + rand.IntN(listsAtATime) }

// lists reads a list or two and appends to a list or two, at SERIALIZABLE.
func (r *trial) lists(c *client) error {
	x := &record{id: r.next.Add(1), began: time.Now()}
	err := begin(c, "SERIALIZABLE")
	for range 1 + rand.IntN(2) {
		if err == nil {
			err = x.reads(c, r.list(x.id))
		}
	}
	for range 1 + rand.IntN(2) {
		list := r.list(x.id)
		if err != nil || slices.Contains(x.appended, list) {
			continue
		}
		x.appended = append(x.appended, list)
		err = c.exec(fmt.Sprintf("INSERT INTO lists VALUES (%d, ',%d') ON DUPLICATE KEY UPDATE v = CONCAT(v, ',%d')", list, x.id, x.id))
	}
	if err == nil {
		x.told, err = commit(c)
	}
	x.end = time.Now()
	r.add(x) // one that had no effect is looked for as well
	return err
}

// snapshot reads all lists that are used now from one snapshot.
func (r *trial) snapshot(c *client) error {
	x := &record{id: r.next.Add(1), began: time.Now()}
	err := begin(c, "REPEATABLE READ")
	for _, i := range rand.Perm(listsAtATime) {
		if err == nil {
			err = x.reads(c, int(x.id/listLength)*listsAtATime+i)
		}
	}
	if err == nil {
		x.told, err = commit(c)
	}
	x.end = time.Now()
	if x.told == took {
		r.add(x)
	}
	return err
}

// reads reads a list.
func (x *record) reads(c *client, list int) error {
	var v string
	if err := c.one(fmt.Sprintf("SELECT COALESCE(MAX(v), '') FROM lists WHERE id = %d", list), &v); err != nil {
		return err
	}
	ids, err := idsOf(v)
	x.read = append(x.read, listAsOf{list, ids})
	return err
}

func idsOf(v string) (ids []int64, err error) {
	for text := range strings.SplitSeq(v, ",") {
		if text == "" {
			continue
		}
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("a list has %q: %w", text, err)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// add takes in a transaction; nil: one that took effect and whose reads say nothing.
func (r *trial) add(x *record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x == nil || x.told == took {
		r.took++
	}
	if x != nil {
		r.records = append(r.records, x)
	}
}

// judge reads the tables in the end, and compares them with the answers.
func (r *trial) judge() (err error) {
	if r.found != nil {
		return r.found
	}
	var counters, sum []string
	var lists []string
	for began := time.Now(); time.Since(began) < patience; time.Sleep(50 * time.Millisecond) {
		if counters, sum, lists, err = r.final(); err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	for id, text := range counters {
		n, err := strconv.ParseInt(text, 10, 64)
		if err == nil {
			err = judgeCounter(n, r.counters[id], r.open[id])
		}
		if err != nil {
			return err
		}
	}
	if sum[0] != strconv.Itoa(accountSum) {
		return fmt.Errorf("lost update: the accounts have %s in the end, and %d are due", sum[0], accountSum)
	}
	finals := make([][]int64, int(r.next.Load()/listLength+1)*listsAtATime)
	for _, l := range lists {
		id, v, _ := strings.Cut(l, "|")
		n, err := strconv.Atoi(id)
		if err != nil {
			return err
		}
		if finals[n], err = idsOf(v); err != nil {
			return err
		}
	}
	if len(r.records) == 0 || r.took == 0 {
		return errors.New("no transaction took effect")
	}
	return judgeLists(finals, r.records)
}

func (r *trial) final() (counters, sum, lists []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	n, err := r.cluster.Leader(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	c, err := connect(n, "anomalies")
	if err != nil {
		return nil, nil, nil, err
	}
	defer c.close()
	if counters, err = c.lines("SELECT n FROM counters ORDER BY id"); err == nil {
		sum, err = c.lines("SELECT SUM(amount) FROM accounts")
	}
	if err == nil {
		lists, err = c.lines("SELECT id, v FROM lists")
	}
	return counters, sum, lists, err
}
