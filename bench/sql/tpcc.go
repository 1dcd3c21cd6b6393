package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfastdb/holdfast/bench/host"
)

// TPCC is TPC-C by go-tpc, which is unmodified.
type TPCC struct {
	Warehouses int         `json:"warehouses"`
	Threads    int         `json:"threads"`
	Memory     int         `json:"memory_mib"`
	Rounds     []TPCCRound `json:"rounds"`
	// Broken are conditions of the specification (3.3.2) that did not hold, by server. They are checked behind the rounds, and behind a
	// kill -9 in the middle of one.
	Broken map[string][]string `json:"conditions_broken,omitempty"`
	Killed bool                `json:"killed"` // the conditions were judged behind a kill -9 too
}

// TPCCRound is one round on one server.
type TPCCRound struct {
	Server string  `json:"server"`
	TpmC   float64 `json:"tpm_c"`                  // new orders a minute
	P95ms  float64 `json:"p95_ms"`                 // of new orders
	CPUms  float64 `json:"cpu_per_transaction_ms"` // of the server, a transaction of any kind
	Errors int     `json:"errors"`
}

// goTPC calls the tool on one server.
func (b *bench) goTPC(ctx context.Context, s *server, t *TPCC, command string, flags ...string) (string, error) {
	host, port, err := s.place()
	if err != nil {
		return "", err
	}
	args := append([]string{"tpcc", command, "-H", host, "-P", port, "-U", s.user, "-p", s.password, "-D", "sbtest", fmt.Sprintf("--warehouses=%d", t.Warehouses)}, flags...)
	out, err := exec.CommandContext(ctx, b.goTPCPath, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("go-tpc %s: %w: %s", command, err, out[max(0, len(out)-600):])
	}
	return string(out), err
}

// tpcc measures both servers by turns, judges the conditions, kills both in the middle of a round and judges them again.
func (s *sweep) tpcc(ctx context.Context, warehouses, threads int) error {
	t := &TPCC{Warehouses: warehouses, Threads: threads, Memory: s.memory[0], Broken: map[string][]string{}}
	servers, err := s.start(filepath.Join(s.dir, "tpcc"), t.Memory, false)
	defer func() {
		for _, one := range servers {
			one.close()
		}
	}()
	if err != nil {
		return err
	}
	for _, one := range servers {
		began := time.Now()
		if _, err := s.goTPC(ctx, one, t, "prepare", "-T", "4", "--no-check"); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		fmt.Printf("%s: %d warehouses loaded in %.0f s\n", one.name, warehouses, time.Since(began).Seconds())
	}
	s.report.TPCC = t
	for round := range s.rounds + 1 {
		for i := range servers {
			one := servers[(i+round)%len(servers)]
			r, err := s.tpccRound(ctx, one, t)
			if err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
			if round == 0 { // both are warm behind it
				continue
			}
			t.Rounds = append(t.Rounds, r)
			fmt.Printf("TPC-C, %d warehouses, %d threads, %s: %.0f tpmC, p95 %.1f ms\n", warehouses, threads, one.name, r.TpmC, r.P95ms)
		}
	}
	if err := s.consistent(ctx, servers, t, ""); err != nil {
		return err
	}
	for _, one := range servers {
		if err := s.killed(ctx, one, t); err != nil {
			return fmt.Errorf("%s: kill -9: %w", one.name, err)
		}
	}
	t.Killed = true
	return s.consistent(ctx, servers, t, "behind a kill -9: ")
}

// tpccRound runs the mix on one server.
func (s *sweep) tpccRound(ctx context.Context, one *server, t *TPCC) (r TPCCRound, err error) {
	before, err := one.CPU()
	if err != nil {
		return r, err
	}
	out, err := s.goTPC(ctx, one, t, "run", "-T", strconv.Itoa(t.Threads), "--time", fmt.Sprintf("%ds", s.seconds))
	if err != nil {
		return r, err
	}
	after, err := one.CPU()
	if err != nil {
		return r, err
	}
	r.Server = one.name
	return r, r.read(out, after-before, s.seconds)
}

