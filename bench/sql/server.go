package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver of database/sql

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// The servers.
const (
	holdfast      = "Holdfast"
	mariadb       = "MariaDB"
	pooledMariaDB = "MariaDB with a pool" // of threads, instead of one for each connection
)

// server is one that runs.
type server struct {
	*proctest.Process
	name, addr     string
	user, password string
	errors         func() (map[string]int64, error) // answers that were errors so far, by number; nil: the server does not count them
	close          func()
}

// leastPoolMiB is MariaDB's buffer pool in MiB where its part of the memory would be less: its default.
const leastPoolMiB = 128

// start starts the servers, all with so much memory. Those that run are returned with an error too.
func (b *bench) start(dir string, memoryMiB int, pooled bool) (all []*server, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	ours, err := b.ours(dir, memoryMiB)
	if err != nil {
		return nil, err
	}
	all = append(all, ours)
	names := []string{mariadb}
	if pooled {
		names = append(names, pooledMariaDB)
	}
	for _, name := range names {
		one, err := b.theirs(name, max(memoryMiB-512, leastPoolMiB))
		if err != nil {
			return all, err
		}
		all = append(all, one)
	}
	return all, nil
}

// theirs starts MariaDB with the settings of an operator who wants every commit on disk.
func (b *bench) theirs(name string, poolMiB int) (*server, error) {
	flags := []string{fmt.Sprintf("--innodb-buffer-pool-size=%dM", poolMiB), "--skip-log-bin", "--max-connections=5000", "--max-prepared-stmt-count=1000000",
		"--back-log=4000", "--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci"}
	if name == pooledMariaDB {
		flags = append(flags, "--thread-handling=pool-of-threads")
	}
	m, err := proctest.NewMariaDB(flags...)
	if err != nil {
		return nil, err
	}
	const user = "sbtest" // no other program can reach the server, which is thrown away
	if err := m.Database(user, user, user); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return &server{Process: m.Process, name: name, addr: m.Addr, user: user, password: user, close: func() { _ = m.Close() }}, nil
}

// ours starts Holdfast with its defaults.
func (b *bench) ours(dir string, memoryMiB int) (*server, error) {
	var at [3]string // of the doors and the operator's port
	for i := range at {
		var err error
		if at[i], err = proctest.FreeAddress(); err != nil {
			return nil, err
		}
	}
	p := proctest.NewProcess(filepath.Join(dir, "log"), b.bin, "serve", "--data", filepath.Join(dir, "data"), "--kv", at[0], "--sql", at[1], "--admin", at[2],
		"--memory", fmt.Sprintf("%dMiB", memoryMiB))
	if err := p.Start(); err != nil {
		return nil, err
	}
	s := &server{Process: p, name: holdfast, addr: at[1], user: "root", errors: func() (map[string]int64, error) { return counted("http://" + at[2] + "/metrics") },
		close: func() { _ = p.Kill() }}
	db, err := sql.Open("mysql", "root@tcp("+s.addr+")/")
	if err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	defer db.Close()
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		_, err := db.Exec("CREATE DATABASE IF NOT EXISTS sbtest")
		if err == nil {
			return s, nil
		}
		if !p.Running() || time.Since(began) > 20*time.Second {
			return nil, errors.Join(fmt.Errorf("the server does not answer: %w\n%s", err, p.LogTail(10)), p.Kill())
		}
	}
}

// counted reads the errors that Holdfast has counted.
func counted(url string) (map[string]int64, error) {
	res, err := http.Get(url)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	all := map[string]int64{}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		code, value, ok := errorLine(lines.Text())
		if ok {
			all[code] = value
		}
	}
	return all, lines.Err()
}

// errorLine reads a line of the metric that counts errors.
func errorLine(line string) (code string, n int64, ok bool) {
	rest, ok := strings.CutPrefix(line, `holdfast_sql_errors_total{code="`)
	if !ok {
		return "", 0, false
	}
	code, rest, ok = strings.Cut(rest, `"} `)
	value, err := strconv.ParseFloat(rest, 64)
	return code, int64(value), ok && err == nil
}

// place is the server's host and port.
func (s *server) place() (host, port string, err error) { return net.SplitHostPort(s.addr) }

// during counts the errors of what run does. Nil: the server does not count them.
func (s *server) during(ctx context.Context, run func(context.Context) error) (map[string]int64, error) {
	if s.errors == nil {
		return nil, run(ctx)
	}
	before, err := s.errors()
	if err != nil {
		return nil, err
	}
	if err := run(ctx); err != nil {
		return nil, err
	}
	after, err := s.errors()
	for code, n := range before { // any order: each by itself
		if after[code] -= n; after[code] == 0 {
			delete(after, code)
		}
	}
	return after, err
}
