package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// tool is one foreign client program.
type tool struct{ name, path string }

// cluster adds to a running cluster which nodes a case has ended on purpose.
type cluster struct {
	*proctest.Cluster
	Nodes []*node
	began time.Time
}

type node struct {
	*proctest.Node
	ended bool
}

func start(dir string, kind proctest.Server, n int) (*cluster, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	pc, err := proctest.New(dir, kind, n)
	if err != nil {
		return nil, err
	}
	if err := pc.Run(); err != nil {
		return nil, err
	}
	if _, err := pc.WaitLeader(30 * time.Second); err != nil {
		pc.Close()
		return nil, err
	}
	c := &cluster{Cluster: pc, began: time.Now()}
	for _, pn := range pc.Nodes {
		c.Nodes = append(c.Nodes, &node{Node: pn})
	}
	return c, nil
}

// testCase is a script over env. It runs against Holdfast and against the original, and unless alone is set the two
// transcripts must be equal.
type testCase struct {
	name     string
	run      func(e *env)
	alone    bool   // judged by its own checks, not against the original
	slow     bool   // not in a quick run
	brief    bool   // slow, but on one member, and judged by its own checks, in a quick run too
	minNodes int    // 3: only on clusters that can change their members or leader
	only     string // only with this tool
}

// env is what a case works with. The first failure stays in err and turns everything after it into nothing, so that
// scripts read straight down.
type env struct {
	tool     tool
	cluster  *cluster
	holdfast string // the binary, "" when the cluster is the original
	suites   string // directory with foreign test suites
	dir      string // scratch
	prefix   string // of every key of this case
	endpoint string // all, comma-separated
	base     int64  // the revision when the case began; the transcript shows revisions relative to it
	text     strings.Builder
	err      error
}

const commandTimeout = 90 * time.Second // check perf takes 60 s

func runCase(c testCase, t tool, ours, theirs *cluster, holdfast, suites, dir string) error {
	play := func(cl *cluster, binary string) (string, error) {
		work := filepath.Join(dir, c.name)
		if err := os.MkdirAll(work, 0o755); err != nil {
			return "", err
		}
		defer os.RemoveAll(work)
		e := &env{tool: t, cluster: cl, holdfast: binary, suites: suites, dir: work, prefix: c.name + "/" + t.name + "/",
			endpoint: strings.Join(cl.Endpoints(), ",")}
		e.base = e.revision()
		c.run(e)
		return e.text.String(), e.err
	}
	got, err := play(ours, holdfast)
	if err != nil {
		return fmt.Errorf("%w\ntranscript:\n%s", err, tailLines(got, 20))
	}
	if c.alone {
		return nil
	}
	want, err := play(theirs, "")
	if err != nil {
		return fmt.Errorf("the original itself: %w", err)
	}
	return compare(got, want)
}

// compare names the first line that differs, with the command it came from.
func compare(got, want string) error {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	command := ""
	for i := range max(len(g), len(w)) {
		a, b := "(nothing)", "(nothing)"
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			return fmt.Errorf("after %s\nholdfast: %s\netcd:     %s", command, a, b)
		}
		if strings.HasPrefix(a, "$ ") {
			command = a
		}
	}
	return nil
}

func tailLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func (e *env) failf(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf(format, args...)
	}
}

// k is a key of this case.
func (e *env) k(name string) string { return e.prefix + name }

// rev is a revision counted from the one at which the case began.
func (e *env) rev(n int64) string { return strconv.FormatInt(e.base+n, 10) }

// run runs the tool against the given endpoints and returns what it printed (without the client's own log lines) and its
// exit status.
func (e *env) exec(endpoints, stdin string, args ...string) (out string, code int) {
	if e.err != nil {
		return "", 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, e.tool.path, append([]string{"--endpoints", endpoints}, args...)...)
	cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
	cmd.Stdin = strings.NewReader(stdin)
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	err := cmd.Run()
	if ctx.Err() != nil {
		e.failf("%s %s: no end after %s", e.tool.name, strings.Join(args, " "), commandTimeout)
	} else if err != nil && cmd.ProcessState == nil {
		e.failf("%s: %w", e.tool.name, err)
	}
	return withoutLogs(b.String()), cmd.ProcessState.ExitCode()
}

