package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// largeMost bounds one large statement.
const largeMost = 20 * time.Minute

// large runs one large statement, for as long as it takes.
func (c *client) large(text string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), largeMost)
	defer cancel()
	began := time.Now()
	_, err := c.ExecContext(ctx, text)
	if err != nil {
		err = fmt.Errorf("%s: %w", text, err)
	}
	return time.Since(began), err
}

// besideLarge runs a large UPDATE, and the build of an index, on three members with little memory. Beside it run clients of the same tables
// that need other rows, and clients of the kv door. None of their statements may wait long, no leader may change, and no member may take
// more memory than it has.
func (s *suite) besideLarge() (string, error) {
	const memory = 256 << 20
	updated, indexed := padded{"large.updated", 820_000}, padded{"large.indexed", 1_000_000}
	if s.quick {
		updated.rows, indexed.rows = 30_000, 20_000
	}
	cluster, err := members(s.bin, filepath.Join(s.dir, "beside-large"), 3, "--memory", fmt.Sprint(memory))
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
	if err := errors.Join(updated.create(n), indexed.create(n)); err != nil {
		return "", err
	}
	term, err := termOf(n)
	if err != nil {
		return "", err
	}
	c, err := connect(n, "")
	if err != nil {
		return "", err
	}
	defer c.close()
	var notes []string
	slow := false
	needed := updated.rows - 20_000 // the rows behind are the small clients'
	for _, text := range []string{fmt.Sprintf("UPDATE %s SET c = CONCAT('changed by one statement, row ', id, REPEAT('.', 60)) WHERE id <= %d", updated.name, needed),
		"CREATE INDEX by_c ON " + indexed.name + " (c)"} {
		ctx, stop := context.WithCancel(context.Background())
		var small8, other8 outcome
		var errs [4]error
		var puts []time.Duration
		var wg sync.WaitGroup
		wg.Go(func() { small8, errs[0] = small{updated, needed + 1, updated.rows}.run(ctx, n, 8) })
		wg.Go(func() { other8, errs[1] = small{indexed, 1, indexed.rows}.run(ctx, n, 8) })
		wg.Go(func() { puts, errs[2] = putKeys(ctx, n) })
		time.Sleep(time.Second)
		var took time.Duration
		took, errs[3] = c.large(text)
		time.Sleep(time.Second)
		stop()
		wg.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			return "", err
		}
		small8.add(other8)
		notes = append(notes, fmt.Sprintf("%s… took %s beside %s; of %d puts the slowest %s, p99 %s", text[:12], took.Round(100*time.Millisecond), small8, len(puts),
			round(slices.Max(puts)), round(quantile(puts, 0.99))))
		slow = slow || small8.slowest > smallMost || slices.Max(puts) > smallMost
	}
	if took, err := unstaged(cluster); err != nil {
		return "", err
	} else {
		notes = append(notes, "rows at their places "+round(took).String()+" behind that")
	}
	var peak int64
	for _, m := range cluster.Nodes {
		rss, err := m.PeakRSS()
		if err != nil {
			return "", err
		}
		peak = max(peak, rss)
	}
	now, err := termOf(n)
	if err != nil {
		return "", err
	}
	notes = append(notes, fmt.Sprintf("RSS %d MiB at most of %d MiB, %d elections", peak>>20, memory>>20, now-term))
	if err := c.checkTables(updated.name, indexed.name); err != nil {
		return "", err
	}
	note := strings.Join(notes, "; ")
	if !s.quick && (slow || peak > memory || now != term) {
		return "", fmt.Errorf("%s; %s, the memory and no election are allowed", note, smallMost)
	}
	return note, nil
}

// termOf is the term of the cluster.
func termOf(n *proctest.Node) (uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	st, err := n.Status(ctx)
	if err != nil {
		return 0, err
	}
	return st.RaftTerm, nil
}

