package sql

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"database/sql"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfastdb/holdfast/core/entry"
	mident "github.com/holdfastdb/holdfast/core/machine/ident"
	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/core/worker/workertest"
	"github.com/holdfastdb/holdfast/doors/sql/account"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/serve/port"
)

// rig is a door on a member whose commands are applied at once, by a machine that verifies.
type rig struct {
	*workertest.Member
	t   testing.TB
	rig *machinetest.Rig
	m   *sqlmachine.Machine
	d   *Door

	idents *mident.Machine
	users  *account.Users

	addr string

	options Options
	propose func([]entry.Part) (*entry.Result, error) // applies at once
	applied atomic.Uint64                             // the entry that was applied last
}

func newRig(t testing.TB, with ...func(*txn.Options)) *rig {
	t.Helper()
	return newRigOn(t, store.NewMem(), with...)
}

// newRigOn is newRig with a store that may have rows: those of a member that is started again.
func newRigOn(t testing.TB, st store.Store, with ...func(*txn.Options)) *rig {
	t.Helper()
	m, idents := sqlmachine.NewVerifying(), mident.New()
	r := &rig{Member: workertest.New(), t: t, rig: machinetest.Open(t, st, idents, m), m: m, idents: idents}
	var mu sync.Mutex
	propose := func(parts []entry.Part) (*entry.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		results, err := r.rig.Try(parts)
		if err != nil {
			t.Errorf("a commit stops the member: %v", err)
			return nil, node.ErrUnknown
		}
		r.applied.Store(r.rig.Index)
		return results[0], nil
	}
	r.propose = propose
	r.OnPropose(propose)
	options := txn.Options{View: func() (store.View, error) { return r.rig.Store.NewView(), nil }, Newest: r.rig.Store.Get, Staged: r.m.Staged, LockBytes: 64 << 20, Verify: true}
	for _, change := range with {
		change(&options)
	}
	w := txn.New(r, options)
	r.Run(t, w.Run)
	r.Lead(5)
	wait.Until(t, "the worker leads", func() bool {
		x, err := w.Begin()
		if err == nil {
			x.Rollback()
		}
		return err == nil
	})
	r.users = account.New(account.Options{State: idents.State, Propose: func(_ context.Context, parts ...entry.Part) (*entry.Result, error) {
		return propose(parts)
	}})
	r.options = Options{Catalogue: m.Catalogue, Worker: w, Users: r.users, Key: theKey}
	door := r.another(func(*Options) {})
	r.d, r.addr = door.d, door.addr
	r.exec(r.connect(""), "CREATE DATABASE IF NOT EXISTS test")
	return r
}

// theKey is one for all doors of the tests: making one takes long.
var theKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// served is a door that listens.
type served struct {
	d    *Door
	addr string
}

// another serves a second door on the same member.
func (r *rig) another(change func(*Options)) served {
	r.t.Helper()
	o := r.options
	change(&o)
	d := New(o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Add(1)
	go func() {
		defer serving.Done()
		if err := d.Listen(l, port.NewConnLimit(10_000)); err != nil {
			r.t.Error(err)
		}
	}()
	r.t.Cleanup(func() {
		if err := d.Shutdown(context.Background()); err != nil {
			r.t.Error(err)
		}
		serving.Wait()
	})
	return served{d, l.Addr().String()}
}

// connect opens one connection.
func (r *rig) connect(database string) *sql.Conn {
	r.t.Helper()
	return r.connectTo(served{r.d, r.addr}, database)
}

func (r *rig) connectTo(s served, database string) *sql.Conn {
	r.t.Helper()
	c, err := r.login(s, "root", "", database)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// login opens one connection as a user.
func (r *rig) login(s served, user, password, database string) (*sql.Conn, error) {
	r.t.Helper()
	conf := mysql.NewConfig()
	conf.Net, conf.Addr, conf.DBName, conf.User, conf.Passwd = "tcp", s.addr, database, user, password
	conf.MultiStatements = true
	to, err := mysql.NewConnector(conf)
	if err != nil {
		r.t.Fatal(err)
	}
	db := sql.OpenDB(to)
	r.t.Cleanup(func() { _ = db.Close() })
	return db.Conn(context.Background())
}

func (r *rig) exec(c *sql.Conn, text string, args ...any) sql.Result {
	r.t.Helper()
	res, err := c.ExecContext(context.Background(), text, args...)
	if err != nil {
		r.t.Fatalf("%s: %v", text, err)
	}
	return res
}

// query returns a result as text.
func query(c *sql.Conn, text string, args ...any) (string, error) {
	rows, err := c.QueryContext(context.Background(), text, args...)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return "", err
	}
	out := ""
	for rows.Next() {
		values := make([]sql.NullString, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return "", err
		}
		for i, v := range values {
			if i > 0 {
				out += "|"
			}
			if v.Valid {
				out += v.String
			} else {
				out += "NULL"
			}
		}
		out += "\n"
	}
	return out, rows.Err()
}

// number is the number of a MySQL error, 0 of every other.
func number(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}
