package agentsim

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// conn is a connection of SQLite in WAL mode, with synchronous=NORMAL or FULL. Its calls are its transactions, each at one moment.
type conn struct {
	m      *machine
	n      *inode
	x      *index // shared, or its own if it is alone
	lone   bool   // locking_mode=EXCLUSIVE
	full   bool   // synchronous=FULL
	auto   uint32 // wal_autocheckpoint
	read   int    // the mark that a read transaction has; -1: there is none
	counts uint32 // nCkpt: how often it has started the WAL anew
	closed bool
}

var errLocked = errors.New("database is locked")

// openConn opens the database of a machine.
func openConn(m *machine, lone bool) (*conn, error) {
	n := m.disk.names[dbPath]
	if n == nil {
		return nil, errors.New("unable to open database file")
	}
	c := &conn{m: m, n: n, lone: lone, auto: m.w.cfg.auto, read: -1}
	if n.exclusive != nil {
		return nil, errLocked
	}
	if lone {
		if len(n.shared) > 0 || n.index != nil && len(n.index.holders) > 0 {
			n.pending = c // others get out of its way, or it gives up
			return nil, errLocked
		}
		n.exclusive, n.pending = c, nil
		c.x = newIndex()
		c.recover()
		return c, nil
	}
	n.shared = append(n.shared, c)
	if n.index == nil || len(n.index.holders) == 0 {
		n.index = newIndex()
		c.x = n.index
		c.recover()
	}
	c.x = n.index
	c.x.holders = append(c.x.holders, c)
	if n.log == nil {
		n.log = &walInode{number: m.w.number()}
	}
	return c, nil
}

// recover fills a new index from the WAL (walIndexRecover).
func (c *conn) recover() {
	if c.n.log == nil {
		c.n.log = &walInode{number: c.m.w.number()}
	}
	c.x.Header, c.counts = c.n.recover(), c.n.log.counts
	if c.x.Frame > 0 {
		c.x.marks[1] = c.x.Frame
	}
}

// begin takes a read mark (walTryBeginRead).
func (c *conn) begin() error {
	x := c.x
	if c.lone {
		c.read = 0
		return nil
	}
	if x.Copied == x.Frame {
		x.held[0] = append(x.held[0], c)
		c.read = 0
		return nil
	}
	best := 0
	for i := 1; i < len(x.marks); i++ {
		if x.marks[i] <= x.Frame && (best == 0 || x.marks[i] > x.marks[best]) {
			best = i
		}
	}
	if best == 0 || x.marks[best] < x.Frame {
		for i := 1; i < len(x.marks); i++ {
			if len(x.held[i]) == 0 {
				x.marks[i], best = x.Frame, i
				break
			}
		}
	}
	if best == 0 {
		return errLocked
	}
	x.held[best] = append(x.held[best], c)
	c.read = best
	return nil
}

func (c *conn) end() {
	if c.read >= 0 && !c.lone {
		c.x.held[c.read] = drop(c.x.held[c.read], c)
	}
	c.read = -1
}

// change is a page of a transaction.
type change struct {
	page uint32
	data []byte
}

// commit is a write transaction: changes, in a database of pages pages. It returns where in the WAL it ends.
func (c *conn) commit(changes []change, pages uint32) (walfile.Position, error) {
	x, now := c.x, c.m.w.now
	if x.writer != nil || c.read >= 0 {
		return walfile.Position{}, errLocked
	}
	if err := c.begin(); err != nil {
		return walfile.Position{}, err
	}
	defer c.end()
	// walRestartLog
	if c.read == 0 && x.Frame > 0 && x.Copied == x.Frame && !slices.ContainsFunc(x.held[1:], func(l []any) bool { return len(l) > 0 }) {
		c.restart()
	}
	l := c.n.log
	if x.Frame == 0 {
		if c.counts == 0 {
			binary.BigEndian.PutUint64(x.Salt[:], c.m.w.rng.Uint64())
		}
		x.Sum = begins(x.Salt)
		l.putHeader(x.Salt, c.counts, now)
		l.sync()
	}
	sum := x.Sum
	for i, ch := range changes {
		f := frame{salt: x.Salt, page: ch.page, data: ch.data}
		if i == len(changes)-1 {
			f.commit = pages
		}
		sum = f.next(sum)
		f.sum = sum
		l.put(int(x.Frame)+i, f, now)
	}
	if c.full {
		l.sync()
	}
	x.Frame += uint32(len(changes))
	x.Sum, x.Pages, x.PageSize = sum, pages, pageSize
	x.Change++
	return x.Position, nil
}