// besideWrites builds an index on a table that clients write all the time, and judges that it has all rows.
func (s *suite) besideWrites() (string, error) {
	table := padded{"large.written", 1_000_000}
	if s.quick {
		table.rows = 20_000
	}
	cluster, err := server(s.bin, filepath.Join(s.dir, "beside-writes"))
	if err != nil {
		return "", err
	}
	defer cluster.Close()
	n := cluster.Nodes[0]
	if err := table.create(n); err != nil {
		return "", err
	}
	c, err := connect(n, "")
	if err != nil {
		return "", err
	}
	defer c.close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var o outcome
	var failed error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		o, failed = small{table, 1, table.rows}.run(ctx, n, 16)
	}()
	time.Sleep(time.Second)
	took, err := c.large("CREATE INDEX by_c ON " + table.name + " (c)")
	time.Sleep(time.Second)
	stop()
	<-ended
	if err := errors.Join(err, failed); err != nil {
		return "", err
	}
	if err := agreed(c, table, true); err != nil {
		return "", err
	}
	note := fmt.Sprintf("%d rows in %s beside %s, %d transactions, %d deadlocks; %d rows by each index", table.rows, took.Round(100*time.Millisecond), o,
		o.transactions, o.refused, table.rows)
	if o.slowest > smallMost && !s.quick {
		return "", fmt.Errorf("%s; %s is allowed", note, smallMost)
	}
	return note, nil
}

// agreed judges that a table has its rows by each index that it has. by_c: it has the index that was built.
func agreed(c *client, table padded, built bool) error {
	conditions := map[string]string{"by_k": "k >= -9000000"}
	if built {
		conditions["by_c"] = "c >= ''"
	}
	var rows int
	if err := c.one("SELECT COUNT(*) FROM "+table.name, &rows); err != nil {
		return err
	}
	if rows != table.rows {
		return fmt.Errorf("%s has %d rows, and %d are due", table.name, rows, table.rows)
	}
	for index, condition := range conditions { // any order: each by itself
		text := fmt.Sprintf("SELECT COUNT(*) FROM %s FORCE INDEX (%s) WHERE %s", table.name, index, condition)
		key, err := c.keyOf(text)
		if err != nil {
			return err
		}
		if key != index {
			return fmt.Errorf("%s is read by %q, where %s is forced", table.name, key, index)
		}
		var count int
		if err := c.one(text, &count); err != nil {
			return err
		}
		if count != rows {
			return fmt.Errorf("%s has %d rows, and %d by %s", table.name, rows, count, index)
		}
	}
	return c.checkTables(table.name)
}

// stagedMost is how long rows may be staged behind their transaction.
const stagedMost = 10 * time.Second

// unstaged waits until no member has rows that are not at their places, and returns how long that took.
func unstaged(c *proctest.Cluster) (time.Duration, error) {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		sum := 0.0
		for _, n := range c.Nodes {
			staged, err := metric(n, "holdfast_sql_staged_transactions")
			if err != nil {
				return 0, err
			}
			sum += staged
		}
		switch took := time.Since(began); {
		case sum == 0:
			return took, nil
		case took > stagedMost:
			return took, fmt.Errorf("%.0f transactions are staged %s after the last one", sum, round(took))
		}
	}
}

// metric adds up what a member says of a metric.
func metric(n *proctest.Node, name string) (sum float64, err error) {
	res, err := http.Get("http://" + n.Admin + "/metrics")
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	found := false
	for line := range strings.Lines(string(body)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != name && !strings.HasPrefix(fields[0], name+"{") {
			continue
		}
		v, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			return 0, fmt.Errorf("metric %q: %w", line, err)
		}
		sum, found = sum+v, true
	}
	if !found {
		return 0, fmt.Errorf("%s has no metric %s", n.Name, name)
	}
	return sum, nil
}

