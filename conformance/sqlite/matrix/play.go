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
	"github.com/holdfastdb/holdfast/internal/proctest"
)

// ackTimeout and shutdown are how long an agent waits for an upload, and for all of them at its end. A store that goes bad makes it wait that long
// each time. One that is well does not, and a busy machine is no reason to give it up.
func (c cell) ackTimeout() time.Duration {
	if c.Store.Well() {
		return 5 * time.Minute
	}
	return 1500 * time.Millisecond
}

func (c cell) shutdown() time.Duration {
	if c.Store.Well() {
		return 5 * time.Minute
	}
	return 2 * time.Second
}

// rows is how many the application inserts before the store changes, and how many behind.
const rows = 5

// How long is waited in a cell.
const (
	// patience ends what hangs.
	patience = 20 * time.Minute
	// once is how long `-once` is left to try a store that does not answer before an operator ends it.
	once = 4 * time.Second
)

// outcome is what happened in a cell.
type outcome struct {
	said    rig.Said
	stored  map[int]bool // by a restore from the store, well again
	file    map[int]bool // what the application's own file has
	restore string       // why the restore failed; "": it did not
	status  int          // of the agent; -1: it had to be killed
	log     string
	last    string       // its last line
	healed  map[int]bool // by a restore after an agent ran once more, with the store as it was
	notHeal string       // why there is none; "": it was not tried, or went well
}

// stage is one cell being played.
type stage struct {
	cell
	tools       *rig.Tools
	dir         string
	agentDB     string // the file as the agent has it
	appDB       string // as the application has it
	real, at    string // directories of a bind mount
	agentBound  bool   // the agent is in the namespace, the application not
	store       *rig.Store
	app         rig.App
	log         string
	environment []string
}

// play plays a cell in an empty directory.
func play(ctx context.Context, tools *rig.Tools, c cell, dir, foreign string) (o *outcome, err error) {
	s := &stage{cell: c, tools: tools, dir: dir, log: filepath.Join(dir, "log")}
	if s.store, err = rig.NewStore(c.Store, filepath.Join(dir, "rep"), foreign); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.store.Close()) }()
	if err := s.lay(); err != nil {
		return nil, err
	}
	s.environment = s.store.Env()
	s.app = rig.App{DB: s.appDB, Says: filepath.Join(dir, "says"), Create: true, First: rows, Gate: filepath.Join(dir, "gate"), Then: rows}
	if c.Load == "extension" {
		s.app.Extension = tools.Extension
	}
	if c.Agent == "litestream -exec" && c.Ack == "archive" {
		s.app.Ack = "archive"
	}
	switch {
	case c.Mode == "TRUNCATE":
		s.app.Journal = "truncate"
	case c.Mode == "WAL" && c.Fresh:
		s.app.Journal = "wal"
	}
	o = &outcome{}
	if c.Agent == "litestream -once" {
		err = s.inTurn(ctx, o)
	} else {
		err = s.beside(ctx, o)
	}
	if err != nil {
		b, _ := os.ReadFile(s.log) // it may not have begun
		return nil, fmt.Errorf("%w; the agent:\n%s", err, b)
	}
	return o, s.look(ctx, o)
}

// lay makes the directories, the file and the links to it. Where the two can have different paths, the application has one and the agent
// another. With `run` both have the same, as one command line has it.
func (s *stage) lay() error {
	real := filepath.Join(s.dir, "real")
	if err := os.Mkdir(real, 0o755); err != nil {
		return err
	}
	file := filepath.Join(real, "app.db")
	if !s.Fresh {
		if err := rig.Make(file, s.Mode); err != nil {
			return err
		}
	}
	other := file
	switch s.Path {
	case "link to the file":
		if err := os.Mkdir(filepath.Join(s.dir, "links"), 0o755); err != nil {
			return err
		}
		other = filepath.Join(s.dir, "links", "app.db")
		if err := os.Symlink(file, other); err != nil {
			return err
		}
	case "linked directory":
		if err := os.Symlink(real, filepath.Join(s.dir, "current")); err != nil {
			return err
		}
		other = filepath.Join(s.dir, "current", "app.db")
	case "bind mount":
		s.real, s.at = real, filepath.Join(s.dir, "mounted")
		other = filepath.Join(s.at, "app.db")
		if err := os.Mkdir(s.at, 0o755); err != nil {
			return err
		}
	}
	switch {
	case s.Path == "bind mount" && (s.Agent == "replicate" || s.Agent == "litestream -once"):
		s.agentDB, s.appDB, s.agentBound = other, file, true
	case s.Path == "bind mount":
		s.agentDB, s.appDB = file, other
	case s.Agent == "run":
		s.agentDB, s.appDB = other, other
	case s.Agent == "replicate":
		s.agentDB, s.appDB = file, other
	default:
		s.agentDB, s.appDB = other, file
	}
	return nil
}

