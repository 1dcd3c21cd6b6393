package agentsim

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// program is a process that uses a machine's database.
type program struct {
	m       *machine
	number  uint64
	gen     int  // counts its starts: plans from before a kill are dropped
	ext     bool // it has loaded the extension
	ack     gate.Ack
	think   time.Duration // between two things that a connection does
	clients []*client
}

// client is a connection of a program, with its connection to the agent if the program has the extension.
type client struct {
	p       *program
	name    string
	c       *conn // nil: the database is not open
	sock    *gate.Conn
	db      gate.Database // that sock belongs to
	state   [4]byte       // managed, ack, refuse, hold of the last STATE
	fresh   bool          // a STATE has come since the last answer that was not 0
	last    time.Duration // when the last message of the agent arrives
	sent    time.Duration // when the last message to the agent arrives
	seq     uint32
	waits   *commit // its commit waits for an answer
	waiting time.Duration
	heldAt  time.Duration // since when a transaction waits; -1: none does
}

// newProgram starts a program with some connections.
func (m *machine) newProgram(ext bool, ack gate.Ack, connections int) *program {
	w := m.w
	p := &program{m: m, number: w.number(), ext: ext, ack: ack, think: w.between(20*time.Millisecond, 3*time.Second)}
	m.programs = append(m.programs, p)
	w.note("%s: program %d starts, extension %v, ack %v, %d connections", m.name, p.number, ext, ack, connections)
	for i := range connections {
		c := &client{p: p, name: fmt.Sprintf("%s.%d.%d", m.name[len("machine "):], p.number, i), heldAt: -1}
		p.clients = append(p.clients, c)
		c.soon()
	}
	return p
}

// kill ends a program where it is.
func (p *program) kill() {
	p.gen++
	for _, c := range p.clients {
		c.hangUp()
		if c.c != nil {
			c.c.vanish()
			c.c = nil
		}
		c.waits = nil
	}
}

// again starts it anew after a kill.
func (p *program) again() {
	p.gen++
	for _, c := range p.clients {
		c.soon()
	}
}

// soon plans what the client does next.
func (c *client) soon() { c.later(c.p.m.w.between(c.p.think/4, 2*c.p.think)) }

func (c *client) later(d time.Duration) {
	gen := c.p.gen
	c.p.m.w.after(d, func() {
		if c.p.gen == gen {
			c.act()
		}
	})
}

// act does one thing.
func (c *client) act() {
	m := c.p.m
	w := m.w
	if !w.busy {
		return
	}
	if c.waits != nil {
		if w.now-c.waiting > w.cfg.ackTimeout+5*time.Second {
			w.note("%s has waited for long enough", c.name)
			c.waits = nil
			c.hangUp()
		}
		c.later(time.Second)
		return
	}
	if c.c == nil {
		lone := !c.p.ext && w.chance(1, 40) || c.p.ext && w.chance(1, 60)
		db, err := openConn(m, lone)
		if err != nil {
			c.soon()
			return
		}
		if db.lone {
			w.note("%s has the database for itself", c.name)
			w.rep.Exclusive++
		}
		c.c = db
		c.c.full = w.cfg.full
	}
	if c.c.read >= 0 { // a read transaction that lasted
		c.c.end()
		c.soon()
		return
	}
	switch w.rng.IntN(40) {
	case 0:
		c.shut()
	case 1:
		c.c.checkpoint()
	case 2, 3:
		w.note("%s checkpoints", c.name)
		gen := c.p.gen
		c.c.checkpointAll(w.chance(1, 2), w.between(0, 300*time.Millisecond), func() {
			if c.p.gen == gen {
				c.soon()
			}
		})
		return
	case 4:
		if c.c.begin() == nil {
			c.later(w.between(0, 5*time.Second))
			return
		}
	default:
		if !c.write() {
			return
		}
	}
	c.soon()
}

// shut closes the database.
func (c *client) shut() {
	m := c.p.m
	m.w.note("%s closes", c.name)
	c.hangUp()
	c.c.close()
	c.c = nil
}

// write makes a transaction, if the extension allows: false if something else plans what comes next.
func (c *client) write() bool {
	w := c.p.m.w
	if c.p.ext {
		if c.sock == nil && !c.connect() {
			return true // no agent: refused
		}
		switch {
		case c.state[0] == 0, c.c == nil, c.c.closed:
			return true
		case !c.fresh, c.state[2] != 0 && (c.p.ack == gate.Archive || c.state[2] == byte(gate.Fenced)):
			if w.chance(1, 3) {
				c.hangUp() // it asks anew
			}
			return true
		case c.state[3] == 1 && (c.heldAt < 0 || w.now-c.heldAt < 2*time.Second):
			if c.heldAt < 0 {
				c.heldAt = w.now
			}
			c.later(2 * time.Millisecond)
			return false
		}
		c.heldAt = -1
	}
	at, made := c.transact()
	if made == nil {
		return true
	}
	if !c.p.ext {
		return true
	}
	if c.p.ack == gate.Local {
		if c.c.lone {
			c.tell(gate.Commit{Seq: c.next(), Lone: true})
		} else {
			c.send(func(db gate.Database) { db.Note() })
		}
		return true
	}
	c.waits, c.waiting = made, w.now
	c.tell(gate.Commit{Seq: c.next(), Stored: true, Lone: c.c.lone, Salt: at.Salt, Frame: at.Frame})
	c.later(time.Second)
	return false
}

