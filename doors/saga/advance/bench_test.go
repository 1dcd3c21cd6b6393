package advance

import (
	"fmt"
	"testing"

	"github.com/holdfastdb/holdfast/doors/saga/outcall"
)

// prompt is a Caller whose services succeed at once.
type prompt struct{}

func (prompt) Go(_ *outcall.Request, done func(outcall.Result)) (cancel func()) {
	go done(outcall.Result{Outcome: outcall.OK})
	return func() {}
}

// BenchmarkSaga is what a saga of two steps costs from its begin to its end, machine and store in memory included.
func BenchmarkSaga(b *testing.B) {
	h := newHouse(b)
	l := h.lead(1, Options{Caller: prompt{}})
	const together = 64
	b.ReportAllocs()
	for i := range b.N {
		h.saga(fmt.Sprint("s", i), 2)
		if i >= together {
			<-l.passes
		}
	}
	for range min(b.N, together) {
		<-l.passes
	}
}
