// Command clients runs programs on unmodified libraries with the SQLite extension loaded, as docs/sqlite/extension.md says to load it.
// Django and Rails are as Debian has them (scripts/sqliteclients.sh). better-sqlite3 and mattn/go-sqlite3 bring an SQLite of their own
// (scripts/sqlitelinked.sh). Each creates, updates, rolls back and reads, and counts the commits it got an answer for. The agent must have
// been asked for just as many, each before its answer. The agent is a fake one (internal/extagent): other programs check the content of a
// bucket.
//
//	clients [-quick]
//
// A quick run has Debian's only. One that is not writes RESULTS-sqlite-clients.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/extagent"
	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/results"
)

const head = `# The SQLite extension in other people's programs

Written by ` + "`make conformance DOOR=sqlite`" + ` (conformance/sqlite/clients): each program creates, updates, rolls back and reads under
` + "`holdfast_ack=archive`" + `; the commits it got an answer for are those that the agent was asked for, and no answer came before the agent's.

`

// client is one program; it is given the path of a database, and HOLDFAST_SQLITE_SO in its environment.
type client struct {
	name   string
	linked bool // it has an SQLite of its own and is built by scripts/sqlitelinked.sh
	args   []string
	env    []string
}

const linked = "build/sqlitelinked"

var clients = []client{
	{name: "Django", args: []string{"/usr/bin/python3", "conformance/sqlite/clients/testdata/django_app.py"}},
	{name: "Rails", args: []string{"/usr/bin/ruby", "conformance/sqlite/clients/testdata/rails_app.rb"}},
	{name: "better-sqlite3", linked: true, args: []string{"node", "conformance/sqlite/clients/testdata/node_app.js"},
		env: []string{"NODE_PATH=" + linked + "/node/node_modules"}},
	{name: "mattn/go-sqlite3", linked: true, args: []string{linked + "/mattn"}},
}

func main() {
	quick := flag.Bool("quick", false, "Debian's programs only, no table")
	table := flag.String("results", "conformance/RESULTS-sqlite-clients.md", "where the table is")
	flag.Parse()
	if err := run(*quick, *table); err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		os.Exit(1)
	}
}

func run(quick bool, table string) (err error) {
	root, err := proctest.Root()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "hfc") // a socket's path is short
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	so, err := extagent.Build(root, filepath.Join(root, "build", "extension"))
	if err != nil {
		return err
	}
	var steps results.Steps
	for i, c := range clients {
		if c.linked && quick {
			continue
		}
		steps.Do(c.name, func() (string, error) { return c.run(root, filepath.Join(dir, strconv.Itoa(i)), so) })
	}
	if !quick {
		if err := steps.Write(filepath.Join(root, table), head); err != nil {
			return err
		}
	}
	if _, failed := steps.Count(); failed > 0 {
		return fmt.Errorf("%d failed", failed)
	}
	return nil
}

// upload is how long the agent takes to answer.
const upload = 20 * time.Millisecond

// run has a program of this client work on a new database, and compares its count with the agent's requests.
func (c client) run(root, dir, so string) (note string, err error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	agent, err := extagent.Start(dir)
	if err != nil {
		return "", err
	}
	defer agent.Stop()
	agent.Answer(func(extagent.Commit) (byte, string) { time.Sleep(upload); return extagent.CodeDone, "" })
	db := filepath.Join(dir, "app.db")
	if err := agent.Manage(db, "archive"); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.args[0], append(c.args[1:len(c.args):len(c.args)], db)...)
	cmd.Dir = root
	cmd.Env = append(append(os.Environ(), "HOLDFAST_SQLITE_SO="+so), c.env...)
	var said, complained strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &complained
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s%s", err, said.String(), complained.String())
	}
	took := time.Since(began)
	count, version, _ := strings.Cut(strings.TrimSpace(said.String()), " ")
	acknowledged, err := strconv.Atoi(count)
	if err != nil {
		return "", fmt.Errorf("it said %q", said.String())
	}
	asked := len(agent.Commits())
	switch {
	case agent.Strange() != nil:
		return "", agent.Strange()
	case asked != acknowledged || asked == 0:
		return "", fmt.Errorf("%s: %d commits acknowledged, the agent was asked for %d", version, acknowledged, asked)
	case agent.Open() != 0 && !gone(agent):
		return "", fmt.Errorf("%s: %d connections are left", version, agent.Open())
	case took < upload*10: // most of these commits come one after the other
		return "", fmt.Errorf("%s: %d commits in %v did not wait %v each", version, acknowledged, took, upload)
	}
	return fmt.Sprintf("%s: %d commits acknowledged, as many asked for", version, acknowledged), nil
}

// gone waits until the agent has noticed that the program ended.
func gone(a *extagent.Agent) bool {
	for range 100 {
		if a.Open() == 0 {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}
