package main

import (
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/conformance/sqlite/rig"
)

// TestTheJudgeSeesEachBrokenPromise: a cell that holds, and what is found when one thing about it is not so.
func TestTheJudgeSeesEachBrokenPromise(t *testing.T) {
	set := func(from, to int) map[int]bool {
		m := map[int]bool{}
		for n := from; n <= to; n++ {
			m[n] = true
		}
		return m
	}
	list := func(to int) []int { return keys(set(1, to)) }
	archive := cell{Mode: "WAL", Load: "extension", Ack: "archive", Path: "path", Agent: "run", Store: rig.FileWell}
	with := func(c cell, change func(c *cell)) cell { change(&c); return c }
	plain := with(archive, func(c *cell) { c.Load = "none" })
	denied := func(c cell) cell { return with(c, func(c *cell) { c.Store = rig.Denied }) }
	bared := with(archive, func(c *cell) { c.Store = rig.Bared })
	said := func(ack string, n int) rig.Said { return rig.Said{Ack: ack, OK: list(n)} }
	const lost = "level=ERROR msg=\"NOT STORED: access denied\""
	for name, tc := range map[string]struct {
		cell cell
		o    outcome
		want string // "": it holds
	}{
		"well":                      {archive, outcome{said: said("archive", 10), stored: set(1, 10), file: set(1, 10)}, ""},
		"a row that returned":       {archive, outcome{said: said("archive", 10), stored: set(1, 9), file: set(1, 10), status: 1, last: lost}, "rows [10] returned, which was to mean stored"},
		"a row in the file alone":   {plain, outcome{said: said("", 10), stored: set(1, 10), file: set(1, 11)}, "the file has rows [11]"},
		"writes are refused":        {archive, outcome{said: rig.Said{Ack: "archive", OK: list(3), No: []string{"4 readonly"}}, stored: set(1, 3), file: set(1, 3)}, "3 of 10 inserts returned"},
		"a status of failure, well": {plain, outcome{said: said("", 10), stored: set(1, 10), file: set(1, 10), status: 1}, "ended with 1"},
		"it leaves WAL, said":       {with(plain, func(c *cell) { c.Mode = "TRUNCATE" }), outcome{said: said("", 10), stored: set(1, 5), file: set(1, 10), status: 1, last: lost}, ""},
		"it leaves WAL, not said":   {with(plain, func(c *cell) { c.Mode = "TRUNCATE" }), outcome{said: said("", 10), stored: set(1, 5), file: set(1, 10), status: 1}, "ended with 1"},
		"it cannot leave WAL":       {with(archive, func(c *cell) { c.Mode = "TRUNCATE" }), outcome{said: said("archive", 10), stored: set(1, 10), file: set(1, 10), status: 1, last: lost}, "ended with 1"},
		"no level":                  {archive, outcome{said: said("none", 10), stored: set(1, 10), file: set(1, 10)}, `told "none"`},
		"it hangs":                  {denied(plain), outcome{said: said("", 10), stored: set(1, 10), file: set(1, 10), status: -1}, "did not end by itself"},

		"denied, and said":           {denied(plain), outcome{said: said("", 10), stored: set(1, 5), file: set(1, 10), status: 1, last: lost}, ""},
		"denied, said, status 0":     {denied(plain), outcome{said: said("", 10), stored: set(1, 5), file: set(1, 10), last: lost}, "are not stored (the restore has others), and the agent ended with 0"},
		"denied, not said":           {denied(plain), outcome{said: said("", 10), stored: set(1, 5), file: set(1, 10), status: 1, last: "bye"}, "and the agent ended with 1: bye"},
		"denied, archive":            {denied(archive), outcome{said: said("archive", 5), stored: set(1, 5), file: set(1, 6), status: 1, last: lost}, ""},
		"denied, archive, returned":  {denied(archive), outcome{said: said("archive", 6), stored: set(1, 6), file: set(1, 6)}, "rows [6] returned while nothing could be stored"},
		"denied, not healed":         {denied(archive), outcome{said: said("archive", 5), stored: set(1, 5), file: set(1, 5), notHeal: "status 1"}, "an agent stores nothing"},
		"denied, healed without all": {denied(plain), outcome{said: said("", 10), stored: set(1, 5), file: set(1, 10), status: 1, last: lost, healed: set(1, 9)}, "content without rows [10]"},

		"bared, named":     {bared, outcome{said: said("archive", 7), stored: set(8, 7), file: set(1, 7), status: 1, log: "acknowledged up to TXID 7\n" + lost, last: lost}, ""},
		"bared, not named": {bared, outcome{said: said("archive", 7), stored: set(8, 7), file: set(1, 7), status: 1, log: "bye", last: "bye"}, "which was to mean stored"},
	} {
		err := tc.cell.judge(&tc.o)
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// TestEveryCombinationIsThereOrSaysWhyNot: nothing is left out in silence, and the telling ones are among them.
func TestEveryCombinationIsThereOrSaysWhyNot(t *testing.T) {
	there, absent := all()
	names := map[string]bool{}
	for _, c := range there {
		if names[c.String()] {
			t.Errorf("%s is there twice", c)
		}
		names[c.String()] = true
	}
	for _, c := range absent {
		if c.absent() == "" || names[c.String()] {
			t.Errorf("%s is not played, and does not say why", c)
		}
	}
	old := 0
	for _, c := range append(there, absent...) {
		if !c.Fresh {
			old++
		}
	}
	if want := len(modes) * len(loads) * len(acks) * len(paths) * len(agents) * len(rig.Kinds); old != want {
		t.Errorf("%d combinations with a file, of %d", old, want)
	}
	if l := telling(); len(l) != 24 {
		t.Errorf("%d telling cells", len(l))
	} else {
		for _, c := range l {
			if !names[c.String()] {
				t.Errorf("%s is no cell", c)
			}
		}
	}
}
