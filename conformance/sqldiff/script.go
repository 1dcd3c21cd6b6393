package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// mostSessions is how many sessions a script has at most.
const mostSessions = 3

// sessionNames are how scripts are printed: "a> BEGIN".
var sessionNames = [mostSessions]string{"a", "b", "c"}

// verb is what a step does.
type verb int

const (
	verbSet    verb = iota // it sets the session's isolation level; no part of the script that is shrunk
	verbBegin              // BEGIN, START TRANSACTION
	verbNext               // SET TRANSACTION ISOLATION LEVEL, of the next transaction alone
	verbEnd                // COMMIT, ROLLBACK
	verbSave               // SAVEPOINT and its family
	verbRead               // a plain SELECT
	verbLock               // SELECT … FOR UPDATE, FOR SHARE
	verbInsert             // INSERT of rows, REPLACE and ON DUPLICATE KEY UPDATE among them
	verbCopy               // INSERT … SELECT
	verbUpdate
	verbDelete
	verbKill // KILL QUERY of the session, if it waits
	verbLast // the table as it is in the end, by one of its indexes
)

// span is what a statement reads of an index: all entries from lo to hi, both included.
type span struct {
	table, index string // "PRIMARY", "by_k", "by_u"; "": every row
	lo, hi       int
}

// point reports whether the span is one value.
func (p span) point() bool { return p.index != "" && p.lo == p.hi }

// step is one statement of one session.
type step struct {
	who    int
	verb   verb
	text   string
	spans  []span // what it reads; a plain SELECT locks it at SERIALIZABLE alone
	keys   []row  // what it inserts, or sets
	level  string // of verbSet and verbNext
	closes bool   // it ends the session: played at most once
}

// row has the keys of a row that a statement inserts, or those that an UPDATE sets. null: it sets none.
type row struct {
	table    string
	id, k, u int
}

// key is the row's key of an index; of none it is the primary key.
func (x row) key(index string) int {
	switch index {
	case "by_k":
		return x.k
	case "by_u":
		return x.u
	}
	return x.id
}

// null is no key that a statement names.
const null = -1 << 20

// noRow is a row of t without keys.
var noRow = row{table: "t", id: null, k: null, u: null}

func (st *step) String() string { return sessionNames[st.who] + "> " + st.text }

// has reports whether the step's text has words in it.
func (st *step) has(words string) bool { return strings.Contains(st.text, words) }

// script is a sequence of steps.
type script struct {
	number   int
	sessions int
	levels   [mostSessions]string
	steps    []step
}

// statements is how many steps were drawn: not those that set the levels, end the sessions and read the tables in the end.
func (s *script) statements() (n int) {
	for i := range s.steps {
		if st := &s.steps[i]; st.verb != verbSet && st.verb != verbLast && !st.closes {
			n++
		}
	}
	return n
}

// without is the script without one of its steps.
func (s *script) without(at int) *script {
	c := *s
	c.steps = slices.Delete(slices.Clone(s.steps), at, at+1)
	return &c
}

// probe is the script with a step that waits where it has NOWAIT. Or the step asks for one of the rows which one server alone has skipped.
// Nil: the step has neither NOWAIT nor SKIP LOCKED.
func (s *script) probe(d *difference) *script {
	c := *s
	c.steps = slices.Clone(s.steps)
	st := &c.steps[d.of]
	if text, ok := strings.CutSuffix(st.text, " NOWAIT"); ok {
		st.text = text
		return &c
	}
	text, ok := strings.CutSuffix(st.text, " SKIP LOCKED")
	id, some := skipped(d.theirs, d.ours)
	if !ok || !some {
		return nil
	}
	st.spans = []span{{table: st.spans[0].table, index: "PRIMARY", lo: id, hi: id}}
	st.text = fmt.Sprintf("SELECT * FROM %s WHERE id = %d FOR %s", st.spans[0].table, id, text[strings.LastIndexByte(text, ' ')+1:])
	return &c
}

// skipped is the primary key of the first row that one of two answers has alone.
func skipped(theirs, ours string) (id int, some bool) {
	a, ok := strings.CutPrefix(theirs, "rows ")
	b, also := strings.CutPrefix(ours, "rows ")
	if !ok || !also {
		return 0, false
	}
	in, other := strings.Fields(a), strings.Fields(b)
	for _, lists := range [][2][]string{{in, other}, {other, in}} {
		for _, r := range lists[0] {
			if !slices.Contains(lists[1], r) {
				first, _, _ := strings.Cut(r, "|")
				id, err := strconv.Atoi(first)
				return id, err == nil
			}
		}
	}
	return 0, false
}

func (s *script) String() string {
	var b strings.Builder
	for i := range s.steps {
		fmt.Fprintln(&b, &s.steps[i])
	}
	return b.String()
}

// Tables that each script begins with.
var tables = []string{
	"DROP TABLE IF EXISTS t, w",
	"CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL, u INT, v INT NOT NULL, KEY by_k (k), UNIQUE KEY by_u (u)) ENGINE=InnoDB",
	"CREATE TABLE w (id INT PRIMARY KEY, v INT NOT NULL) ENGINE=InnoDB",
	"INSERT INTO t VALUES (2, 1, 20, 0), (4, 2, 40, 0), (6, 2, 60, 0), (8, 3, NULL, 0), (10, 5, 100, 0)",
	"INSERT INTO w VALUES (1, 0), (3, 0), (5, 0)",
}

// The tables' contents in the end.
var lasts = []string{
	"SELECT * FROM t ORDER BY id",
	"SELECT id, k FROM t FORCE INDEX (by_k) WHERE k >= -1000000 ORDER BY k, id",
	"SELECT id, u FROM t FORCE INDEX (by_u) WHERE u >= -1000000 ORDER BY u",
	"SELECT * FROM w ORDER BY id",
}
