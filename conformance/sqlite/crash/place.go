package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/internal/bucket"
	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/objstore"
)

// place is a bucket and the machines that use it. It belongs to one goroutine.
type place struct {
	run      *run
	dir      string
	bucket   *bucket.Bucket
	machines []*machine
	way      *late  // of agents to the bucket; nil: they have none of their own
	below    string // an extension that applications load before ours; "" for none
}

// upload is how long the store takes to store an object.
const upload = 50 * time.Millisecond

func (r *run) place() (*place, error) {
	r.number++
	p := &place{run: r, dir: filepath.Join(r.dir, fmt.Sprintf("p%d", r.number))}
	b, err := bucket.Start()
	if err != nil {
		return nil, err
	}
	b.Slow(upload)
	p.bucket = b
	return p, errors.Join(os.Mkdir(p.dir, 0o755), b.Setenv())
}

func (p *place) url(prefix string) string { return p.bucket.URL(prefix) }

func (p *place) killAll() {
	for _, m := range p.machines {
		m.kill()
	}
	p.machines = nil
}

func (p *place) close() error { return errors.Join(p.bucket.Close(), os.RemoveAll(p.dir)) }

// keepAll moves the machines' files and the bucket's content to where a person finds them; the error says where.
func (p *place) keepAll(dir string) error {
	to, err := os.MkdirTemp(dir, "sqlite-crash-")
	if err != nil {
		return err
	}
	if out, err := exec.Command("cp", "-a", p.dir, to).CombinedOutput(); err != nil {
		return fmt.Errorf("keep %s: %w: %s", p.dir, err, out)
	}
	p.bucket.Slow(0)
	p.bucket.Fail(nil)
	s, err := objstore.Open(p.url(""))
	if err != nil {
		return err
	}
	files := objstore.NewFile(filepath.Join(to, "bucket"))
	ctx := context.Background()
	for o, err := range s.List(ctx, "", "") {
		if err != nil {
			return err
		}
		b, err := s.Get(ctx, o.Name)
		if err == nil {
			err = files.Put(ctx, objstore.Object{Name: o.Name, Data: b})
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("kept in %s", to)
}

// machine is a directory with a database, an agent and an application.
type machine struct {
	place *place
	name  string
	dir   string
	db    string
	agent *proctest.Process
	app   *ledger
	apps  []*proctest.Process
	plain map[string]int               // the rows before the agent: writer → its last row
	wrap  func(line []string) []string // puts a command where something is in its way; nil: nothing is
}

// machine makes one with nothing on its disk.
func (p *place) machine(name string) (*machine, error) {
	m := &machine{place: p, name: name, dir: filepath.Join(p.dir, name)}
	m.db = filepath.Join(m.dir, "app.db")
	m.app = &ledger{file: filepath.Join(p.dir, name+".says"), acked: map[string]int{}, errors: map[string]int{}}
	p.machines = append(p.machines, m)
	return m, os.Mkdir(m.dir, 0o755)
}

// load is how an application writes.
type load struct {
	name    string // of its writers, unique
	writers int
	bytes   int // of a row, at most
	plain   bool
}

var twenty = load{name: "w", writers: 20, bytes: 600}

func (m *machine) appArgs(l load) []string {
	extension := m.place.run.extension
	if m.place.below != "" {
		extension = m.place.below + "," + extension
	}
	if l.plain {
		extension = "-"
	}
	return []string{"/usr/bin/python3", filepath.Join(m.place.run.root, "conformance/sqlite/crash/testdata/app.py"), m.db, extension, m.app.file, l.name,
		fmt.Sprint(l.writers), "600", fmt.Sprint(l.bytes)}
}

// start starts the agent alone, and the application if there is one to be under it. It reaches the bucket over the place's way, if there is
// one.
func (m *machine) start(url string, under *load, flags ...string) error {
	var env []string
	if m.place.way != nil {
		env = append(env, m.place.way.env())
	}
	return m.startWith(env, url, under, flags...)
}

// startDirect is start, straight to the bucket.
func (m *machine) startDirect(url string, under *load, flags ...string) error {
	return m.startWith(nil, url, under, flags...)
}

func (m *machine) startWith(env []string, url string, under *load, flags ...string) error {
	verb := "replicate"
	if under != nil {
		verb = "run"
	}
	args := append([]string{"sqlite", verb, "--replica", url}, flags...)
	args = append(args, m.db)
	if under != nil {
		args = append(append(args, "--"), m.appArgs(*under)...)
	}
	m.agent = proctest.NewProcess(filepath.Join(m.place.dir, m.name+".log"), m.place.run.bin, args...)
	m.agent.Setenv(env...)
	if err := m.agent.Start(); err != nil || under != nil {
		return err
	}
	// An application that opens the database before there has ever been an agent has none.
	for began := time.Now(); !exists(filepath.Join(m.dir, ".app.db-holdfast", "agent")); time.Sleep(5 * time.Millisecond) {
		if !m.agent.Running() || time.Since(began) > 10*time.Second {
			return fmt.Errorf("the agent of %s has not begun:\n%s", m.db, m.agent.LogTail(5))
		}
	}
	return nil
}

// write starts an application of its own.
func (m *machine) write(l load) error {
	args := m.appArgs(l)
	a := proctest.NewProcess(filepath.Join(m.place.dir, m.name+".app.log"), args[0], args[1:]...)
	m.apps = append(m.apps, a)
	return a.Start()
}

// killApps kills the application, started by the rig or by the agent.
func (m *machine) killApps() {
	for _, a := range m.apps {
		a.Kill() // one that has ended is gone all the same
	}
	m.app.read()
	for _, pid := range m.app.pids {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && strings.Contains(string(b), m.app.file) {
			syscall.Kill(pid, syscall.SIGKILL)
			for range 1000 {
				if _, err := os.Stat(fmt.Sprintf("/proc/%d/fd/0", pid)); err != nil {
					break
				}
				time.Sleep(time.Millisecond)
			}
		}
	}
	m.app.pids = nil
}

// kill kills everything of the machine.
func (m *machine) kill() {
	m.killApps()
	if m.agent != nil {
		m.agent.Resume() // one that is stopped cannot be waited for
		m.agent.Kill()
	}
	m.killApps() // `run` may have started it meanwhile
}

// waitAcked waits until the application has n commits acknowledged since the call.
func (m *machine) waitAcked(ctx context.Context, n int, most time.Duration) error {
	m.app.read()
	from, began := m.app.oks, time.Now()
	for m.app.oks < from+n {
		if err := ctx.Err(); err != nil {
			return err
		}
		if time.Since(began) > most {
			return fmt.Errorf("%s: %d of %d commits acknowledged in %s; the application says %v, the agent:\n%s", m.name, m.app.oks-from, n, span(most),
				m.app.errors, m.agent.LogTail(5))
		}
		time.Sleep(2 * time.Millisecond)
		m.app.read()
	}
	return nil
}

// look is what a database holds, as testdata/look.py prints it.
type look struct {
	Integrity string
	Count     int
	Rows      map[string][3]int // writer → how many, least, most
}

func (r *run) look(db string) (l look, err error) {
	out, err := exec.Command("/usr/bin/python3", filepath.Join(r.root, "conformance/sqlite/crash/testdata/look.py"), db).CombinedOutput()
	if err != nil {
		return l, fmt.Errorf("look at %s: %w: %s", db, err, out)
	}
	return l, json.Unmarshal(out, &l)
}

// restore makes the database of a prefix anew, with the command.
func (p *place) restore(prefix, name string) (string, error) {
	to := filepath.Join(p.dir, name)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		os.Remove(to + suffix) // most are not there
	}
	out, err := exec.Command(p.run.bin, "sqlite", "restore", "--to", to, p.url(prefix)).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("restore %s: %w: %s", p.url(prefix), err, out)
	}
	return to, nil
}

