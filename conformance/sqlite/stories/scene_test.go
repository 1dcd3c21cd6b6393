// Package stories plays what happens to SQLite databases on ordinary machines: restores to yesterday, links, disks that are not mounted, other
// agents, full disks. Programs, stores and files are real; the agent is Holdfast under its own name and under the name litestream. It is tests
// only. docs/SQLITE.md answers its questions with tests of this package. Combinations of all set-ups are in conformance/sqlite/matrix.
package stories

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/conformance/sqlite/rig"
	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// long reports whether the forms of a story that take long are played too.
func long() bool { return os.Getenv("STORIES") == "long" }

// limits are the flags for how long an agent waits: for an upload, and for all of them at its end. The short run shares its machine, and its stores
// work; the stories of the long run wait for stores that do not.
func limits() []string {
	if long() {
		return []string{"--ack-timeout", "2s", "--shutdown-timeout", "2s"}
	}
	return []string{"--ack-timeout", "5m", "--shutdown-timeout", "5m"}
}

// scene is a machine with an empty directory.
type scene struct {
	t     *testing.T
	tools *rig.Tools
	dir   string
	env   []string // of all processes
}

// newScene makes one, to be played beside others.
func newScene(t *testing.T) *scene {
	t.Helper()
	if name, _, _ := strings.Cut(t.Name(), "/"); !long() && !slices.Contains(soon, name) {
		t.Skip("it takes seconds: only with STORIES=long, as make conformance DOOR=sqlite does")
	}
	t.Parallel()
	tools, err := rig.Find()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "hfs") // a socket's path is short, t.TempDir's is not
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return &scene{t: t, tools: tools, dir: dir}
}

// soon are the stories that every run of the tests tells.
var soon = []string{"TestTheAgentIsKilled", "TestTheBucketWasEmptied", "TestTheJournalModeIsDelete", "TestAProgramSwitchesAwayFromWAL", "TestALinkIsTheFileItLeadsTo",
	"TestTwoDatabasesOfOneNameAreRefused", "TestAProgramWithoutTheExtension", "TestAStoreWithoutConditionsIsRefused", "TestARestoredFileHasTheModeThatOthersCanRead"}

