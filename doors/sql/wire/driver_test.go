package wire

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfastdb/holdfast/internal/certtest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// open connects with go-sql-driver, a client that others wrote.
func open(t *testing.T, r *rig, dsn string, options string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn+"@tcp("+r.addr+")/test?"+options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// number is the number of a MySQL error, 0 of every other.
func number(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// TestLogin: who may come in, by either plugin, in clear text and over TLS, the first time and again.
func TestLogin(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority("ca")
	config := &tls.Config{Certificates: []tls.Certificate{ca.Issue("server")}}
	r := serve(t, func(s *Server) { s.TLS = config })
	if err := mysql.RegisterTLSConfig("wire", &tls.Config{RootCAs: ca.Pool(), ServerName: "127.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dsn, options string
		want         uint16
	}{
		{"root:", "", 0},
		{"root:x", "", 1045},
		{"native:one", "", 0},
		{"native:two", "", 1045},
		{"native:", "", 1045},
		{"sha2:two", "", 0},
		{"sha2:two", "", 0}, // by what the server remembers
		{"sha2:one", "", 1045},
		{"sha2:", "", 1045},
		{"nobody:one", "", 1045},
		{"nobody:", "", 1045},
		{"root:", "tls=wire", 0},
		{"native:one", "tls=wire", 0},
		{"sha2:two", "tls=wire", 0},
		{"sha2:one", "tls=wire", 1045},
		{"nobody:one", "tls=wire", 1045},
	} {
		err := open(t, r, c.dsn, c.options).Ping()
		if number(err) != c.want || (c.want == 0) != (err == nil) {
			t.Errorf("%s %s: %v, want %d", c.dsn, c.options, err, c.want)
		}
	}
	fresh := serve(t, func(s *Server) { s.TLS = config })
	if err := open(t, fresh, "sha2:two", "tls=wire").Ping(); err != nil {
		t.Error("the first login over TLS:", err)
	}
	native := serve(t, func(s *Server) { s.Plugin = NativePassword })
	if err := open(t, native, "sha2:two", "").Ping(); err != nil {
		t.Error("from the native plugin to the other:", err)
	}
	var none *mysql.MySQLError
	db, err := sql.Open("mysql", "root:@tcp("+r.addr+")/none")
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Ping(); !errors.As(err, &none) || none.Number != 1049 || string(none.SQLState[:]) != "42000" {
		t.Error("a database that is not there:", err)
	}
}

// TestStatements through a driver: texts, prepared statements, several results, errors, a result that breaks off.
func TestStatements(t *testing.T) {
	t.Parallel()
	r := serve(t, nil)
	db := open(t, r, "root:", "multiStatements=true&parseTime=true&connectionAttributes=program_name:wire")
	db.SetMaxOpenConns(1)
	strs := func(q string, args ...any) (all []string, err error) {
		rows, err := db.Query(q, args...)
		if err != nil {
			return nil, err
		}
		defer func() { _ = rows.Close() }()
		for {
			for rows.Next() {
				var s string
				if err := rows.Scan(&s); err != nil {
					return all, err
				}
				all = append(all, s)
			}
			if rows.Err() != nil || !rows.NextResultSet() {
				return all, rows.Err()
			}
			all = append(all, "|")
		}
	}
	for _, c := range []struct {
		q    string
		want string
		code uint16
	}{
		{"select a b c", "a b c", 0},
		{"select", "", 0},
		{"select a; select b c", "a | b c", 0},
		{"user", "root wire", 0},
		{"database", "test", 0},
		{"nonsense", "", 1064},
		{"half", "first", 1317},
		{"select a; nonsense", "a", 1064},
		{"nothing", "", 1105},
		{"unfinished", "first", 1105},
	} {
		got, err := strs(c.q)
		if strings.Join(got, " ") != c.want || number(err) != c.code {
			t.Errorf("%s: %q, %v, want %q and %d", c.q, got, err, c.want, c.code)
		}
	}
	res, err := db.Exec("insert")
	if err != nil {
		t.Fatal(err)
	}
	id, _ := res.LastInsertId()
	if n, _ := res.RowsAffected(); n != 3 || id != 70_000 {
		t.Errorf("an insert: %d rows, id %d", n, id)
	}
	if got, err := strs("long"); err != nil || len(got) != 1 || len(got[0]) != 17<<20 {
		t.Errorf("a row of 17 MiB: %d rows, %v", len(got), err)
	}
	if _, err := db.Prepare("wrong"); number(err) != 1146 {
		t.Errorf("a statement that cannot be prepared: %v", err)
	}
	if got, err := strs("select ?", strings.Repeat("z", 17<<20)); err != nil || len(got) != 1 || got[0] != strings.Repeat("z", 17<<20) {
		t.Errorf("a parameter of 17 MiB: %d rows, %v", len(got), err)
	}
}

// TestParameters: a value of each type comes back as it went.
func TestParameters(t *testing.T) {
	t.Parallel()
	db := open(t, serve(t, nil), "root:", "")
	when := time.Date(2026, 11, 26, 21, 22, 23, 456789000, time.UTC)
	st, err := db.Prepare("? ? ? ? ? ?")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time the driver may leave the types out
		var (
			i    int64
			u    uint64
			f    float64
			s    string
			null *string
			at   string // the driver sends a time as text
		)
		if err := st.QueryRow(int64(-1<<63), uint64(1<<64-1), 0.1, "text", nil, when).Scan(&i, &u, &f, &s, &null, &at); err != nil {
			t.Fatal(err)
		}
		if i != -1<<63 || u != 1<<64-1 || f != 0.1 || s != "text" || null != nil || at != when.Format("2006-01-02 15:04:05.999999") {
			t.Error(i, u, f, s, null, at)
		}
	}
	big := strings.Repeat("l", 3<<20) // the driver sends it in pieces
	var got string
	if err := db.QueryRow("?", big).Scan(&got); err != nil || got != big {
		t.Errorf("a text in pieces: %d bytes, %v", len(got), err)
	}
}

// TestAClientThatLeaves: its statement is interrupted and its session closed within a second, whether it reads or not.
func TestAClientThatLeaves(t *testing.T) {
	t.Parallel()
	r := serve(t, nil)
	for _, q := range []string{"wait", "rows"} {
		db := open(t, r, "root:", "")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			rows, err := db.QueryContext(ctx, q)
			if err == nil {
				defer func() { _ = rows.Close() }()
			}
			done <- err
		}()
		session := <-r.sessions
		if q == "wait" {
			<-r.blocked
		}
		cancel() // the driver closes its connection
		<-done
		at := time.Now()
		select {
		case <-session.closed:
		case <-time.After(wait.Limit(t)):
			t.Fatalf("%s: the session is still open", q)
		}
		t.Logf("%s: closed after %v", q, time.Since(at))
	}
}

// TestKill: a statement is interrupted and the connection stays, or the connection ends.
func TestKill(t *testing.T) {
	t.Parallel()
	r := serve(t, nil)
	db := open(t, r, "root:", "")
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	session := <-r.sessions
	id := session.client.ID
	if !r.Kill(id, false) {
		t.Fatal("there is no such connection")
	}
	if _, err := conn.ExecContext(t.Context(), "begin"); err != nil {
		t.Errorf("a statement after the kill of none: %v", err)
	}
	done := make(chan error, 1)
	for _, whole := range []bool{false, false, true} {
		go func() {
			_, err := conn.ExecContext(context.Background(), "wait")
			done <- err
		}()
		<-r.blocked
		r.Kill(id, whole)
		if err := <-done; number(err) != 1317 {
			t.Errorf("whole %v: %v", whole, err)
		}
	}
	<-session.closed
	if r.Kill(id, true) {
		t.Error("the connection is still there")
	}
	if _, err := conn.ExecContext(t.Context(), "begin"); err == nil {
		t.Error("a statement on a connection that was killed")
	}
}

// TestKillOfAClientThatDoesNotRead: a write that waits for it ends too.
func TestKillOfAClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	r := serve(t, nil)
	c := r.dial(t)
	c.login(rawCapabilities)
	session := <-r.sessions
	c.send(0, append([]byte{comQuery}, "rows"...)...)
	time.Sleep(100 * time.Millisecond) // the socket's buffers fill; a kill before that ends the statement as well
	r.Kill(session.client.ID, true)
	select {
	case <-session.closed:
	case <-time.After(wait.Limit(t)):
		t.Error("the session is still open")
	}
}

// TestAnIdleClient is told why its connection ends.
func TestAnIdleClient(t *testing.T) {
	t.Parallel()
	r := serve(t, func(s *Server) { s.IdleTimeout = 50 * time.Millisecond })
	conn, err := open(t, r, "root:", "").Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	<-(<-r.sessions).closed
	if err := conn.PingContext(t.Context()); err == nil {
		t.Error("a connection that was idle for too long")
	}
}

// TestManyStatements: what one client prepares is bounded by what all may, and given back.
func TestManyStatements(t *testing.T) {
	t.Parallel()
	r := serve(t, func(s *Server) { s.MaxStatements = 3 })
	db := open(t, r, "root:", "")
	var all []*sql.Stmt
	for range 3 {
		st, err := db.Prepare("select ?")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, st)
	}
	if _, err := db.Prepare("select ?"); number(err) != 1461 {
		t.Errorf("a fourth: %v", err)
	}
	if err := all[0].Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Prepare("select ?"); err != nil {
		t.Errorf("after one was closed: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	<-(<-r.sessions).closed
	if n := r.statements.Load(); n != 0 {
		t.Errorf("%d statements are counted after the connection's end", n)
	}
}
