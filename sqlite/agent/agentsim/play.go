package agentsim

import (
	"time"

	"github.com/holdfastdb/holdfast/sqlite/gate"
)

// play is a run from its beginning to its end.
func (w *world) play() {
	w.choose()
	m := w.newMachine()
	if w.chance(2, 3) {
		w.create(m)
	}
	m.start()
	if m.disk.names[dbPath] == nil {
		w.after(w.between(0, 10*time.Second), func() { w.create(m) })
	}
	w.busy = true
	m.populate()
	busy := w.opt.Busy
	if busy == 0 {
		busy = w.between(30*time.Second, 4*time.Minute)
	}
	w.after(w.between(time.Second, 5*time.Second), w.nemesis)
	w.after(10*time.Second, w.watch)
	w.runUntil(w.now + busy)
	w.conclude()
}

// choose sets what holds for the whole run.
func (w *world) choose() {
	r := w.rng
	pick := func(l ...time.Duration) time.Duration { return l[r.IntN(len(l))] }
	w.cfg = settings{
		interval: pick(200*time.Millisecond, time.Second), ackTimeout: pick(3*time.Second, 10*time.Second),
		snapshot: pick(15*time.Second, time.Minute), retention: pick(15*time.Second, 40*time.Second, time.Hour), l0: pick(2*time.Second, 10*time.Second),
		levels:      [][]time.Duration{{3 * time.Second}, {2 * time.Second, 10 * time.Second}, {2 * time.Second, 6 * time.Second, 20 * time.Second}}[r.IntN(3)],
		maxUnstored: []int64{20 << 10, 64 << 20}[r.IntN(2)], auto: []uint32{4, 30, 1000}[r.IntN(3)], pages: []uint32{6, 20, 60}[r.IntN(3)],
		full: r.IntN(3) == 0,
	}
	if r.IntN(4) == 0 {
		w.cfg.spill = 250 + r.IntN(300)
	}
	w.bucket.upset = []int{0, 40, 15, 6}[r.IntN(4)]
	w.note("settings %+v, one request of %d is upset", w.cfg, w.bucket.upset)
}

// create makes the database of a machine, as its first program does.
func (w *world) create(m *machine) {
	if m.disk.names[dbPath] != nil {
		return
	}
	n := &inode{number: w.number(), wal: true, pages: [][]byte{make([]byte, pageSize), make([]byte, pageSize)}, written: w.now}
	n.pages[0][0], n.pages[1][0] = byte(m.number), 2
	m.disk.names[dbPath] = n
	w.note("%s: the database is made", m.name)
	if sum := sumOf(n.pages); w.ledger.commits[sum] == nil {
		w.ledger.commit(m, nil, sum)
	}
	m.troubled = w.now
}

// populate starts a machine's programs.
func (m *machine) populate() {
	w := m.w
	for range 1 + w.rng.IntN(2) {
		switch w.rng.IntN(6) {
		case 0:
			m.newProgram(false, gate.Default, 1+w.rng.IntN(2))
		case 1:
			m.newProgram(true, gate.Local, 1)
		default:
			m.newProgram(true, gate.Archive, 1+w.rng.IntN(4))
		}
	}
}

// committed is called with every commit.
func (m *machine) committed(n *inode) {
	if n == m.disk.names[dbPath] {
		m.troubled = m.w.now
	}
}

// nemesis does something, and plans the next.
func (w *world) nemesis() {
	if !w.busy {
		return
	}
	w.after(w.between(100*time.Millisecond, 8*time.Second), w.nemesis)
	m := w.machines[w.rng.IntN(len(w.machines))]
	switch w.rng.IntN(20) {
	case 0, 1:
		m.kill()
		w.restartSoon(m)
	case 2, 3:
		m.stop(w.between(0, 20*time.Second), func(error) { w.restartSoon(m) })
	case 4:
		m.powerCut()
		w.powerOn(m)
	case 5: // stopped cleanly, and then the power goes: acknowledged commits are on the disk, or known not to be
		m.stop(20*time.Second, func(error) {
			m.powerCut()
			w.powerOn(m)
		})
	case 6:
		if len(w.machines) < 3 {
			c := m.copyOf()
			c.start()
			c.populate()
		}
	case 7:
		if len(w.machines) < 3 {
			c := w.newMachine()
			w.note("%s is new", c.name)
			c.start()
			c.populate()
		}
	case 8, 9:
		m.cutOff = w.now + w.between(time.Second, 30*time.Second)
		m.troubled = m.cutOff
		w.note("%s does not reach the store until %v", m.name, m.cutOff)
	case 10:
		if m.agent != nil {
			m.pausedUntil = w.now + w.between(10*time.Millisecond, 20*time.Second)
			w.upsets = append(w.upsets, w.now)
			m.troubled = m.pausedUntil
			w.note("the agent of %s is paused until %v", m.name, m.pausedUntil)
			w.after(m.pausedUntil-w.now, func() { w.upsets = append(w.upsets, w.now) })
		}
	case 11:
		for _, p := range m.programs {
			if w.chance(1, 2) {
				w.note("%s: program %d is killed", m.name, p.number)
				p.kill()
				w.after(w.between(0, 5*time.Second), p.again)
			}
		}
	case 12, 13: // no program writes for a while, and the database comes to rest
		quiet := w.between(2*time.Second, 15*time.Second)
		w.note("%s: nobody writes for %v", m.name, quiet)
		for _, p := range m.programs {
			p.gen++
			gen := p.gen
			w.after(quiet, func() {
				if p.gen == gen {
					p.again()
				}
			})
		}
	case 14: // a program without the extension comes by
		p := m.newProgram(false, gate.Default, 1)
		w.after(w.between(time.Second, 20*time.Second), func() {
			if w.chance(1, 2) {
				for _, c := range p.clients {
					if c.c != nil {
						c.shut()
					}
				}
			}
			p.kill()
		})
	case 15:
		w.bucket.slow = []time.Duration{0, 0, 100 * time.Millisecond, time.Second}[w.rng.IntN(4)]
		w.note("requests take %v longer", w.bucket.slow)
	default:
		m.start()
	}
}