// TestMain removes what was built for these tests.
func TestMain(m *testing.M) {
	code := m.Run()
	if tools, err := rig.Find(); err == nil {
		if err := tools.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func (s *scene) path(name string) string { return filepath.Join(s.dir, name) }

// url is a replica in a directory.
func (s *scene) url(name string) string { return "file://" + s.path(name) }

func (s *scene) mkdir(names ...string) {
	s.t.Helper()
	for _, n := range names {
		if err := os.MkdirAll(s.path(n), 0o755); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// database makes a database with rows 1 to n, as an installation does.
func (s *scene) database(name, mode string, n int) string {
	s.t.Helper()
	p := s.path(name)
	s.must(rig.Make(p, mode))
	s.rows(p, 1, n)
	return p
}

// rows adds rows to a database, by a program without the extension.
func (s *scene) rows(path string, from, to int) {
	s.t.Helper()
	if to >= from {
		s.sql(path, fmt.Sprintf("WITH RECURSIVE r(i) AS (VALUES(%d) UNION ALL SELECT i+1 FROM r WHERE i<%d) INSERT INTO entries SELECT i, 'x' FROM r", from, to))
	}
}

func (s *scene) sql(path string, statements ...string) {
	s.t.Helper()
	s.must(rig.Do(path, statements...))
}

// has says that a database has rows 1 to n and no others.
func (s *scene) has(path string, n int) {
	s.t.Helper()
	if err := hasRows(path, n); err != nil {
		s.t.Error(err)
	}
}

func hasRows(path string, n int) error {
	has, err := rig.Rows(path)
	if err != nil {
		return err
	}
	for i := 1; i <= n; i++ {
		if !has[i] {
			return fmt.Errorf("%s has no row %d; it has %d, of %d", path, i, len(has), n)
		}
	}
	if len(has) != n {
		return fmt.Errorf("%s has %d rows, of %d", path, len(has), n)
	}
	return nil
}

// keeps says that a restore of a replica has rows 1 to n and no others. Flags choose the state.
func (s *scene) keeps(url string, n int, flags ...string) {
	s.t.Helper()
	if err := s.restored(url, n, flags...); err != nil {
		s.t.Error(err)
	}
}

// comes waits until it is so.
func (s *scene) comes(url string, n int) {
	s.t.Helper()
	if err := rig.Poll(wait.Limit(s.t), func() error { time.Sleep(200 * time.Millisecond); return s.restored(url, n) }); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) restored(url string, n int, flags ...string) error {
	dir, err := os.MkdirTemp(s.dir, "restored")
	if err != nil {
		return err
	}
	to := filepath.Join(dir, "app.db")
	r := s.try(s.tools.Holdfast, append(append([]string{"sqlite", "restore", "--to", to}, flags...), url)...)
	if r.status != 0 {
		return fmt.Errorf("restore %s: %s", url, r.out)
	}
	return hasRows(to, n)
}

// result is how a program that was run to its end ended.
type result struct {
	status int
	out    string
}

// last is its last line.
func (r result) last() string {
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	return lines[len(lines)-1]
}

// try runs a program to its end. One that does not end fails the test.
func (s *scene) try(program string, args ...string) result {
	s.t.Helper()
	most := wait.Limit(s.t)
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), s.env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	r := result{out: out.String()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		s.t.Errorf("%s %s has not ended within %s:\n%s", filepath.Base(program), strings.Join(args, " "), most, r.out)
		r.status = -1
	case errors.As(err, &exit):
		r.status = exit.ExitCode()
	case err != nil:
		s.t.Fatal(err)
	}
	return r
}

// good runs a program to its end, which must be one without an error.
func (s *scene) good(program string, args ...string) result {
	s.t.Helper()
	r := s.try(program, args...)
	if r.status != 0 {
		s.t.Fatalf("%s %s ended with %d:\n%s", filepath.Base(program), strings.Join(args, " "), r.status, r.out)
	}
	return r
}

// bad runs a program to its end, which must come by itself, with status 1 and a line that says each of the words.
func (s *scene) bad(words []string, program string, args ...string) result {
	s.t.Helper()
	r := s.try(program, args...)
	if r.status != 1 {
		s.t.Errorf("%s %s ended with %d, which is to be 1:\n%s", filepath.Base(program), strings.Join(args, " "), r.status, r.out)
	}
	for _, w := range words {
		if !strings.Contains(r.out, w) {
			s.t.Errorf("%s %s does not say %q:\n%s", filepath.Base(program), strings.Join(args, " "), w, r.out)
		}
	}
	return r
}

// once stores what a database has, and ends.
func (s *scene) once(db, url string) {
	s.t.Helper()
	s.good(s.tools.Litestream, "replicate", "-once", db, url)
}

// process is a program that runs beside the test.
type process struct {
	*proctest.Process
	s *scene
}

// start starts a program that is ended with the test at the latest.
func (s *scene) start(name, program string, args ...string) *process {
	s.t.Helper()
	p := &process{proctest.NewProcess(s.path(name+".log"), program, args...), s}
	p.Setenv(s.env...)
	s.must(p.Start())
	s.t.Cleanup(func() { _ = p.Kill() }) // one that has ended is gone all the same
	return p
}

// replicate starts `litestream replicate`.
func (s *scene) replicate(name, db, url string) *process {
	s.t.Helper()
	return s.start(name, s.tools.Litestream, "replicate", db, url)
}

// agent starts `holdfast sqlite replicate` with short times.
func (s *scene) agent(name, db, url string, flags ...string) *process {
	s.t.Helper()
	args := append([]string{"sqlite", "replicate", "--interval", "200ms", "--socket", s.path(name + ".sock"), "--replica", url}, limits()...)
	return s.start(name, s.tools.Holdfast, append(append(args, flags...), db)...)
}

// log is what it has printed.
func (p *process) log() string {
	p.s.t.Helper()
	b, err := os.ReadFile(p.LogFile())
	p.s.must(err)
	return string(b)
}

// says waits until it has printed a text.
func (p *process) says(text string) {
	p.s.t.Helper()
	if err := rig.Poll(wait.Limit(p.s.t), func() error {
		if l := p.log(); !strings.Contains(l, text) {
			return fmt.Errorf("it does not say %q:\n%s", text, l)
		}
		return nil
	}); err != nil {
		p.s.t.Fatal(err)
	}
}

// end waits for its end and returns its status.
func (p *process) end() int {
	p.s.t.Helper()
	select {
	case <-p.Exited():
	case <-time.After(wait.Limit(p.s.t)):
		p.s.t.Fatalf("it does not end:\n%s", p.log())
	}
	var exit *exec.ExitError
	if errors.As(p.ExitError(), &exit) {
		return exit.ExitCode()
	}
	p.s.must(p.ExitError())
	return 0
}

// stop asks it to end and returns its status.
func (p *process) stop() int {
	p.s.t.Helper()
	p.s.must(p.Term(wait.Limit(p.s.t)))
	return p.end()
}

// last is its last line.
func (p *process) last() string { return strings.TrimSpace(p.LogTail(1)) }

// app describes an application with the extension that inserts n rows behind those up to from.
func (s *scene) app(name, db string, from, n int) *rig.App {
	return &rig.App{DB: db, Says: s.path(name + ".says"), Extension: s.tools.Extension, From: from, First: n}
}

// run runs an application of which all inserts must return.
func (s *scene) run(name string, a *rig.App) {
	s.t.Helper()
	line := a.Command(s.tools)
	s.good(line[0], line[1:]...)
	if said := a.Said(); len(said.OK) != a.First+a.Then {
		s.t.Fatalf("%s: %d of %d inserts returned: %v", name, len(said.OK), a.First+a.Then, said.No)
	}
}

// managed waits until an agent has begun beside a database: an application that opens the database before there has ever been one has none.
func (s *scene) managed(db string) {
	s.t.Helper()
	real, err := filepath.EvalSymlinks(db)
	if err != nil {
		real = db
	}
	side := filepath.Join(filepath.Dir(real), "."+filepath.Base(real)+"-holdfast", "agent")
	s.must(rig.Poll(wait.Limit(s.t), func() error { _, err := os.Stat(side); return err }))
}

// groups is how many files level 0 of a replica has.
func (s *scene) groups(name string) int {
	s.t.Helper()
	l, err := filepath.Glob(filepath.Join(s.path(name), "ltx", "0", "*.ltx"))
	s.must(err)
	return len(l)
}

// newest is the newest file of level 0 of a replica.
func (s *scene) newest(name string) string {
	s.t.Helper()
	l, err := filepath.Glob(filepath.Join(s.path(name), "ltx", "0", "*.ltx"))
	s.must(err)
	if len(l) == 0 {
		s.t.Fatalf("%s has no group", name)
	}
	return l[len(l)-1]
}

// copyTo copies files and directories with all they have.
func (s *scene) copyTo(to string, names ...string) {
	s.t.Helper()
	if out, err := exec.Command("cp", append(append([]string{"-a"}, names...), to)...).CombinedOutput(); err != nil {
		s.t.Fatalf("copy: %v: %s", err, out)
	}
}

// wipe removes a database with all that lies beside it: a fresh container.
func (s *scene) wipe(db string) {
	s.t.Helper()
	dir, name := filepath.Split(db)
	for _, f := range []string{name, name + "-wal", name + "-shm", "." + name + "-holdfast", "." + name + "-litestream"} {
		s.must(os.RemoveAll(filepath.Join(dir, f)))
	}
}

// files are the names in a directory.
func (s *scene) files(dir string) (l []string) {
	s.t.Helper()
	all, err := os.ReadDir(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		s.must(err)
	}
	for _, f := range all {
		l = append(l, f.Name())
	}
	return l
}

// aside reports whether a database's old copy is kept beside it.
func (s *scene) aside(db string) bool {
	s.t.Helper()
	for _, f := range s.files(filepath.Dir(db)) {
		if strings.HasPrefix(f, filepath.Base(db)+".") {
			return true
		}
	}
	return false
}
