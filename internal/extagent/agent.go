// Package extagent is the agent as the SQLite extension sees it: a socket that answers as a test tells it, and records its messages. It
// captures and stores nothing: the test decides when a COMMIT may return. The messages are those of docs/formats/sqlite.md.
package extagent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/sqlite/place"
)

// Kinds of messages, and what fields of them can be.
const (
	hello, commit, note, status = 1, 2, 3, 4
	state, done, text           = 129, 130, 131

	Local, Archive                                           = 1, 2
	Captured, Stored                                         = 1, 2
	Allowed, Fenced, InDoubt, Stops, TakingOver              = 0, 1, 2, 3, 4
	CodeDone, CodeLate, CodeFenced, CodeRefused              = 0, 1, 2, 3
	helloHead, commitSize, noteSize, statusSize, largestSize = 39, 19, 1, 5, 39 + 4096
)

// State is the content of a STATE message.
type State struct {
	Managed bool
	Ack     byte
	Refuse  byte
	Hold    bool
	Timeout time.Duration
	Text    string
}

// Commit is a COMMIT.
type Commit struct {
	Seq       uint32
	Until     byte
	Exclusive bool
	Salt      [8]byte
	Frame     uint32
	At        time.Time
}

// Hello is a HELLO.
type Hello struct {
	Ack  byte
	PID  int
	Path string
	// File and Dir are device and inode of the database and of its directory.
	File, Dir place.ID
}

// Agent is a fake agent. Safe for concurrent use.
type Agent struct {
	Socket string

	mu       sync.Mutex
	listener *net.UnixListener
	conns    map[*net.UnixConn]bool
	state    State
	answer   func(Commit) (code byte, why string)
	mute     bool // says nothing to a HELLO
	old      bool // knows no HELLO of version 2
	hellos   []Hello
	commits  []Commit
	notes    int
	strange  []error
	wg       sync.WaitGroup
}

// Start begins to listen below a directory whose path is short: a socket's has 107 bytes. Every database is its own, under archive, and
// everything is stored at once.
func Start(dir string) (*Agent, error) {
	a := &Agent{Socket: filepath.Join(dir, "agent.socket"), state: State{Managed: true, Ack: Archive, Timeout: 10 * time.Second}}
	return a, a.Restart()
}

// Restart listens again after Stop.
func (a *Agent) Restart() error {
	if err := os.Remove(a.Socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: a.Socket, Net: "unixpacket"})
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.listener, a.conns = l, map[*net.UnixConn]bool{}
	a.wg.Go(func() { a.accept(l) })
	return nil
}

// Stop ends the agent as a kill does: the socket and all connections are gone. Stopping one that has stopped changes nothing.
func (a *Agent) Stop() {
	a.mu.Lock()
	if a.listener != nil {
		a.listener.Close() // it only stops listening; its file is removed with it
		for c := range a.conns {
			c.Close() // nothing is written through it any more
		}
		a.listener = nil
	}
	a.mu.Unlock()
	a.wg.Wait()
}

// Manage leaves beside a database what tells the extension that it is this agent's.
func (a *Agent) Manage(database, ack string) error {
	dir := filepath.Join(filepath.Dir(database), "."+filepath.Base(database)+"-holdfast")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "agent"), fmt.Appendf(nil, "socket %s\nack %s\n", a.Socket, ack), 0o600)
}

// Say changes what STATE says, and says it to every connection.
func (a *Agent) Say(change func(*State)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.state)
	for c := range a.conns {
		a.say(c)
	}
}

// Mute has the agent say nothing to a HELLO, like one that hangs.
func (a *Agent) Mute(on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mute = on
}

// Old has the agent close connections at their HELLO, as one does that knows version 1 only.
func (a *Agent) Old(on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.old = on
}

// Identify returns device and inode of a path's target, as HELLO has them; zero for nothing.
func Identify(path string) place.ID {
	id, _ := place.Identify(path) // zero then
	return id
}

