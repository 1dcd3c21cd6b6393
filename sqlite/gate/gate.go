// Package gate is the agent's end of the socket to the extension. It finds the database of a connection, passes on the waiting commits, and
// answers them when they are stored. docs/formats/sqlite.md has the messages.
//
// It knows nothing of files and buckets, and decides nothing: a Database chooses the answers.
package gate

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/core/disk"
)

// Database is what connections belong to. Its methods are called from the connections' goroutines and return at once.
type Database interface {
	// Join is the first call of a connection, and says what its STATE is. Leave is the last.
	Join(c *Conn) State
	Leave(c *Conn)
	// Commit is answered by c.Done, later.
	Commit(c *Conn, commit Commit)
	// Note: something was committed.
	Note()
	// Status is for people, a line.
	Status() string
}

// Conn is a connection of SQLite in some process.
type Conn struct {
	Hello Hello
	conn  *net.UnixConn
	to    func(message []byte) // nil: messages go to conn
}

// NewConn is a connection without a socket: to is called with every message of the agent's, by any goroutine, and keeps none of them.
func NewConn(h Hello, to func(message []byte)) *Conn { return &Conn{Hello: h, to: to} }

// send ends the connection if it has no room for a message. A socket holds some hundred, so a full one belongs to a connection that has
// long been idle. The extension finds its end when it is used again, and opens another. Nothing waits here. A write with a deadline of some
// milliseconds came first. On a busy machine it failed before it was tried, and the commit that it answered was an error for its caller.
func (c *Conn) send(b []byte) {
	if c.to != nil {
		c.to(b)
		return
	}
	raw, err := c.conn.SyscallConn()
	if err == nil {
		var failed error
		err = raw.Write(func(fd uintptr) bool {
			for {
				if _, failed = syscall.Write(int(fd), b); failed != syscall.EINTR {
					return true
				}
			}
		})
		err = errors.Join(err, failed)
	}
	if err != nil {
		c.conn.Close()
	}
}

// Close ends the connection. The extension opens another when it needs one. Any goroutine.
func (c *Conn) Close() {
	if c.conn != nil {
		c.conn.Close() // nothing is written through it any more
	}
}

// Done answers a Commit. Any goroutine.
func (c *Conn) Done(seq uint32, code Code, text string) { c.send(encodeDone(seq, code, text)) }

// State says that something has changed. Any goroutine.
func (c *Conn) State(s State) { c.send(s.encode()) }

// Gate listens.
type Gate struct {
	listener *net.UnixListener
	lock     disk.Unlocker // of the socket's path, for as long as the gate is open
	lookup   func(h Hello) Database
	log      *slog.Logger
	strange  complaints // about what other programs do on the socket

	mu     sync.Mutex
	conns  map[*Conn]struct{} // guarded by mu
	closed bool               // guarded by mu
	done   sync.WaitGroup
}

// maxConns bounds the connections: each is one of SQLite's, and has a goroutine.
const maxConns = 20000

// Listen makes the socket at path, for the user's own processes only, in the place of a socket that no process listens at. Another kind of file is left
// alone, and an error. lookup finds the database that a HELLO means, nil if the agent has no such database; it is called from any goroutine.
func Listen(path string, lookup func(h Hello) Database, log *slog.Logger) (*Gate, error) {
	l, lock, err := bind(path)
	if err != nil {
		return nil, err
	}
	g := &Gate{listener: l, lock: lock, lookup: lookup, log: log, strange: complaints{log: log, now: time.Now}, conns: make(map[*Conn]struct{})}
	g.done.Add(1)
	go g.accept()
	return g, nil
}

func (g *Gate) accept() {
	defer g.done.Done()
	for {
		conn, err := g.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			g.strange.warn("accept a connection of the extension", "err", err)
			time.Sleep(100 * time.Millisecond) // out of descriptors, most likely
			continue
		}
		c := &Conn{conn: conn}
		g.mu.Lock()
		full := g.closed || len(g.conns) >= maxConns
		if !full {
			g.conns[c] = struct{}{}
			g.done.Add(1)
		}
		g.mu.Unlock()
		if full {
			conn.Close()
			continue
		}
		go g.serve(c)
	}
}

// serve reads one connection's messages.
func (g *Gate) serve(c *Conn) {
	var db Database
	defer func() {
		c.conn.Close()
		if db != nil {
			db.Leave(c)
		}
		g.mu.Lock()
		delete(g.conns, c)
		g.mu.Unlock()
		g.done.Done()
	}()
	b := make([]byte, 64)
	first := make([]byte, maxBytes)
	n, err := c.conn.Read(first)
	if err != nil {
		return
	}
	m, err := decode(first[:n])
	if err != nil || m.kind != kindHello {
		g.strange.warn("a process on the extension's socket does not speak its protocol")
		return
	}
	first = nil
	c.Hello = m.hello
	if db = g.lookup(c.Hello); db == nil {
		c.State(State{})
		return
	}
	c.State(db.Join(c))
	for {
		n, err := c.conn.Read(b)
		if err != nil {
			return
		}
		m, err := decode(b[:n])
		switch {
		case err != nil || m.kind == kindHello:
			g.strange.warn("a malformed message of the extension", "pid", c.Hello.PID, "path", c.Hello.Path)
			return
		case m.kind == kindCommit:
			db.Commit(c, m.commit)
		case m.kind == kindNote:
			db.Note()
		case m.kind == kindStatus:
			c.send(encodeText(m.seq, db.Status()))
		}
	}
}

// Close ends every connection and removes the socket.
func (g *Gate) Close() {
	g.listener.Close()
	g.mu.Lock()
	g.closed = true
	for c := range g.conns {
		c.conn.Close()
	}
	g.mu.Unlock()
	g.done.Wait()
	g.lock.Unlock() // its file stays, and nothing was written to it
}