// restartSoon starts the agent of a machine again, most times.
func (w *world) restartSoon(m *machine) {
	if w.chance(4, 5) {
		w.after(w.between(0, 10*time.Second), func() {
			if w.busy {
				m.start()
			}
		})
	}
}

// powerOn starts everything again.
func (w *world) powerOn(m *machine) {
	w.after(w.between(0, 5*time.Second), func() {
		for _, p := range m.programs {
			p.again()
		}
	})
	w.restartSoon(m)
}

// calm is how long nothing may be in the way before every commit has to be stored.
const calm = 25 * time.Second

// watch checks now and then that a following agent stores every commit, by any program, at rest or not.
func (w *world) watch() {
	if !w.busy {
		return
	}
	w.after(w.between(2*time.Second, 8*time.Second), w.watch)
	for _, m := range w.machines {
		w.followed(m)
	}
}

func (w *world) followed(m *machine) {
	if m.a == nil || m.stopping || w.now-m.troubled < calm || w.bucket.upset > 0 && !w.bucket.calm || m.refuses() != "" {
		return
	}
	n := m.disk.names[dbPath]
	if n == nil {
		return
	}
	is := w.ledger.at(m, n)
	c, err := w.ledger.raw().Read(background)
	if err != nil {
		w.fail(Followed, "the replica cannot be read: %v", err)
		return
	}
	if has := w.ledger.commits[c.Head.Post]; is != nil && has != is && (has == nil || has.within(is)) {
		w.fail(Followed, "%s has commit %d for %v, and the replica ends at TXID %s with %v", m.name, is.number, w.now-m.troubled, c.Head.TXID, number(has))
	}
}

func number(c *commit) uint64 {
	if c == nil {
		return 0
	}
	return c.number
}

// conclude ends the faults, and judges the final state.
func (w *world) conclude() {
	if w.failure != nil {
		return
	}
	w.note("the faults end")
	w.busy = false
	w.bucket.calm, w.bucket.slow = true, 0
	for _, m := range w.machines {
		m.cutOff, m.pausedUntil = 0, 0
	}
	w.runUntil(w.now + 60*time.Second)
	if w.failure != nil {
		return
	}
	w.ledger.durable(true)
	w.ledger.retained(8)
	for _, m := range w.machines {
		m.troubled = 0
		w.followed(m)
	}
	for _, m := range w.machines {
		follows := m.a != nil && m.refuses() == "" && m.disk.names[dbPath] != nil && !m.stopping
		m.stop(time.Minute, func(err error) {
			if follows && err == nil {
				w.ended(m)
			}
		})
	}
	w.runUntil(w.now + 70*time.Second)
	if w.failure != nil {
		return
	}
	w.ledger.durable(true)
	// In any case an empty disk must be able to take over.
	last := w.newMachine()
	last.start()
	w.runUntil(w.now + 60*time.Second)
	if w.failure != nil || w.ledger.acked == nil && len(w.ledger.groups()) == 0 {
		return
	}
	n := last.disk.names[dbPath]
	if n == nil || last.refuses() != "" {
		w.fail(GoesOn, "an empty disk does not take the replica over: %s", last.refuses())
		return
	}
	if has := w.ledger.at(last, n); has != nil && w.ledger.acked != nil && !w.ledger.acked.within(has) {
		w.fail(Durable, "an empty disk was given commit %d, which is without commit %d", has.number, w.ledger.acked.number)
	}
	w.ledger.durable(true)
}

// ended judges an agent that has stopped without an error.
func (w *world) ended(m *machine) {
	n := m.disk.names[dbPath]
	if n == nil {
		return
	}
	is := w.ledger.at(m, n)
	c, err := w.ledger.raw().Read(background)
	if err != nil {
		w.fail(Ended, "the replica cannot be read: %v", err)
		return
	}
	if has := w.ledger.commits[c.Head.Post]; is != nil && has != is && (has == nil || has.within(is)) {
		w.fail(Ended, "%s has stopped with commit %d, and the replica ends at TXID %s with %v", m.name, is.number, c.Head.TXID, number(has))
	}
}
