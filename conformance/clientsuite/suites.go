package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// suite is one library's tests.
type suite struct {
	name  string
	want  int            // passes of the original, without those known to fail
	line  *regexp.Regexp // test and outcome in a line of its output
	parts []part
}

// part is one run of a test program.
type part struct {
	dir     string   // below build/suites
	command []string // a path is relative to dir
	env     []string
	// server flags: not nil starts a single server on etcd's own ports before, with a user root, and ends it after. Suites
	// without it start etcd themselves, from PATH.
	server []string
}

var (
	pytestLine = regexp.MustCompile(`(?m)^\S*?(\w+\.py::\S+) (PASSED|FAILED|ERROR|SKIPPED)`)
	rustLine   = regexp.MustCompile(`(?m)^test (\S+) \.\.\. (ok|FAILED)`)
)

// suites in the order they run.
var suites = []suite{
	{name: "python-etcd", want: 20, line: pytestLine, parts: []part{{
		dir:     "python-etcd",
		command: []string{"../python/bin/python", "-m", "pytest", "-v", "-p", "no:cacheprovider", "src/etcd/tests/integration"},
		env:     []string{"PYTHONPATH=src"},
	}}},
	{name: "etcd-client", want: 28, line: rustLine, parts: []part{
		{dir: "etcd-client", command: []string{"./client", "--test-threads=1"}, server: []string{"--auth-token-ttl", "2"}},
		{dir: "etcd-client", command: []string{"./namespace", "--test-threads=1"}, server: []string{"--auth-token-ttl", "2"}},
		{dir: "etcd-client", command: []string{"./client", "--test-threads=1", "--ignored", "test_get_stream"},
			server: []string{"--auth-token-ttl", "2", "--max-request-bytes", "10240"}},
	}},
}

// patience is how long one part may take.
const patience = 5 * time.Minute

type outcome struct {
	test   string
	passed bool
}

// binaries is where the servers of a run are. The v2 API ended before etcd 3.7, so its suites have etcd 3.4 as the original.
func (s *suite) binaries(root, against string) string {
	switch {
	case against == "ours":
		return filepath.Join(root, "build", "suites", "ours")
	case s.name == "python-etcd":
		return filepath.Join(root, "build", "peers", "etcd-3.4")
	}
	return filepath.Join(root, "build", "peers", "etcd-3.7.3")
}

// run runs all parts and reads what they printed.
func (s *suite) run(root, against, log string) ([]outcome, error) {
	f, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for _, p := range s.parts {
		if err := s.runPart(p, root, against, f); err != nil {
			return nil, err
		}
	}
	text, err := os.ReadFile(log)
	if err != nil {
		return nil, err
	}
	return read(s.line, string(text)), nil
}

// read finds the tests of a log. A test of two parts has run twice; the second does not hide the first's failure.
func read(line *regexp.Regexp, log string) (out []outcome) {
	at := map[string]int{}
	for _, m := range line.FindAllStringSubmatch(log, -1) {
		o := outcome{m[1], m[2] == "PASSED" || m[2] == "ok"}
		if i, ok := at[o.test]; ok {
			out[i].passed = out[i].passed && o.passed
			continue
		}
		at[o.test] = len(out)
		out = append(out, o)
	}
	return out
}

func (s *suite) runPart(p part, root, against string, log *os.File) error {
	bin := s.binaries(root, against)
	if p.server != nil {
		stop, err := serve(root, filepath.Join(bin, "etcd"), log.Name()+".server", p.server)
		if err != nil {
			return err
		}
		defer stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.command[0], p.command[1:]...)
	cmd.Dir = filepath.Join(root, "build", "suites", p.dir)
	if !strings.HasPrefix(p.command[0], "/") {
		cmd.Path = filepath.Join(cmd.Dir, p.command[0])
	}
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	if against == "original" {
		cmd.Env = append(cmd.Env, "ETCD_ENABLE_V2=true") // ours has it on
	}
	cmd.Env = append(cmd.Env, p.env...)
	cmd.Stdout, cmd.Stderr = log, log
	// The servers a suite starts belong to its group, and end with it when it hangs.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		return err
	}
	return ctx.Err() // its status says no more than its lines
}

// serve runs one server on localhost:2379, with the user the suites expect.
func serve(root, bin, log string, flags []string) (stop func(), err error) {
	dir, err := os.MkdirTemp("", "holdfast-clientsuite")
	if err != nil {
		return nil, err
	}
	const client, peer = "http://localhost:2379", "http://localhost:2380"
	args := append([]string{"--name", "default", "--data-dir", dir, "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer}, flags...)
	server := proctest.NewProcess(log, bin, args...)
	stop = func() {
		_ = server.Kill() // it would say that SIGKILL failed: nothing more can be done
		os.RemoveAll(dir)
	}
	if err := server.Start(); err != nil {
		stop()
		return nil, err
	}
	ctl := filepath.Join(root, "build", "peers", "etcd-3.7.3", "etcdctl")
	for _, args := range [][]string{{"user", "add", "root:rootpwd"}, {"role", "add", "root"}, {"user", "grant-role", "root", "root"}} {
		var out []byte
		for try := range 50 {
			// If ours has ended, another program's server on the port would be asked instead.
			if !server.Running() {
				err = fmt.Errorf("the server ended: %w", server.ExitError())
				break
			}
			if out, err = exec.Command(ctl, args...).CombinedOutput(); err == nil || try > 0 && strings.Contains(string(out), "already exist") {
				err = nil
				break
			}
			time.Sleep(200 * time.Millisecond)
		}
		if err != nil {
			stop()
			return nil, fmt.Errorf("etcdctl %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return stop, nil
}
