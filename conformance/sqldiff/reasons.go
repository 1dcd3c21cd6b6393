package main

import (
	"slices"
	"strconv"
	"strings"
)

// reason is why an answer differs, and how that is recognised.
type reason struct {
	name, why string
	covers    func(s *script, d *difference) bool
}

// waitsIn are the locks of MariaDB that decide about a difference: those of its circle, or the one that the session waits for.
func (d *difference) waitsIn() []*wait {
	if d.theirs == "error 1213" {
		return circleOf(d.status(), d.rec.ids)
	}
	if d.theirs != waits {
		return nil
	}
	for _, w := range waitsOf(d.status(), d.rec.ids) {
		if w.who == d.who {
			return []*wait{w}
		}
	}
	return nil
}

// some reports whether one of the locks by which a difference is judged is such a one.
func (d *difference) some(f func(w *wait) bool) bool { return slices.ContainsFunc(d.waitsIn(), f) }

var reasons = []reason{
	{
		name: "victim",
		why:  "of a circle the transaction that has written the fewest bytes gives up, of several the one that closes it; InnoDB counts rows and locks",
		covers: func(s *script, d *difference) bool {
			all := append([]*difference{d}, d.others...)
			theirs := slices.ContainsFunc(all, func(d *difference) bool { return d.theirs == "error 1213" })
			ours := slices.ContainsFunc(all, func(d *difference) bool { return d.ours == "error 1213" })
			return theirs && ours
		},
	},
	{
		name:   "gap",
		why:    "InnoDB locks the gaps of a range that was read to be locked at REPEATABLE READ, and keeps inserts out of it; here SERIALIZABLE alone does (docs/sql/isolation.md)",
		covers: func(s *script, d *difference) bool { return d.some((*wait).gap) },
	},
	{
		name: "uncommitted",
		why:  "a row, or its place in an index, that another transaction has written and not committed: InnoDB's statement by a range waits for it; here it is not seen before its commit, as if the statement had come first",
		covers: func(s *script, d *difference) bool {
			return d.some(func(w *wait) bool { return !w.end && !d.committed(w) }) || d.passed()
		},
	},
	{
		name: "meanwhile",
		why: "behind a wait the rest of a range is read again, from the last row on that was given; InnoDB goes on with the row that it has waited for: rows that came before that " +
			"one while it waited are seen here, and not there",
		covers: func(s *script, d *difference) bool {
			if !d.bothWaited() || !more(d.ours, d.theirs) {
				return false
			}
			for at := d.of + 1; at <= d.at; at++ {
				st := &s.steps[at]
				if st.who == d.who || d.rec.steps[at].skipped || st.verb == verbKill {
					continue
				}
				for _, p := range s.steps[d.of].spans {
					for _, x := range st.keys {
						if key := x.key(p.index); x.table == p.table && key != null && (p.index == "" || p.lo <= key && key <= p.hi) {
							return true
						}
					}
				}
			}
			return false
		},
	},
	{
		name: "skipped",
		why:  "SKIP LOCKED by a secondary index: InnoDB has locked the entry of a row before it finds the row locked, and keeps it; here nothing of a row that is skipped is locked",
		covers: func(s *script, d *difference) bool {
			if d.theirs != waits || d.oursStops() {
				return false
			}
			open := d.transactions(s)
			return d.some(func(w *wait) bool {
				if w.end || w.index == "PRIMARY" {
					return false
				}
				for who := range s.sessions {
					for _, at := range open[who].steps {
						_, given, ok := rowsOf(d.rec.steps[at].told[who])
						if who != w.who && s.steps[at].has(" SKIP LOCKED") && ok && !given[strconv.Itoa(w.id)] && s.steps[at].touches(w.table, w.index, w.key, w.id, false) {
							return true
						}
					}
				}
				return false
			})
		},
	},
	{
		name: "behind",
		why:  "MariaDB locks the first row behind a range as well; MySQL 8.0 does not either",
		covers: func(s *script, d *difference) bool {
			open := d.transactions(s)
			return d.some(func(w *wait) bool {
				if w.end {
					return true
				}
				// The statement that waits names no such key, or no other transaction does.
				if waiting := open[w.who].last(); !lockedRow(s, d, &waiting, w) {
					return true
				}
				for who := range s.sessions {
					if who != w.who && lockedRow(s, d, &open[who], w) {
						return false
					}
				}
				return true
			})
		},
	},
	{
		name: "upgrade",
		why:  "a transaction that shares a row and asks for it alone goes before those that wait for the row; InnoDB calls that a deadlock",
		covers: func(s *script, d *difference) bool {
			circle := circleOf(d.status(), d.rec.ids)
			if d.theirs != "error 1213" || d.ours == "error 1213" {
				return false
			}
			for i, a := range circle {
				if strings.HasPrefix(a.mode, "X") && strings.HasPrefix(a.against, "S") {
					return true
				}
				for _, b := range circle[:i] { // two wait for one row, so that one of them shares it
					if a.who != b.who && a.table == b.table && a.index == b.index && a.id == b.id {
						return true
					}
				}
			}
			return false
		},
	},
	{
		name: "together",
		why:  "a step lets two waiting sessions go on at once, which want each other's rows: which of them gets there first is chance",
		covers: func(s *script, d *difference) bool {
			if d.who == s.steps[d.at].who {
				return false
			}
			waiting := map[int]bool{}
			for _, out := range d.rec.steps[:d.at] {
				for who, answer := range out.told { // any order: a set
					waiting[who] = answer == waits
				}
			}
			n := 0
			for _, w := range waiting { // any order: a count
				n += btoi(w)
			}
			return n > 1
		},
	},
	{
		name: "place",
		why: "the place of a row that is not there, of which two statements name the unique key, or a SERIALIZABLE one the range, is locked as a row is: of two that look for it to insert it, one waits. " +
			"InnoDB lets both lock the gap, and ends one of them by 1213 when they insert. It is locked until the transaction ends where a row was inserted there and taken back, too",
		covers: missing,
	},
	{
		name: "again",
		why:  "a statement that is a transaction by itself, and is chosen to give up, runs again without its client's knowing; in MariaDB one of the circle is told 1213",
		covers: func(s *script, d *difference) bool {
			open := d.transactions(s)
			return d.theirs == "error 1213" && slices.ContainsFunc(circleOf(d.status(), d.rec.ids), func(w *wait) bool { return !open[w.who].explicit })
		},
	},
	{
		name: "range at once",
		why: "SERIALIZABLE locks a range as a whole before it reads the first of its rows; InnoDB locks row by row: others get at those behind the one that it waits for, " +
			"and close a circle by those before it",
		covers: func(s *script, d *difference) bool {
			return d.halfLocked(s) || d.oursStops() && d.shared(s, func(who, other *transaction, table, index string, key int) bool {
				return (who.ranged() || other.ranged()) && who.locked(s, table, index, key, false) && other.locked(s, table, index, key, false)
			})
		},
	},
	{
		name: "alone",
		why:  "a row that the transaction shares, and by whose key its INSERT fails then, it has locked alone; InnoDB shares it still",
		covers: func(s *script, d *difference) bool {
			return d.oursStops() && d.shared(s, func(who, other *transaction, table, index string, key int) bool {
				return d.has(table, index, key) && who.locked(s, table, index, key, false) &&
					slices.ContainsFunc(other.steps, func(at int) bool {
						return s.steps[at].verb == verbInsert && other.locks(&s.steps[at], table, index, key, true)
					}) &&
					slices.ContainsFunc(other.steps, func(at int) bool {
						return s.steps[at].has("FOR SHARE") && other.locks(&s.steps[at], table, index, key, false)
					})
			})
		},
	},
	{
		name: "entry",
		why:  "a unique key by which a statement has failed is locked as an entry of its index; a range of that index locks rows alone here, and in InnoDB the entries too",
		covers: func(s *script, d *difference) bool {
			open := d.transactions(s)
			return d.theirs == waits && d.some(func(w *wait) bool {
				if w.index != "by_u" || w.end {
					return false
				}
				for who := range s.sessions {
					if last := open[w.who].last(); who == w.who && slices.ContainsFunc(last.steps, func(at int) bool {
						return len(s.steps[at].keys) > 0 && s.steps[at].touches("t", "by_u", w.key, anyRow, true)
					}) {
						return true
					}
					if who != w.who && slices.ContainsFunc(open[who].steps, func(at int) bool {
						return len(s.steps[at].keys) > 0 && s.steps[at].touches("t", "by_u", w.key, anyRow, true)
					}) {
						return true
					}
				}
				return false
			})
		},
	},
	{
		name: "key set",
		why:  "an UPDATE of the key by whose range it finds its rows: MariaDB locks all of them before it changes the first; here it stops at the first that fails",
		covers: func(s *script, d *difference) bool {
			if d.theirs == "error 1213" && d.ours != "error 1213" {
				return d.setsKeyInCircle(s)
			}
			if d.theirs != waits {
				return false
			}
			if st := &s.steps[d.of]; st.setsItsKey() && strings.HasPrefix(d.ours, "error 1062") {
				return true
			}
			open := d.transactions(s)
			return d.some(func(w *wait) bool { // or another transaction has failed so
				for who := range s.sessions {
					for _, at := range open[who].steps {
						one := transaction{steps: []int{at}, level: open[who].level}
						if who != w.who && s.steps[at].setsItsKey() && d.rec.steps[at].told[who] == "error 1062" && lockedRow(s, d, &one, w) {
							return true
						}
					}
				}
				return false
			})
		},
	},
	{
		name: "two ways",
		why:  "one locks a row by a secondary index and the other by the primary key: InnoDB locks the entry and the row one after another, and so finds a deadlock where here one of them waits for the other",
		covers: func(s *script, d *difference) bool {
			if d.theirs != "error 1213" || d.ours == "error 1213" {
				return false
			}
			circle := circleOf(d.status(), d.rec.ids)
			for _, a := range circle {
				for _, b := range circle {
					if a.who != b.who && a.table == b.table && a.index == "PRIMARY" && b.index != "PRIMARY" && a.id == b.id {
						return true
					}
				}
			}
			return false
		},
	},
}

