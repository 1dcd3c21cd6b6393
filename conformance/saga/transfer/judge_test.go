package main

import (
	"strings"
	"testing"
)

// TestWhatIsWrongIsSeen: a story of each kind that is right, and one for each thing that may be wrong.
func TestWhatIsWrongIsSeen(t *testing.T) {
	out, in := call{payment, action}, call{receipt, action}
	outUndo, inUndo := call{payment, compensate}, call{receipt, compensate}
	paid, got := move{payment, action, 1, -5}, move{receipt, action, 2, 5}
	unpaid, ungot := move{payment, compensate, 1, 5}, move{receipt, compensate, 2, -5}
	for _, c := range []struct {
		t     transfer
		calls []call
		moves []move
		want  string
		empty int
	}{
		{t: transfer{answer: "succeed", status: "succeed"}, calls: []call{out, out, in}, moves: []move{paid, got}},
		{t: transfer{answer: "taken", status: "failed"}, calls: []call{out, in, inUndo, outUndo}, moves: []move{paid, unpaid}},
		{t: transfer{answer: "unknown", status: "failed"}, calls: []call{out, in, inUndo, outUndo}, moves: []move{paid, got, ungot, unpaid}},
		{t: transfer{answer: "unknown"}},
		{t: transfer{status: "failed", concurrent: true}, calls: []call{out, inUndo, outUndo}, empty: 1},

		{t: transfer{status: "succeed"}, calls: []call{in, out}, moves: []move{got, paid}, want: "second step was called before"},
		{t: transfer{answer: "succeed", status: "failed"}, calls: []call{out, outUndo}, want: "answered succeed and is failed"},
		{t: transfer{answer: "taken"}, want: "answered taken and is unknown"},
		{t: transfer{answer: "unknown"}, calls: []call{out}, want: "services were called"},
		{t: transfer{status: "submitted"}, calls: []call{out}, want: "does not end"},
		{t: transfer{status: "aborting"}, calls: []call{out}, want: "does not end"},
		{t: transfer{status: "succeed"}, calls: []call{out, in, inUndo}, moves: []move{paid, got}, want: "succeeded and 02 was compensated"},
		{t: transfer{status: "failed"}, calls: []call{out, inUndo, outUndo}, want: "compensated before anybody called its action"},
		{t: transfer{status: "failed", concurrent: true}, calls: []call{out, inUndo}, moves: []move{ungot}, want: "taken back before it was booked", empty: 1},
		{t: transfer{status: "failed"}, calls: []call{out, in, inUndo}, moves: []move{paid}, want: "booked 1 times and taken back 0"},
		{t: transfer{status: "succeed"}, calls: []call{out, in}, moves: []move{paid}, want: "02 booked 0 times"},
		{t: transfer{status: "succeed"}, calls: []call{out, in}, moves: []move{paid, paid, got}, want: "booked twice"},
		{t: transfer{status: "succeed"}, calls: []call{out, in}, moves: []move{paid, {receipt, action, 2, 4}}, want: "come to -1"},
	} {
		wrong, empty := judge(&c.t, c.calls, c.moves)
		if text := strings.Join(wrong, "; "); !strings.Contains(text, c.want) || (c.want == "") != (text == "") || empty != c.empty {
			t.Errorf("%s, %d empty; want %q, %d", told(&c.t, wrong, c.calls, c.moves), empty, c.want, c.empty)
		}
	}
}
