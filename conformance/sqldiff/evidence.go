package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// wait is a lock that a session of MariaDB waits for, or has waited for when a circle was found.
type wait struct {
	who          int // the session
	table, index string
	mode         string // as InnoDB prints it
	end          bool   // it is the end of the index, and no record
	key          int    // the first column of the index
	id           int    // the row's primary key
	against      string // in a circle: the mode of the lock that is in the way
}

func (w *wait) String() string {
	key := strconv.Itoa(w.key)
	if w.end {
		key = "the end"
	}
	return fmt.Sprintf("MariaDB's %s waits for %s on %s (id %d) of %s of %s; against %q", sessionNames[w.who], w.mode, key, w.id, w.index, w.table, w.against)
}

// gap reports whether the session waits to insert into a gap that another one has locked.
func (w *wait) gap() bool { return strings.Contains(w.mode, "insert intention") }

var (
	threadLine = regexp.MustCompile(`(?m)^MariaDB thread id (\d+),`)
	lockLine   = regexp.MustCompile(`(?m)^RECORD LOCKS .*? index (\w+) of table \S+\.` + "`" + `(\w+)` + "`" + ` trx id \d+ lock[_ ]mode (.*)$`)
	fieldLine  = regexp.MustCompile(`(?m)^ (\d): (?:len 4; hex ([0-9a-f]{8});|SQL NULL;|len \d+; hex)`)
)

// waitsOf reads the locks that are waited for out of SHOW ENGINE INNODB STATUS. ids are the sessions' connections.
func waitsOf(status string, ids [mostSessions]int64) (all []*wait) {
	_, list, _ := strings.Cut(status, "\nLIST OF TRANSACTIONS FOR EACH SESSION:")
	for _, block := range strings.Split(list, "\n---TRANSACTION ") {
		_, after, ok := strings.Cut(block, "\n------- TRX HAS BEEN WAITING ")
		if !ok {
			continue
		}
		if w := waitIn(block, after, ids); w != nil {
			all = append(all, w)
		}
	}
	return all
}

// circleOf reads the locks of the circle that was found last.
func circleOf(status string, ids [mostSessions]int64) (all []*wait) {
	_, list, _ := strings.Cut(status, "\nLATEST DETECTED DEADLOCK\n")
	list, _, _ = strings.Cut(list, "\n*** WE ROLL BACK TRANSACTION")
	for _, block := range strings.Split(list, ") TRANSACTION:\n")[1:] {
		_, after, ok := strings.Cut(block, "*** WAITING FOR THIS LOCK TO BE GRANTED:\n")
		if !ok {
			continue
		}
		after, against, _ := strings.Cut(after, "*** CONFLICTING WITH:\n")
		w := waitIn(block, after, ids)
		if w == nil {
			continue
		}
		if m := lockLine.FindStringSubmatch(against); m != nil {
			w.against = m[3]
		}
		all = append(all, w)
	}
	return all
}

// waitIn reads the first lock of a text. head has the transaction's thread.
func waitIn(head, text string, ids [mostSessions]int64) *wait {
	m := threadLine.FindStringSubmatch(head)
	at := lockLine.FindStringSubmatchIndex(text)
	if m == nil || at == nil {
		return nil
	}
	id, _ := strconv.ParseInt(m[1], 10, 64) // digits
	who := slices.Index(ids[:], id)
	if who < 0 {
		return nil
	}
	w := &wait{who: who, index: text[at[2]:at[3]], table: text[at[4]:at[5]], mode: strings.TrimSuffix(text[at[6]:at[7]], " waiting")}
	rest := text[at[1]:]
	if next := lockLine.FindStringIndex(rest); next != nil {
		rest = rest[:next[0]]
	}
	fields := fieldLine.FindAllStringSubmatch(rest, -1)
	if w.end = len(fields) == 0 || strings.Contains(rest, "supremum"); w.end {
		return w
	}
	last := fields[0]
	if w.index != "PRIMARY" && len(fields) > 1 {
		last = fields[1]
	}
	w.key, w.id = number(fields[0][2]), number(last[2])
	return w
}

// number is the value of a signed INT as InnoDB keeps it. No digits: NULL, which is no key that a statement asks for.
func number(hex string) int {
	n, err := strconv.ParseUint(hex, 16, 32)
	if err != nil {
		return null
	}
	return int(int32(uint32(n) ^ 1<<31))
}

// held is a committed row.
type held struct{ id, k, u, v int }

