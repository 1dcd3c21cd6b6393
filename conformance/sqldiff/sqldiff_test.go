package main

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestScriptsAreDrawnAlike: a seed stands for its scripts, and they are short.
func TestScriptsAreDrawnAlike(t *testing.T) {
	verbs := map[verb]int{}
	for i := range 200 {
		s := newScript(rand.New(rand.NewPCG(1, uint64(i))), i)
		if again := newScript(rand.New(rand.NewPCG(1, uint64(i))), i); s.String() != again.String() {
			t.Fatalf("script %d is drawn twice:\n%s\nand\n%s", i, s, again)
		}
		if n := s.statements(); n < 6 || n > 20 || s.sessions < 2 || s.sessions > mostSessions {
			t.Errorf("script %d has %d statements of %d sessions", i, n, s.sessions)
		}
		for j := range s.steps {
			verbs[s.steps[j].verb]++
		}
	}
	for v := verbSet; v <= verbLast; v++ {
		if verbs[v] == 0 {
			t.Errorf("no step of kind %d was drawn", v)
		}
	}
}

// conflict is a script of which b's last step meets what a has locked.
func conflict(first, second step) *script {
	s := &script{sessions: 2, levels: [mostSessions]string{"REPEATABLE READ", "REPEATABLE READ"}}
	first.who, second.who = 0, 1
	s.steps = []step{{who: 0, verb: verbBegin, text: "BEGIN"}, first, {who: 1, verb: verbBegin, text: "BEGIN"}, second}
	return s
}

// told are records of such a script in which b was told two things.
func told(theirs, ours, status string) (a, b *record) {
	make := func(last string) *record {
		r := &record{ids: [mostSessions]int64{11, 12, 13}}
		for at, answer := range []string{"ok, 0 rows", "ok, 1 rows", "ok, 0 rows", last} {
			who := at / 2
			r.steps = append(r.steps, outcome{told: map[int]string{who: answer}, of: map[int]int{who: at},
				holds: [2]string{"rows 10|5|100|0 2|1|20|0 4|2|40|0", "rows 1|0"}})
		}
		return r
	}
	a, b = make(theirs), make(ours)
	a.steps[3].status = status
	return a, b
}

// waitingFor is what MariaDB says while connection 12 waits.
func waitingFor(index, mode string, fields ...string) string {
	var b strings.Builder
	b.WriteString("\nLIST OF TRANSACTIONS FOR EACH SESSION:\n---TRANSACTION 77, ACTIVE 0 sec starting index read\nmysql tables in use 1, locked 1\n" +
		"LOCK WAIT 2 lock struct(s), heap size 1128, 1 row lock(s)\nMariaDB thread id 12, OS thread handle 1, query id 5 127.0.0.1 sqldiff Updating\n" +
		"------- TRX HAS BEEN WAITING 33 us FOR THIS LOCK TO BE GRANTED:\nRECORD LOCKS space id 6 page no 3 n bits 320 index " + index +
		" of table `sqldiff`.`t` trx id 77 lock_mode " + mode + " waiting\nRecord lock, heap no 3 PHYSICAL RECORD: n_fields 6; compact format; info bits 0\n")
	for i, f := range fields {
		b.WriteString(" " + string(rune('0'+i)) + ": len 4; hex " + f + "; asc     ;;\n")
	}
	b.WriteString("\n------------------\n---TRANSACTION 76, ACTIVE 0 sec\nMariaDB thread id 11, OS thread handle 1, query id 4 127.0.0.1 sqldiff\n")
	return b.String()
}

// TestWaitsAreRead: whose lock, of which index, on which record.
func TestWaitsAreRead(t *testing.T) {
	ids := [mostSessions]int64{11, 12, 13}
	for status, want := range map[string]wait{
		waitingFor("PRIMARY", "X locks rec but not gap", "80000004", "000000000019"):               {who: 1, table: "t", index: "PRIMARY", mode: "X locks rec but not gap", key: 4, id: 4},
		waitingFor("by_k", "X", "80000002", "80000006"):                                            {who: 1, table: "t", index: "by_k", mode: "X", key: 2, id: 6},
		waitingFor("PRIMARY", "X locks gap before rec insert intention", "80000008"):               {who: 1, table: "t", index: "PRIMARY", mode: "X locks gap before rec insert intention", key: 8, id: 8},
		waitingFor("by_k", "X insert intention"):                                                   {who: 1, table: "t", index: "by_k", mode: "X insert intention", end: true},
		strings.ReplaceAll(waitingFor("PRIMARY", "S", "7fffffff"), "thread id 12", "thread id 13"): {who: 2, table: "t", index: "PRIMARY", mode: "S", key: -1, id: -1},
	} {
		all := waitsOf(status, ids)
		if len(all) != 1 || *all[0] != want {
			t.Errorf("%v, not %+v, in\n%s", all, want, status)
		}
	}
	if all := waitsOf("", ids); all != nil {
		t.Errorf("%v in nothing", all)
	}
}

