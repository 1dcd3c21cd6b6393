// Command readers checks replicas of SQLite databases with two foreign programs. `litestream restore` and `ltx verify` read Holdfast's
// replicas, and Holdfast restores those of `litestream replicate`. The results must be the same file.
//
//	readers
//
// It wants both programs (scripts/sqlitepeers.sh) and writes RESULTS-sqlite-readers.md.
package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/holdfastdb/holdfast/internal/results"
)

const head = `# Replicas of SQLite databases and foreign programs

Written by conformance/sqlite/readers: litestream is v0.5.18, ltx v0.5.3.

`

func main() {
	r := &run{}
	flag.StringVar(&r.holdfast, "holdfast", "bin/holdfast", "the program under test")
	flag.StringVar(&r.litestream, "litestream", "build/peers/litestream", "where scripts/sqlitepeers.sh put it")
	flag.StringVar(&r.ltx, "ltx", "build/peers/ltx", "where scripts/sqlitepeers.sh put it")
	table := flag.String("results", "conformance/RESULTS-sqlite-readers.md", "where the table is")
	flag.Parse()
	if err := r.all(); err != nil {
		fatal(err)
	}
	if err := r.steps.Write(*table, head); err != nil {
		fatal(err)
	}
	if _, failed := r.steps.Count(); failed > 0 {
		os.Exit(1)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "readers:", err)
	os.Exit(1)
}

// run is one call of this program.
type run struct {
	holdfast, litestream, ltx string
	dir                       string
	steps                     results.Steps
}

func (r *run) all() (err error) {
	for _, p := range []*string{&r.holdfast, &r.litestream, &r.ltx} {
		if *p, err = filepath.Abs(*p); err != nil {
			return err
		}
		if _, err := os.Stat(*p); err != nil {
			return fmt.Errorf("%w; scripts/sqlitepeers.sh builds the foreign programs, make the other", err)
		}
	}
	if r.dir, err = os.MkdirTemp("", "holdfast-readers-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.dir)) }()
	r.steps.Do("litestream restore and ltx verify read a replica with a takeover in it", r.theyReadOurs)
	r.steps.Do("Holdfast restores and verifies a replica of litestream replicate", r.weReadTheirs)
	return nil
}

// write adds rows to a database, as an application does.
func (r *run) write(name string, rows int) error {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(r.dir, name)+"?_pragma=journal_mode(wal)&_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer db.Close() // everything is committed
	if _, err := db.Exec("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, v TEXT)"); err != nil {
		return err
	}
	for i := range rows {
		if _, err := db.Exec("INSERT INTO t(v) VALUES(?)", strings.Repeat(fmt.Sprint("row ", i), 20)); err != nil {
			return err
		}
	}
	return nil
}

// tool runs a program to its end.
func (r *run) tool(program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = r.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", filepath.Base(program), strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// agent keeps a database in a replica until it was stored, and does write meanwhile.
func (r *run) agent(url, db string, write func() error) error {
	cmd := exec.Command(r.holdfast, "sqlite", "replicate", "--ack", "local", "--interval", "100ms", "--replica", url, db)
	cmd.Dir, cmd.Stderr = r.dir, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	err := write()
	if serr := cmd.Process.Signal(syscall.SIGTERM); err == nil {
		err = serr
	}
	if werr := cmd.Wait(); err == nil {
		err = werr
	}
	return err
}

func (r *run) same(a, b string) error {
	x, err := os.ReadFile(filepath.Join(r.dir, a))
	if err != nil {
		return err
	}
	y, err := os.ReadFile(filepath.Join(r.dir, b))
	if err == nil && !bytes.Equal(x, y) {
		err = fmt.Errorf("%s and %s differ", a, b)
	}
	return err
}

func (r *run) theyReadOurs() (string, error) {
	url := "file://" + filepath.Join(r.dir, "ours")
	for turn := range 3 {
		if turn < 2 {
			if err := r.write("a.db", 10); err != nil { // the agent finds it when it begins
				return "", err
			}
		}
		if err := r.agent(url, "a.db", func() error { time.Sleep(2 * time.Second); return r.write("a.db", 10) }); err != nil {
			return "", err
		}
		if turn == 1 { // the next agent knows nothing, and takes over because the database is as the replica has it
			if err := os.RemoveAll(filepath.Join(r.dir, ".a.db-holdfast")); err != nil {
				return "", err
			}
		}
	}
	if _, err := r.tool(r.litestream, "restore", "-integrity-check", "full", "-o", "theirs.db", url); err != nil {
		return "", err
	}
	if _, err := r.tool(r.holdfast, "sqlite", "restore", "--integrity-check", "full", "--to", "ours.db", url); err != nil {
		return "", err
	}
	if _, err := r.tool(r.holdfast, "sqlite", "verify", url); err != nil {
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(r.dir, "ours", "ltx", "*", "*.ltx"))
	if err != nil {
		return "", err
	}
	if _, err := r.tool(r.ltx, append([]string{"verify"}, files...)...); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d files", len(files)), r.same("theirs.db", "ours.db")
}

func (r *run) weReadTheirs() (string, error) {
	url := "file://" + filepath.Join(r.dir, "litestream")
	for turn := range 4 {
		if err := r.write("b.db", 20); err != nil {
			return "", err
		}
		args := []string{"replicate", "-once"}
		if turn == 2 {
			args = append(args, "-force-snapshot")
		}
		if _, err := r.tool(r.litestream, append(args, "b.db", url)...); err != nil {
			return "", err
		}
	}
	if _, err := r.tool(r.litestream, "restore", "-o", "b-theirs.db", url); err != nil {
		return "", err
	}
	if _, err := r.tool(r.holdfast, "sqlite", "restore", "--integrity-check", "full", "--to", "b-ours.db", url); err != nil {
		return "", err
	}
	if _, err := r.tool(r.holdfast, "sqlite", "verify", url); err != nil {
		return "", err
	}
	return "", r.same("b-theirs.db", "b-ours.db")
}