// restart is walRestartHdr.
func (c *conn) restart() {
	x := c.x
	c.counts++
	x.Frame, x.Copied = 0, 0
	binary.BigEndian.PutUint32(x.Salt[:], binary.BigEndian.Uint32(x.Salt[:])+1)
	binary.BigEndian.PutUint32(x.Salt[4:], c.m.w.rng.Uint32())
	x.marks = [5]uint32{0, 0, unused, unused, unused}
	c.m.w.rep.Restarts++
}

// checkpoint copies the WAL up to the oldest reader (walCheckpoint): true if that is all of it.
func (c *conn) checkpoint() bool {
	x, n, now := c.x, c.n, c.m.w.now
	if x.checker != nil && x.checker != c || x.Frame == 0 {
		return x.Frame == 0
	}
	safe := x.Frame
	for i := 1; i < len(x.marks); i++ {
		if x.marks[i] >= safe {
			continue
		}
		if len(x.held[i]) == 0 {
			if x.marks[i] = unused; i == 1 {
				x.marks[i] = safe
			}
		} else {
			safe = x.marks[i]
		}
	}
	if x.Copied >= safe || others(x.held[0], c) {
		return x.Copied == x.Frame
	}
	n.log.sync()
	latest := map[uint32][]byte{}
	for _, f := range n.log.slots[x.Copied:safe] {
		latest[f.page] = f.data
	}
	for _, page := range sortedKeys(latest) {
		if page <= x.Pages {
			n.write(page, latest[page], now)
		}
	}
	if safe == x.Frame {
		if int(x.Pages) < len(n.pages) {
			n.pages = slices.Clone(n.pages[:x.Pages])
		}
		for len(n.pages) < int(x.Pages) {
			n.pages = append(n.pages, make([]byte, pageSize))
		}
		n.sync()
	}
	x.Copied = safe
	c.m.w.rep.Checkpoints++
	return safe == x.Frame
}

// checkpointAll is PRAGMA wal_checkpoint(RESTART) or (TRUNCATE), with a busy handler that waits for a while. done is called at its end.
func (c *conn) checkpointAll(truncate bool, patience time.Duration, done func()) {
	x, w := c.x, c.m.w
	if c.lone || x.checker != nil || x.writer != nil {
		done()
		return
	}
	x.checker, x.writer = c, c
	until := w.now + patience
	var try func()
	try = func() {
		if c.closed || x.checker != c {
			return // its process has ended
		}
		if c.checkpoint() && !slices.ContainsFunc(x.held[1:], func(l []any) bool { return len(l) > 0 }) {
			c.restart()
			if truncate {
				c.n.log.empty(w.now)
			}
			w.note("%s: a checkpoint has started the WAL anew, truncated %v", c.m.name, truncate)
		} else if w.now < until {
			w.after(time.Millisecond, try)
			return
		}
		x.checker, x.writer = nil, nil
		done()
	}
	try()
}

// close ends the connection. The last one copies the WAL and removes it, unless others hold the file.
func (c *conn) close() {
	if c.closed {
		return
	}
	c.end()
	n := c.n
	if c.x.writer == c || c.x.checker == c {
		c.x.writer, c.x.checker = nil, nil
	}
	if !c.lone && !others(n.shared, c) || c.lone {
		if c.checkpoint() {
			n.log = nil
		}
		if !c.lone {
			n.index = nil // its name is removed; a connection that shares it has it exclusively
		}
	}
	c.vanish()
}

// vanish is the kernel's part for a connection whose process has ended.
func (c *conn) vanish() {
	c.closed = true
	n := c.n
	if n.exclusive == c {
		n.exclusive = nil
	}
	if n.pending == c {
		n.pending = nil
	}
	n.shared = drop(n.shared, c)
	if !c.lone {
		c.x.release(c)
		c.x.holders = drop(c.x.holders, c)
	}
}
