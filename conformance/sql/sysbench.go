package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// sysbenchMost bounds one run of the tool. A longer one counts as hung.
const sysbenchMost = time.Hour

// workloads are the scripts of the published report, with which sysbench comes.
var workloads = []string{"oltp_point_select", "oltp_read_only", "oltp_write_only", "oltp_read_write", "oltp_update_non_index"}

// tables are those that sysbench makes.
type tables struct {
	n, rows int
	seconds int // of each workload
	threads []int
}

// published runs the commands of the published report.
func (s *suite) published() {
	t := tables{n: 10, rows: 100000, seconds: 30, threads: []int{16, 100}}
	if s.quick {
		t = tables{n: 2, rows: 5000, seconds: 3, threads: []int{16}}
	}
	s.do("sysbench prepare", func() (string, error) { return prepare(s.node(), t) })
	for _, threads := range t.threads {
		for _, w := range workloads {
			s.do(fmt.Sprintf("sysbench %s, %d threads", w, threads), func() (string, error) { return s.workload(t, threads, w) })
		}
	}
	s.do("sysbench cleanup", func() (string, error) { return s.cleanup(t) })
}

// prepare makes the tables, fills them and judges them.
func prepare(n *proctest.Node, t tables) (string, error) {
	note, err := load(n, t)
	if err == nil {
		err = whole(n, t)
	}
	return note, err
}

// load makes the tables and fills them.
func load(n *proctest.Node, t tables) (string, error) {
	if err := onLeader(n, "CREATE DATABASE IF NOT EXISTS sbtest", "CREATE USER IF NOT EXISTS sbtest IDENTIFIED BY 'sysbench'", "GRANT ALL ON sbtest.* TO sbtest"); err != nil {
		return "", err
	}
	began := time.Now()
	if _, err := sysbench(context.Background(), n, t, 16, "oltp_common", "prepare"); err != nil {
		return "", err
	}
	took := time.Since(began)
	return fmt.Sprintf("%d tables of %d rows, %.0f rows/s", t.n, t.rows, float64(t.n*t.rows)/took.Seconds()), nil
}

// sysbench runs the tool against the server that the steps share.
func (s *suite) sysbench(t tables, threads int, script, command string, flags ...string) (string, error) {
	return sysbench(context.Background(), s.node(), t, threads, script, command, flags...)
}

// sysbench runs the tool and returns what it printed. A FATAL line is an error at any exit status of the tool. The tool ends with ctx.
func sysbench(ctx context.Context, n *proctest.Node, t tables, threads int, script, command string, flags ...string) (string, error) {
	host, port := place(n)
	args := append([]string{script, "--mysql_storage_engine=eloq", fmt.Sprintf("--tables=%d", t.n), fmt.Sprintf("--table_size=%d", t.rows),
		"--mysql-user=sbtest", "--mysql-password=sysbench", "--mysql-host=" + host, "--mysql-port=" + port, "--mysql-db=sbtest", "--report-interval=10", "--auto_inc=off",
		fmt.Sprintf("--threads=%d", threads)}, flags...)
	ctx, cancel := context.WithTimeout(ctx, sysbenchMost)
	defer cancel()
	out, err := exec.CommandContext(ctx, "sysbench", append(args, command)...).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("%w; run scripts/sysbench.sh", err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "FATAL") {
			return "", errors.New(strings.TrimSpace(line))
		}
	}
	if err != nil {
		return "", fmt.Errorf("sysbench %s %s: %w: %s", script, command, err, last(out))
	}
	return string(out), nil
}

// The expected lines of a sysbench report.
var (
	rate    = regexp.MustCompile(`transactions: +\d+ +\(([\d.]+) per sec`)
	ignored = regexp.MustCompile(`ignored errors: +(\d+)`)
	slowest = regexp.MustCompile(`95th percentile: +([\d.]+)`)
)

// workload runs one script and then judges the tables.
func (s *suite) workload(t tables, threads int, script string) (string, error) {
	out, err := s.sysbench(t, threads, script, "run", fmt.Sprintf("--time=%d", t.seconds), "--mysql-ignore-errors=1213,1205,1020,1062",
		"--rand-type=special", "--range_selects=true")
	if err != nil {
		return "", err
	}
	tps, errs, p95 := rate.FindStringSubmatch(out), ignored.FindStringSubmatch(out), slowest.FindStringSubmatch(out)
	if tps == nil || errs == nil || p95 == nil {
		return "", errors.New("no report: " + last([]byte(out)))
	}
	note := fmt.Sprintf("%s tps, p95 %s ms, %s errors ignored", tps[1], p95[1], errs[1])
	if tps[1] == "0.00" {
		return "", errors.New("no transaction came through: " + note)
	}
	if err := whole(s.node(), t); err != nil {
		return "", fmt.Errorf("%s; %w", note, err)
	}
	return note, nil
}

// whole judges that every table has its rows, and that its index has the same ones.
func whole(n *proctest.Node, t tables) error {
	c, err := connect(n, "sbtest")
	if err != nil {
		return err
	}
	defer c.close()
	for i := 1; i <= t.n; i++ {
		table := fmt.Sprintf("sbtest%d", i)
		f, err := c.agree(table, "k", fmt.Sprintf("k_%d", i))
		if err != nil {
			return err
		}
		if f.count != int64(t.rows) {
			return fmt.Errorf("%s has %d rows, not %d", table, f.count, t.rows)
		}
	}
	return nil
}

// cleanup drops the tables, of which nothing may be left.
func (s *suite) cleanup(t tables) (string, error) {
	if _, err := s.sysbench(t, 1, "oltp_common", "cleanup"); err != nil {
		return "", err
	}
	c, err := connect(s.node(), "sbtest")
	if err != nil {
		return "", err
	}
	defer c.close()
	var left int
	if err := c.one("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'sbtest'", &left); err != nil {
		return "", err
	}
	if left != 0 {
		return "", fmt.Errorf("%d tables are left", left)
	}
	return fmt.Sprintf("%d tables dropped", t.n), nil
}

// last is the end of a program's output.
func last(out []byte) string {
	return strings.Join(strings.Fields(string(out[max(0, len(out)-600):])), " ")
}
