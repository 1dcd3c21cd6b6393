package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// dice draws the steps of one script. Keys are few, so that sessions meet.
type dice struct {
	r    *rand.Rand
	open [mostSessions]bool // the session has begun a transaction, unless a deadlock has ended it
	mark [mostSessions]int  // savepoints of it
}

func (d *dice) chance(percent int) bool { return d.r.IntN(100) < percent }

func one[T any](d *dice, of ...T) T { return of[d.r.IntN(len(of))] }

// level draws an isolation level.
func (d *dice) level() string {
	switch k := d.r.IntN(100); {
	case k < 50:
		return "REPEATABLE READ"
	case k < 92:
		return "READ COMMITTED"
	}
	return "SERIALIZABLE"
}

// newScript draws a script of 6 to 20 statements.
func newScript(r *rand.Rand, number int) *script {
	d := &dice{r: r}
	s := &script{number: number, sessions: one(d, 2, 2, 3)}
	for i := range s.sessions {
		s.levels[i] = d.level()
		s.steps = append(s.steps, step{who: i, verb: verbSet, level: s.levels[i], text: "SET SESSION TRANSACTION ISOLATION LEVEL " + s.levels[i]})
	}
	for range 6 + r.IntN(15) {
		s.steps = append(s.steps, d.step(r.IntN(s.sessions)))
	}
	// A session that does not wait ends. At least one waiting session then continues, as there is no circle.
	for range s.sessions {
		for i := range s.sessions {
			s.steps = append(s.steps, step{who: i, verb: verbEnd, text: one(d, "COMMIT", "COMMIT", "ROLLBACK"), closes: true})
		}
	}
	for _, text := range lasts {
		s.steps = append(s.steps, step{verb: verbLast, text: text})
	}
	return s
}

// step draws a session's next statement.
func (d *dice) step(who int) step {
	if d.chance(3) {
		return step{who: who, verb: verbKill, text: "KILL QUERY"}
	}
	if !d.open[who] {
		switch k := d.r.IntN(100); {
		case k < 45:
			d.open[who], d.mark[who] = true, 0
			return step{who: who, verb: verbBegin, text: "BEGIN"}
		case k < 53:
			d.open[who], d.mark[who] = true, 0
			return step{who: who, verb: verbBegin, text: "START TRANSACTION WITH CONSISTENT SNAPSHOT"}
		case k < 58:
			level := d.level()
			return step{who: who, verb: verbNext, level: level, text: "SET TRANSACTION ISOLATION LEVEL " + level}
		}
		return d.statement(who)
	}
	switch k := d.r.IntN(100); {
	case k < 8:
		d.open[who] = false
		return step{who: who, verb: verbEnd, text: "COMMIT"}
	case k < 12:
		d.open[who] = false
		return step{who: who, verb: verbEnd, text: "ROLLBACK"}
	case k < 17:
		d.mark[who]++
		return step{who: who, verb: verbSave, text: "SAVEPOINT " + one(d, "x", "y")}
	case k < 22 && d.mark[who] > 0:
		return step{who: who, verb: verbSave, text: "ROLLBACK TO SAVEPOINT " + one(d, "x", "x", "y")}
	case k < 24 && d.mark[who] > 0:
		return step{who: who, verb: verbSave, text: "RELEASE SAVEPOINT " + one(d, "x", "y")}
	}
	return d.statement(who)
}

// statement draws a statement that reads or writes.
func (d *dice) statement(who int) step {
	st := step{who: who}
	switch k := d.r.IntN(100); {
	case k < 18:
		st.verb = verbRead
		table, where := d.from(&st)
		st.text = "SELECT * FROM " + table + where
	case k < 42:
		st.verb = verbLock
		table, where := d.from(&st)
		st.text = "SELECT * FROM " + table + where + one(d, " FOR UPDATE", " FOR UPDATE", " FOR SHARE") + one(d, "", "", "", "", "", " NOWAIT", " SKIP LOCKED")
	case k < 66:
		st.verb = verbUpdate
		table, where := d.from(&st)
		set := one(d, "v = v + 1", "v = v + 1", "v = v + 10", fmt.Sprintf("v = %d", d.r.IntN(3)))
		if strings.HasPrefix(table, "t") && d.chance(35) {
			x := noRow
			switch d.r.IntN(5) {
			case 0:
				x.k = d.k()
				set = fmt.Sprintf("k = %d", x.k)
			case 1:
				set = "k = k + 1"
			case 2:
				x.u = d.u()
				set = fmt.Sprintf("u = %d", x.u)
			case 3:
				set = "u = NULL"
			case 4:
				x.id = d.id()
				set = fmt.Sprintf("id = %d", x.id)
			}
			st.keys = []row{x}
		}
		st.text = "UPDATE " + table + " SET " + set + where
	case k < 75:
		st.verb = verbDelete
		table, where := d.from(&st)
		name, hint, _ := strings.Cut(table, " ")
		st.text = "DELETE FROM " + name + where
		if hint != "" { // DELETE of one table takes no hint
			st.text = "DELETE " + name + " FROM " + table + where
		}
	case k < 97:
		st.verb = verbInsert
		d.insert(&st)
	default:
		st.verb = verbCopy
		st.spans = []span{d.span("t", one(d, "PRIMARY", "by_k"))}
		st.text = "INSERT INTO w SELECT id, v FROM t" + hintOf(st.spans[0]) + whereOf(st.spans[0])
	}
	return st
}