// TestReasonsCoverNothingElse: each reason covers what it is for, and none covers answers that differ otherwise.
func TestReasonsCoverNothingElse(t *testing.T) {
	at := func(lo, hi int) []span { return []span{{table: "t", index: "PRIMARY", lo: lo, hi: hi}} }
	update := func(spans []span) step { return step{verb: verbUpdate, text: "UPDATE t SET v = v + 1", spans: spans} }
	insert := func(id, k, u int) step {
		return step{verb: verbInsert, text: "INSERT INTO t VALUES", keys: []row{{table: "t", id: id, k: k, u: u}}}
	}
	for _, c := range []struct {
		name          string
		first, second step
		theirs, ours  string
		status        string
		reason        string
	}{
		{"an insert into a locked gap", update(at(2, 4)), insert(3, 1, null), waits, "ok, 1 rows", waitingFor("PRIMARY", "X locks gap before rec insert intention", "80000004"), "gap"},
		{"the row behind a range", update(at(1, 3)), update(at(4, 4)), waits, "ok, 1 rows", waitingFor("PRIMARY", "X locks rec but not gap", "80000004"), "behind"},
		{"a row that is not committed", insert(3, 1, null), update(at(2, 4)), waits, "ok, 2 rows", waitingFor("PRIMARY", "X", "80000003"), "uncommitted"},
		{"the place of no row", update(at(3, 3)), update(at(3, 3)), "ok, 0 rows", waits, "", "place"},

		{"a row that both name", update(at(4, 4)), update(at(4, 4)), waits, "ok, 1 rows", waitingFor("PRIMARY", "X locks rec but not gap", "80000004"), ""},
		{"a row in both ranges", update(at(2, 4)), update(at(4, 9)), waits, "ok, 2 rows", waitingFor("PRIMARY", "X", "80000004"), ""},
		{"a row that nobody has locked", update(at(2, 2)), update(at(4, 4)), "ok, 1 rows", waits, "", ""},
		{"a lost row", update(at(2, 2)), update(at(4, 10)), "ok, 2 rows", "ok, 1 rows", "", ""},
		{"another error", insert(3, 1, null), insert(4, 1, null), "error 1062", "error 1213", "", ""},
		{"no error", insert(3, 1, null), insert(4, 1, null), "error 1062", "ok, 1 rows", "", ""},
		{"other rows", update(at(2, 2)), step{verb: verbRead, text: "SELECT", spans: at(2, 2)}, "rows 2|1|20|0", "rows 2|1|20|1", "", ""},
		{"a deadlock of nobody", update(at(2, 2)), update(at(4, 4)), "ok, 1 rows", "error 1213", "", ""},
	} {
		s := conflict(c.first, c.second)
		theirs, ours := told(c.theirs, c.ours, c.status)
		d := compare(theirs, ours)
		if d == nil || d.at != 3 || d.who != 1 || d.of != 3 {
			t.Errorf("%s: the difference is %v", c.name, d)
			continue
		}
		if got := reasonOf(s, d); got != c.reason {
			t.Errorf("%s: the reason is %q, not %q", c.name, got, c.reason)
		}
	}
}

// TestTheSameIsNoDifference: also where both say it in their own numbers.
func TestTheSameIsNoDifference(t *testing.T) {
	for theirs, ours := range map[string]string{"rows 2|1": "rows 2|1", waits: waits, "error 1205": "error 3572"} {
		if d := compare(told(theirs, ours, "")); d != nil {
			t.Errorf("%s and %s: %v", theirs, ours, d)
		}
	}
}

