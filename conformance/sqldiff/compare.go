package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// difference is the first step at which two records differ, of one session.
type difference struct {
	at     int // the step
	who    int // the session that was told something else
	of     int // the step whose answer it is
	theirs string
	ours   string
	others []*difference // of further sessions at this step
	rec    *record       // MariaDB's
	own    *record
}

// status is what MariaDB says of its locks.
func (d *difference) status() string { return d.rec.steps[d.at].status }

func (d *difference) String() string {
	return fmt.Sprintf("at step %d: %s of step %d: MariaDB %s, Holdfast %s", d.at, sessionNames[d.who], d.of, d.theirs, d.ours)
}

// compare returns the first difference of two records of one script; nil: there is none.
func compare(theirs, ours *record) *difference {
	for at := range theirs.steps {
		a, b := &theirs.steps[at], &ours.steps[at]
		var found []*difference
		for _, who := range slices.Sorted(maps.Keys(both(a.told, b.told))) {
			x, y := cmp.Or(a.told[who], waits), cmp.Or(b.told[who], waits)
			if x == y || alike(x, y) {
				continue
			}
			of, ok := a.of[who]
			if !ok {
				of = b.of[who]
			}
			found = append(found, &difference{at: at, who: who, of: of, theirs: x, ours: y, rec: theirs, own: ours})
		}
		if len(found) == 0 {
			continue
		}
		// A circle that was ended is why others go on.
		first := max(slices.IndexFunc(found, func(d *difference) bool { return d.theirs == "error 1213" }), 0)
		found[0], found[first] = found[first], found[0]
		found[0].others = found[1:]
		return found[0]
	}
	return nil
}

func both(a, b map[int]string) map[int]bool {
	all := map[int]bool{}
	for who := range a { // any order: a set
		all[who] = true
	}
	for who := range b { // any order: a set
		all[who] = true
	}
	return all
}

// alike reports whether two answers are the same thing in the words of both: MariaDB has no number of its own for NOWAIT.
func alike(theirs, ours string) bool {
	return theirs == "error 1205" && ours == "error 3572"
}

// judged is what comparing one script came to.
type judged struct {
	script  *script // what is left of it
	reasons []string
	open    *difference // without a reason; nil: there is none
	plays   int
	chance  int // differences that did not come a second time
	waits   int // statements that waited, on both servers, in the last play
}

// mostAgain bounds how often a script may differ in another way each time it is played, before that counts.
const mostAgain = 3

// judge compares a script on both servers. A statement that differs for a known reason is left out, and the rest is played again. So every
// script is compared to its end.
func judge(s *script, theirs, ours *side) (*judged, error) {
	j := &judged{script: s}
	for again := 0; ; {
		d, waited, err := playBoth(j.script, theirs, ours)
		j.waits = waited
		if j.plays++; err != nil || d == nil {
			return j, err
		}
		name := reasonOf(j.script, d)
		if plain := j.script.probe(d); name == "" && plain != nil {
			// A waiting statement shows the locks that NOWAIT and SKIP LOCKED met.
			e, _, err := playBoth(plain, theirs, ours)
			if j.plays++; err != nil {
				return j, err
			}
			if e != nil && e.at == d.at {
				name = reasonOf(plain, e)
			}
		}
		if name == "" && again < mostAgain { // the machine may have been busy: what differs does so twice
			e, _, err := playBoth(j.script, theirs, ours)
			if j.plays++; err != nil {
				return j, err
			}
			if e == nil || e.at != d.at || e.who != d.who || e.theirs != d.theirs || e.ours != d.ours {
				again++
				j.chance++
				continue
			}
		}
		if name == "" {
			j.open = d
			return j, nil
		}
		j.reasons = append(j.reasons, name)
		j.script = j.script.without(d.of)
	}
}

// playBoth plays a script on both servers at the same time. It returns the first difference, and how many statements waited on MariaDB.
func playBoth(s *script, theirs, ours *side) (d *difference, waited int, err error) {
	type result struct {
		rec *record
		err error
	}
	other := make(chan result, 1)
	go func() {
		rec, err := ours.play(s)
		other <- result{rec, err}
	}()
	a, err := theirs.play(s)
	b := <-other
	if err = cmp.Or(err, b.err); err != nil {
		return nil, 0, fmt.Errorf("%w\n%s", err, s)
	}
	if verbose {
		for at := range s.steps {
			fmt.Printf("%3d %s\n      %v\n      %v\n", at, &s.steps[at], a.steps[at].told, b.rec.steps[at].told)
		}
	}
	for i := range a.steps {
		if a.steps[i].told[s.steps[i].who] == waits {
			waited++
		}
	}
	return compare(a, b.rec), waited, nil
}

// shrink leaves out statements of a script as long as a difference without a reason stays.
func shrink(j *judged, theirs, ours *side) (*judged, error) {
	for at := len(j.script.steps) - 1; at >= 0; at-- {
		if st := &j.script.steps[at]; st.verb == verbSet || st.verb == verbLast || st.closes {
			continue
		}
		less, err := judge(j.script.without(at), theirs, ours)
		if err != nil {
			return j, err
		}
		if less.open != nil && len(less.reasons) == 0 {
			less.reasons, less.plays = j.reasons, j.plays
			j = less
		}
	}
	return j, nil
}

// report prints a script with a difference that has no reason.
func (j *judged) report() string {
	var b strings.Builder
	for i := range j.script.steps {
		st := &j.script.steps[i]
		if i > j.open.at {
			break
		}
		if st.verb == verbSet && i < mostSessions {
			fmt.Fprintf(&b, "  %s at %s", sessionNames[st.who], st.level)
			if j.script.steps[i+1].verb != verbSet {
				fmt.Fprintln(&b)
			}
			continue
		}
		fmt.Fprintf(&b, "%3d  %s\n", i, st)
	}
	for _, d := range append([]*difference{j.open}, j.open.others...) {
		fmt.Fprintf(&b, "     %s\n", d)
	}
	for _, w := range waitsOf(j.open.status(), j.open.rec.ids) {
		fmt.Fprintf(&b, "     %s\n", w)
	}
	if strings.Contains(fmt.Sprint(j.open.rec.steps[j.open.at].told), "1213") {
		for _, w := range circleOf(j.open.status(), j.open.rec.ids) {
			fmt.Fprintf(&b, "     in the circle: %s\n", w)
		}
	}
	return b.String()
}
