package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

const (
	manyClients = 3000
	manyMemory  = 1 << 30   // --memory of the server that takes all of them
	manyGrowth  = 400 << 20 // what they may add to its RSS
	fewMemory   = 256 << 20 // --memory of the server that does not
)

// Error numbers of the server where something does not fit.
const (
	tooManyConnections = 1040
	tooManyStatements  = 1461
)

// preparedTexts are the 90 statements that sysbench's oltp_read_write prepares for 10 tables, with parameters for one execution each.
func preparedTexts() (texts []string, params [][]any) {
	for i := range 10 {
		t := fmt.Sprintf("many.sbtest%d", i+1)
		for _, s := range []struct {
			text   string
			params []any
		}{
			{"SELECT c FROM %s WHERE id=?", []any{1}},
			{"SELECT c FROM %s WHERE id BETWEEN ? AND ?", []any{1, 100}},
			{"SELECT SUM(k) FROM %s WHERE id BETWEEN ? AND ?", []any{1, 100}},
			{"SELECT c FROM %s WHERE id BETWEEN ? AND ? ORDER BY c", []any{1, 100}},
			{"SELECT DISTINCT c FROM %s WHERE id BETWEEN ? AND ? ORDER BY c", []any{1, 100}},
			{"UPDATE %s SET k=k+1 WHERE id=?", []any{0}},
			{"UPDATE %s SET c=? WHERE id=?", []any{"c", 0}},
			{"DELETE FROM %s WHERE id=?", []any{0}},
			{"INSERT INTO %s (id, k, c, pad) VALUES (?, ?, ?, ?)", nil},
		} {
			texts, params = append(texts, fmt.Sprintf(s.text, t)), append(params, s.params)
		}
	}
	return texts, params
}

// makeMany makes the tables.
func makeMany(n *proctest.Node) error {
	all := []string{"CREATE DATABASE many"}
	for i := range 10 {
		all = append(all, fmt.Sprintf("CREATE TABLE many.sbtest%d (id INT NOT NULL AUTO_INCREMENT, k INT NOT NULL DEFAULT '0', c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '', PRIMARY KEY (id), KEY k_1 (k))", i+1))
		for id := 1; id <= 100; id++ {
			all = append(all, fmt.Sprintf("INSERT INTO many.sbtest%d VALUES (%d, %d, 'c of %d', 'pad')", i+1, id, id, id))
		}
	}
	return onLeader(n, all...)
}

// refusedWith is an ERR packet's number.
type refusedWith uint16

func (r refusedWith) Error() string { return fmt.Sprintf("refused with %d", uint16(r)) }

// refusal makes an error of an ERR packet.
func refusal(b []byte) error {
	if len(b) >= 3 && b[0] == 0xff {
		return refusedWith(binary.LittleEndian.Uint16(b[1:]))
	}
	return nil
}

// enter connects a client that logs in. Errors: refusedWith.
func enter(n *proctest.Node) (*raw, error) {
	c, err := dialTold(n.Addr("sql"))
	if err != nil {
		return nil, err
	}
	if err := c.login(); err != nil {
		return nil, errors.Join(err, c.nc.Close())
	}
	return c, c.nc.SetDeadline(time.Time{})
}

// dialTold is dial, with the number of a refusal.
func dialTold(addr string) (*raw, error) {
	c, first, err := dialFirst(addr)
	if err != nil {
		return nil, err
	}
	if err := refusal(first); err != nil {
		return nil, errors.Join(err, c.nc.Close())
	}
	return c, nil
}

// prepare prepares a statement and returns its number. Errors: refusedWith.
func (c *raw) prepare(text string) (uint32, error) {
	if err := c.packet(0, append([]byte{comPrepare}, text...)...); err != nil {
		return 0, err
	}
	b, err := c.read()
	if err == nil {
		err = refusal(b)
	}
	if err != nil {
		return 0, err
	}
	for _, of := range [][]byte{b[5:7], b[7:9]} {
		if n := int(binary.LittleEndian.Uint16(of)); n > 0 {
			for range n + 1 {
				if _, err := c.read(); err != nil {
					return 0, err
				}
			}
		}
	}
	return binary.LittleEndian.Uint32(b[1:]), nil
}

