package main

import (
	"strings"
	"testing"
	"time"
)

// TestHistories: each anomaly is found in a history that has it, and none in one that has none.
func TestHistories(t *testing.T) {
	t.Parallel()
	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	// Transactions run at the same time unless a test says otherwise.
	tx := func(id int64, appended []int, read ...listAsOf) *record {
		return &record{id: id, told: took, began: at(0), end: at(100), appended: appended, read: read}
	}
	during := func(x *record, began, end int) *record {
		x.began, x.end = at(began), at(end)
		return x
	}
	as := func(x *record, t told) *record {
		x.told = t
		return x
	}
	list := func(l int, ids ...int64) listAsOf { return listAsOf{l, ids} }
	a := []int{0}
	for name, tc := range map[string]struct {
		finals [][]int64
		all    []*record
		want   string // in the error; "": there is none
	}{
		"nothing":                {[][]int64{nil}, nil, ""},
		"one behind the other":   {[][]int64{{1, 2}, {3}}, []*record{tx(1, a), tx(2, a, list(0, 1)), tx(3, []int{1}, list(0, 1, 2)), tx(4, nil, list(0, 1), list(1))}, ""},
		"an outcome is open":     {[][]int64{{1}, nil}, []*record{as(tx(1, a), unknown), as(tx(2, a), unknown)}, ""},
		"a write is lost":        {[][]int64{{1}}, []*record{tx(1, a), tx(2, a)}, "lost update"},
		"a write was aborted":    {[][]int64{{1}}, []*record{as(tx(1, a), withoutEffect)}, "aborted write"},
		"half of a transaction":  {[][]int64{{1}, nil}, []*record{as(tx(1, []int{0, 1}), unknown)}, "half"},
		"an aborted read":        {[][]int64{{1}}, []*record{tx(1, a), as(tx(2, a), withoutEffect), tx(3, nil, list(0, 2))}, "dirty read"},
		"nobody's":               {[][]int64{{9}}, []*record{tx(1, nil)}, "nobody has appended"},
		"twice":                  {[][]int64{{1, 1}}, []*record{tx(1, a)}, "twice"},
		"dirty writes":           {[][]int64{{1, 2}, {2, 1}}, []*record{tx(1, []int{0, 1}), tx(2, []int{0, 1})}, "G1c"},
		"circular reads":         {[][]int64{{1}, {2}}, []*record{tx(1, a, list(1, 2)), tx(2, []int{1}, list(0, 1))}, "G1c"},
		"an update of an update": {[][]int64{{1, 2}}, []*record{tx(1, a, list(0)), tx(2, a, list(0))}, "G-single"},
		"read skew":              {[][]int64{{1}, {1}}, []*record{tx(1, []int{0, 1}), tx(2, nil, list(0, 1), list(1))}, "G-single"},
		"write skew":             {[][]int64{{1}, {2}}, []*record{tx(1, a, list(1)), tx(2, []int{1}, list(0))}, "G2"},
		"long fork":              {[][]int64{{1}, {2}}, []*record{tx(1, a), tx(2, []int{1}), tx(3, nil, list(0, 1), list(1)), tx(4, nil, list(0), list(1, 2))}, "G2"},
		"a stale read":           {[][]int64{{1}}, []*record{during(tx(1, a), 0, 1), during(tx(2, nil, list(0)), 2, 3)}, "no order"},
		"a read beside a write":  {[][]int64{{1}}, []*record{during(tx(1, a), 0, 2), during(tx(2, nil, list(0)), 1, 3)}, ""},
	} { // any order: each by itself
		err := judgeLists(tc.finals, tc.all)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	for name, tc := range map[string]struct {
		final int64
		read  []int64
		open  int
		sound bool
	}{
		"all counted":   {2, []int64{0, 1}, 0, true},
		"one open":      {3, []int64{0, 1}, 1, true},
		"one is lost":   {1, []int64{0, 1}, 0, false},
		"one too many":  {3, []int64{0, 1}, 0, false},
		"one value for": {2, []int64{0, 0}, 0, false},
	} { // any order: each by itself
		if err := judgeCounter(tc.final, tc.read, tc.open); (err == nil) != tc.sound {
			t.Errorf("%s: %v", name, err)
		}
	}
}
