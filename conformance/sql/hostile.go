package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// growthMost is how much the server's resident memory may grow over the step, in bytes: half of what one client announces. The server takes
// max_allowed_packet of it, 64 MiB, and copies a buffer that grows.
const growthMost = 512 << 20

// crowdOf is how many clients fill the server's memory together.
const crowdOf = 16

// hostileCase is a client that breaks the protocol. say sends; the server must then end the connection, with or without an error before.
type hostileCase struct {
	name     string
	loggedIn bool
	slow     bool // the server waits for its own deadline: not in a quick run
	say      func(c *raw) error
}

var hostileCases = []hostileCase{
	{name: "half a head, then silence", slow: true, say: func(c *raw) error { return c.write(1, 2) }},
	{name: "half a head, then gone", say: func(c *raw) error { return errors.Join(c.write(1, 2), c.half()) }},
	{name: "half a login, then gone", say: func(c *raw) error { return errors.Join(c.write(200, 0, 0, 1, 5, 6, 7), c.half()) }},
	{name: "half a command, then gone", loggedIn: true, say: func(c *raw) error {
		return errors.Join(c.write(200, 0, 0, 0, comQuery, 'S'), c.half())
	}},
	{name: "a wrong number in the login", say: func(c *raw) error { return c.packet(5, login()...) }},
	{name: "a wrong number in a command", loggedIn: true, say: func(c *raw) error { return c.packet(9, query("SELECT 1")...) }},
	{name: "the second packet of a command with a wrong number", loggedIn: true, say: func(c *raw) error {
		return errors.Join(c.write(0xff, 0xff, 0xff, 0), c.fill(comQuery, chunk), c.write(1, 0, 0, 7, ' '))
	}},
	{name: "1 GB announced in the login", say: func(c *raw) error { return c.write(0xff, 0xff, 0xff, 1, 0) }},
	{name: "1 GB sent as a login", say: func(c *raw) error { return c.gigabyte(1, 0) }},
	{name: "1 GB sent as a command", loggedIn: true, say: func(c *raw) error { return c.gigabyte(0, comQuery) }},
	{name: "a login with a response of 1 GB", say: func(c *raw) error {
		return c.packet(1, append(loginHead(lenencLogin), lenencGigabyte...)...)
	}},
	{name: "attributes of 1 GB in the login", say: func(c *raw) error {
		return c.packet(1, append(loginAttributes(), lenencGigabyte...)...)
	}},
	{name: "HTTP", say: func(c *raw) error { return c.write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")...) }},
	{name: "noise", say: func(c *raw) error { return c.write(noise()...) }},
	{name: "noise behind the login", loggedIn: true, say: func(c *raw) error { return c.write(noise()...) }},
}

// hostile runs every case beside a client that reads points all along.
func (s *suite) hostile() (string, error) {
	c, err := connect(s.node(), "")
	if err != nil {
		return "", err
	}
	defer c.close()
	if err := c.exec("CREATE DATABASE IF NOT EXISTS hostile", "USE hostile", "DROP TABLE IF EXISTS t",
		"CREATE TABLE t (id INT PRIMARY KEY, k INT)", "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)"); err != nil {
		return "", err
	}
	before, err := s.node().PeakRSS()
	if err != nil {
		return "", err
	}
	ctx, stop := context.WithCancel(context.Background())
	b := &bystander{}
	var wg sync.WaitGroup
	wg.Go(func() { b.run(ctx, c) })
	// All at once: the server keeps a connection for a second behind its error, so that the client can read it.
	errs := make([]error, len(hostileCases))
	ran := 0
	var cases sync.WaitGroup
	for i, h := range hostileCases {
		if h.slow && s.quick {
			continue
		}
		ran++
		cases.Go(func() {
			if err := h.run(s.node().Addr("sql")); err != nil {
				errs[i] = fmt.Errorf("%s: %w", h.name, err)
			}
		})
	}
	cases.Wait()
	errs = append(errs, crowd(s.node().Addr("sql")))
	// An error that a command gets leaves the connection as it was.
	if err := survives(s.node().Addr("sql")); err != nil {
		errs = append(errs, err)
	}
	stop()
	wg.Wait()
	if b.err != nil {
		errs = append(errs, fmt.Errorf("the client beside them: %w", b.err))
	}
	after, err := s.node().PeakRSS()
	if err != nil {
		errs = append(errs, err)
	}
	note := fmt.Sprintf("%d clients, %d selects beside them, the slowest %s, the server grew by %d MiB",
		ran+crowdOf, b.selects, round(b.slowest), (after-before)>>20)
	if after-before > growthMost {
		errs = append(errs, errors.New(note))
	}
	return note, errors.Join(errs...)
}

// bystander is a client that notices if others are in its way. Its fields are read after run has returned.
type bystander struct {
	selects int
	slowest time.Duration
	err     error
}

func (b *bystander) run(ctx context.Context, c *client) {
	for ctx.Err() == nil {
		began := time.Now()
		var k int
		if b.err = c.one(fmt.Sprintf("SELECT k FROM t WHERE id = %d", b.selects%3+1), &k); b.err == nil && k != b.selects%3+1 {
			b.err = fmt.Errorf("row %d has %d", b.selects%3+1, k)
		}
		if b.err != nil {
			return
		}
		b.selects++
		b.slowest = max(b.slowest, time.Since(began))
	}
}

// run plays one case to its end.
func (h *hostileCase) run(addr string) error {
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.nc.Close()
	if h.loggedIn {
		if err := c.login(); err != nil {
			return err
		}
	}
	if err := h.say(c); err != nil && !gone(err) {
		return err
	}
	return c.ends()
}

// crowd has many clients send the largest allowed packet, except for its end. The server's memory must stay bounded: it may refuse each of
// them, and its memory counts in the step's growth.
func crowd(addr string) error {
	var wg sync.WaitGroup
	errs := make([]error, crowdOf)
	held := make([]*raw, crowdOf)
	for i := range errs {
		wg.Go(func() {
			if held[i], errs[i] = dial(addr); errs[i] != nil {
				return
			}
			if errs[i] = held[i].login(); errs[i] != nil {
				return
			}
			if err := held[i].almost(60 << 20); err != nil && !gone(err) {
				errs[i] = err
			}
		})
	}
	wg.Wait()
	for _, c := range held {
		if c != nil {
			_ = c.nc.Close() // its half packet is given up
		}
	}
	return errors.Join(errs...)
}

// survives sends commands that fail, over a connection that must go on.
func survives(addr string) error {
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.nc.Close()
	if err := c.login(); err != nil {
		return err
	}
	for name, command := range map[string][]byte{
		"an unknown command":                     {0x7f},
		"the execution of no statement":          {comExecute, 9, 0, 0, 0, 0, 1, 0, 0, 0},
		"the execution of a statement cut short": {comExecute, 9},
		"a field list without a table":           {comFieldList},
	} {
		if err := c.packet(0, command...); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		b, err := c.read()
		if err != nil || b[0] != 0xff {
			return fmt.Errorf("%s: answered %x, %w", name, b, err)
		}
	}
	if err := c.executeGigabyte(); err != nil {
		return err
	}
	if err := c.packet(0, comPing); err != nil {
		return err
	}
	if b, err := c.read(); err != nil || b[0] != 0 {
		return fmt.Errorf("a ping behind them: answered %x, %w", b, err)
	}
	return nil
}

// gone reports whether the server has ended the connection.
func gone(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &op) && !errors.Is(err, os.ErrDeadlineExceeded)
}
