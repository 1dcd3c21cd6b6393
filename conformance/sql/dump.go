package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

const (
	dumpTables   = 4
	dumpPad      = 4 << 10 // bytes of a row that each transfer writes anew
	dumpWriters  = 8
	dumpBegin    = 1000    // in each account at first
	dumpBefore   = 2 << 20 // bytes that are written anew before the dump begins
	dumpRate     = 256 << 10
	dumpPatience = 5 * time.Minute
)

// dump takes a database out with Debian's mariadb-dump, unmodified, beside writers that transfer amounts between its accounts and note each
// transfer. The dump is read slowly until writers have replaced more than a View bounded by writes could outlive. The dump's content is
// loaded into another database, and has to be one state: each account is the sum of its transfers.
func (s *suite) dump() (string, error) {
	target, count := int64(1200<<20), 2500
	if s.quick {
		target, count = 24<<20, 1000
	}
	cluster, err := server(s.bin, filepath.Join(s.dir, "dump"))
	if err != nil {
		return "", err
	}
	defer cluster.Close()
	n := cluster.Nodes[0]
	c, err := connect(n, "")
	if err != nil {
		return "", err
	}
	defer c.close()
	if err := fillAccounts(c, count); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), dumpPatience)
	defer cancel()
	var written atomic.Int64
	writers, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	errs := make([]error, dumpWriters)
	for i := range errs {
		wg.Go(func() { errs[i] = transfers(writers, n, i, count, &written) })
	}
	for ctx.Err() == nil && written.Load() < dumpBefore { // so that the dump has transfers to be judged by
		time.Sleep(10 * time.Millisecond)
	}
	file := filepath.Join(s.dir, "dump.sql")
	seen, err := s.takeDump(ctx, n, c, file, &written, target)
	stop()
	wg.Wait()
	if err = errors.Join(append(errs, err)...); err != nil {
		return "", err
	}
	transferred, err := judgeDump(ctx, n, c, file, count)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d MiB in %s while %d MiB were written anew; its view pinned %d MiB; loaded again, %d accounts are what %d transfers in it say", info.Size()>>20, round(seen.took), written.Load()>>20,
		seen.pinned>>20, dumpTables*count, transferred), nil
}

// fillAccounts makes the tables, with so many accounts each.
func fillAccounts(c *client, count int) error {
	if err := c.exec("CREATE DATABASE accounts", "CREATE DATABASE again", "USE accounts",
		"CREATE TABLE transfer (id BIGINT AUTO_INCREMENT PRIMARY KEY, from_table INT NOT NULL, from_id INT NOT NULL, to_table INT NOT NULL, to_id INT NOT NULL, amount INT NOT NULL)"); err != nil {
		return err
	}
	pad := strings.Repeat("x", dumpPad)
	for table := range dumpTables {
		if err := c.exec(fmt.Sprintf("CREATE TABLE account%d (id INT PRIMARY KEY, amount INT NOT NULL, pad TEXT, KEY by_amount (amount))", table)); err != nil {
			return err
		}
		for from := 0; from < count; from += 100 {
			var rows []string
			for id := from; id < from+100; id++ {
				rows = append(rows, fmt.Sprintf("(%d, %d, '%s')", id, dumpBegin, pad))
			}
			if err := c.exec(fmt.Sprintf("INSERT INTO account%d VALUES %s", table, strings.Join(rows, ", "))); err != nil {
				return err
			}
		}
	}
	return nil
}

// transfers moves amounts until ctx ends.
func transfers(ctx context.Context, n *proctest.Node, at, count int, written *atomic.Int64) error {
	c, err := connect(n, "accounts")
	if err != nil {
		return err
	}
	defer c.close()
	r := rand.New(rand.NewPCG(uint64(at), 7))
	for ctx.Err() == nil {
		t, id, amount := [2]int{r.IntN(dumpTables), r.IntN(dumpTables)}, [2]int{r.IntN(count), r.IntN(count)}, 1+r.IntN(9)
		if t[0] == t[1] && id[0] == id[1] {
			continue
		}
		letter := string(rune('a' + r.IntN(26)))
		err := c.exec("BEGIN",
			fmt.Sprintf("UPDATE account%d SET amount = amount - %d, pad = REPEAT('%s', %d) WHERE id = %d", t[0], amount, letter, dumpPad, id[0]),
			fmt.Sprintf("UPDATE account%d SET amount = amount + %d, pad = REPEAT('%s', %d) WHERE id = %d", t[1], amount, letter, dumpPad, id[1]),
			fmt.Sprintf("INSERT INTO transfer (from_table, from_id, to_table, to_id, amount) VALUES (%d, %d, %d, %d, %d)", t[0], id[0], t[1], id[1], amount), "COMMIT")
		switch {
		case number(err) == 1213:
			continue
		case err != nil:
			return err
		}
		written.Add(2 * dumpPad)
	}
	return nil
}

