package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/holdfastdb/holdfast/conformance/sqlite/rig"
	"github.com/holdfastdb/holdfast/internal/proctest"
)

// obstacle keeps an agent from bringing its database up to date.
type obstacle struct {
	name string
	// put puts it in the way of a machine, and returns what takes it away again.
	put func(r *run, m *machine) (away func() error, err error)
}

var obstacles = []obstacle{
	{"its file is open in a reader", func(r *run, m *machine) (func() error, error) {
		return r.holdOpen(m, "begin; select count(*) from entries")
	}},
	{"its file is open in a writer", func(r *run, m *machine) (func() error, error) { return r.holdOpen(m, "begin immediate") }},
	{"its file is open and idle", func(r *run, m *machine) (func() error, error) { return r.holdOpen(m, "select 1") }},
	{"its disk has no room for what is new", func(_ *run, m *machine) (func() error, error) { return m.onSmallDisk(64 << 10) }},
	{"its disk is full", func(_ *run, m *machine) (func() error, error) { return m.onSmallDisk(0) }},
	{"its disk is read-only", func(_ *run, m *machine) (func() error, error) {
		m.wrap = func(line []string) []string { return rig.ReadOnly(m.dir, line) }
		return func() error { m.wrap = nil; return nil }, nil
	}},
}

// onSmallDisk has the machine's agent run with its directory on a disk that has room for its present content and some bytes.
func (m *machine) onSmallDisk(room int64) (away func() error, err error) {
	info, err := os.Stat(m.db)
	if err != nil {
		return nil, err
	}
	const page = 4096 // a file takes whole pages of memory, and a directory none
	size := fmt.Sprint((info.Size()+page-1)/page*page + room)
	from := m.dir + ".before"
	if err := errors.Join(os.RemoveAll(from), exec.Command("cp", "-a", m.dir, from).Run()); err != nil {
		return nil, fmt.Errorf("copy %s: %w", m.dir, err)
	}
	m.wrap = func(line []string) []string { return rig.Small(m.dir, size, from, line) }
	return func() error { m.wrap = nil; return os.RemoveAll(from) }, nil
}

// holdOpen has another program open the machine's database.
func (r *run) holdOpen(m *machine, statement string) (away func() error, err error) {
	mark := m.dir + ".held"
	if err := os.RemoveAll(mark); err != nil {
		return nil, err
	}
	holder := proctest.NewProcess(filepath.Join(m.place.dir, m.name+".holder.log"), "/usr/bin/python3",
		filepath.Join(r.root, "conformance/sqlite/crash/testdata/hold.py"), m.db, statement, mark)
	if err := holder.Start(); err != nil {
		return nil, err
	}
	for began := time.Now(); !exists(mark); time.Sleep(5 * time.Millisecond) {
		if !holder.Running() || time.Since(began) > 10*time.Second {
			return nil, errors.Join(fmt.Errorf("%s is not opened:\n%s", m.db, holder.LogTail(5)), holder.Kill())
		}
	}
	return holder.Kill, nil
}

