package main

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

const (
	slowRate   = 1 << 20   // bytes/s that the client reads
	slowMemory = 256 << 20 // --memory of its server
	slowPiece  = 5000      // rows of one INSERT
)

// slowReader has a client read a whole table slowly. The server's memory must stay within --memory, and others must be served meanwhile.
func (s *suite) slowReader() (string, error) {
	count := 1_000_000
	if s.quick {
		count = 100_000
	}
	cluster, err := server(s.bin, filepath.Join(s.dir, "slow"), "--memory", fmt.Sprint(slowMemory))
	if err != nil {
		return "", err
	}
	defer cluster.Close()
	n := cluster.Nodes[0]
	if err := fillSlow(n, count); err != nil {
		return "", err
	}
	// A new process, whose peak is of the reading alone.
	if err := n.Term(patience); err != nil {
		return "", err
	}
	if err := cluster.Restart(n); err != nil {
		return "", err
	}
	began := time.Now()
	done := make(chan error, 1)
	var r read
	go func() {
		var err error
		r, err = readSlowly(n, "SELECT id, k, pad FROM large.t")
		done <- err
	}()
	asked, slowest, err := besideReader(n, done)
	if err != nil {
		return "", err
	}
	took := time.Since(began)
	if r.rows != count {
		return "", fmt.Errorf("%d rows came, not %d", r.rows, count)
	}
	peak, err := n.PeakRSS()
	if err != nil {
		return "", err
	}
	note := fmt.Sprintf("%d rows, %d MiB at %.2f MiB/s, RSS of the server %d MiB at most of %d MiB; %d selects beside it, the slowest %s", r.rows, r.bytes>>20,
		float64(r.bytes)/(1<<20)/took.Seconds(), peak>>20, slowMemory>>20, asked, round(slowest))
	if peak > slowMemory {
		return "", errors.New(note)
	}
	return note, nil
}

// fillSlow makes the table.
func fillSlow(n *proctest.Node, count int) error {
	c, err := connect(n, "")
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.exec("CREATE DATABASE large", "CREATE TABLE large.t (id INT PRIMARY KEY, k INT NOT NULL, pad CHAR(30) NOT NULL)"); err != nil {
		return err
	}
	for from := 0; from < count; from += slowPiece {
		var text strings.Builder
		text.WriteString("INSERT INTO large.t VALUES ")
		for id := from; id < from+slowPiece; id++ {
			if id > from {
				text.WriteString(", ")
			}
			fmt.Fprintf(&text, "(%d, %d, 'row %026d')", id, id%1000, id)
		}
		if _, err := c.change(text.String()); err != nil {
			return fmt.Errorf("insert of rows from %d on: %w", from, errors.Unwrap(err))
		}
	}
	return nil
}

// besideReader asks for single rows until done has a value.
func besideReader(n *proctest.Node, done <-chan error) (asked int, slowest time.Duration, err error) {
	c, err := connect(n, "large")
	if err != nil {
		return 0, 0, err
	}
	defer c.close()
	for {
		select {
		case err := <-done:
			return asked, slowest, err
		case <-time.After(50 * time.Millisecond):
		}
		began := time.Now()
		var k int
		if err := c.one("SELECT k FROM t WHERE id = 99", &k); err != nil {
			return asked, slowest, err
		}
		asked++
		slowest = max(slowest, time.Since(began))
	}
}

// read is what came of a result.
type read struct {
	rows  int
	bytes int64
}

// readSlowly reads a result at slowRate, without a buffer of its own to speak of.
func readSlowly(n *proctest.Node, text string) (r read, err error) {
	c, err := dial(n.Addr("sql"))
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, c.nc.Close()) }()
	if err := c.login(); err != nil {
		return r, err
	}
	if err := errors.Join(c.nc.(*net.TCPConn).SetReadBuffer(64<<10), c.nc.SetDeadline(time.Time{})); err != nil {
		return r, err
	}
	p := &paced{Conn: c.nc, began: time.Now()}
	c = &raw{p}
	if err := c.packet(0, query(text)...); err != nil {
		return r, err
	}
	for ends := 0; ends < 2; { // that of the columns and that of the rows
		b, err := c.read()
		switch {
		case err != nil:
			return r, fmt.Errorf("after %d rows: %w", r.rows, err)
		case b[0] == 0xff:
			return r, fmt.Errorf("after %d rows: %q", r.rows, b)
		case b[0] == 0xfe && len(b) < 9:
			ends++
		case ends == 1:
			r.rows++
		}
	}
	r.bytes = p.n
	return r, nil
}

// paced is a connection that is read at slowRate. It belongs to one goroutine.
type paced struct {
	net.Conn
	began time.Time
	n     int64
}

func (p *paced) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	p.n += int64(n)
	due := p.began.Add(time.Duration(float64(p.n) / slowRate * float64(time.Second)))
	if early := time.Until(due); early > 20*time.Millisecond {
		time.Sleep(early)
	}
	return n, err
}