// setsKeyInCircle reports whether InnoDB's circle goes through an UPDATE of the key by whose range it finds its rows: it waits for one key, and another session for
// a row of the range.
func (d *difference) setsKeyInCircle(s *script) bool {
	open, circle := d.transactions(s), circleOf(d.status(), d.rec.ids)
	for _, a := range circle {
		last := open[a.who].last()
		if len(last.steps) == 0 || !s.steps[last.steps[0]].setsItsKey() {
			continue
		}
		for _, b := range circle {
			if a.who != b.who && !b.end && lockedRow(s, d, &last, b) {
				return true
			}
		}
	}
	return false
}

// passed reports whether a statement that has waited on both servers does not have rows here for which InnoDB's has waited, because they were not committed.
func (d *difference) passed() bool {
	if !d.bothWaited() || !more(d.theirs, d.ours) {
		return false
	}
	for at := d.of; at < d.at; at++ {
		for _, w := range waitsOf(d.rec.steps[at].status, d.rec.ids) {
			if w.who == d.who && !w.end && !d.rec.committed(w, d.of) {
				return true
			}
		}
	}
	return false
}

// setsItsKey reports whether a step is an UPDATE of several rows that sets a key.
func (st *step) setsItsKey() bool {
	return st.verb == verbUpdate && len(st.keys) > 0 && !st.spans[0].point()
}

