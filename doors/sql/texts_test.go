package sql

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// bounded is a wire.Room of so many bytes.
type bounded struct{ left atomic.Int64 }

func (b *bounded) Draw(n int64) bool {
	if b.left.Add(-n) < 0 {
		b.left.Add(n)
		return false
	}
	return true
}

func (b *bounded) Return(n int64) { b.left.Add(n) }

// TestPreparedStatementsAreShared: a text is kept once, each session sees the columns that it would see alone, and with the last client the text goes.
func TestPreparedStatementsAreShared(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, second := r.connect("test"), r.connect("")
	r.exec(first, "CREATE TABLE t (id INT PRIMARY KEY, c VARCHAR(10))")
	r.exec(first, "INSERT INTO t VALUES (1, 'in test')")
	r.exec(second, "CREATE DATABASE other")
	r.exec(second, "USE other")
	r.exec(second, "CREATE TABLE t (id INT PRIMARY KEY, c INT)")
	r.exec(second, "INSERT INTO t VALUES (1, 7)")
	const quoted = `SELECT "c" FROM t WHERE id = ?` // a text, or a column where the mode has ANSI_QUOTES
	third := r.connect("other")
	r.exec(third, "SET sql_mode = 'ANSI_QUOTES'")
	literal, err := first.PrepareContext(context.Background(), quoted)
	if err != nil {
		t.Fatal(err)
	}
	column, err := third.PrepareContext(context.Background(), quoted)
	if err != nil {
		t.Fatal(err)
	}
	var said, number string
	if err := literal.QueryRow(1).Scan(&said); err != nil || said != "c" {
		t.Errorf("without ANSI_QUOTES: %q %v", said, err)
	}
	if err := column.QueryRow(1).Scan(&number); err != nil || number != "7" {
		t.Errorf("with ANSI_QUOTES: %q %v", number, err)
	}
	if literal.Close() != nil || column.Close() != nil {
		t.Error("a statement does not close")
	}
	r.exec(third, "SET @x = 1") // behind the closings, which have no answer
	r.exec(first, "SET @x = 1")
	for _, text := range []string{
		"SELECT c FROM t WHERE id = ?", // a shape of the executor
		"SELECT a.c FROM t a JOIN t b ON a.id = b.id WHERE a.id = ? AND b.c IS NOT NULL",
	} {
		one, err := first.PrepareContext(context.Background(), text)
		if err != nil {
			t.Fatal(err)
		}
		other, err := second.PrepareContext(context.Background(), text)
		if err != nil {
			t.Fatal(err)
		}
		if handles, texts := r.d.Prepared(); handles != 2 || texts != 1 {
			t.Errorf("%s: %d statements of %d texts", text, handles, texts)
		}
		var c string
		var n int
		if err := one.QueryRow(1).Scan(&c); err != nil || c != "in test" {
			t.Errorf("%s: %q %v", text, c, err)
		}
		if err := other.QueryRow(1).Scan(&n); err != nil || n != 7 {
			t.Errorf("%s: %d %v", text, n, err)
		}
		if one.Close() != nil || other.Close() != nil {
			t.Error("a statement does not close")
		}
		r.exec(first, "SET @x = 1") // behind the closings, which have no answer
		r.exec(second, "SET @x = 1")
		if handles, texts := r.d.Prepared(); handles != 0 || texts != 0 {
			t.Errorf("%s: closed, and %d statements of %d texts are left", text, handles, texts)
		}
	}
}

// TestASharedStatementRunsForManyAtATime: sessions that run the same prepared text at the same time do not disturb each other, whichever way it runs.
func TestASharedStatementRunsForManyAtATime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.connect("test")
	r.exec(c, "CREATE TABLE t (id INT PRIMARY KEY, c VARCHAR(10), KEY (c))")
	for i := range 20 {
		r.exec(c, "INSERT INTO t VALUES (?, ?)", i, fmt.Sprint("c", i))
	}
	for _, way := range []func(*Options){func(*Options) {}, func(o *Options) { o.NoExecutor = true }, func(o *Options) { o.NoExecutor, o.NoPlans = true, true }} {
		d := r.another(way)
		var wg sync.WaitGroup
		for k := range 4 {
			c := r.connectTo(d, "test")
			wg.Go(func() {
				for _, text := range []string{"SELECT c FROM t WHERE id = ?", "SELECT b.c FROM t a NATURAL JOIN t b WHERE a.id = ?",
					"SELECT c FROM t WHERE id IN (SELECT id FROM t WHERE id = ?)"} {
					st, err := c.PrepareContext(context.Background(), text)
					if err != nil {
						t.Error(err)
						return
					}
					for i := range 20 {
						id, got := (i+5*k)%20, ""
						if err := st.QueryRow(id).Scan(&got); err != nil || got != fmt.Sprint("c", id) {
							t.Errorf("%s of %d: %q %v", text, id, got, err)
							return
						}
					}
					_ = st.Close() // the connection closes too
				}
			})
		}
		wg.Wait()
	}
}

// TestPreparedStatementsHaveTheirRoom: what does not fit is refused with 1461, what is there goes on, and what is closed makes room.
func TestPreparedStatementsHaveTheirRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	room := &bounded{}
	const all = 40 << 10
	room.left.Store(all)
	d := r.another(func(o *Options) { o.Prepared = room })
	c := dialPackets(t, d.addr, 0)
	prepare := func(i int) []byte { return c.command(t, append([]byte{22}, fmt.Sprintf("SELECT %d", i)...), true) }
	n := 0
	var last []byte
	for last = prepare(n); last[4] == 0 && n < 1000; last = prepare(n) {
		n++
	}
	if number := uint16(last[5]) | uint16(last[6])<<8; number != wire.ErrTooManyStatements || n < 10 {
		t.Fatalf("behind %d statements: %q", n, last)
	}
	if answer := c.command(t, benchExecute(1, nil)[4:], false); answer[4] == 0xff {
		t.Errorf("one of those that fit: %q", answer)
	}
	if b := c.command(t, append([]byte{22}, "SELECT 0"...), true); b[4] != 0 { // known: only its handle takes room
		t.Errorf("a text that another statement has: %q", b)
	}
	c.send(t, 0, []byte{25, 2, 0, 0, 0}) // COM_STMT_CLOSE of the second
	if b := prepare(n); b[4] != 0 {
		t.Errorf("where one was closed: %q", b)
	}
	c.command(t, []byte{0x1f}, false) // COM_RESET_CONNECTION closes all
	if left := room.left.Load(); left != all {
		t.Errorf("all are closed, and %d bytes of %d are left", left, all)
	}
}
