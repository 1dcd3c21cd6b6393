package restore

import "testing"

// TestARun: spans that lie across others make no row longer.
func TestARun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what  string
		spans [][2]uint64
		want  int
	}{
		{"nothing", nil, 0},
		{"one", [][2]uint64{{5, 9}}, 1},
		{"one after another", [][2]uint64{{5, 9}, {10, 12}, {13, 13}}, 3},
		{"a hole between", [][2]uint64{{5, 9}, {11, 12}, {13, 14}}, 2},
		{"two that overlap", [][2]uint64{{5, 9}, {7, 14}}, 1},
		{"two rows, the shorter one ends later", [][2]uint64{{5, 9}, {7, 14}, {10, 12}, {13, 13}, {15, 20}}, 3},
		{"two rows, the longer one ends later", [][2]uint64{{5, 9}, {7, 10}, {10, 12}, {11, 14}, {15, 15}, {16, 20}}, 4},
		{"two rows that meet", [][2]uint64{{5, 9}, {7, 9}, {8, 8}, {9, 9}, {10, 14}}, 3},
		{"many leaders that cut one entry later each", [][2]uint64{{5, 20}, {6, 21}, {7, 22}, {8, 23}, {9, 24}}, 1},
	} {
		var r run
		for _, s := range c.spans {
			r.add(s[0], s[1])
		}
		if r.most != c.want {
			t.Errorf("%s: %d spans, want %d", c.what, r.most, c.want)
		}
	}
}

// TestARunIsBounded: spans with holes between them make no row, and are not read without end.
func TestARunIsBounded(t *testing.T) {
	t.Parallel()
	var r run
	for n := uint64(1); n <= mostLeaders*mostBehindGap; n++ {
		if r.add(10*n, 10*n+5); r.most != 1 || r.many() {
			t.Fatalf("%d spans: many %v, a row of %d", n, r.many(), r.most)
		}
	}
	if r.add(1<<40, 1<<40); !r.many() {
		t.Errorf("%d spans are not many", r.all)
	}
}
