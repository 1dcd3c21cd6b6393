package main

import "fmt"

// work is a row of the published table: what each of the two services does in its database for one transaction.
type work struct {
	name    string
	pairs   int // of INSERT and UPDATE, in one database transaction
	barrier bool
}

// The rows. "2 SQL" is the report's name for one INSERT and one UPDATE in each of the two services.
var works = []work{
	{"0 SQL", 0, false},
	{"2 SQL", 1, false},
	{"2 SQL, barrier", 1, true},
	{"10 SQL", 5, false},
	{"10 SQL, barrier", 5, true},
}

func workNames() (out []string) {
	for _, w := range works {
		out = append(out, w.short())
	}
	return out
}

// short is the name on the command line.
func (w work) short() string {
	s := fmt.Sprint(2*w.pairs) + "sql"
	if w.barrier {
		s += "-barrier"
	}
	return s
}

// mode is the bench service's word.
func (w work) mode(coordinated bool) string {
	switch {
	case !coordinated:
		return "raw_tx"
	case w.barrier:
		return "dtm_barrier"
	}
	return "dtm_tx"
}

// alone reports whether the row can be measured without a coordinator: a barrier needs a coordinator's calls.
func (w work) alone() bool { return !w.barrier }

// barriers is how many rows of the barrier's table one transaction leaves.
func (w work) barriers(coordinated bool) int {
	if w.barrier && coordinated {
		return 2
	}
	return 0
}

// transactions and statements are the report's numbers for one global transaction. They count the services' own, and with DTM four
// statements and two transactions of its own. DTM has two statements more for its branches, and one for each barrier. A coordinator without
// a database has none of its own.
func (w work) transactions(server string) int {
	if server == dtm {
		return 4
	}
	return 2
}

func (w work) statements(server string) int {
	n := 4 * w.pairs
	if server == dtm {
		n += 6
	}
	if w.barrier {
		n += 2
	}
	return n
}
