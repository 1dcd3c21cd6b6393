package wire

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// echo is a Session without an engine. A statement of ? alone answers its parameters, each as a column of its own type.
type echo struct {
	client  *Client
	status  Status
	used    string
	closed  chan struct{}
	blocked chan struct{}               // gets one for each statement that waits
	hold    func(context.Context) error // nil: nothing is held
}

var textColumn = []Column{{Schema: "test", Table: "t", OrgTable: "t", Name: "c", OrgName: "c", Collation: 45, Length: 480, Type: VarString}}

func (e *echo) Query(ctx context.Context, text []byte, to *Answer) error {
	statements := strings.Split(string(text), ";")
	for i, q := range statements {
		to.More(i < len(statements)-1)
		if err := e.one(ctx, strings.TrimSpace(q), to); err != nil {
			return err
		}
	}
	return nil
}

func (e *echo) one(ctx context.Context, q string, to *Answer) error {
	switch word, rest, _ := strings.Cut(q, " "); word {
	case "select":
		to.Columns(textColumn)
		for _, v := range strings.Fields(rest) {
			to.Text(v)
		}
		to.End(0)
	case "long":
		to.Columns(textColumn)
		to.Bytes(bytes.Repeat([]byte("x"), 17<<20))
		to.End(0)
	case "half":
		to.Columns(textColumn)
		to.Text("first")
		return Errorf(1317, "Query execution was interrupted")
	case "halfrow":
		to.Columns([]Column{textColumn[0], textColumn[0]})
		to.Text("first")
		to.Text("row")
		to.Text("second")
		return Errorf(1317, "Query execution was interrupted")
	case "nothing":
	case "unfinished":
		to.Columns(textColumn)
		to.Text("first")
	case "many":
		to.Columns(textColumn)
		for range 100 {
			to.Text(strings.Repeat("y", 1000))
		}
		to.End(0)
	case "rows":
		to.Columns(textColumn)
		for to.Err() == nil && ctx.Err() == nil {
			to.Text(strings.Repeat("y", 1000))
		}
		to.End(0)
	case "wait":
		e.blocked <- struct{}{}
		<-ctx.Done()
		return Errorf(ErrInterrupted, "Query execution was interrupted")
	case "insert":
		to.OK(Done{Affected: 3, InsertID: 70_000, Warnings: 1, Info: "Records: 3  Duplicates: 0  Warnings: 1"})
	case "begin":
		e.status |= InTransaction
		to.OK(Done{})
	case "database":
		to.Columns(textColumn)
		to.Text(e.used)
		to.End(0)
	case "user":
		to.Columns(textColumn)
		to.Text(e.client.User + " " + e.client.Attributes["program_name"])
		to.End(0)
	default:
		return Errorf(1064, "You have an error in your SQL syntax near '%s'", q)
	}
	return nil
}

type prepared struct {
	text    string
	params  int
	columns []Column
}

func (p *prepared) Shape() (int, []Column) { return p.params, p.columns }
func (p *prepared) Close()                 {}

func (e *echo) Prepare(_ context.Context, text []byte) (Prepared, error) {
	p := &prepared{text: string(text), params: bytes.Count(text, []byte("?"))}
	if strings.HasPrefix(p.text, "select") {
		p.columns = textColumn
	}
	if strings.HasPrefix(p.text, "wrong") {
		return nil, Errorf(1146, "Table 'test.wrong' doesn't exist")
	}
	return p, nil
}

func (e *echo) Execute(ctx context.Context, of Prepared, params []Param, to *Answer) error {
	p := of.(*prepared)
	if p.params == 0 {
		return e.one(ctx, p.text, to)
	}
	columns := make([]Column, len(params))
	for i, v := range params {
		columns[i] = Column{Name: "?", Type: v.Type, Collation: 63}
		switch v.Kind {
		case IsUint:
			columns[i].Flags = Unsigned
		case IsNull:
			columns[i].Type = Null
		case IsTime, IsDate, IsDateTime:
			columns[i].Decimals = 6
		}
	}
	to.Columns(columns)
	for _, v := range params {
		switch v.Kind {
		case IsNull:
			to.Null()
		case IsInt:
			to.Int(v.Int)
		case IsUint:
			to.Uint(v.Uint)
		case IsFloat, IsDouble:
			to.Float(v.Float)
		case IsBytes:
			to.Bytes(v.Bytes)
		default:
			to.Moment(v.Time)
		}
	}
	to.End(0)
	return nil
}

func (e *echo) UseDatabase(_ context.Context, name string) error {
	if name == "none" {
		return Errorf(1049, "Unknown database 'none'")
	}
	e.used = name
	return nil
}

func (e *echo) Fields(_ context.Context, table, pattern string) ([]Column, error) {
	if table != "t" {
		return nil, Errorf(1146, "Table 'test.%s' doesn't exist", table)
	}
	return textColumn, nil
}

func (e *echo) Hold(ctx context.Context) error {
	if e.hold == nil {
		return nil
	}
	return e.hold(ctx)
}

func (e *echo) Statistics() string          { return "Uptime: 1  Threads: 1" }
func (e *echo) Status() Status              { return e.status }
func (e *echo) Reset(context.Context) error { e.status = Autocommit; return nil }
func (e *echo) Close()                      { close(e.closed) }

// users is Accounts of a map.
type users map[string]Account

func (u users) Account(_ context.Context, user string, _ net.Addr) (Account, bool, error) {
	a, ok := u[user]
	return a, ok, nil
}

// rig is a server on a port of its own.
type rig struct {
	*Server
	addr     string
	sessions chan *echo // that were opened
	blocked  chan struct{}
	hold     func(context.Context) error // of all sessions that are opened
}

var theKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// serve starts a server and ends it with the test. It fails the test if a connection is left over.
func serve(t testing.TB, change func(s *Server)) *rig {
	t.Helper()
	r := &rig{sessions: make(chan *echo, 100), blocked: make(chan struct{}, 100)}
	r.Server = &Server{Version: "8.0.36-holdfast", Collation: 45, Key: theKey, Accounts: users{
		"root":   {Plugin: CachingSHA2},
		"native": {Plugin: NativePassword, Verifier: NativeVerifier("one")},
		"sha2":   {Plugin: CachingSHA2, Verifier: SHA2Verifier("two")},
	}, Open: func(_ context.Context, c *Client) (Session, error) {
		if c.Database == "none" {
			return nil, Errorf(1049, "Unknown database 'none'")
		}
		e := &echo{client: c, status: Autocommit, used: c.Database, closed: make(chan struct{}), blocked: r.blocked, hold: r.hold}
		select {
		case r.sessions <- e:
		default:
		}
		return e, nil
	}}
	if change != nil {
		change(r.Server)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { r.Serve(ctx, nc) })
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(wait.Limit(t)):
			t.Error("a connection outlives the server")
		}
	})
	return r
}
