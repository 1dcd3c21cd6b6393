package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// sysbench runs the tool with the flags of the published report, and returns what it printed. A FATAL line is an error at any exit status
// of the tool.
func (b *bench) sysbench(ctx context.Context, s *server, threads int, script, command string, flags ...string) (string, error) {
	host, port, err := s.place()
	if err != nil {
		return "", err
	}
	args := append([]string{script, fmt.Sprintf("--tables=%d", b.tables), fmt.Sprintf("--table_size=%d", b.rows), "--mysql-user=" + s.user,
		"--mysql-password=" + s.password, "--mysql-host=" + host, "--mysql-port=" + port, "--mysql-db=sbtest", "--auto_inc=off",
		fmt.Sprintf("--threads=%d", threads)}, flags...)
	out, err := exec.CommandContext(ctx, "sysbench", append(args, command)...).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "FATAL") {
			return "", errors.New(strings.TrimSpace(line))
		}
	}
	if err != nil {
		return "", fmt.Errorf("sysbench %s %s: %w: %s", script, command, err, out[max(0, len(out)-600):])
	}
	return string(out), nil
}

// round measures one cell on one server, once.
func (b *bench) round(ctx context.Context, s *server, c Cell) (one Round, err error) {
	one = Round{Server: s.name, Cell: c}
	var out string
	var took time.Duration
	one.Codes, err = s.during(ctx, func(ctx context.Context) error {
		before, err := s.CPU()
		if err != nil {
			return err
		}
		out, err = b.sysbench(ctx, s, c.Threads, c.Workload, "run", fmt.Sprintf("--time=%d", b.seconds), "--mysql-ignore-errors=1213,1205,1020,1062",
			"--rand-type=special", "--range_selects=true")
		if err != nil {
			return err
		}
		after, err := s.CPU()
		took = after - before
		return err
	})
	if err != nil {
		return one, err
	}
	rss, err := s.RSS()
	if err != nil {
		return one, err
	}
	one.RSSmb = float64(rss) / 1e6
	return one, one.read(out, took)
}

// The expected lines of a sysbench report.
var (
	reportRate    = regexp.MustCompile(`transactions: +\d+ +\(([\d.]+) per sec`)
	reportQueries = regexp.MustCompile(`queries: +(\d+) +\(`)
	reportQPS     = regexp.MustCompile(`queries: +\d+ +\(([\d.]+) per sec`)
	reportErrors  = regexp.MustCompile(`ignored errors: +(\d+)`)
	reportP95     = regexp.MustCompile(`95th percentile: +([\d.]+)`)
)

// read takes the figures out of a report of sysbench. took is the server's CPU meanwhile.
func (o *Round) read(report string, took time.Duration) error {
	value := func(r *regexp.Regexp) float64 {
		m := r.FindStringSubmatch(report)
		if m == nil {
			return -1
		}
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return -1
		}
		return v
	}
	queries := value(reportQueries)
	o.Rate, o.QPS, o.P95ms, o.Errors = value(reportRate), value(reportQPS), value(reportP95), int64(value(reportErrors))
	if o.Rate <= 0 || o.P95ms < 0 || o.Errors < 0 || queries <= 0 {
		return fmt.Errorf("no transaction came through: %s", report[max(0, len(report)-600):])
	}
	o.CPUus = float64(took.Microseconds()) / queries
	return nil
}
