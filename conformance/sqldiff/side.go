package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// patience bounds one step. A statement that neither answers nor is known to wait for so long is hung.
const patience = 60 * time.Second

// lookEvery is between two looks at whether a server's sessions wait.
const lookEvery = 200 * time.Microsecond

// looks is how many looks one after another must show that all wait. InnoDB grants a lock a moment after it has answered who gave it back.
const looks = 2

// side is a server with its connections. It belongs to one goroutine.
type side struct {
	name     string
	original bool // MariaDB
	at       string
	looker   *sql.Conn // asks which sessions wait
	sessions [mostSessions]*sql.Conn
	ids      [mostSessions]int64 // of the connections
	db       *sql.DB
}

// newSide connects to a server, at a place in the driver's form.
func newSide(name, at string, original bool) (*side, error) {
	x := &side{name: name, at: at, original: original}
	var err error
	if x.db, err = sql.Open("mysql", at); err != nil {
		return nil, err
	}
	if x.looker, err = x.connect(); err != nil {
		return nil, errors.Join(err, x.db.Close())
	}
	if err := x.exec(x.looker, "CREATE DATABASE IF NOT EXISTS sqldiff"); err != nil {
		return nil, err
	}
	if err := x.exec(x.looker, "USE sqldiff"); err != nil {
		return nil, err
	}
	for i := range x.sessions {
		if err := x.reconnect(i); err != nil {
			return nil, err
		}
	}
	return x, nil
}

func (x *side) connect() (*sql.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return x.db.Conn(ctx)
}

// reconnect gives a session a new connection.
func (x *side) reconnect(i int) (err error) {
	if x.sessions[i] != nil {
		_ = x.sessions[i].Close() // in any state
	}
	if x.sessions[i], err = x.connect(); err != nil {
		return err
	}
	if err := x.exec(x.sessions[i], "USE sqldiff"); err != nil {
		return err
	}
	return x.sessions[i].QueryRowContext(context.Background(), "SELECT CONNECTION_ID()").Scan(&x.ids[i])
}

func (x *side) close() {
	for _, c := range append(x.sessions[:], x.looker) {
		if c != nil {
			_ = c.Close() // the pool goes with it
		}
	}
	_ = x.db.Close()
}

func (x *side) exec(c *sql.Conn, text string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := c.ExecContext(ctx, text); err != nil {
		return fmt.Errorf("%s: %s: %w", x.name, text, err)
	}
	return nil
}

// waits is the answer of a statement that has none yet.
const waits = "waits"

// outcome is what a step came to: each session that was told something, or began to wait, with its answer.
type outcome struct {
	skipped bool // the step's session waits, or has ended
	told    map[int]string
	of      map[int]int // the step that each answer belongs to
	status  string      // what MariaDB says of its locks, if a session waits or was told of a circle
	holds   [2]string   // the rows of t and of w that are committed behind the step; MariaDB's alone
}

// record is what a whole script came to.
type record struct {
	ids   [mostSessions]int64 // of the connections
	steps []outcome
}

// pending is a statement without an answer.
type pending struct {
	step   int
	answer chan string
}

// play runs a script. Its error is that the server is gone, or that a statement hangs.
func (x *side) play(s *script) (*record, error) {
	for _, text := range tables {
		if err := x.exec(x.looker, text); err != nil {
			return nil, err
		}
	}
	rec := &record{ids: x.ids}
	var waiting [mostSessions]*pending
	var closed [mostSessions]bool
	defer func() { // nothing may stay open: the next play makes the tables anew
		for i, p := range waiting {
			if p != nil {
				_ = x.reconnect(i) // what fails here fails at the next play
			} else if err := x.exec(x.sessions[i], "ROLLBACK"); err != nil {
				_ = x.reconnect(i) // as above
			}
		}
	}()
	for at := range s.steps {
		st := &s.steps[at]
		if st.verb == verbLast {
			rec.steps = append(rec.steps, outcome{told: map[int]string{0: say(x.looker, st.text)}, of: map[int]int{0: at}})
			continue
		}
		out := outcome{told: map[int]string{}, of: map[int]int{}}
		switch {
		case st.verb == verbKill:
			if out.skipped = waiting[st.who] == nil; out.skipped {
				break
			}
			if err := x.exec(x.looker, fmt.Sprintf("KILL QUERY %d", x.ids[st.who])); err != nil {
				return nil, err
			}
			if err := x.await(waiting[st.who]); err != nil {
				return nil, err
			}
		case waiting[st.who] != nil, closed[st.who]:
			out.skipped = true
		default:
			closed[st.who] = st.closes
			p := &pending{step: at, answer: make(chan string, 1)}
			waiting[st.who] = p
			c, text := x.sessions[st.who], x.words(st.text)
			go func() { p.answer <- say(c, text) }()
		}
		if !out.skipped {
			if err := x.settle(s, at, &waiting, &out); err != nil {
				return nil, fmt.Errorf("step %d, %s: %w", at, st, err)
			}
		}
		if x.original {
			out.holds = [2]string{say(x.looker, "SELECT * FROM t"), say(x.looker, "SELECT * FROM w")}
		}
		rec.steps = append(rec.steps, out)
	}
	return rec, nil
}