// held returns the committed rows of a table, behind a step; before the first one there is what every script begins with.
func (r *record) held(table string, at int) (all []held) {
	for at >= 0 && r.steps[at].holds[0] == "" {
		at--
	}
	text := r.steps[max(at, 0)].holds[btoi(table == "w")]
	for _, cells := range strings.Fields(strings.TrimPrefix(text, "rows ")) {
		values := strings.Split(cells, "|")
		h := held{k: null, u: null}
		h.id, _ = strconv.Atoi(values[0]) // digits
		if table == "t" {
			h.k, _ = strconv.Atoi(values[1])
			h.v, _ = strconv.Atoi(values[3])
			if n, err := strconv.Atoi(values[2]); err == nil {
				h.u = n
			}
		}
		all = append(all, h)
	}
	return all
}

// key is the row's key of an index.
func (h held) key(index string) int {
	switch index {
	case "by_k":
		return h.k
	case "by_u":
		return h.u
	}
	return h.id
}

// committed reports whether a record was committed before the step: whether a statement that sees committed rows alone can know it.
func (d *difference) committed(w *wait) bool {
	return slices.ContainsFunc(d.rec.held(w.table, d.at-1), func(h held) bool { return h.id == w.id && h.key(w.index) == w.key })
}

// transaction is what a session has done in the transaction that is open.
type transaction struct {
	steps    []int
	explicit bool   // BEGIN has opened it
	level    string // that it has
	next     string // of SET TRANSACTION, for the one behind it; "": the session's
}

// locked reports whether one of the transaction's steps may have locked a key of an index. A key that is not there is locked by statements that name it,
// and at SERIALIZABLE by ranges, too.
func (tx *transaction) locked(s *script, table, index string, key int, pointed bool) bool {
	return slices.ContainsFunc(tx.steps, func(at int) bool { return tx.locks(&s.steps[at], table, index, key, pointed) })
}

func (tx *transaction) locks(st *step, table, index string, key int, pointed bool) bool {
	return !tx.rejects(st, table) && (st.verb != verbRead || tx.level == "SERIALIZABLE") && st.touches(table, index, key, pointed && tx.level != "SERIALIZABLE")
}

// rejects reports whether a step reads a whole table at READ COMMITTED by a condition that no index serves. Rows that it rejects are not
// locked.
func (tx *transaction) rejects(st *step, table string) bool {
	return tx.level == "READ COMMITTED" && len(st.spans) == 1 && st.spans[0].table == table && st.spans[0].index == "" && st.has(" WHERE ")
}

// wants reports whether such a step locks a row.
func (tx *transaction) wants(s *script, h held) bool {
	return slices.ContainsFunc(tx.steps, func(at int) bool {
		st := &s.steps[at]
		return tx.rejects(st, "t") && (st.has("v = 0") && h.v == 0 || st.has("v > 0") && h.v > 0)
	})
}

// ranged reports whether the transaction locks ranges.
func (tx *transaction) ranged() bool {
	return tx.level == "SERIALIZABLE"
}

// last is what the transaction's last step alone has done.
func (tx transaction) last() transaction {
	tx.steps = tx.steps[max(len(tx.steps)-1, 0):]
	return tx
}

// transactions are each session's at a step, the step itself included.
func (d *difference) transactions(s *script) (all [mostSessions]transaction) {
	ended := func(who int) { all[who] = transaction{} }
	for who := range all {
		all[who].level = s.levels[who]
	}
	for at := 0; at <= d.at; at++ {
		st, out := &s.steps[at], &d.rec.steps[at]
		tx := &all[st.who]
		switch {
		case out.skipped, st.verb == verbLast, st.verb == verbSet, st.verb == verbKill:
		case st.verb == verbNext:
			if !tx.explicit && out.told[st.who] == "ok, 0 rows" {
				tx.next = st.level
			}
			continue
		case st.verb == verbEnd && at != d.at:
			ended(st.who)
		default:
			if st.verb == verbBegin {
				next := tx.next
				ended(st.who)
				tx.explicit, tx.next = true, next
			}
			if len(tx.steps) == 0 && tx.next != "" {
				tx.level, tx.next = tx.next, ""
			} else if len(tx.steps) == 0 {
				tx.level = s.levels[st.who]
			}
			tx.steps = append(tx.steps, at)
		}
		if at == d.at {
			break
		}
		for who, answer := range out.told { // any order: each is of another session
			if answer == "error 1213" || answer != waits && !all[who].explicit && st.verb != verbEnd {
				ended(who)
			}
		}
	}
	return all
}

// touches reports whether a step names a key of an index: by its reads, inserts or new values. pointed: a range does not name the keys in
// it.
func (st *step) touches(table, index string, key int, pointed bool) bool {
	if key == null {
		return false
	}
	for _, p := range st.spans {
		if p.table == table && !(pointed && !p.point()) && (p.index == "" || p.index == index && p.lo <= key && key <= p.hi) {
			return true
		}
	}
	for _, x := range st.keys {
		if x.table == table && (index == "PRIMARY" && x.id == key || index == "by_u" && x.u == key || index == "by_k" && x.k == key) {
			return true
		}
	}
	return false
}
