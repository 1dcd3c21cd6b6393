package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	tlogmysql "github.com/holdfastdb/holdfast/doors/tlog/mysql"
	"github.com/holdfastdb/holdfast/internal/proctest"
)

// mysqlLoad has the writers of the published run with the database on the same machine.
var mysqlLoad = load{Tool: withOurs, Writers: 256}

// mysqlRounds is how often each server is measured.
const mysqlRounds = 1

// mysqlPassword is for users of a database that no other program can reach and that is thrown away.
const mysqlPassword = "bench"

// behindEvery is how often it is looked how much of a log has been published; what is behind is known to within twice that.
const behindEvery = 100 * time.Millisecond

// mysql measures Tessera's server that keeps its log in MariaDB, and Holdfast publishing to the same MariaDB, in a database of
// its own each. All three of server, database and load share the machine.
func (b *bench) mysql(ctx context.Context) error {
	m, err := proctest.NewMariaDB()
	if err != nil {
		return err
	}
	defer m.Close()
	var figures []*Figure
	for _, name := range []string{tesseraMySQL, holdfast} {
		figures = append(figures, b.report.figure(withMySQL, name, mysqlLoad))
	}
	for round := range mysqlRounds {
		for i := range figures {
			f := figures[(i+round)%len(figures)]
			at, done, err := b.mysqlPlace(m, f.Server, fmt.Sprintf("round%d_%d", round, i))
			if err != nil {
				return err
			}
			if err := errors.Join(b.measure(ctx, f, b.mysqlTime, at), done()); err != nil {
				return fmt.Errorf("%s: %w", f.Server, err)
			}
		}
	}
	return nil
}

// mysqlPlace makes a database with a user of the same name and says how to use it. The caller calls done in the end.
func (b *bench) mysqlPlace(m *proctest.MariaDB, name, database string) (at place, done func() error, err error) {
	if err := m.Database(database, database, mysqlPassword); err != nil {
		return at, nil, err
	}
	if name == tesseraMySQL {
		at.flags = []string{fmt.Sprintf("--mysql_uri=%s:%s@tcp(%s)/%[1]s", database, mysqlPassword, m.Addr),
			"--init_schema_path=" + filepath.Join(b.tools, "mysql-schema.sql")}
		at.during = func(*server) (func(*Sample) error, error) { return databaseCPU(m) }
		return at, func() error { return nil }, nil
	}
	url := fmt.Sprintf("mysql://%s@%s/%[1]s", database, m.Addr)
	tables, err := tlogmysql.Open(url, mysqlPassword)
	if err != nil {
		return at, nil, err
	}
	at.server = []string{"env", "HOLDFAST_TLOG_PUBLISH_PASSWORD=" + mysqlPassword}
	at.flags = []string{"--tlog-publish", url}
	at.during = func(s *server) (func(*Sample) error, error) {
		cpu, err := databaseCPU(m)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(context.Background())
		result := make(chan error, 1)
		var most time.Duration
		go func() {
			var err error
			most, err = behind(ctx, s.url, tables)
			result <- err
		}()
		return func(sample *Sample) error {
			cancel()
			if err := <-result; err != nil {
				return err
			}
			seconds := most.Seconds()
			sample.Behind = &seconds
			return cpu(sample)
		}, nil
	}
	return at, tables.Close, nil
}

// databaseCPU measures what the database server uses meanwhile.
func databaseCPU(m *proctest.MariaDB) (over func(*Sample) error, err error) {
	before, err := m.CPU()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	return func(sample *Sample) error {
		after, err := m.CPU()
		sample.Database = (after - before).Seconds() / time.Since(began).Seconds()
		return err
	}, nil
}

// behind watches until ctx ends and returns the longest time that the log was ahead of its publication. Entries unpublished when ctx ends
// count as well.
func behind(ctx context.Context, url string, tables tlogmysql.Tables) (most time.Duration, err error) {
	var waiting []mark
	tick := time.NewTicker(behindEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return most, nil
		case <-tick.C:
		}
		// The published size first: one asked for later might be of a tree that the other answer did not have yet.
		state, err := tables.State(context.Background())
		if err != nil {
			return most, err
		}
		published, err := noteSize(state.Note)
		if err != nil {
			return most, err
		}
		n, err := size(url)
		if err != nil {
			return most, err
		}
		var late time.Duration
		waiting, late = lag(waiting, mark{time.Now(), n}, published)
		most = max(most, late)
	}
}

// mark is the size of a log at a moment.
type mark struct {
	at   time.Time
	size int
}

// lag drops the marks that are published, adds one and says how old the oldest is that is left.
func lag(waiting []mark, now mark, published int) ([]mark, time.Duration) {
	for len(waiting) > 0 && waiting[0].size <= published {
		waiting = waiting[1:]
	}
	waiting = append(waiting, now)
	return waiting, now.at.Sub(waiting[0].at)
}

// noteSize is the size in a checkpoint; 0 for none.
func noteSize(note []byte) (int, error) {
	if len(note) == 0 {
		return 0, nil
	}
	lines := strings.Split(string(note), "\n")
	if len(lines) < 3 {
		return 0, fmt.Errorf("published checkpoint: %q", note)
	}
	return strconv.Atoi(lines[1])
}