// await waits until a statement that was ended has its answer, and puts it back.
func (x *side) await(p *pending) error {
	select {
	case a := <-p.answer:
		p.answer <- a
		return nil
	case <-time.After(patience):
		return errors.New(x.name + ": a statement that was killed does not end")
	}
}

// settle waits until every session has its answer or waits for a lock, and notes what has changed.
func (x *side) settle(s *script, at int, waiting *[mostSessions]*pending, out *outcome) error {
	seen := 0
	for began := time.Now(); ; time.Sleep(lookEvery) {
		left := 0
		for i, p := range waiting {
			if p == nil {
				continue
			}
			select {
			case a := <-p.answer:
				out.told[i], out.of[i], waiting[i], seen = a, p.step, nil, 0
			default:
				left++
			}
		}
		if left == 0 {
			break
		}
		n, status, err := x.look()
		if err != nil {
			return err
		}
		if n == left { // a session waits for one lock at a time, so that these are all of them
			if seen++; seen < looks {
				continue
			}
			out.status = status
			if p := waiting[s.steps[at].who]; p != nil && p.step == at {
				out.told[s.steps[at].who], out.of[s.steps[at].who] = waits, at
			}
			break
		}
		if n != left {
			seen = 0
		}
		if time.Since(began) > patience {
			return fmt.Errorf("%s: %d statements have no answer, and %d wait", x.name, left, n)
		}
	}
	for _, a := range out.told { // any order: one look
		if x.original && strings.Contains(a, "1213") && out.status == "" {
			_, status, err := x.look()
			if err != nil {
				return err
			}
			out.status = status
		}
	}
	return nil
}

var waitingLock = regexp.MustCompile(`(?m)^------- TRX HAS BEEN WAITING`)

// look returns how many statements wait for a lock at this moment.
func (x *side) look() (n int, status string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if x.original {
		// Innodb_row_lock_current_waits counts a statement until its thread has woken up, and innodb_trx is as old as 100 ms.
		var kind, name string
		if err := x.looker.QueryRowContext(ctx, "SHOW ENGINE INNODB STATUS").Scan(&kind, &name, &status); err != nil {
			return 0, "", err
		}
		return len(waitingLock.FindAllStringIndex(status, -1)), status, nil
	}
	var name string
	err = x.looker.QueryRowContext(ctx, "SHOW STATUS LIKE 'Innodb_row_lock_current_waits'").Scan(&name, &n)
	return n, "", err
}

// words are a statement in the words of the server: MariaDB does not know FOR SHARE.
func (x *side) words(text string) string {
	if x.original {
		text = strings.Replace(text, "FOR SHARE", "LOCK IN SHARE MODE", 1)
	}
	return text
}

// say runs a statement and returns its answer: rows in the order of their text, how many were changed, or the number of an error.
func say(c *sql.Conn, text string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	var answer string
	var err error
	if strings.HasPrefix(text, "SELECT") {
		answer, err = rows(ctx, c, text)
	} else {
		var res sql.Result
		if res, err = c.ExecContext(ctx, text); err == nil {
			var n int64
			n, err = res.RowsAffected()
			answer = fmt.Sprintf("ok, %d rows", n)
		}
	}
	var of *mysql.MySQLError
	switch {
	case errors.As(err, &of):
		return fmt.Sprintf("error %d", of.Number)
	case err != nil:
		return "error " + err.Error()
	}
	return answer
}

func rows(ctx context.Context, c *sql.Conn, text string) (string, error) {
	found, err := c.QueryContext(ctx, text)
	if err != nil {
		return "", err
	}
	defer found.Close()
	names, err := found.Columns()
	if err != nil {
		return "", err
	}
	values, into := make([]sql.NullString, len(names)), make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	var all []string
	for found.Next() {
		if err := found.Scan(into...); err != nil {
			return "", err
		}
		cells := make([]string, len(values))
		for i, v := range values {
			if cells[i] = v.String; !v.Valid {
				cells[i] = "NULL"
			}
		}
		all = append(all, strings.Join(cells, "|"))
	}
	if err := found.Err(); err != nil {
		return "", err
	}
	if !strings.Contains(text, "ORDER BY") {
		slices.Sort(all)
	}
	return "rows " + strings.Join(all, " "), nil
}