// unable has agents begin beside an owner under load, on machines with an older copy of its database where something keeps them from going on.
// The owner must not notice. Now and then the obstacle goes, and the other takes over: then the owner's application is refused.
func (r *run) unable(ctx context.Context, p *place) (string, error) {
	rounds := 2 * r.rounds
	if r.quick {
		rounds = len(obstacles)
	}
	took, acked, most := 0, 0, time.Duration(0)
	const lives = 12 // rounds of one replica
	var owner *machine
	var copyOf string
	for i := range rounds {
		where, o := fmt.Sprintf("unable%d", i/lives), obstacles[i%len(obstacles)]
		fail := func(err error) (string, error) {
			return "", fmt.Errorf("round %d of %s, %s: %w", i, where, o.name, err)
		}
		if i%lives == 0 {
			var err error
			if owner, copyOf, err = r.ownerOf(ctx, p, where); err != nil {
				return fail(err)
			}
		}
		other, err := p.machine(fmt.Sprintf("unable%d-b", i))
		if err != nil {
			return fail(err)
		}
		if out, err := exec.Command("cp", copyOf, other.db).CombinedOutput(); err != nil {
			return fail(fmt.Errorf("copy: %w: %s", err, out))
		}
		away, err := o.put(r, other)
		if err != nil {
			return fail(err)
		}
		if err := other.begin(p.url(where)); err != nil {
			return fail(err)
		}
		time.Sleep(200*time.Millisecond + rand.N(1500*time.Millisecond))
		began := time.Now()
		if err := owner.waitAcked(ctx, 20, 10*time.Second); err != nil {
			return fail(fmt.Errorf("the owner does not go on: %w; the other:\n%s", err, other.agent.LogTail(5)))
		}
		most = max(most, time.Since(began))
		if err := errors.Join(other.agent.Kill(), away()); err != nil {
			return fail(err)
		}
		if owner.isFenced() {
			return fail(errors.New("the owner's database is set aside"))
		}
		if i%lives == lives-1 || i == rounds-1 {
			if err := r.succeed(ctx, p, where, owner, other, copyOf); err != nil {
				return fail(err)
			}
			took++
		}
		n, err := p.judge(where, owner, other)
		if err != nil {
			return fail(err)
		}
		if i%lives == lives-1 || i == rounds-1 {
			acked += n
			p.killAll()
		}
	}
	return fmt.Sprintf("%d times in %d ways, the owner goes on (20 commits in %s at most); %d times the obstacle went, and the other has it; %d commits acknowledged, 0 missing",
		rounds, len(obstacles), span(most), took, acked), nil
}

// ownerOf starts an owner of a replica under load, and returns it with an older copy of its database.
func (r *run) ownerOf(ctx context.Context, p *place, where string) (m *machine, copyOf string, err error) {
	if m, err = p.machine(where + "-a"); err != nil {
		return nil, "", err
	}
	l := load{name: "f", writers: 2, bytes: 600}
	if err := errors.Join(m.start(p.url(where), nil), m.write(l)); err != nil {
		return nil, "", err
	}
	if err := m.waitAcked(ctx, 20, 20*time.Second); err != nil {
		return nil, "", err
	}
	m.killApps()
	if err := m.agent.Term(15 * time.Second); err != nil {
		return nil, "", err
	}
	copyOf = filepath.Join(p.dir, where+".copy")
	for _, command := range [][]string{{"/usr/bin/python3", filepath.Join(r.root, "conformance/sqlite/crash/testdata/settle.py"), m.db}, {"cp", m.db, copyOf}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return nil, "", fmt.Errorf("%v: %w: %s", command, err, out)
		}
	}
	l = load{name: "o", writers: 4, bytes: 2000}
	if err := errors.Join(m.start(p.url(where), nil), m.write(l)); err != nil {
		return nil, "", err
	}
	return m, copyOf, m.waitAcked(ctx, 300, 30*time.Second) // more than a small disk has room for
}

// succeed lets a machine go on that nothing is in the way of any more: it has the replica, and the owner's application is refused.
func (r *run) succeed(ctx context.Context, p *place, where string, owner, other *machine, copyOf string) error {
	if err := errors.Join(os.RemoveAll(other.dir), os.Mkdir(other.dir, 0o755)); err != nil {
		return err
	}
	if out, err := exec.Command("cp", copyOf, other.db).CombinedOutput(); err != nil {
		return fmt.Errorf("copy: %w: %s", err, out)
	}
	l := load{name: "b", writers: 4, bytes: 600}
	if err := other.start(p.url(where), &l); err != nil {
		return err
	}
	if err := other.waitAcked(ctx, 20, 20*time.Second); err != nil {
		return fmt.Errorf("nothing is in its way, and it does not take over: %w", err)
	}
	if err := owner.waitRefused(ctx, 15*time.Second); err != nil {
		return err
	}
	return other.waitAcked(ctx, 20, 10*time.Second)
}

// begin starts the agent alone, which may not get as far as a file.
func (m *machine) begin(url string) error {
	line := m.wrapped([]string{m.place.run.bin, "sqlite", "replicate", "--replica", url, m.db})
	m.agent = proctest.NewProcess(filepath.Join(m.place.dir, m.name+".log"), line[0], line[1:]...)
	return m.agent.Start()
}

func (m *machine) wrapped(line []string) []string {
	if m.wrap == nil {
		return line
	}
	return m.wrap(line)
}
