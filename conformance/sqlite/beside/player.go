package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/conformance/sqlite/rig"
	"github.com/holdfastdb/holdfast/internal/bucket"
	"github.com/holdfastdb/holdfast/internal/proctest"
)

// patience bounds every wait.
const patience = 20 * time.Second

// player is one program in one empty directory. It belongs to one goroutine.
type player struct {
	program string
	dir     string
	env     []string
	started []*proctest.Process
	buckets []*bucket.Bucket
	n       int
}

func (p *player) path(name string) string { return filepath.Join(p.dir, name) }
func (p *player) url(name string) string  { return "file://" + p.path(name) }

// end ends what was started.
func (p *player) end() (err error) {
	for _, s := range p.started {
		err = errors.Join(err, s.Kill())
	}
	for _, b := range p.buckets {
		err = errors.Join(err, b.Close())
	}
	return err
}

// try runs the program to its end, and says with which status that came.
func (p *player) try(most time.Duration, args ...string) (out string, status int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.program, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = p.dir, p.environment(), time.Second
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return string(b), -1, fmt.Errorf("`%s` has not ended within %s", args[0], most)
	case errors.As(err, &exit):
		return string(b), exit.ExitCode(), nil
	}
	return string(b), 0, err
}

// environment is this program's without what leads to other buckets: with AWS_CA_BUNDLE Litestream's client may not start.
func (p *player) environment() (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "AWS_") {
			env = append(env, v)
		}
	}
	return append(env, p.env...)
}

// good runs the program to its end, which must be a good one.
func (p *player) good(args ...string) error {
	out, status, err := p.try(patience, args...)
	if err == nil && status != 0 {
		lines := strings.Split(strings.TrimSpace(out), "\n")
		err = fmt.Errorf("`%s` ends with status %d: %s", args[0], status, lines[len(lines)-1])
	}
	return err
}

// once stores what a database has.
func (p *player) once(db, replica string) error {
	return p.good("replicate", "-once", p.path(db), p.url(replica))
}

// start starts the program, which is ended with the flow at the latest.
func (p *player) start(args ...string) (*proctest.Process, error) {
	p.n++
	s := proctest.NewProcess(p.path(fmt.Sprintf("log%d", p.n)), p.program, args...)
	s.Setenv(append([]string{"AWS_CA_BUNDLE="}, p.env...)...)
	p.started = append(p.started, s)
	return s, s.Start()
}

// make makes a database with rows 1 to n.
func (p *player) make(db, mode string, n int) error {
	return errors.Join(rig.Make(p.path(db), mode), p.rows(db, 1, n))
}

// rows adds rows.
func (p *player) rows(db string, from, to int) error {
	for i := from; i <= to; i++ {
		if err := rig.Do(p.path(db), fmt.Sprintf("INSERT INTO entries VALUES(%d, 'x')", i)); err != nil {
			return err
		}
	}
	return nil
}

// fresh removes a database with all that lies beside it.
func (p *player) fresh(db string) error {
	for _, f := range []string{db, db + "-wal", db + "-shm", "." + db + "-holdfast", "." + db + "-litestream"} {
		if err := os.RemoveAll(p.path(f)); err != nil {
			return err
		}
	}
	return nil
}

// has says that a database has n rows.
func (p *player) has(db string, n int) error {
	has, err := rig.Rows(p.path(db))
	if err == nil && len(has) != n {
		err = fmt.Errorf("the database has %d rows, of %d", len(has), n)
	}
	return err
}

// keeps says that a restore of a replica has n rows. Flags choose the state.
func (p *player) keeps(replica string, n int, flags ...string) error {
	p.n++
	name := fmt.Sprintf("restored%d.db", p.n)
	if err := p.good(append(append([]string{"restore", "-o", p.path(name)}, flags...), p.url(replica))...); err != nil {
		return err
	}
	if err := p.has(name, n); err != nil {
		return fmt.Errorf("restored: %w", err)
	}
	return nil
}

// comes waits until a restore has n rows.
func (p *player) comes(replica string, n int) error {
	return rig.Poll(patience, func() error {
		time.Sleep(300 * time.Millisecond)
		return p.keeps(replica, n)
	})
}

// group returns the newest file of a level.
func (p *player) group(replica, level string) (string, error) {
	l, err := filepath.Glob(filepath.Join(p.path(replica), "ltx", level, "*.ltx"))
	if err == nil && len(l) == 0 {
		err = fmt.Errorf("level %s has no file", level)
	}
	if err != nil {
		return "", err
	}
	return l[len(l)-1], nil
}

// newest returns the TXID of a replica's newest state, as `ltx` lists it: a number that the two programs do not choose alike.
func (p *player) newest(replica string) (string, error) {
	out, status, err := p.try(patience, "ltx", p.url(replica))
	if err != nil || status != 0 {
		return "", errors.Join(err, fmt.Errorf("`ltx` ends with status %d: %s", status, out))
	}
	newest := ""
	for _, line := range strings.Split(out, "\n")[1:] {
		if fields := strings.Fields(line); len(fields) > 2 {
			newest = max(newest, fields[2])
		}
	}
	if newest == "" {
		return "", fmt.Errorf("`ltx` lists no file: %s", out)
	}
	return newest, nil
}