func (d *dice) id() int { return 1 + d.r.IntN(11) }
func (d *dice) k() int  { return d.r.IntN(7) }
func (d *dice) u() int  { return 10 * d.id() }

// from draws a table and a condition. It returns them as they stand behind FROM or UPDATE, with the hint, and notes the spans that are read.
func (d *dice) from(st *step) (table, where string) {
	if d.chance(15) {
		st.spans = []span{d.span("w", "PRIMARY")}
		return "w" + hintOf(st.spans[0]), whereOf(st.spans[0])
	}
	switch k := d.r.IntN(100); {
	case k < 55:
		st.spans = []span{d.span("t", "PRIMARY")}
	case k < 75:
		st.spans = []span{d.span("t", "by_k")}
	case k < 92:
		st.spans = []span{d.span("t", "by_u")}
	default:
		st.spans = []span{{table: "t"}}
		return "t", one(d, "", " WHERE v = 0", " WHERE v > 0")
	}
	return "t" + hintOf(st.spans[0]), whereOf(st.spans[0])
}

// span draws what is read of an index: two thirds are single values.
func (d *dice) span(table, index string) span {
	value := d.id
	switch index {
	case "by_k":
		value = d.k
	case "by_u":
		value = d.u
	}
	p := span{table: table, index: index, lo: value()}
	p.hi = p.lo
	if d.chance(33) {
		p.hi = p.lo + d.r.IntN(4)*(1+9*btoi(index == "by_u"))
		if d.chance(25) {
			p.hi = open
		}
	}
	return p
}

// open is the end of a span without an end.
const open = 1 << 20

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// column is the column of an index.
func column(index string) string {
	switch index {
	case "by_k":
		return "k"
	case "by_u":
		return "u"
	}
	return "id"
}

// hintOf names the index, so that both servers go by the same one. A single value of a unique key needs no hint.
func hintOf(p span) string {
	if p.point() && p.index != "by_k" {
		return ""
	}
	return " FORCE INDEX (" + p.index + ")"
}

func whereOf(p span) string {
	c := column(p.index)
	switch {
	case p.point():
		return fmt.Sprintf(" WHERE %s = %d", c, p.lo)
	case p.hi == open:
		return fmt.Sprintf(" WHERE %s >= %d", c, p.lo)
	}
	return fmt.Sprintf(" WHERE %s BETWEEN %d AND %d", c, p.lo, p.hi)
}

// insert draws a statement that inserts.
func (d *dice) insert(st *step) {
	if d.chance(15) {
		x := row{table: "w", id: d.id(), k: null, u: null}
		st.keys = []row{x}
		st.text = fmt.Sprintf("%s INTO w VALUES (%d, 1)", one(d, "INSERT", "INSERT", "REPLACE", "INSERT IGNORE"), x.id)
		return
	}
	values := make([]string, one(d, 1, 1, 1, 2))
	for i := range values {
		x := row{table: "t", id: d.id(), k: d.k(), u: null}
		u := "NULL"
		if d.chance(70) {
			x.u = d.u()
			u = fmt.Sprint(x.u)
		}
		st.keys = append(st.keys, x)
		values[i] = fmt.Sprintf("(%d, %d, %s, 1)", x.id, x.k, u)
	}
	list := strings.Join(values, ", ")
	switch k := d.r.IntN(100); {
	case k < 50:
		st.text = "INSERT INTO t VALUES " + list
	case k < 65:
		st.text = "REPLACE INTO t VALUES " + list
	case k < 80:
		st.text = "INSERT IGNORE INTO t VALUES " + list
	case k < 95:
		st.text = "INSERT INTO t VALUES " + list + " ON DUPLICATE KEY UPDATE " + one(d, "v = v + 1", "v = VALUES(v) + 5", "k = k + 1")
	default:
		x := noRow
		x.u = d.u()
		st.keys = append(st.keys, x)
		st.text = fmt.Sprintf("INSERT INTO t VALUES %s ON DUPLICATE KEY UPDATE u = %d", list, x.u)
	}
}
