package advance

import (
	"slices"
	"sync"
	"testing"

	"github.com/holdfastdb/holdfast/internal/task"
)

// counted is task.Goroutines that counts the tasks it begins.
type counted struct {
	task.Goroutines
	mu sync.Mutex
	n  int // guarded by mu
}

func (c *counted) Go(f func()) {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
	go f()
}

func (c *counted) begun() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// TestAPoolRunsInOrderOnAFewTasks, which stay for what comes later.
func TestAPoolRunsInOrderOnAFewTasks(t *testing.T) {
	tasks, stopped := &counted{}, make(chan struct{})
	one := newPool(tasks, 1, stopped)
	var mu sync.Mutex
	var got, want []int
	for round := range 3 {
		for i := range 5_000 {
			n := round*5_000 + i
			want = append(want, n)
			one.put(func() {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, n)
			})
		}
		eventually(t, "all have run", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(got) == len(want)
		})
		eventually(t, "the task rests", func() bool {
			one.mu.Lock()
			defer one.mu.Unlock()
			return one.idle == 1 && one.active == 0
		})
	}
	if !slices.Equal(got, want) || tasks.begun() != 1 {
		t.Errorf("%d tasks, in order: %v", tasks.begun(), slices.Equal(got, want))
	}

	tasks = &counted{}
	some := newPool(tasks, 8, stopped)
	hold := make(chan struct{})
	for range 100 {
		some.put(func() { <-hold })
	}
	eventually(t, "eight tasks", func() bool { return tasks.begun() == 8 })
	close(hold)
	eventually(t, "a few stay", func() bool {
		some.mu.Lock()
		defer some.mu.Unlock()
		return some.idle == idleTasks && some.active == 0
	})
	close(stopped)
}
