package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// notStored is the word of an agent's last line for an unkept database.
const notStored = "NOT STORED"

// named is how an agent says that commits it had answered are not in the store any more.
var named = regexp.MustCompile(`(?i)acknowledged|NOT STORED`)

// judge holds what happened in a cell against what was promised. The error names every promise that was broken.
func (c cell) judge(o *outcome) error {
	var bad []error
	fault := func(format string, args ...any) { bad = append(bad, fmt.Errorf(format, args...)) }
	said := strings.Contains(o.last, notStored) && o.status != 0
	missing := absentFrom(o.said.OK, o.stored)
	switch {
	case len(missing) == 0:
	case !c.waits():
		if !said {
			fault("rows %v returned and are not stored (%s), and the agent ended with %d: %s", missing, o.why(), o.status, o.last)
		}
	case !c.Store.Swapped() || !named.MatchString(o.log):
		fault("rows %v returned, which was to mean stored, and are not (%s)", missing, o.why())
	}
	if c.waits() && c.Store.Swapped() && c.Store.Mends() || c.waits() && !c.Store.Well() && !c.Store.Swapped() {
		if late := slices.DeleteFunc(slices.Clone(o.said.OK), func(n int) bool { return n <= rows }); len(late) > 0 {
			fault("rows %v returned while nothing could be stored", late)
		}
	}
	if behind := absentFrom(keys(o.file), o.stored); len(behind) > 0 && !said {
		fault("the file has rows %v that are not stored, and the agent ended with %d: %s", behind, o.status, o.last)
	}
	if c.Store.Well() {
		if len(o.said.OK) != 2*rows && !(c.refusable() && len(o.said.No) > 0) {
			fault("%d of %d inserts returned; the others: %v", len(o.said.OK), 2*rows, o.said.No)
		}
		// A program that leaves WAL mode is not fought but reported; one that is refused its first write has no database.
		reported := said && (c.leavesWAL() || c.refusable() && len(o.file) == 0)
		if o.status != 0 && !reported {
			fault("the agent ended with %d: %s", o.status, o.last)
		}
	}
	if o.status < 0 {
		fault("the agent did not end by itself")
	}
	if want := c.level(); o.said.Ack != want && len(o.said.OK) > 0 {
		fault("the application is told %q, which is to be %q", o.said.Ack, want)
	}
	if o.notHeal != "" {
		fault("with the store as it was, an agent stores nothing: %s", o.notHeal)
	} else if o.healed != nil {
		if behind := absentFrom(keys(o.file), o.healed); len(behind) > 0 {
			fault("with the store as it was, an agent is content without rows %v", behind)
		}
	}
	return errors.Join(bad...)
}

func (o *outcome) why() string {
	if o.restore != "" {
		return "restore: " + o.restore
	}
	return "the restore has others"
}

// level is what PRAGMA holdfast_ack says in the application.
func (c cell) level() string {
	switch {
	case c.Load == "none":
		return ""
	case c.Agent == "litestream -once":
		return "none"
	}
	return c.Ack
}

// absentFrom returns those of a list that a set has not.
func absentFrom(list []int, has map[int]bool) (missing []int) {
	for _, n := range list {
		if !has[n] {
			missing = append(missing, n)
		}
	}
	slices.Sort(missing)
	return missing
}

func keys(m map[int]bool) (l []int) {
	for n := range m {
		l = append(l, n)
	}
	slices.Sort(l)
	return l
}