// The expected lines of a go-tpc report.
var (
	tpccRate  = regexp.MustCompile(`tpmC: ([\d.]+), tpmTotal: ([\d.]+)`)
	tpccOrder = regexp.MustCompile(`\[Summary\] NEW_ORDER - .* 95th\(ms\): ([\d.]+)`)
	tpccError = regexp.MustCompile(`\[Summary\] [A-Z_]+_ERR - .*Count: (\d+)`)
)

// read takes the figures out of a report. took is the server's CPU meanwhile.
func (r *TPCCRound) read(report string, took time.Duration, seconds int) error {
	rates, order := tpccRate.FindStringSubmatch(report), tpccOrder.FindStringSubmatch(report)
	if rates == nil || order == nil {
		return fmt.Errorf("no order came through: %s", report[max(0, len(report)-600):])
	}
	total, e1 := strconv.ParseFloat(rates[2], 64)
	var e2, e3 error
	r.TpmC, e2 = strconv.ParseFloat(rates[1], 64)
	r.P95ms, e3 = strconv.ParseFloat(order[1], 64)
	if err := errors.Join(e1, e2, e3); err != nil || r.TpmC == 0 {
		return fmt.Errorf("no order came through: %w: %s", err, rates[0])
	}
	for _, m := range tpccError.FindAllStringSubmatch(report, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			return err
		}
		r.Errors += n
	}
	r.CPUms = float64(took.Microseconds()) / 1000 / (total * float64(seconds) / 60)
	return nil
}

// conditions are those of the specification that hold at any moment (TPC-C 5.11, 3.3.2.1 to 4, 6, 8 and 9). Each is a query that counts
// where it is broken.
var conditions = []struct{ name, query string }{
	{"1: W_YTD is the sum of D_YTD", `SELECT COUNT(*) FROM (SELECT w_id, MAX(w_ytd) AS w, SUM(d_ytd) AS d FROM warehouse JOIN district ON d_w_id = w_id GROUP BY w_id) AS x WHERE w <> d`},
	{"2: D_NEXT_O_ID is behind the last order", `SELECT COUNT(*) FROM district LEFT JOIN (SELECT o_w_id, o_d_id, MAX(o_id) AS last FROM orders GROUP BY o_w_id, o_d_id) AS o
		ON o_w_id = d_w_id AND o_d_id = d_id WHERE last IS NULL OR last <> d_next_o_id - 1`},
	{"2: D_NEXT_O_ID is behind the last new order", `SELECT COUNT(*) FROM district JOIN (SELECT no_w_id, no_d_id, MAX(no_o_id) AS last FROM new_order GROUP BY no_w_id, no_d_id) AS n
		ON no_w_id = d_w_id AND no_d_id = d_id WHERE last <> d_next_o_id - 1`},
	{"3: new orders have no gaps", `SELECT COUNT(*) FROM (SELECT MAX(no_o_id) - MIN(no_o_id) + 1 AS span, COUNT(*) AS n FROM new_order GROUP BY no_w_id, no_d_id) AS x WHERE span <> n`},
	{"4: orders have as many lines as they say", `SELECT COUNT(*) FROM (SELECT o_w_id, o_d_id, SUM(o_ol_cnt) AS said FROM orders GROUP BY o_w_id, o_d_id) AS o
		JOIN (SELECT ol_w_id, ol_d_id, COUNT(*) AS n FROM order_line GROUP BY ol_w_id, ol_d_id) AS l ON ol_w_id = o_w_id AND ol_d_id = o_d_id WHERE said <> n`},
	{"6: each order has as many lines as it says", `SELECT COUNT(*) FROM orders JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, COUNT(*) AS n FROM order_line GROUP BY ol_w_id, ol_d_id, ol_o_id) AS l
		ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE n <> o_ol_cnt`},
	{"8: W_YTD is the sum of the history", `SELECT COUNT(*) FROM warehouse JOIN (SELECT h_w_id, SUM(h_amount) AS paid FROM history GROUP BY h_w_id) AS h ON h_w_id = w_id WHERE paid <> w_ytd`},
	{"9: D_YTD is the sum of the history", `SELECT COUNT(*) FROM district JOIN (SELECT h_w_id, h_d_id, SUM(h_amount) AS paid FROM history GROUP BY h_w_id, h_d_id) AS h
		ON h_w_id = d_w_id AND h_d_id = d_id WHERE paid <> d_ytd`},
}

