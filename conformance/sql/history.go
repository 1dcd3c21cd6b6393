package main

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// A history is the answers that clients got in transactions that append to lists and read them, as Elle has it. A list itself shows the
// order in which it was written.

// told is what a client knows of its transaction.
type told int

const (
	withoutEffect told = iota
	unknown            // its connection broke at the commit
	took               // effect
)

// record is one transaction.
type record struct {
	id         int64
	told       told
	began, end time.Time
	appended   []int      // lists
	read       []listAsOf // with locks, or all from one snapshot of a transaction that appends nothing
}

// listAsOf is a list as a transaction has read it.
type listAsOf struct {
	list int
	ids  []int64
}

// edge is why one transaction comes before another one.
type edge struct {
	to  int
	why string
}

// judgeLists compares the answers with the final lists. It looks for an order of all effective transactions that explains their reads. No
// transaction may come before one that had ended when it began. The error names the anomaly.
func judgeLists(finals [][]int64, all []*record) error {
	by := map[int64]*record{}
	for _, r := range all {
		by[r.id] = r
	}
	at := make([]map[int64]int, len(finals))
	for list, ids := range finals {
		at[list] = map[int64]int{}
		for i, id := range ids {
			r := by[id]
			switch _, twice := at[list][id]; {
			case r == nil || !slices.Contains(r.appended, list):
				return fmt.Errorf("list %d has %d, which nobody has appended", list, id)
			case twice:
				return fmt.Errorf("list %d has %d twice", list, id)
			case r.told == withoutEffect:
				return fmt.Errorf("aborted write: list %d has %d, whose client was told that it had no effect", list, id)
			}
			at[list][id] = i
		}
	}
	var points []*record
	for _, r := range all {
		there := 0
		for _, list := range r.appended {
			if _, ok := at[list][r.id]; ok {
				there++
			}
		}
		switch {
		case r.told == took && there < len(r.appended):
			return fmt.Errorf("lost update: transaction %d was acknowledged, and is in %d of %d lists", r.id, there, len(r.appended))
		case there > 0 && there < len(r.appended):
			return fmt.Errorf("half of a transaction: %d is in %d of %d lists", r.id, there, len(r.appended))
		case r.told == took || r.told == unknown && there > 0:
			points = append(points, r)
		}
	}
	number := map[*record]int{}
	for i, r := range points {
		number[r] = i
	}
	edges := make([][]edge, len(points))
	before := func(a, b *record, why string) {
		if a != b {
			edges[number[a]] = append(edges[number[a]], edge{number[b], why})
		}
	}
	for list, ids := range finals {
		for i := 1; i < len(ids); i++ {
			before(by[ids[i-1]], by[ids[i]], fmt.Sprintf("ww list %d", list))
		}
	}
	for _, r := range points {
		for _, l := range r.read {
			final := finals[l.list]
			if len(l.ids) > len(final) || !slices.Equal(l.ids, final[:len(l.ids)]) {
				return fmt.Errorf("dirty read: transaction %d has read list %d as %v, which is %v in the end", r.id, l.list, l.ids, final)
			}
			if n := len(l.ids); n > 0 {
				before(by[l.ids[n-1]], r, fmt.Sprintf("wr list %d", l.list))
			}
			if n := len(l.ids); n < len(final) {
				before(r, by[final[n]], fmt.Sprintf("rw list %d", l.list))
			}
		}
	}
	return judgeOrder(points, edges)
}

// judgeOrder looks for a circle, in which time counts too: a moment lies behind all transactions that ended before, and before all that began later.
func judgeOrder(points []*record, edges [][]edge) error {
	type moment struct {
		at    time.Time
		begin bool
		point int
	}
	var moments []moment
	for i, r := range points {
		moments = append(moments, moment{r.began, true, i})
		if r.told == took {
			moments = append(moments, moment{r.end, false, i})
		}
	}
	slices.SortFunc(moments, func(a, b moment) int { return a.at.Compare(b.at) })
	last := -1
	for _, m := range moments {
		if m.begin {
			if last >= 0 {
				edges[last] = append(edges[last], edge{m.point, "it had ended before"})
			}
			continue
		}
		edges = append(edges, nil)
		now := len(edges) - 1
		edges[m.point] = append(edges[m.point], edge{now, "time"})
		if last >= 0 {
			edges[last] = append(edges[last], edge{now, "time"})
		}
		last = now
	}
	circle := circleOf(edges)
	if circle == nil {
		return nil
	}
	text, reads := "", 0
	for _, e := range circle {
		if e.why[:2] == "rw" {
			reads++
		}
		if e.to < len(points) {
			text += fmt.Sprintf(" → %s → %d", e.why, points[e.to].id)
		}
	}
	name := "G1c, a circle of writes"
	switch {
	case reads == 1:
		name = "G-single, read skew or a lost update"
	case reads > 1:
		name = "G2, write skew or a long fork"
	}
	return fmt.Errorf("no order explains what was read (%s):%s", name, text)
}

// circleOf returns the edges of one circle; nil: there is none.
func circleOf(edges [][]edge) []edge {
	const fresh, open, closed = 0, 1, 2
	state := make([]byte, len(edges))
	next := make([]int, len(edges))
	for start := range edges {
		if state[start] != fresh {
			continue
		}
		state[start] = open
		path, via := []int{start}, []edge{{to: start}}
		for len(path) > 0 {
			at := path[len(path)-1]
			if next[at] == len(edges[at]) {
				state[at] = closed
				path, via = path[:len(path)-1], via[:len(via)-1]
				continue
			}
			e := edges[at][next[at]]
			next[at]++
			switch state[e.to] {
			case open:
				return append(slices.Clone(via[slices.Index(path, e.to)+1:]), e)
			case fresh:
				state[e.to] = open
				path, via = append(path, e.to), append(via, e)
			}
		}
	}
	return nil
}

// judgeCounter compares a counter with the transactions that have read it with a lock and written one more.
func judgeCounter(final int64, read []int64, open int) error {
	seen := map[int64]bool{}
	for _, n := range read {
		if seen[n] {
			return fmt.Errorf("lost update: two transactions that took effect have read %d and written %d", n, n+1)
		}
		seen[n] = true
	}
	if n := int64(len(read)); final < n || final > n+int64(open) {
		return fmt.Errorf("lost update: a counter has %d after %d additions and %d of which nothing is known", final, n, open)
	}
	return nil
}

// errWriteSkew is of two that have gone off duty together.
var errWriteSkew = errors.New("write skew: nobody of a pair is on duty")