func withoutLogs(s string) string {
	var out strings.Builder
	for line := range strings.Lines(s) {
		if !strings.HasPrefix(line, `{"level":`) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// show runs a command and records it with its answer for the comparison.
func (e *env) show(args ...string) string { return e.feed("", args...) }

// feed is show with standard input.
func (e *env) feed(stdin string, args ...string) string {
	out, code := e.exec(e.endpoint, stdin, args...)
	e.record(strings.Join(args, " "), out, code)
	return out
}

func (e *env) record(command, out string, code int) {
	fmt.Fprintf(&e.text, "$ %s\n%s", e.normal(command), e.normal(out))
	if out != "" && !strings.HasSuffix(out, "\n") {
		e.text.WriteString("\n")
	}
	if code != 0 {
		fmt.Fprintf(&e.text, "exit status %d\n", code)
	}
}

// ok runs a command that must succeed and is not compared.
func (e *env) ok(args ...string) string { return e.okAt(e.endpoint, args...) }

// okAt is ok against certain endpoints.
func (e *env) okAt(endpoints string, args ...string) string {
	out, code := e.exec(endpoints, "", args...)
	if code != 0 {
		e.failf("%s: exit status %d: %s", strings.Join(args, " "), code, out)
	}
	return out
}

// want checks that out contains text.
func (e *env) want(what, out, text string) {
	if e.err == nil && !strings.Contains(out, text) {
		e.failf("%s: %q is not in %q", what, text, out)
	}
}

func (e *env) revision() int64 {
	var res struct {
		Header struct{ Revision int64 }
	}
	e.json(&res, "get", "holdfast-conformance", "-w", "json")
	return res.Header.Revision
}

// json runs a command that prints JSON and must succeed.
func (e *env) json(v any, args ...string) {
	out := e.ok(args...)
	if e.err == nil {
		if err := json.Unmarshal([]byte(out), v); err != nil {
			e.failf("%s: %w in %q", strings.Join(args, " "), err, out)
		}
	}
}

// until repeats f until it returns true.
func (e *env) until(what string, limit time.Duration, f func() bool) {
	for began := time.Now(); e.err == nil && !f(); time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > limit {
			e.failf("%s: not within %s", what, limit)
		}
	}
}

var (
	// Numbers that belong to a run, not to an answer.
	idFields  = regexp.MustCompile(`"(cluster_id|member_id|ID|id|leader|lease|raft_term|raftTerm|raftIndex|raftAppliedIndex)":"?-?\d+"?`)
	revFields = regexp.MustCompile(`"(revision|create_revision|mod_revision|compact_revision)":(\d+)`)
	hexIDs    = regexp.MustCompile(`\b[0-9a-f]{13,16}\b`)
	took      = regexp.MustCompile(`took = [0-9.]+[µnm]?s|took [0-9.]+[µnm]?s`)
	revisions = regexp.MustCompile(`(?:compacted revision |^compaction |--rev=)\d+`)
	attached  = regexp.MustCompile(`attached keys\(\[[^\]]*\]\)`)
	remaining = regexp.MustCompile(`remaining\((\d+)s\)`)
)

// normal replaces what differs between two runs of the same server: ids, addresses, terms and durations. Revisions are shown
// relative to the case's beginning.
func (e *env) normal(s string) string {
	for i, n := range e.cluster.Nodes {
		s = strings.ReplaceAll(s, n.KV, fmt.Sprintf("<kv%d>", i+1))
		s = strings.ReplaceAll(s, n.Peer, fmt.Sprintf("<peer%d>", i+1))
	}
	s = strings.ReplaceAll(s, e.dir, "<dir>")
	s = idFields.ReplaceAllString(s, `"$1":<id>`)
	s = hexIDs.ReplaceAllString(s, "<id>")
	s = took.ReplaceAllString(s, "took <time>")
	s = remaining.ReplaceAllString(s, "remaining(<time>)")
	s = revFields.ReplaceAllStringFunc(s, func(m string) string {
		name, number, _ := strings.Cut(m, ":")
		return name + ":" + e.relative(number)
	})
	// The original lists a lease's keys in the order of a map.
	s = attached.ReplaceAllStringFunc(s, func(m string) string {
		keys := strings.Fields(strings.TrimSuffix(strings.TrimPrefix(m, "attached keys(["), "])"))
		slices.Sort(keys)
		return "attached keys([" + strings.Join(keys, " ") + "])"
	})
	return revisions.ReplaceAllStringFunc(s, func(m string) string {
		i := strings.LastIndexAny(m, " =")
		return m[:i+1] + e.relative(m[i+1:])
	})
}

func (e *env) relative(number string) string {
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n == 0 {
		return number
	}
	return fmt.Sprintf("%+d", n-e.base)
}

// background is a command that keeps running, such as watch.
type background struct {
	e     *env
	cmd   *exec.Cmd
	name  string
	stdin io.WriteCloser // stays open until stop
	done  chan struct{}  // closed when the command has ended
	want  int            // the lines a case waited for; 0 if it did not

	mu  sync.Mutex
	out bytes.Buffer
}

// Write gathers the command's output.
func (b *background) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.Write(p)
}