// indexOverKills builds an index on three members while the leader is killed again and again, and clients write the table. Each next leader goes on with the
// build. In the end the table has its rows by each index.
func (s *suite) indexOverKills() (string, error) {
	table, kills, pause := padded{"large.killed", 1_000_000}, 20, 6*time.Second
	if s.quick {
		table.rows, kills, pause = 40_000, 2, time.Second
	}
	cluster, err := members(s.bin, filepath.Join(s.dir, "index-killed"), 3)
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
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if n, err := cluster.Leader(ctx); err == nil {
					_ = small{table, 1, table.rows}.one(ctx, n, new(outcome)) // its server dies. A transaction leaves as many rows as there were
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	b := &build{cluster: cluster, table: table}
	began := time.Now()
	for kill := 1; kill <= kills; kill++ {
		if err := b.runs(); err != nil {
			return "", fmt.Errorf("before kill %d: %w", kill, err)
		}
		time.Sleep(pause/4 + rand.N(pause))
		leader, err := cluster.WaitLeader(patience)
		if err != nil {
			return "", err
		}
		if err := leader.Kill(); err != nil {
			return "", err
		}
		if err := cluster.Restart(leader); err != nil {
			return "", err
		}
	}
	if err := b.runs(); err != nil { // what has become of the last one
		return "", err
	}
	for {
		is, err := b.look()
		if err != nil {
			return "", err
		}
		if is == there {
			break
		}
		if is == absent {
			if err := b.runs(); err != nil {
				return "", err
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	took := time.Since(began)
	stop()
	wg.Wait()
	if n, err = cluster.WaitLeader(patience); err != nil {
		return "", err
	}
	c, err := connect(n, "")
	if err != nil {
		return "", err
	}
	defer c.close()
	if err := agreed(c, table, true); err != nil {
		return "", err
	}
	note := fmt.Sprintf("%d rows, %d kills of the leader in %s: %d times the next leader went on, %d times the index was there, %d times gone; %d rows by each index", table.rows, kills,
		took.Round(time.Second), b.resumed, b.done, b.gone, table.rows)
	if b.resumed == 0 {
		return "", errors.New(note + "; no kill came in the middle of a build")
	}
	return note, nil
}

// build is an index that is built over kills.
type build struct {
	cluster             *proctest.Cluster
	table               padded
	begun               bool
	resumed, done, gone int
}

// standing is what the leader says of the index.
type standing int

const (
	absent   standing = iota
	building          // by a statement, or by a leader that goes on
	resumed           // by a leader that goes on
	there
)

// look asks the leader, once one answers.
func (b *build) look() (is standing, err error) {
	for began := time.Now(); time.Since(began) < patience; time.Sleep(20 * time.Millisecond) {
		if is, err = b.ask(); err == nil {
			return is, nil
		}
	}
	return absent, err
}

func (b *build) ask() (standing, error) {
	n, err := b.cluster.WaitLeader(patience)
	if err != nil {
		return absent, err
	}
	c, err := connect(n, "")
	if err != nil {
		return absent, err
	}
	defer c.close()
	// The list is asked for first: a build that ends between the two questions is not taken for one that is gone.
	processes, err := c.lines("SHOW FULL PROCESSLIST")
	if err != nil {
		return absent, err
	}
	indexes, err := c.lines("SHOW INDEX FROM " + b.table.name)
	if err != nil {
		return absent, err
	}
	for _, l := range indexes {
		if strings.Contains(l, "|by_c|") {
			return there, nil
		}
	}
	is := absent
	for _, l := range processes {
		switch {
		case strings.Contains(l, "|system user|"):
			return resumed, nil
		case strings.Contains(l, "CREATE INDEX by_c"):
			is = building
		}
	}
	return is, nil
}

// settleMost is how long a new leader may take until it goes on with a build.
const settleMost = 10 * time.Second

// runs returns when the index is being built: the leader goes on with it, or it is begun anew. It counts what has become of the build that ran last.
func (b *build) runs() error {
	is, err := b.look()
	for began := time.Now(); err == nil && b.begun && is == absent && time.Since(began) < settleMost; is, err = b.look() {
		time.Sleep(20 * time.Millisecond)
	}
	switch {
	case err != nil || is == building:
		return err
	case is == resumed:
		b.resumed++
		return nil
	case is == there:
		b.done++
		n, err := b.cluster.WaitLeader(patience)
		if err == nil {
			err = onLeader(n, "DROP INDEX by_c ON "+b.table.name)
		}
		if err != nil {
			return err
		}
	case b.begun:
		b.gone++
	}
	n, err := b.cluster.WaitLeader(patience)
	if err != nil {
		return err
	}
	c, err := connect(n, "")
	if err != nil {
		return err
	}
	b.begun = true
	go func() {
		defer c.close()
		_, _ = c.large("CREATE INDEX by_c ON " + b.table.name + " (c)") // its leader dies
	}()
	for began := time.Now(); time.Since(began) < patience; time.Sleep(20 * time.Millisecond) {
		if is, err = b.look(); err != nil || is != absent {
			return err
		}
	}
	return fmt.Errorf("the index is not being built %s after it was begun", patience)
}