// circle is what MariaDB says of a circle in which connection 11 waits for one row of t and connection 12 for another.
func circle(eleven, twelve string) string {
	waiting := func(thread, row string) string {
		return "*** (1) TRANSACTION:\nTRANSACTION 7, ACTIVE 0 sec\nMariaDB thread id " + thread + ", OS thread handle 1, query id 4\n" +
			"*** WAITING FOR THIS LOCK TO BE GRANTED:\nRECORD LOCKS space id 6 page no 3 n bits 320 index PRIMARY of table `sqldiff`.`t` trx id 7 lock_mode X waiting\n" +
			"Record lock, heap no 3\n 0: len 4; hex " + row + "; asc     ;;\n\n" +
			"*** CONFLICTING WITH:\nRECORD LOCKS space id 6 page no 3 n bits 320 index PRIMARY of table `sqldiff`.`t` trx id 8 lock_mode X\n"
	}
	return "\nLATEST DETECTED DEADLOCK\n" + waiting("11", eleven) + waiting("12", twelve) + "\n*** WE ROLL BACK TRANSACTION (2)\n"
}

// TestACircleThroughHalfARange: InnoDB has locked a row of a SERIALIZABLE statement's range and waits for another. It is no reason where the statement locks rows
// one by one here, too, nor where it had the row before, nor where it does not wait.
func TestACircleThroughHalfARange(t *testing.T) {
	at := func(lo, hi int) []span { return []span{{table: "t", index: "PRIMARY", lo: lo, hi: hi}} }
	update := func(who, lo, hi int) step {
		return step{who: who, verb: verbUpdate, text: "UPDATE t SET v = v + 1", spans: at(lo, hi)}
	}
	for _, c := range []struct {
		name   string
		level  string
		before step // of b
		ours   string
		twelve string // the row that b waits for
		want   string
	}{
		{name: "a range", level: "SERIALIZABLE", before: update(1, 2, 2), ours: waits, twelve: "80000006", want: "range at once"},
		{name: "row by row", level: "REPEATABLE READ", before: update(1, 2, 2), ours: waits, twelve: "80000006"},
		{name: "a row that it had", level: "SERIALIZABLE", before: update(1, 4, 4), ours: waits, twelve: "80000006"},
		{name: "the row behind the range", level: "SERIALIZABLE", before: update(1, 2, 2), ours: waits, twelve: "80000008", want: "behind"},
		{name: "no wait", level: "SERIALIZABLE", before: update(1, 2, 2), ours: "ok, 2 rows", twelve: "80000006"},
	} {
		s := &script{sessions: 2, levels: [mostSessions]string{"READ COMMITTED", c.level}, steps: []step{
			{who: 0, verb: verbBegin, text: "BEGIN"}, {who: 1, verb: verbBegin, text: "BEGIN"}, update(0, 6, 8), c.before, update(1, 3, 6), update(0, 4, 4)}}
		play := func(last string) *record {
			r := &record{ids: [mostSessions]int64{11, 12, 13}}
			for i := range s.steps {
				answer := "ok, 1 rows"
				if i == 4 {
					answer = waits
				}
				r.steps = append(r.steps, outcome{told: map[int]string{s.steps[i].who: answer}, of: map[int]int{s.steps[i].who: i},
					holds: [2]string{"rows 2|1|20|0 4|2|40|0 6|2|60|0 8|3|NULL|0", "rows 1|0"}})
			}
			if last != waits {
				r.steps[5].told[1], r.steps[5].of[1] = last, 4
			}
			return r
		}
		theirs, ours := play("error 1213"), play(c.ours)
		theirs.steps[5].status = circle("80000004", c.twelve)
		d := compare(theirs, ours)
		if d == nil || d.who != 1 || d.of != 4 {
			t.Errorf("%s: the difference is %v", c.name, d)
			continue
		}
		if got := reasonOf(s, d); got != c.want {
			t.Errorf("%s: the reason is %q, not %q", c.name, got, c.want)
		}
	}
}

