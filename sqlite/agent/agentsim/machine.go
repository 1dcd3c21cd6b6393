package agentsim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/core/clock"
	"github.com/holdfastdb/holdfast/sqlite/agent"
	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/replica"
	"github.com/holdfastdb/holdfast/sqlite/restore"
)

// machine has a disk, an agent that comes and goes, and programs.
type machine struct {
	w      *world
	number int
	name   string
	boots  int
	disk   *fileSystem

	agent    *process
	a        *agent.Agent
	lookup   func(h gate.Hello) gate.Database // nil: no agent listens
	handles  []*handle
	programs []*program

	cutOff      time.Duration // until when the store cannot be reached
	pausedUntil time.Duration // until when the agent's process does not run
	troubled    time.Duration // when something last happened that may keep it from capturing
	stopping    bool
}

// settings are an agent's, chosen once a run.
type settings struct {
	interval, ackTimeout, snapshot, retention, l0 time.Duration
	levels                                        []time.Duration
	maxUnstored                                   int64
	auto                                          uint32 // wal_autocheckpoint of programs
	spill                                         int    // frames of a large transaction
	pages                                         uint32 // that a database has at most
	full                                          bool   // synchronous=FULL
}

func (w *world) newMachine() *machine {
	m := &machine{w: w, number: len(w.machines) + 1}
	m.name = fmt.Sprintf("machine %d", m.number)
	m.disk = newFileSystem(m)
	w.machines = append(w.machines, m)
	return m
}

// Clock.
var _ clock.Clock = (*machine)(nil)

// Wall implements clock.Clock.
func (m *machine) Wall() time.Time { return m.w.wall() }

// Mono implements clock.Clock.
func (m *machine) Mono() time.Duration { return m.w.now }

// start starts an agent.
func (m *machine) start() {
	w := m.w
	if m.agent != nil {
		return
	}
	w.note("%s: an agent starts", m.name)
	w.rep.Takeovers++
	m.troubled, m.stopping = w.now, false
	p := &process{m: m}
	m.agent = p
	a, err := agent.Start(agent.Config{
		Databases: []agent.Target{{Path: dbPath, Replica: replica.Simulated(&outlet{p: p}, replica.Bucket, w.wall), URL: "s3://bucket", Ack: gate.Archive}},
		Socket:    "/run/holdfast", Interval: w.cfg.interval, AckTimeout: w.cfg.ackTimeout, MaxUnstored: w.cfg.maxUnstored,
		Levels: w.cfg.levels, Snapshot: w.cfg.snapshot, Retention: w.cfg.retention, L0Retention: w.cfg.l0,
		Log: slog.New(logger{m: m}), FS: m.disk,
		Seams: agent.Seams{Clock: m, Runner: p, Timeout: p.timeout, Files: files{p}, Random: w.rng.Uint64,
			Prepare: func(ctx context.Context, r *replica.Replica, how restore.Options) (agent.Prepared, error) {
				return p.prepare(ctx, r, how.To)
			},
			Listen: func(_ string, lookup func(gate.Hello) gate.Database, _ *slog.Logger) (interface{ Close() }, error) {
				m.lookup = lookup
				return socket{p}, nil
			}},
	})
	if err != nil {
		w.note("%s: the agent does not start: %v", m.name, err)
		m.gone()
		return
	}
	m.a = a
}

// socket is the agent's, with every connection to it.
type socket struct{ p *process }

func (s socket) Close() { s.p.m.hangUp() }

// hangUp ends all connections of programs to the agent.
func (m *machine) hangUp() {
	m.lookup = nil
	for _, p := range m.programs {
		for _, c := range p.clients {
			c.hungUp()
		}
	}
}

// gone is the kernel's part when an agent's process has ended.
func (m *machine) gone() {
	p := m.agent
	if p == nil {
		return
	}
	p.kill()
	for len(m.handles) > 0 {
		m.handles[0].Close()
	}
	for _, l := range m.disk.locks {
		l.Unlock()
	}
	m.disk.locks = nil
	m.agent, m.a, m.pausedUntil = nil, nil, 0
	m.hangUp()
}

// kill ends the agent where it is.
func (m *machine) kill() {
	if m.agent == nil {
		return
	}
	m.w.note("%s: the agent is killed", m.name)
	m.w.rep.Kills++
	m.troubled = m.w.now
	m.gone()
}

