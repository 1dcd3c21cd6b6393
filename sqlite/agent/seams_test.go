package agent

import (
	"testing"

	"github.com/holdfastdb/holdfast/internal/task"
)

// TestGoroutinesAreWaitedFor until the last one has ended, each time that one was begun.
func TestGoroutinesAreWaitedFor(t *testing.T) {
	var g goroutines
	var r task.Goroutines
	g.Wait(r) // none was begun
	for range 2 {
		for n := range 3 {
			for range n + 1 {
				g.Add()
			}
			ended := make(chan struct{})
			go func() { g.Wait(r); close(ended) }()
			for range n {
				g.Done()
			}
			select {
			case <-ended:
				t.Fatalf("%d of %d have ended, and nobody waits", n, n+1)
			default:
			}
			g.Done()
			<-ended
		}
	}
}

// TestNumbersOfOwnersAreNotNobodys, and differ.
func TestNumbersOfOwnersAreNotNobodys(t *testing.T) {
	next := uint64(0)
	a := &Agent{cfg: Config{Seams: Seams{Random: func() uint64 { return next }}}}
	if a.newOwner() == 0 {
		t.Error("an owner has the number 0, which is nobody's")
	}
	if x, y := random(), random(); x == y {
		t.Errorf("two numbers are %d", x)
	}
}
