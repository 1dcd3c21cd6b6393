package saga

import (
	"sync"

	"github.com/holdfastdb/holdfast/internal/task"
)

// pool runs jobs in order of arrival on a few tasks, which begin when there is something to do and end when there is nothing left. What
// waits for the log does so here: a transaction in flight has no task of its own.
type pool struct {
	tasks task.Runner
	limit int // tasks at a time

	mu     sync.Mutex // guards the rest
	jobs   []func()
	head   int // of jobs
	active int
}

// put has a job run. It does not block.
func (p *pool) put(job func()) {
	p.mu.Lock()
	p.jobs = append(p.jobs, job)
	begin := p.active < p.limit
	if begin {
		p.active++
	}
	p.mu.Unlock()
	if begin {
		p.tasks.Go(p.run)
	}
}

func (p *pool) run() {
	for {
		p.mu.Lock()
		if p.head == len(p.jobs) {
			p.jobs, p.head = p.jobs[:0], 0
			p.active--
			p.mu.Unlock()
			return
		}
		job := p.jobs[p.head]
		p.jobs[p.head] = nil
		p.head++
		if p.head >= 1024 && p.head*2 > len(p.jobs) { // what has run is not kept
			p.jobs = append(p.jobs[:0], p.jobs[p.head:]...)
			p.head = 0
		}
		p.mu.Unlock()
		job()
	}
}