// missing reports whether Holdfast's statement waits, or closes a circle, where it and another transaction name a key that no committed row has.
func missing(s *script, d *difference) bool {
	return d.oursStops() && d.shared(s, func(who, other *transaction, table, index string, key int) bool {
		return !d.has(table, index, key) && who.locked(s, table, index, key, true) && other.locked(s, table, index, key, true)
	})
}

// oursStops reports whether a statement waits here, or gives up, that goes on there.
func (d *difference) oursStops() bool {
	return d.ours == "error 1213" || d.ours == waits && d.theirs != waits && d.theirs != "error 1213"
}

// halfLocked reports whether InnoDB's circle goes through a range of a SERIALIZABLE statement that has locked one of its rows and waits for another, where
// Holdfast's waits for the whole range and has none of it.
func (d *difference) halfLocked(s *script) bool {
	if d.theirs != "error 1213" || d.ours == "error 1213" {
		return false
	}
	open, circle := d.transactions(s), circleOf(d.status(), d.rec.ids)
	for _, waiting := range circle {
		tx := &open[waiting.who]
		if !tx.ranged() || d.own.waiting(waiting.who, d.at) < 0 {
			continue
		}
		last, earlier := tx.last(), *tx
		earlier.steps = tx.steps[:max(len(tx.steps)-1, 0)]
		for _, other := range circle {
			if other.who != waiting.who && other.table == waiting.table && other.id != waiting.id && !other.end && !waiting.end &&
				lockedRow(s, d, &last, waiting) && lockedRow(s, d, &last, other) && !lockedRow(s, d, &earlier, other) {
				return true
			}
		}
	}
	return false
}

// shared reports whether f is true of a key, of what the session's statement does, and of another transaction. Where a circle was ended, the statement is the
// one that closes it.
func (d *difference) shared(s *script, f func(who, other *transaction, table, index string, key int) bool) bool {
	open, at := d.transactions(s), d.who
	if d.ours == "error 1213" {
		at = s.steps[d.at].who
	}
	who := open[at].last()
	for _, unique := range []struct {
		table, index string
		each         int
	}{{"t", "PRIMARY", 1}, {"t", "by_u", 10}, {"t", "by_k", 1}, {"w", "PRIMARY", 1}} {
		for key := 0; key <= 15*unique.each; key += unique.each {
			for other := range s.sessions {
				if other != at && f(&who, &open[other], unique.table, unique.index, key) {
					return true
				}
			}
		}
	}
	return false
}

// has reports whether a committed row had a key before the step.
func (d *difference) has(table, index string, key int) bool {
	return slices.ContainsFunc(d.rec.held(table, d.at-1), func(h held) bool { return h.key(index) == key })
}

// lockedRow reports whether a transaction names the awaited record by any index. A row that is found by one is locked in the primary key,
// too.
func lockedRow(s *script, d *difference, tx *transaction, w *wait) bool {
	if tx.lockedOf(s, w.table, w.index, w.key, w.id) {
		return true
	}
	for _, h := range d.rec.held(w.table, d.at-1) {
		if h.id != w.id {
			continue
		}
		if w.table == "t" && tx.wants(s, h) {
			return true
		}
		for _, index := range []string{"PRIMARY", "by_k", "by_u"} {
			if tx.lockedOf(s, w.table, index, h.key(index), h.id) {
				return true
			}
		}
	}
	return false
}

// reasonOf names the reason for which a difference is known; "": for none.
func reasonOf(s *script, d *difference) string {
	for i := range reasons {
		if reasons[i].covers(s, d) {
			return reasons[i].name
		}
	}
	return ""
}