// file is the database as this process has it.
func (s *stage) file() string { return filepath.Join(s.dir, "real", "app.db") }

func (s *stage) appCommand() []string {
	line := s.app.Command(s.tools)
	if s.Path == "bind mount" && !s.agentBound {
		line = rig.Bound(s.real, s.at, line)
	}
	return line
}

// agentCommand is how the agent is started, with the application below it or not.
func (s *stage) agentCommand() ([]string, error) {
	common := []string{"--replica", s.store.URL(), "--ack", s.Ack, "--interval", "100ms", "--ack-timeout", s.ackTimeout().String(),
		"--shutdown-timeout", s.shutdown().String(), "--socket", filepath.Join(s.dir, "s")}
	var line []string
	switch s.Agent {
	case "run":
		line = append(append([]string{s.tools.Holdfast, "sqlite", "run"}, common...), s.agentDB, "--")
		line = append(line, s.appCommand()...)
	case "replicate":
		line = append(append([]string{s.tools.Holdfast, "sqlite", "replicate"}, common...), s.agentDB)
	case "litestream -exec":
		text := fmt.Sprintf("shutdown-timeout: %[3]s\nshutdown-sync-timeout: %[3]s\ndbs:\n  - path: %[1]s\n    monitor-interval: 100ms\n"+
			"    replica:\n      url: %[2]s\n      sync-interval: 100ms\n", s.agentDB, s.store.LitestreamURL(), s.shutdown())
		if err := os.WriteFile(filepath.Join(s.dir, "litestream.yml"), []byte(text), 0o600); err != nil {
			return nil, err
		}
		var quoted []string
		for _, w := range s.appCommand() {
			quoted = append(quoted, "'"+w+"'")
		}
		line = []string{s.tools.Litestream, "replicate", "-config", filepath.Join(s.dir, "litestream.yml"), "-no-expand-env", "-exec", strings.Join(quoted, " ")}
		s.environment = append(s.environment, "HOLDFAST_SQLITE_SOCKET="+filepath.Join(s.dir, "s"))
	case "litestream -once":
		line = []string{s.tools.Litestream, "replicate", "-once", s.agentDB, s.store.LitestreamURL()}
	}
	if s.agentBound {
		line = rig.Bound(s.real, s.at, line)
	}
	return line, nil
}

// start starts a process with the store's environment.
func (s *stage) start(log string, line []string) (*proctest.Process, error) {
	p := proctest.NewProcess(log, line[0], line[1:]...)
	p.Setenv(s.environment...)
	return p, p.Start()
}

// beside plays a cell whose agent runs while the application does.
func (s *stage) beside(ctx context.Context, o *outcome) (err error) {
	line, err := s.agentCommand()
	if err != nil {
		return err
	}
	agent, err := s.start(s.log, line)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, agent.Kill()) }()
	if s.Agent == "replicate" {
		// An application that opens a database before there has ever been an agent has none.
		side := filepath.Join(s.dir, "real", ".app.db-holdfast", "agent")
		most := patience
		if s.Fresh { // the agent begins when the database does
			most = 2 * time.Second
		}
		_ = rig.Poll(most, func() error { // what comes of it is judged
			_, err := os.Stat(side)
			if !agent.Running() {
				return nil
			}
			return err
		})
		app, err := s.start(filepath.Join(s.dir, "app.log"), s.appCommand())
		if err != nil {
			return err
		}
		defer func() { _ = app.Kill() }() // it has ended
	}
	ended := func() bool { return !agent.Running() && s.Agent != "replicate" }
	if err := s.app.Wait("its first rows", patience, func(said rig.Said) bool { return said.First || ended() }); err != nil {
		return err
	}
	// Commits that can be stored are stored before the store changes.
	_ = rig.Poll(10*time.Second, func() error {
		if s.store.Began() || ended() {
			return nil
		}
		return errors.New("nothing is stored")
	})
	if err := s.store.Spoil(); err != nil {
		return err
	}
	if err := rig.Open(s.app.Gate); err != nil {
		return err
	}
	if err := s.app.Wait("its last row", patience, func(said rig.Said) bool { return said.Done || ended() }); err != nil {
		return err
	}
	if s.Agent == "replicate" {
		o.status = s.end(ctx, agent, true, patience)
	} else {
		o.status = s.end(ctx, agent, false, patience)
	}
	return nil
}