func (c *client) next() uint32 { c.seq++; return c.seq }

// transact makes a transaction and enters it into the ledger.
func (c *client) transact() (walfile.Position, *commit) {
	m := c.p.m
	w := m.w
	x := c.c.x
	if x.writer != nil {
		return walfile.Position{}, nil
	}
	before := w.ledger.at(m, c.c.n)
	if w.failure != nil {
		return walfile.Position{}, nil
	}
	h := x.Header
	if h.Frame == 0 {
		h.Pages = uint32(len(c.c.n.pages))
	}
	size := h.Pages
	switch {
	case w.chance(1, 8) && size < w.cfg.pages:
		size += 1 + w.rng.Uint32N(3)
	case w.chance(1, 25) && size > 3:
		size -= 1 + w.rng.Uint32N(size-2)
	}
	number := uint64(len(w.ledger.commits) + 1)
	var changes []change
	frames := 1 + w.rng.IntN(3)
	if w.cfg.spill > 0 && w.chance(1, 4) {
		frames = w.cfg.spill
	}
	var write []uint32
	for page := h.Pages + 1; page <= size; page++ {
		// A page that is new and free again is in no frame if it was never there before. Its content would be the old one, or zeros.
		if c.c.n.has(page, h) || w.chance(3, 4) {
			write = append(write, page)
		}
	}
	for range frames {
		write = append(write, 1+w.rng.Uint32N(size))
	}
	write[len(write)-1] = 1
	for i, page := range write {
		data := make([]byte, pageSize)
		binary.BigEndian.PutUint64(data, number)
		binary.BigEndian.PutUint32(data[8:], page)
		binary.BigEndian.PutUint32(data[12:], uint32(i))
		binary.BigEndian.PutUint64(data[16:], w.rng.Uint64())
		changes = append(changes, change{page, data})
	}
	at, err := c.c.commit(changes, size)
	if err != nil {
		return at, nil
	}
	made := w.ledger.commit(m, before, sumOf(c.c.n.image(x.Header)))
	w.note("%s makes commit %d over %d, %d frames up to %v, %d pages", c.name, made.number, before.number, frames, at, size)
	m.committed(c.c.n)
	if x.Frame-x.Copied > c.c.auto || x.Frame > c.c.auto && w.chance(1, 2) {
		c.c.checkpoint()
	}
	return at, made
}

// connect connects to the agent: false if there is none.
func (c *client) connect() bool {
	m := c.p.m
	w := m.w
	if m.lookup == nil || m.pausedUntil > w.now || c.c == nil || c.c.n != m.disk.names[dbPath] {
		return false // the extension asks of the file that is open, by device and inode
	}
	hello := gate.Hello{Ack: c.p.ack, PID: uint32(c.p.number), Path: dbPath, File: c.c.n.id()}
	db := m.lookup(hello)
	if db == nil {
		return false
	}
	var sock *gate.Conn
	sock = gate.NewConn(hello, func(b []byte) {
		if c.sock == sock {
			c.heard(sock, append([]byte(nil), b...))
		}
	})
	c.sock, c.db, c.fresh = sock, db, true
	s := db.Join(sock)
	c.state = [4]byte{1, byte(s.Ack), byte(s.Refuse), flag(s.Hold)}
	return true
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// heard is a message of the agent: it counts when it was sent, and reaches the program later.
func (c *client) heard(sock *gate.Conn, b []byte) {
	w := c.p.m.w
	if b[0] == 130 && gate.Code(b[5]) == gate.Done && binary.LittleEndian.Uint32(b[1:]) == c.seq && c.waits != nil {
		w.note("%s: commit %d is acknowledged", c.name, c.waits.number)
		w.ledger.acknowledged(c.p.m, c.waits)
	}
	c.last = max(c.last, w.now+w.between(10*time.Microsecond, 3*time.Millisecond))
	w.after(c.last-w.now, func() {
		if c.sock != sock {
			return
		}
		switch b[0] {
		case 129:
			c.state, c.fresh = [4]byte(b[1:5]), true
		case 130:
			if binary.LittleEndian.Uint32(b[1:]) != c.seq || c.waits == nil {
				return
			}
			w.note("%s: commit %d is answered %d", c.name, c.waits.number, b[5])
			if c.fresh = gate.Code(b[5]) == gate.Done; !c.fresh {
				c.hangUp() // it connects anew for a STATE
			}
			c.waits = nil
		}
	})
}

// tell sends a COMMIT.
func (c *client) tell(m gate.Commit) {
	c.send(func(db gate.Database) { db.Commit(c.sock, m) })
}

func (c *client) send(do func(db gate.Database)) {
	w, sock := c.p.m.w, c.sock
	c.sent = max(c.sent, w.now+w.between(10*time.Microsecond, 3*time.Millisecond))
	w.after(c.sent-w.now, func() {
		if c.sock == sock && sock != nil {
			do(c.db)
		}
	})
}

// hangUp ends the connection to the agent.
func (c *client) hangUp() {
	if c.sock != nil && c.p.m.a != nil && c.db != nil {
		c.db.Leave(c.sock)
	}
	c.sock, c.db = nil, nil
}

// hungUp is the agent's end of it: waiting commits are in doubt.
func (c *client) hungUp() {
	c.sock, c.db = nil, nil
	if c.waits != nil {
		c.p.m.w.note("%s: commit %d is in doubt, the agent has gone", c.name, c.waits.number)
		c.waits = nil
	}
}
