// Package bars compares measurements with the project's own goals. Each bar is a sentence, a wanted number, and the result. It measures
// nothing and chooses no bar.
package bars

import (
	"fmt"
	"io"
	"math"
)

// Bar is a goal of the project, and its result.
type Bar struct {
	What    string   `json:"what"`
	Want    float64  `json:"want"`
	AtLeast bool     `json:"at_least"`      // else: at most
	Got     *float64 `json:"got,omitempty"` // nil: not measured
	Unit    string   `json:"unit"`
	Reached bool     `json:"reached"`
}

// String is one line: whether it was reached, the wanted and the measured figure.
func (b *Bar) String() string {
	side, verdict := "at most", "MISSED"
	if b.AtLeast {
		side = "at least"
	}
	if b.Got == nil {
		return fmt.Sprintf("%-12s %s: %s %.6g%s", "not measured", b.What, side, b.Want, b.Unit)
	}
	if b.Reached {
		verdict = "reached"
	}
	return fmt.Sprintf("%-12s %s: %s %.6g%s, it is %.2f%s", verdict, b.What, side, b.Want, b.Unit, *b.Got, b.Unit)
}

// List is all bars of a report, in the order in which they are shown.
type List []Bar

// AtLeast adds a bar that is reached by want or more. got is NaN if it was not measured. unit stands behind the numbers as it is.
func (l *List) AtLeast(what string, want, got float64, unit string) {
	l.judge(what, true, want, got, unit)
}

// AtMost adds a bar that is reached by want or less.
func (l *List) AtMost(what string, want, got float64, unit string) {
	l.judge(what, false, want, got, unit)
}

func (l *List) judge(what string, atLeast bool, want, got float64, unit string) {
	b := Bar{What: what, Want: want, AtLeast: atLeast, Unit: unit}
	if !math.IsNaN(got) {
		b.Got, b.Reached = &got, got == want || (got > want) == atLeast
	}
	*l = append(*l, b)
}

// Print writes a line for each bar, and how many were reached.
func (l List) Print(w io.Writer) {
	reached := 0
	for i := range l {
		fmt.Fprintln(w, l[i].String())
		if l[i].Reached {
			reached++
		}
	}
	fmt.Fprintf(w, "%d of %d bars reached\n", reached, len(l))
}