// TestWhatASecondReadingSees: a statement that has waited has other rows than InnoDB's. A reason holds where rows came meanwhile, or were not committed when it
// came to them, and nowhere else.
func TestWhatASecondReadingSees(t *testing.T) {
	by := func(index string, lo, hi int) []span { return []span{{table: "t", index: index, lo: lo, hi: hi}} }
	share := step{who: 1, verb: verbLock, text: "SELECT * FROM t FOR SHARE", spans: by("by_k", 2, open)}
	insert := func(id, k int) step {
		return step{who: 0, verb: verbInsert, text: "INSERT INTO t VALUES", keys: []row{{table: "t", id: id, k: k, u: null}}}
	}
	for _, c := range []struct {
		name         string
		before       step   // of a, before the other waits
		after        step   // of a, while it waits
		waited       string // the row of by_k for which MariaDB's waits, as its fields
		theirs, ours string
		want         string
	}{
		{"a row came meanwhile", insert(9, 6), insert(3, 2), "80000005 8000000a", "rows 10|5|100|0", "rows 10|5|100|0 3|2|NULL|1", "meanwhile"},
		{"none came", insert(9, 6), insert(3, 1), "80000005 8000000a", "rows 10|5|100|0", "rows 10|5|100|0 3|2|NULL|1", ""},
		{"and another is lost", insert(9, 6), insert(3, 2), "80000005 8000000a", "rows 10|5|100|0", "rows 4|2|40|0 3|2|NULL|1", ""},
		{"another value", insert(9, 6), insert(3, 2), "80000005 8000000a", "rows 10|5|100|0", "rows 10|5|100|1", ""},
		{"it was not committed", insert(9, 6), insert(3, 1), "80000006 80000009", "rows 10|5|100|0 9|6|NULL|1", "rows 10|5|100|0", "uncommitted"},
		{"it was", insert(9, 6), insert(3, 1), "80000005 8000000a", "rows 10|5|100|0 9|6|NULL|1", "rows 10|5|100|0", ""},
		{"fewer there", insert(9, 6), insert(3, 1), "80000006 80000009", "ok, 1 rows", "ok, 2 rows", ""},
		{"an error", insert(9, 6), insert(3, 2), "80000006 80000009", "error 1062", "ok, 2 rows", ""},
	} {
		s := &script{sessions: 2, levels: [mostSessions]string{"READ COMMITTED", "READ COMMITTED"}, steps: []step{
			{who: 0, verb: verbBegin, text: "BEGIN"}, c.before, share, c.after, {who: 0, verb: verbEnd, text: "COMMIT"}}}
		play := func(last string) *record {
			r := &record{ids: [mostSessions]int64{11, 12, 13}}
			for i := range s.steps {
				r.steps = append(r.steps, outcome{told: map[int]string{s.steps[i].who: "ok, 1 rows"}, of: map[int]int{s.steps[i].who: i},
					holds: [2]string{"rows 10|5|100|0 4|2|40|0", "rows 1|0"}})
			}
			r.steps[2].told[1] = waits
			r.steps[4].told[1], r.steps[4].of[1] = last, 2
			return r
		}
		theirs, ours := play(c.theirs), play(c.ours)
		theirs.steps[2].status = waitingFor("by_k", "S", strings.Fields(c.waited)...)
		theirs.steps[3].status = theirs.steps[2].status
		d := compare(theirs, ours)
		if d == nil || d.who != 1 || d.of != 2 || d.at != 4 {
			t.Errorf("%s: the difference is %v", c.name, d)
			continue
		}
		if got := reasonOf(s, d); got != c.want {
			t.Errorf("%s: the reason is %q, not %q", c.name, got, c.want)
		}
	}
}

// TestTheEntryOfASkippedRow: InnoDB has locked it, if the row was skipped, and by that index.
func TestTheEntryOfASkippedRow(t *testing.T) {
	for _, c := range []struct {
		name, index, told, want string
	}{
		{"a row that was skipped", "by_k", "rows 6|2|60|0", "skipped"},
		{"a row that was given", "by_k", "rows 4|2|40|0 6|2|60|0", ""},
		{"by another index", "by_u", "rows 6|2|60|0", ""},
	} {
		lo := 2
		if c.index == "by_u" {
			lo = 40
		}
		s := conflict(step{verb: verbLock, text: "SELECT * FROM t FOR UPDATE SKIP LOCKED", spans: []span{{table: "t", index: c.index, lo: lo, hi: lo}}},
			step{verb: verbDelete, text: "DELETE FROM t", spans: []span{{table: "t", index: "PRIMARY", lo: 4, hi: 4}}})
		theirs, ours := told(waits, "ok, 1 rows", waitingFor("by_k", "X locks rec but not gap", "80000002", "80000004"))
		theirs.steps[1].told[0] = c.told
		ours.steps[1].told[0] = c.told
		d := compare(theirs, ours)
		if got := reasonOf(s, d); got != c.want {
			t.Errorf("%s: the reason is %q, not %q", c.name, got, c.want)
		}
	}
}
