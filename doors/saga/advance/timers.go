package advance

import (
	"cmp"
	"container/heap"
	"slices"

	sagamachine "github.com/holdfastdb/holdfast/doors/saga/machine"
)

// ahead is how many timers are kept in memory before they are due. Those further away cost nothing: they are read when it is their turn.
const ahead = 1024

// timers holds the soonest timers that are not due yet, and up to where the rows have been read. Every row up to cover has been taken,
// except those in soon; every one behind it is later than all in soon. It belongs to the goroutine that leads.
type timers struct {
	soon  timerHeap
	cover sagamachine.Timer
	all   bool // there is no row behind cover
}

// add takes in a timer that an entry has set, and reports whether it is in memory from now on. If it is not, it will be read.
func (t *timers) add(x sagamachine.Timer) bool {
	if !t.covers(x) {
		return false
	}
	heap.Push(&t.soon, x)
	if len(t.soon) > ahead {
		slices.SortFunc(t.soon, compareTimers) // an ordered slice is a heap
		t.soon = t.soon[:ahead/2]
		t.cover, t.all = t.soon[ahead/2-1], false
	}
	return true
}

// covers reports whether a timer at x would not be found by reading on.
func (t *timers) covers(x sagamachine.Timer) bool { return t.all || compareTimers(x, t.cover) <= 0 }

// due takes out the next timer of at most tick.
func (t *timers) due(tick int64) (x sagamachine.Timer, ok bool) {
	if len(t.soon) == 0 || t.soon[0].Tick > tick {
		return x, false
	}
	return heap.Pop(&t.soon).(sagamachine.Timer), true
}

// next is the tick of the soonest; ok is false if there is none.
func (t *timers) next() (tick int64, ok bool) {
	if len(t.soon) == 0 {
		return 0, false
	}
	return t.soon[0].Tick, true
}

// retreat has the rows from x on read again, because x could not be taken.
func (t *timers) retreat(x sagamachine.Timer) {
	x.Number--
	if t.covers(x) {
		t.cover, t.all = x, false
		t.soon = slices.DeleteFunc(t.soon, func(y sagamachine.Timer) bool { return compareTimers(y, x) > 0 })
		heap.Init(&t.soon)
	}
}

// compareTimers orders timers as the rows are.
func compareTimers(a, b sagamachine.Timer) int {
	return cmp.Or(cmp.Compare(a.Tick, b.Tick), cmp.Compare(a.Number, b.Number))
}

type timerHeap []sagamachine.Timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return compareTimers(h[i], h[j]) < 0 }
func (h timerHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(x any)        { *h = append(*h, x.(sagamachine.Timer)) }
func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