// stop ends the agent as SIGTERM does, with so much time to store the rest. then is called when it has ended.
func (m *machine) stop(patience time.Duration, then func(err error)) {
	p, w := m.agent, m.w
	if p == nil || m.stopping || m.a == nil {
		return
	}
	m.stopping = true
	m.troubled = w.now
	w.note("%s: the agent is to stop within %v", m.name, patience)
	w.rep.Stops++
	a := m.a
	p.Go(func() {
		ctx, cancel := p.timeout(context.Background(), patience)
		defer cancel()
		err := a.Close(ctx)
		w.note("%s: the agent has stopped: %v", m.name, err)
		w.after(0, func() {
			if m.agent == p {
				m.gone()
			}
			if then != nil {
				then(err)
			}
		})
	})
}

// powerCut ends every process and forgets what was not made durable.
func (m *machine) powerCut() {
	w := m.w
	w.note("%s: the power goes", m.name)
	w.rep.PowerCuts++
	m.gone()
	for _, p := range m.programs {
		p.kill()
	}
	m.disk.Crash(w.rng)
	all := w.chance(1, 2)
	for _, n := range m.disk.sorted() {
		n.powerCut(func() bool { return all || w.chance(1, 2) })
	}
	m.boots++
	m.troubled = w.now
	if n := m.disk.names[dbPath]; n != nil {
		w.ledger.at(m, n)
	}
}

// copyOf makes a machine whose disk is a copy of m's at this moment.
func (m *machine) copyOf() *machine {
	w := m.w
	c := w.newMachine()
	w.note("%s is a copy of %s", c.name, m.name)
	w.rep.Copies++
	for _, path := range sortedNames(m.disk.names) {
		c.disk.names[path] = m.disk.names[path].clone(w)
	}
	for _, under := range []string{dir, side} {
		if err := m.disk.copyTo(c.disk, under); err != nil {
			panic(err)
		}
	}
	return c
}

// end ends everything, at the end of a run.
func (m *machine) end() {
	m.gone()
	for _, p := range m.programs {
		p.kill()
	}
}

// prepared is a database that is restored under a working name, as package restore does it, in the model of the files.
type prepared struct {
	p     *process
	r     *replica.Replica
	path  string
	pages [][]byte
	made  restore.Restored
}

// prepare implements agent.Seams.Prepare.
func (p *process) prepare(ctx context.Context, r *replica.Replica, path string) (*prepared, error) {
	d := &prepared{p: p, r: r, path: path}
	return d, d.Advance(ctx)
}

// Restored implements agent.Prepared.
func (d *prepared) Restored() restore.Restored { return d.made }

// Advance implements agent.Prepared.
func (d *prepared) Advance(ctx context.Context) error {
	all, err := restore.Files(ctx, d.r, restore.Target{})
	if err != nil {
		return err
	}
	if d.pages, err = assemble(ctx, d.r, all); err != nil {
		return err
	}
	d.made = restore.Restored{TXID: all[len(all)-1].Max, Pages: uint32(len(d.pages)), PageSize: pageSize, Checksum: sumOf(d.pages), Proved: true}
	return nil
}

// Finish implements agent.Prepared.
func (d *prepared) Finish(context.Context) (*restore.Restored, error) {
	m := d.p.m
	if m.disk.names[d.path] != nil { // a program has made one meanwhile
		return nil, fmt.Errorf("%s: %w", d.path, restore.ErrExists)
	}
	m.w.rep.Restores++
	m.disk.names[d.path] = &inode{number: m.w.number(), wal: true, pages: d.pages, written: m.w.now}
	return &d.made, nil
}

// Close implements agent.Prepared.
func (d *prepared) Close() error { return nil }

// restored is the database as a replica has it.
func restored(ctx context.Context, r *replica.Replica, to restore.Target) ([][]byte, error) {
	all, err := restore.Files(ctx, r, to)
	if err != nil {
		return nil, err
	}
	return assemble(ctx, r, all)
}

// assemble is the database that files make.
func assemble(ctx context.Context, r *replica.Replica, all []replica.File) ([][]byte, error) {
	var pages [][]byte
	for _, f := range all {
		in, err := r.Open(ctx, f, 0, -1)
		if err != nil {
			return nil, err
		}
		c, err := restore.ReadFile(in)
		in.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		next := make([][]byte, c.Header.Commit)
		copy(next, pages)
		for number, page := range c.Pages { // any order: each has its place
			next[number-1] = page
		}
		pages = next
	}
	for i, p := range pages {
		if p == nil {
			return nil, errors.New("no file has page " + fmt.Sprint(i+1))
		}
	}
	return pages, nil
}

// refuses is the agent's reason for refusing the database, "" if it is followed.
func (m *machine) refuses() string {
	if m.a == nil {
		return "no agent"
	}
	status := m.a.Status()[dbPath]
	if _, why, ok := strings.Cut(status, "writes are refused: "); ok {
		return why
	}
	return ""
}