// dumped is what was seen of a dump while it ran.
type dumped struct {
	took   time.Duration
	pinned int64
}

// takeDump runs the tool, and reads what it says at dumpRate until so much was written beside it.
func (s *suite) takeDump(ctx context.Context, n *proctest.Node, c *client, file string, written *atomic.Int64, target int64) (seen dumped, err error) {
	host, port := place(n)
	cmd := exec.CommandContext(ctx, "mariadb-dump", "--no-defaults", "--host="+host, "--port="+port, "--user=root", "--single-transaction", "accounts")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		return seen, err
	}
	to, err := os.Create(file)
	if err != nil {
		return seen, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return seen, err
	}
	before := written.Load()
	for err == nil && written.Load()-before < target {
		_, err = io.CopyN(to, out, dumpRate/10)
		time.Sleep(100 * time.Millisecond) // the pace of a slow disk
		if err == nil {
			err = c.one("SELECT COALESCE(MAX(view_pinned_bytes), 0) FROM holdfast.transactions WHERE bytes = 0 AND rows_locked = 0", &seen.pinned)
		}
	}
	if err == nil {
		_, err = io.Copy(to, out)
	} else if errors.Is(err, io.EOF) {
		err = fmt.Errorf("the dump was over after %d MiB were written beside it: make the tables larger", (written.Load()-before)>>20)
	}
	if e := cmd.Wait(); e != nil {
		err = errors.Join(err, fmt.Errorf("mariadb-dump: %w: %s", e, complaints.Bytes()))
	}
	seen.took = time.Since(began)
	return seen, err
}

// judgeDump loads the dump and compares each account with its transfers.
func judgeDump(ctx context.Context, n *proctest.Node, c *client, file string, accounts int) (transfers int64, err error) {
	host, port := place(n)
	from, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer from.Close()
	load := exec.CommandContext(ctx, "mariadb", "--no-defaults", "--host="+host, "--port="+port, "--user=root", "again")
	load.Stdin = from
	if said, err := load.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("mariadb, to load the dump: %w: %s", err, said)
	}
	if err := c.exec("USE again"); err != nil {
		return 0, err
	}
	if err := c.one("SELECT COUNT(*) FROM transfer", &transfers); err != nil {
		return 0, err
	}
	moved := map[[2]int64]int64{}
	for _, side := range []struct {
		table, id string
		sign      int64
	}{{"from_table", "from_id", -1}, {"to_table", "to_id", 1}} {
		rows, err := c.QueryContext(ctx, fmt.Sprintf("SELECT %s, %s, SUM(amount) FROM transfer GROUP BY %[1]s, %[2]s", side.table, side.id))
		if err != nil {
			return 0, err
		}
		for rows.Next() {
			var table, id, sum int64
			if err := rows.Scan(&table, &id, &sum); err != nil {
				return 0, errors.Join(err, rows.Close())
			}
			moved[[2]int64{table, id}] += side.sign * sum
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return 0, err
		}
	}
	for table := range int64(dumpTables) {
		if _, err := c.agree(fmt.Sprintf("account%d", table), "amount", "by_amount"); err != nil {
			return 0, err
		}
		rows, err := c.QueryContext(ctx, fmt.Sprintf("SELECT id, amount FROM account%d", table))
		if err != nil {
			return 0, err
		}
		count := 0
		for rows.Next() {
			var id, amount int64
			if err := rows.Scan(&id, &amount); err != nil {
				return 0, errors.Join(err, rows.Close())
			}
			count++
			if want := dumpBegin + moved[[2]int64{table, id}]; amount != want {
				return 0, errors.Join(fmt.Errorf("account %d of table %d has %d, and its %d transfers make it %d: the dump is of several states", id, table, amount, transfers, want), rows.Close())
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return 0, err
		}
		if count != accounts {
			return 0, fmt.Errorf("table %d has %d accounts, not %d", table, count, accounts)
		}
	}
	return transfers, nil
}
