// Package extension drives the SQLite extension through SQLite itself, in Debian's Python and in the sqlite3 shell. The agent on the other
// side answers as each test tells it. It is tests only. The agent's own behaviour is not tested here, nor are the other programs that load
// the extension (conformance/sqlite/clients).
package extension

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/extagent"
	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// so is the extension, built once.
var so = sync.OnceValues(func() (string, error) {
	root, err := proctest.Root()
	if err != nil {
		return "", err
	}
	return extagent.Build(root, filepath.Join(root, "build", "extension"))
})

// python is the system's: one that was built by pyenv may not load extensions.
const python = "/usr/bin/python3"

// place is a directory with a database and a fake agent.
type place struct {
	*extagent.Agent
	t       *testing.T
	dir, db string
	env     []string
}

// newPlace starts an agent beside a path where no database is yet; ack is what the agent's file says, "" for no such file.
func newPlace(t *testing.T, ack string) *place {
	t.Helper()
	t.Parallel()
	dir, err := os.MkdirTemp("", "hfx") // a socket's path is short, t.TempDir's is not
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) }) // it is below the system's own for such
	a, err := extagent.Start(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.Stop()
		if err := a.Strange(); err != nil {
			t.Error(err)
		}
	})
	p := &place{Agent: a, t: t, dir: dir, db: filepath.Join(dir, "app.db")}
	if ack == "local" {
		a.Say(func(s *extagent.State) { s.Ack = extagent.Local })
	}
	if ack != "" {
		if err := a.Manage(p.db, ack); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// program is a Python with connections.
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.Writer
	mu    sync.Mutex
	next  int
	waits map[int]chan reply
}

// reply is what one statement came to.
type reply struct {
	Rows  [][]any `json:"rows"`
	Error string  `json:"error"`
}

// python starts a program in which the extension is loaded.
func (p *place) python() *program {
	p.t.Helper()
	path, err := so()
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(python, "testdata/client.py", path)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatalf("%v (apt-get install python3)", err)
	}
	g := &program{t: p.t, cmd: cmd, in: in, waits: map[int]chan reply{0: make(chan reply, 1)}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for s := bufio.NewScanner(out); s.Scan(); {
			var r struct {
				ID int `json:"id"`
				reply
			}
			if err := json.Unmarshal(s.Bytes(), &r); err != nil {
				continue // a sanitizer's words
			}
			g.mu.Lock()
			c := g.waits[r.ID]
			g.mu.Unlock()
			c <- r.reply
		}
	}()
	p.t.Cleanup(func() {
		cmd.Process.Kill() // one that has ended is gone already
		<-ended
		cmd.Wait() // it was killed
	})
	g.wait(g.waits[0])
	return g
}

// kill ends the program as it is.
func (g *program) kill() {
	g.cmd.Process.Kill()
	g.cmd.Process.Wait()
}

func (g *program) send(fields map[string]any) chan reply {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next++
	fields["id"] = g.next
	c := make(chan reply, 1)
	g.waits[g.next] = c
	line, err := json.Marshal(fields)
	if err != nil {
		g.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(g.in, "%s\n", line); err != nil {
		g.t.Fatal(err)
	}
	return c
}

func (g *program) wait(c chan reply) reply {
	g.t.Helper()
	select {
	case r := <-c:
		return r
	case <-time.After(wait.Limit(g.t)):
		g.t.Fatal("no answer within 30 s")
	}
	return reply{}
}

// conn is one connection of a program.
type conn struct {
	g    *program
	name string
}

// open opens a database, or a URI.
func (g *program) open(path string) *conn {
	g.t.Helper()
	g.mu.Lock()
	c := &conn{g, fmt.Sprint(g.next)}
	g.mu.Unlock()
	if r := c.do("open", path); r.Error != "" {
		g.t.Fatalf("open %s: %s", path, r.Error)
	}
	return c
}

// start begins a statement; it may wait.
func (c *conn) start(op, text string) chan reply {
	c.g.t.Helper()
	return c.g.send(map[string]any{"conn": c.name, "op": op, "text": text})
}

func (c *conn) do(op, text string) reply {
	c.g.t.Helper()
	return c.g.wait(c.start(op, text))
}

// exec runs statements that must succeed and returns the rows of the last.
func (c *conn) exec(statements ...string) (rows [][]any) {
	c.g.t.Helper()
	for _, s := range statements {
		r := c.do("exec", s)
		if r.Error != "" {
			c.g.t.Fatalf("%s: %s", s, r.Error)
		}
		rows = r.Rows
	}
	return rows
}

// one runs a statement whose answer is one value.
func (c *conn) one(statement string) any {
	c.g.t.Helper()
	rows := c.exec(statement)
	if len(rows) != 1 || len(rows[0]) != 1 {
		c.g.t.Fatalf("%s: %v", statement, rows)
	}
	return rows[0][0]
}

// is runs a statement whose answer is that value.
func (c *conn) is(statement string, want any) {
	c.g.t.Helper()
	if n, ok := want.(int); ok {
		want = float64(n) // as JSON has it
	}
	if got := c.one(statement); !reflect.DeepEqual(got, want) {
		c.g.t.Errorf("%s: %v, want %v", statement, got, want)
	}
}

// fails runs a statement that must end with this error.
func (c *conn) fails(statement, want string) {
	c.g.t.Helper()
	if r := c.do("exec", statement); !strings.Contains(r.Error, want) {
		c.g.t.Errorf("%s: error %q, rows %v, want %q", statement, r.Error, r.Rows, want)
	}
}

func (c *conn) close() {
	c.g.t.Helper()
	if r := c.do("close", ""); r.Error != "" {
		c.g.t.Errorf("close: %s", r.Error)
	}
}

// SQLite's messages.
const (
	readonly = "attempt to write a readonly database"
	ioerr    = "disk I/O error"
)

// started makes a database in WAL mode with a table that has one row, and forgets what the agent was told of it.
func (p *place) started() *program {
	p.t.Helper()
	g := p.python()
	c := g.open(p.db)
	c.exec("pragma journal_mode=wal", "create table t(a)", "insert into t values(0)")
	c.close()
	return g
}
