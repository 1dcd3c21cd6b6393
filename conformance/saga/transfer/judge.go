package main

import (
	"fmt"
	"slices"
	"strings"
)

// transfer is what clients know of one.
type transfer struct {
	gid        string
	concurrent bool
	answer     string // succeed, taken or unknown; "": the client was killed before it had one
	status     string // how the coordinator says that it has ended; "": it does not know it
}

// call is a call that a service has got, in the order of all calls.
type call struct{ branch, op string }

// move is what a service has booked, in the order of all bookings.
type move struct {
	branch, op      string
	account, amount int
}

// The branches of a transfer, and the kinds of calls.
const (
	payment, receipt   = "01", "02"
	action, compensate = "action", "compensate"
)

// judge describes the faults of a transfer, given the services' calls and bookings. empty counts compensations that came to a service which
// had not got the action. Only in concurrent sagas may an action's call have been lost with the service. The barrier must make such a
// compensation book nothing.
func judge(t *transfer, calls []call, moves []move) (wrong []string, empty int) {
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	switch t.status {
	case "succeed", "failed":
	case "":
		if t.answer == "succeed" || t.answer == "taken" {
			add("it was answered %s and is unknown", t.answer)
		}
		if len(calls)+len(moves) > 0 {
			add("it is unknown and services were called")
		}
		return wrong, 0
	default:
		add("it does not end and stays %s", t.status)
	}
	if t.answer == "succeed" && t.status != "succeed" {
		add("it was answered succeed and is %s", t.status)
	}
	for i, c := range calls {
		before := calls[:i]
		switch {
		case c.op == action && c.branch == receipt && !t.concurrent && !slices.Contains(before, call{payment, action}):
			add("the second step was called before the first")
		case c.op != compensate:
		case t.status == "succeed":
			add("it succeeded and %s was compensated", c.branch)
		case slices.Contains(before, call{c.branch, action}):
		case t.concurrent:
			empty++
		default:
			add("%s was compensated before anybody called its action", c.branch)
		}
	}
	return append(wrong, booked(t, moves)...), empty
}

// booked describes the faults of the bookings alone. All bookings of a succeeded transfer are there once. Any booking of a failed one has
// been reversed after it was done.
func booked(t *transfer, moves []move) (wrong []string) {
	sum := 0
	seen := map[call]int{}
	for _, m := range moves {
		c := call{m.branch, m.op}
		sum += m.amount
		if seen[c]++; seen[c] > 1 {
			wrong = append(wrong, fmt.Sprintf("%s %s was booked twice", m.branch, m.op))
		}
		if m.op == compensate && seen[call{m.branch, action}] == 0 {
			wrong = append(wrong, fmt.Sprintf("%s was taken back before it was booked", m.branch))
		}
	}
	for _, branch := range []string{payment, receipt} {
		done, undone := seen[call{branch, action}], seen[call{branch, compensate}]
		switch {
		case t.status == "succeed" && (done != 1 || undone != 0):
			wrong = append(wrong, fmt.Sprintf("it succeeded with %s booked %d times and taken back %d times", branch, done, undone))
		case t.status == "failed" && done != undone:
			wrong = append(wrong, fmt.Sprintf("it failed with %s booked %d times and taken back %d times", branch, done, undone))
		}
	}
	if sum != 0 {
		wrong = append(wrong, fmt.Sprintf("its bookings come to %d", sum))
	}
	return wrong
}

// told is a violation as it is printed: the transfer, and all there is to know about it.
func told(t *transfer, wrong []string, calls []call, moves []move) string {
	return fmt.Sprintf("%s: %s (answered %q, status %q, calls %v, bookings %v)", t.gid, strings.Join(wrong, "; "), t.answer, t.status, calls, moves)
}