// execute executes a prepared statement and reads its answer to the end. Errors: refusedWith.
func (c *raw) execute(id uint32, params []any) error {
	b := append(binary.LittleEndian.AppendUint32([]byte{comExecute}, id), 0, 1, 0, 0, 0)
	b = append(append(b, make([]byte, (len(params)+7)/8)...), 1)
	var values []byte
	for _, p := range params {
		switch p := p.(type) {
		case int:
			b = append(b, 0x03, 0)
			values = binary.LittleEndian.AppendUint32(values, uint32(p))
		case string:
			b = append(b, 0xfe, 0)
			values = append(append(values, byte(len(p))), p...)
		}
	}
	if err := c.packet(0, append(b, values...)...); err != nil {
		return err
	}
	for ends := 0; ends < 2; {
		b, err := c.read()
		if err == nil {
			err = refusal(b)
		}
		if err != nil || ends == 0 && b[0] == 0 {
			return err
		}
		if b[0] == 0xfe && len(b) < 9 {
			ends++
		}
	}
	return nil
}

// each does something for many clients, a few at a time.
func each(clients []*raw, do func(i int, c *raw) error) error {
	const atATime = 8
	var next atomic.Int64
	errs := make([]error, atATime)
	var wg sync.WaitGroup
	for k := range atATime {
		wg.Go(func() {
			for errs[k] == nil {
				i := int(next.Add(1)) - 1
				if i >= len(clients) {
					return
				}
				errs[k] = do(i, clients[i])
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func hangUp(clients []*raw) {
	for _, c := range clients {
		if c != nil {
			_ = c.nc.Close() // nothing is left to be said
		}
	}
}

// idleClients has 3,000 clients prepare and execute 90 statements each, and stay.
func (s *suite) idleClients() (string, error) {
	count := manyClients
	if s.quick {
		count /= 10
	}
	cluster, err := server(s.bin, filepath.Join(s.dir, "many"), "--memory", fmt.Sprint(manyMemory))
	if err != nil {
		return "", err
	}
	defer cluster.Close()
	n := cluster.Nodes[0]
	if err := makeMany(n); err != nil {
		return "", err
	}
	texts, params := preparedTexts()
	before, err := n.RSS()
	if err != nil {
		return "", err
	}
	clients := make([]*raw, count)
	defer func() { hangUp(clients) }()
	began := time.Now()
	err = each(clients, func(i int, _ *raw) error {
		c, err := enter(n)
		if err != nil {
			return fmt.Errorf("client %d: %w", i+1, err)
		}
		clients[i] = c
		for k, text := range texts {
			id, err := c.prepare(text)
			if err == nil && params[k] != nil {
				err = c.execute(id, params[k])
			}
			if err != nil {
				return fmt.Errorf("client %d, %s: %w", i+1, text, err)
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	took := time.Since(began)
	after, err := n.RSS()
	if err != nil {
		return "", err
	}
	most := int64(manyGrowth) * int64(count) / manyClients
	if s.quick {
		most += 100 << 20 // of garbage, which does not grow with the clients
	}
	note := fmt.Sprintf("%d clients with %d prepared statements each, all executed, in %s: RSS from %d to %d MiB, %d more may be", count, len(texts), round(took), before>>20,
		after>>20, most>>20)
	if after-before > most {
		return "", errors.New(note)
	}
	return note, each(clients, func(i int, c *raw) error { // all of them are still served
		return c.execute(1, params[0])
	})
}

// crowdedOut has more clients than a small server takes connect and prepare without end, beside one that does its work.
func (s *suite) crowdedOut() (string, error) {
	cluster, err := server(s.bin, filepath.Join(s.dir, "few"), "--memory", fmt.Sprint(fewMemory))
	if err != nil {
		return "", err
	}
	defer cluster.Close()
	n := cluster.Nodes[0]
	if err := makeMany(n); err != nil {
		return "", err
	}
	texts, params := preparedTexts()
	ctx, stop := context.WithCancel(context.Background())
	beside := make(chan error, 1)
	statements := 0
	go func() { beside <- besideCrowd(ctx, n, &statements) }()
	every := 1
	if s.quick {
		every = 10
	}
	note, err := crowdOut(n, texts, params, every)
	stop()
	if err = errors.Join(err, <-beside); err != nil {
		return "", err
	}
	peak, err := n.PeakRSS()
	if err != nil {
		return "", err
	}
	note = fmt.Sprintf("%s; %d statements of a client beside them, none refused; RSS %d MiB at most of %d", note, statements, peak>>20, int64(fewMemory)>>20)
	if peak > fewMemory {
		return "", errors.New(note)
	}
	return note, nil
}

// crowdOut fills a server with clients, has some of them prepare the statements, and one of them large ones without end. Then it empties the server.
func crowdOut(n *proctest.Node, texts []string, params [][]any, every int) (string, error) {
	var clients []*raw
	defer func() { hangUp(clients) }()
	var refused refusedWith
	for len(clients) < manyClients {
		c, err := enter(n)
		if errors.As(err, &refused) {
			break
		}
		if err != nil {
			return "", fmt.Errorf("client %d: %w", len(clients)+1, err)
		}
		clients = append(clients, c)
	}
	if refused != tooManyConnections {
		return "", fmt.Errorf("client %d was refused with %d, want %d", len(clients)+1, refused, tooManyConnections)
	}
	var statements atomic.Int64
	err := each(clients, func(i int, c *raw) error {
		if i%every != 0 {
			return nil
		}
		for _, text := range texts {
			if _, err := c.prepare(text); err != nil {
				return fmt.Errorf("client %d, %s: %w", i+1, text, err)
			}
			statements.Add(1)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	greedy, last := clients[len(clients)-1], error(nil)
	large := 0
	for ; last == nil && large < 100_000; large++ {
		_, last = greedy.prepare(fmt.Sprintf("SELECT c, %0*d FROM many.sbtest1 WHERE id=?", 60, large) + strings.Repeat(" OR id=?", 500))
	}
	note := fmt.Sprintf("%d clients fit, the next one was told %d; of their statements %d and %d large ones fit, the next one was told %v", len(clients), tooManyConnections,
		statements.Load(), large-1, last)
	if !errors.As(last, &refused) || refused != tooManyStatements {
		return "", errors.New(note)
	}
	// Those that have what they need do not notice, and who comes when others have left finds room.
	if err := clients[0].execute(1, params[0]); err != nil {
		return "", fmt.Errorf("%s; then the first client: %w", note, err)
	}
	hangUp(clients)
	clients = nil
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		c, err := enter(n)
		if err == nil {
			_, err = c.prepare(texts[0])
			_ = c.nc.Close() // nothing is left to be said
		}
		if err == nil {
			return note, nil
		}
		if time.Since(began) > patience {
			return "", fmt.Errorf("%s; behind them: %w", note, err)
		}
	}
}

// besideCrowd has a client read and write until ctx ends, by text, prepared for each time anew and prepared once.
func besideCrowd(ctx context.Context, n *proctest.Node, statements *int) error {
	c, err := connect(n, "many")
	if err != nil {
		return err
	}
	defer c.close()
	own, err := c.PrepareContext(context.Background(), "SELECT c FROM sbtest1 WHERE id = ?")
	if err != nil {
		return err
	}
	defer own.Close()
	for ; ctx.Err() == nil; *statements += 3 {
		if err := c.exec("UPDATE sbtest1 SET k = k + 1 WHERE id = 1"); err != nil {
			return fmt.Errorf("beside: %w", err)
		}
		var text string
		if err := c.one("SELECT c FROM sbtest1 WHERE id = 2", &text); err != nil {
			return fmt.Errorf("beside: %w", err)
		}
		if err := own.QueryRowContext(context.Background(), 3).Scan(&text); err != nil {
			return fmt.Errorf("beside: %w", err)
		}
	}
	return nil
}

// manyThreads runs sysbench with 3,000 threads to the end.
func (s *suite) manyThreads() (string, error) {
	t := tables{n: 10, rows: 10_000}
	threads, seconds := manyClients, 20
	if s.quick {
		threads, seconds = manyClients/10, 3
	}
	cluster, err := server(s.bin, filepath.Join(s.dir, "threads"), "--memory", fmt.Sprint(manyMemory))
	if err != nil {
		return "", err
	}
	defer cluster.Close()
	n := cluster.Nodes[0]
	if _, err := load(n, t); err != nil {
		return "", err
	}
	note := ""
	for _, w := range []string{"oltp_point_select", "oltp_read_write"} {
		prepared := "--db-ps-mode=auto"
		if w == "oltp_read_write" { // sysbench 1.0.20 waits 30 s for its threads, which would prepare 90 statements each: 46 s here
			prepared = "--db-ps-mode=disable"
		}
		out, err := sysbench(context.Background(), n, t, threads, w, "run", prepared, fmt.Sprintf("--time=%d", seconds), "--mysql-ignore-errors=1213,1205,1020,1062")
		if err != nil {
			return "", fmt.Errorf("%s: %w", w, err)
		}
		tps, errs, p95 := rate.FindStringSubmatch(out), ignored.FindStringSubmatch(out), slowest.FindStringSubmatch(out)
		if tps == nil || errs == nil || p95 == nil {
			return "", errors.New("no report: " + last([]byte(out)))
		}
		note += fmt.Sprintf("%s %s tps, p95 %s ms, %s errors ignored; ", w, tps[1], p95[1], errs[1])
	}
	if err := whole(n, t); err != nil {
		return "", err
	}
	peak, err := n.PeakRSS()
	if err != nil {
		return "", err
	}
	note += fmt.Sprintf("%d threads, RSS %d MiB at most of %d", threads, peak>>20, int64(manyMemory)>>20)
	if peak > manyMemory {
		return "", errors.New(note)
	}
	return note, nil
}