// judge restores a prefix and compares it with the commits acknowledged on the machines; it returns their number.
func (p *place) judge(prefix string, machines ...*machine) (acked int, err error) {
	for _, m := range machines {
		m.app.read() // before the restore: an application that still runs has more acknowledged meanwhile
	}
	db, err := p.restore(prefix, "restored.db")
	if err != nil {
		return 0, err
	}
	l, err := p.run.look(db)
	if err != nil {
		return 0, err
	}
	var bad []string
	if l.Integrity != "ok" {
		bad = append(bad, "integrity_check: "+l.Integrity)
	}
	all := 0
	for w, r := range l.Rows {
		if all += r[0]; r[1] != 1 || r[2] != r[0] {
			bad = append(bad, fmt.Sprintf("writer %s has %d rows from %d to %d", w, r[0], r[1], r[2]))
		}
	}
	if all != l.Count {
		bad = append(bad, fmt.Sprintf("%d rows, and the counter says %d", all, l.Count))
	}
	for _, m := range machines {
		for w, n := range m.app.acked {
			if acked += n; l.Rows[w][2] < n {
				bad = append(bad, fmt.Sprintf("%s: writer %s: %d was acknowledged, %d is the last that is there", m.name, w, n, l.Rows[w][2]))
			}
		}
	}
	if len(bad) > 0 {
		slices.Sort(bad)
		return acked, fmt.Errorf("%s", strings.Join(bad, "; "))
	}
	return acked, nil
}
