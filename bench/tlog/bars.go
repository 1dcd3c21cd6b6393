package main

import (
	"fmt"
	"math"
)

// The numbers of writers of which the bars speak.
const (
	fewWriters  = 16
	manyWriters = 1024
)

// Bar is something the project promised itself, and what came of it.
type Bar struct {
	What    string   `json:"what"`
	Want    float64  `json:"want"`
	AtLeast bool     `json:"at_least"`      // else: at most
	Got     *float64 `json:"got,omitempty"` // nil: not measured
	Unit    string   `json:"unit"`
	Reached bool     `json:"reached"`
}

func (b *Bar) String() string {
	side, verdict := "at most", "MISSED"
	if b.AtLeast {
		side = "at least"
	}
	if b.Got == nil {
		return fmt.Sprintf("%-12s %s: %s %v%s", "not measured", b.What, side, b.Want, b.Unit)
	}
	if b.Reached {
		verdict = "reached"
	}
	return fmt.Sprintf("%-12s %s: %s %v%s, it is %.2f%s", verdict, b.What, side, b.Want, b.Unit, *b.Got, b.Unit)
}

// bars judges a report.
func bars(r *Report) (out []Bar) {
	judge := func(what string, atLeast bool, want, got float64, unit string) {
		b := Bar{What: what, Want: want, AtLeast: atLeast, Unit: unit}
		if !math.IsNaN(got) {
			b.Got, b.Reached = &got, got == want || (got > want) == atLeast
		}
		out = append(out, b)
	}
	ratio := func(tool string, writers int, of func(*Sample) float64) float64 {
		f := r.beside(&Figure{Place: wholeMachine, load: load{Tool: tool, Writers: writers}}, holdfast)
		if f == nil {
			return math.NaN()
		}
		return f.times(r.beside(f, posix), of)
	}
	judge("hammer, 1,024 writers, rate beside conformance-posix", true, 1.3, ratio(withHammer, manyWriters, rate), "×")
	judge("hammer, 1,024 writers, server CPU an add", false, 0.6, ratio(withHammer, manyWriters, cpu), "×")
	judge("hammer, 16 writers, rate", true, 500, ratio(withHammer, fewWriters, rate), "×")
	judge("own load tool, 1,024 writers, rate", true, 2, ratio(withOurs, manyWriters, rate), "×")
	judge("own load tool, 1,024 writers, server CPU an add", false, 0.4, ratio(withOurs, manyWriters, cpu), "×")
	p50, p99 := math.NaN(), math.NaN()
	if r.Proofs != nil {
		p50, p99 = r.Proofs.P50, r.Proofs.P99
	}
	judge("add to verified proof at 1,000 adds/s, p50", false, 10, p50, " ms")
	judge("add to verified proof at 1,000 adds/s, p99", false, 50, p99, " ms")
	behind := math.NaN()
	if f := r.beside(&Figure{Place: withMySQL, load: mysqlLoad}, holdfast); f != nil {
		behind = f.behind()
	}
	judge("published to MariaDB, behind the log", false, 2, behind, " s")
	return out
}