// end waits for the end of an agent, which is asked for it if ask, and is its exit status.
func (s *stage) end(ctx context.Context, agent *proctest.Process, ask bool, most time.Duration) int {
	if ask {
		if err := agent.Term(most); err != nil {
			return -1
		}
	}
	select {
	case <-agent.Exited():
	case <-ctx.Done():
		return -1
	case <-time.After(most):
		return -1
	}
	var exit *exec.ExitError
	switch err := agent.ExitError(); {
	case errors.As(err, &exit):
		return exit.ExitCode()
	case err != nil:
		return -1
	}
	return 0
}

// inTurn plays a cell whose agent stores the pending commits and ends: the application, the agent, the store changes, the application, the agent.
func (s *stage) inTurn(ctx context.Context, o *outcome) error {
	for _, part := range []string{"first", "then"} {
		if part == "then" {
			if err := s.store.Spoil(); err != nil {
				return err
			}
			s.app.From = rows
		}
		s.app.Gate, s.app.First, s.app.Then = "", rows, 0
		s.app.Says = filepath.Join(s.dir, "says-"+part)
		app, err := s.start(filepath.Join(s.dir, "app.log"), s.appCommand())
		if err != nil {
			return err
		}
		if err := s.app.Wait("its last row", patience, func(said rig.Said) bool { return said.Done || !app.Running() }); err != nil {
			return errors.Join(err, app.Kill())
		}
		select {
		case <-app.Exited():
		case <-time.After(patience):
			return errors.Join(errors.New("the application does not end"), app.Kill())
		}
		said := s.app.Said()
		o.said.OK, o.said.No, o.said.Ack = append(o.said.OK, said.OK...), append(o.said.No, said.No...), said.Ack
		line, err := s.agentCommand()
		if err != nil {
			return err
		}
		s.log = filepath.Join(s.dir, "log-"+part)
		agent, err := s.start(s.log, line)
		if err != nil {
			return err
		}
		most := once
		if s.Store.Well() || part == "first" {
			most = patience
		}
		if err := rig.Poll(patience, func() error { // it has begun
			if b, err := os.ReadFile(s.log); err == nil && strings.Count(string(b), "\n") < 2 && agent.Running() {
				return errors.New("the agent says nothing")
			}
			return nil
		}); err != nil {
			return errors.Join(err, agent.Kill())
		}
		select {
		case <-agent.Exited():
			o.status = s.end(ctx, agent, false, most)
		case <-time.After(most): // an operator has waited long enough
			o.status = s.end(ctx, agent, true, patience)
		}
		if part == "first" && o.status != 0 {
			break // it is judged as it is
		}
	}
	return nil
}

// look mends the store, restores from it, and reads what the application's own file has.
func (s *stage) look(ctx context.Context, o *outcome) (err error) {
	if s.Agent != "litestream -once" {
		o.said = s.app.Said()
	}
	b, err := os.ReadFile(s.log)
	if err != nil {
		return err
	}
	o.log = string(b)
	for line := range strings.Lines(o.log) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--- start ") {
			o.last = line
		}
	}
	if err := s.store.Mend(); err != nil {
		return err
	}
	if o.stored, o.restore, err = s.restored(ctx, "restored.db"); err != nil {
		return err
	}
	if o.file, err = rig.Rows(s.file()); err != nil {
		return err
	}
	if s.Store.Well() || !s.Store.Mends() || s.refusable() && len(o.file) == 0 { // without a row there is nothing to store
		return nil
	}
	return s.heal(ctx, o)
}

// restored is what a restore of the replica has.
func (s *stage) restored(ctx context.Context, name string) (has map[int]bool, why string, err error) {
	to := filepath.Join(s.dir, name)
	cmd := exec.CommandContext(ctx, s.tools.Holdfast, "sqlite", "restore", "--to", to, s.store.URL())
	cmd.Env = append(os.Environ(), s.environment...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return map[int]bool{}, strings.TrimSpace(string(out)), nil
	}
	has, err = rig.Rows(to)
	return has, "", err
}

// heal starts an agent once more, with the store as it was: what the file has must come to be stored then.
func (s *stage) heal(ctx context.Context, o *outcome) error {
	line := []string{s.tools.Litestream, "replicate", "-once", s.file(), s.store.LitestreamURL()}
	agent, err := s.start(filepath.Join(s.dir, "log-healed"), line)
	if err != nil {
		return err
	}
	if status := s.end(ctx, agent, false, patience); status != 0 {
		o.notHeal = fmt.Sprintf("status %d: %s", status, agent.LogTail(2))
		return agent.Kill()
	}
	var why string
	if o.healed, why, err = s.restored(ctx, "healed.db"); why != "" {
		o.notHeal = why
	}
	return err
}