// consistent judges the conditions on every server, and notes what is broken.
func (s *sweep) consistent(ctx context.Context, servers []*server, t *TPCC, when string) error {
	for _, one := range servers {
		db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)/sbtest", one.user, one.password, one.addr))
		if err != nil {
			return err
		}
		for _, c := range conditions {
			var broken int
			if err := db.QueryRowContext(ctx, c.query).Scan(&broken); err != nil {
				return errors.Join(fmt.Errorf("%s: condition %s: %w", one.name, c.name, err), db.Close())
			}
			if broken > 0 {
				t.Broken[one.name] = append(t.Broken[one.name], fmt.Sprintf("%s%s (%d times)", when, c.name, broken))
			}
		}
		if err := db.Close(); err != nil {
			return err
		}
	}
	return nil
}

// killed ends a server with kill -9 in the middle of a round, and starts it again.
func (s *sweep) killed(ctx context.Context, one *server, t *TPCC) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// It ends with errors, or goes on where the server is back before it looks.
		_, _ = s.goTPC(ctx, one, t, "run", "-T", strconv.Itoa(t.Threads), "--time", fmt.Sprintf("%ds", s.seconds), "--ignore-error")
	}()
	time.Sleep(time.Duration(s.seconds) * time.Second / 2)
	if err := one.Kill(); err != nil {
		return err
	}
	<-ended
	if err := one.Start(); err != nil {
		return err
	}
	return one.answers()
}

// answers waits until a server that was started again answers.
func (s *server) answers() error {
	db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)/sbtest", s.user, s.password, s.addr))
	if err != nil {
		return err
	}
	defer db.Close()
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if err = db.Ping(); err == nil {
			return nil
		}
		if !s.Running() || time.Since(began) > time.Minute {
			return fmt.Errorf("it does not answer: %w\n%s", err, s.LogTail(10))
		}
	}
}

// of are the figures of one server.
func (t *TPCC) of(server string, figure func(TPCCRound) float64) float64 {
	var all []float64
	for _, r := range t.Rounds {
		if r.Server == server {
			all = append(all, figure(r))
		}
	}
	return host.Median(all)
}

func tpmC(r TPCCRound) float64    { return r.TpmC }
func tpccP95(r TPCCRound) float64 { return r.P95ms }
func tpccCPU(r TPCCRound) float64 { return r.CPUms }

// ratio is Holdfast's median beside MariaDB's.
func (t *TPCC) ratio(figure func(TPCCRound) float64) float64 {
	return t.of(holdfast, figure) / t.of(mariadb, figure)
}

// print writes a row for each server, and the conditions that are broken.
func (t *TPCC) print(w io.Writer) {
	fmt.Fprintf(w, "\nTPC-C, %d warehouses, %d threads, --memory %dMiB, medians of %d rounds:\n", t.Warehouses, t.Threads, t.Memory, len(t.Rounds)/2)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(tw, "server\ttpmC\tp95 of a new order, ms\tCPU ms a transaction\terrors\tconditions broken\t\n")
	for _, name := range []string{holdfast, mariadb} {
		errs := 0
		for _, r := range t.Rounds {
			if r.Server == name {
				errs += r.Errors
			}
		}
		broken := strings.Join(t.Broken[name], "; ")
		if broken == "" {
			broken = "none"
		}
		if !t.Killed {
			broken += " (no kill -9)"
		}
		fmt.Fprintf(tw, "%s\t%.0f\t%.1f\t%.2f\t%d\t%s\t\n", name, t.of(name, tpmC), t.of(name, tpccP95), t.of(name, tpccCPU), errs, broken)
	}
	_ = tw.Flush() // to a terminal or a buffer
}
