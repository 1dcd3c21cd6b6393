package bars

import (
	"math"
	"strings"
	"testing"
)

// TestBarsAreJudged: what is exactly as wanted counts, what was not measured is no bar reached.
func TestBarsAreJudged(t *testing.T) {
	var l List
	l.AtLeast("rate", 2, 2, "×")
	l.AtLeast("rate", 2, 1.99, "×")
	l.AtMost("CPU", 0.25, 0.1, "×")
	l.AtMost("CPU", 0.25, 0.26, "×")
	l.AtMost("late", 10, math.NaN(), " ms")
	var out strings.Builder
	l.Print(&out)
	want := `reached      rate: at least 2×, it is 2.00×
MISSED       rate: at least 2×, it is 1.99×
reached      CPU: at most 0.25×, it is 0.10×
MISSED       CPU: at most 0.25×, it is 0.26×
not measured late: at most 10 ms
2 of 5 bars reached
`
	if out.String() != want {
		t.Errorf("\n%s\nwant\n%s", out.String(), want)
	}
}