// say needs mu.
func (a *Agent) say(c *net.UnixConn) {
	s := a.state
	if !s.Managed {
		s = State{} // as the agent says it: nothing else has a meaning then
	}
	p := []byte{state, flag(s.Managed), s.Ack, s.Refuse, flag(s.Hold)}
	p = binary.LittleEndian.AppendUint32(p, uint32(s.Timeout.Milliseconds()))
	c.Write(append(p, s.Text...)) // one that has closed its end hears nothing
}

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

// Answer gives every COMMIT to f, in a goroutine of its own, and answers what f returns. nil: done at once.
func (a *Agent) Answer(f func(Commit) (code byte, why string)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = f
}

// Hellos returns every HELLO so far.
func (a *Agent) Hellos() []Hello {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]Hello(nil), a.hellos...)
}

// Commits returns every COMMIT so far.
func (a *Agent) Commits() []Commit {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]Commit(nil), a.commits...)
}

// Notes is how many NOTEs have come.
func (a *Agent) Notes() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.notes
}

// Open is how many connections there are.
func (a *Agent) Open() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.conns)
}

// Strange returns every message that is none.
func (a *Agent) Strange() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return errors.Join(a.strange...)
}

func (a *Agent) accept(l *net.UnixListener) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return // stopped
		}
		a.mu.Lock()
		if a.listener == l {
			a.conns[c] = true
			a.wg.Go(func() { a.serve(c) })
		} else {
			c.Close() // stopped meanwhile
		}
		a.mu.Unlock()
	}
}

func (a *Agent) serve(c *net.UnixConn) {
	p := make([]byte, largestSize+1)
	for {
		n, err := c.Read(p)
		if err != nil || n == 0 {
			break
		}
		if err := a.take(c, p[:n]); err != nil {
			a.mu.Lock()
			a.strange = append(a.strange, err)
			a.mu.Unlock()
			break
		}
	}
	a.mu.Lock()
	delete(a.conns, c)
	a.mu.Unlock()
	c.Close()
}

// take answers one message.
func (a *Agent) take(c *net.UnixConn, p []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case p[0] == hello && len(p) > helloHead && len(p) <= largestSize && p[1] == 2:
		le := binary.LittleEndian
		a.hellos = append(a.hellos, Hello{Ack: p[2], PID: int(le.Uint32(p[3:])), Path: string(p[helloHead:]),
			File: place.ID{Dev: le.Uint64(p[7:]), Ino: le.Uint64(p[15:])}, Dir: place.ID{Dev: le.Uint64(p[23:]), Ino: le.Uint64(p[31:])}})
		switch {
		case a.old:
			c.Close() // nothing is written through it any more
		case !a.mute:
			a.say(c)
		}
	case p[0] == commit && len(p) == commitSize && (p[5] == Captured || p[5] == Stored) && p[6] <= 1:
		m := Commit{Seq: binary.LittleEndian.Uint32(p[1:]), Until: p[5], Exclusive: p[6] == 1, Salt: [8]byte(p[7:15]),
			Frame: binary.LittleEndian.Uint32(p[15:]), At: time.Now()}
		a.commits = append(a.commits, m)
		if a.answer == nil {
			reply(c, m.Seq, CodeDone, "")
			return nil
		}
		f := a.answer
		go func() { // it may be told to answer only after the agent has stopped
			code, why := f(m)
			reply(c, m.Seq, code, why)
		}()
	case p[0] == note && len(p) == noteSize:
		a.notes++
	case p[0] == status && len(p) == statusSize:
		c.Write(append([]byte{text, p[1], p[2], p[3], p[4]}, "stored up to here"...)) // one that has closed its end hears nothing
	default:
		return fmt.Errorf("a message that is none: % x", p)
	}
	return nil
}

func reply(c *net.UnixConn, seq uint32, code byte, why string) {
	p := binary.LittleEndian.AppendUint32([]byte{done}, seq)
	c.Write(append(append(p, code), why...)) // one that has closed its end hears nothing
}