func (b *background) output() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return withoutLogs(b.out.String())
}

// background starts a command and returns at once.
func (e *env) background(stdin string, args ...string) *background {
	b := &background{e: e, name: strings.Join(args, " "), done: make(chan struct{})}
	if e.err != nil {
		close(b.done)
		return b
	}
	b.cmd = exec.Command(e.tool.path, append([]string{"--endpoints", e.endpoint}, args...)...)
	b.cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
	b.cmd.Stdout, b.cmd.Stderr = b, b
	in, err := b.cmd.StdinPipe()
	if err == nil {
		err = b.cmd.Start()
	}
	if err != nil {
		e.failf("start %s: %w", b.name, err)
		b.cmd = nil
		close(b.done)
		return b
	}
	b.stdin = in
	b.enter(stdin)
	go func() {
		_ = b.cmd.Wait() // the status of a command ended by a signal says nothing
		close(b.done)
	}()
	return b
}

// enter types into the command.
func (b *background) enter(text string) {
	if b.stdin == nil || text == "" {
		return
	}
	if _, err := io.WriteString(b.stdin, text); err != nil {
		b.e.failf("type into %s: %w", b.name, err)
	}
}

// lines waits until the command has printed n lines. The command may print no more before stop: a case that waited for less would record a
// random number of lines.
func (b *background) lines(n int) {
	b.want = n
	b.e.until(fmt.Sprintf("%d lines from %s", n, b.name), 30*time.Second, func() bool {
		return strings.Count(b.output(), "\n") >= n
	})
}

// ended waits until the command ends by itself.
func (b *background) ended(limit time.Duration) {
	select {
	case <-b.done:
	case <-time.After(limit):
		b.e.failf("%s has not ended after %s; it printed %q", b.name, limit, b.output())
	}
}

// stop interrupts the command as Ctrl-C does and waits for its end; what it printed is recorded.
func (b *background) stop() string {
	if b.cmd != nil {
		_ = b.cmd.Process.Signal(os.Interrupt) // it may have ended already
		select {
		case <-b.done:
		case <-time.After(5 * time.Second):
			_ = b.cmd.Process.Kill()
			<-b.done
		}
	}
	out := b.output()
	if n := strings.Count(out, "\n"); b.want != 0 && n != b.want && b.e.err == nil {
		b.e.failf("%s printed %d lines, the case waits for %d:\n%s", b.name, n, b.want, out)
	}
	fmt.Fprintf(&b.e.text, "$ %s\n%s", b.e.normal(b.name), b.e.normal(out))
	return out
}
