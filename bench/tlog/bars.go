package main

import (
	"math"

	"github.com/holdfastdb/holdfast/bench/bars"
)

// The numbers of writers of which the bars speak.
const (
	fewWriters  = 16
	manyWriters = 1024
)

// judge holds a report against what the project set itself.
func judge(r *Report) (out bars.List) {
	ratio := func(tool string, writers int, of func(*Sample) float64) float64 {
		f := r.beside(&Figure{Place: wholeMachine, load: load{Tool: tool, Writers: writers}}, holdfast)
		if f == nil {
			return math.NaN()
		}
		return f.times(r.beside(f, posix), of)
	}
	out.AtLeast("hammer, 1,024 writers, rate beside conformance-posix", 1.3, ratio(withHammer, manyWriters, rate), "×")
	out.AtMost("hammer, 1,024 writers, server CPU an add", 0.6, ratio(withHammer, manyWriters, cpu), "×")
	out.AtLeast("hammer, 16 writers, rate", 500, ratio(withHammer, fewWriters, rate), "×")
	out.AtLeast("own load tool, 1,024 writers, rate", 2, ratio(withOurs, manyWriters, rate), "×")
	out.AtMost("own load tool, 1,024 writers, server CPU an add", 0.4, ratio(withOurs, manyWriters, cpu), "×")
	p50, p99 := math.NaN(), math.NaN()
	if r.Proofs != nil {
		p50, p99 = r.Proofs.P50, r.Proofs.P99
	}
	out.AtMost("add to verified proof at 1,000 adds/s, p50", 10, p50, " ms")
	out.AtMost("add to verified proof at 1,000 adds/s, p99", 50, p99, " ms")
	behind := math.NaN()
	if f := r.beside(&Figure{Place: withMySQL, load: mysqlLoad}, holdfast); f != nil {
		behind = f.behind()
	}
	out.AtMost("published to MariaDB, behind the log", 2, behind, " s")
	out.AtMost("full bundle with gzip, server CPU beside conformance-posix", 0.5, r.bundlesBeside(), "×")
	out.AtMost("a thousand logs with an add a second each, memory beside one with as many adds", 40, r.moreMemory(), " MiB")
	return out
}
