package advance

import (
	"sync"

	"github.com/holdfastdb/holdfast/internal/task"
)

// idleTasks is the number of a pool's tasks that stay when idle: a new one has a small stack, which must grow again.
const idleTasks = 4

// pool runs jobs in order of arrival on a few tasks. Jobs that wait for the log or the store do so here: a transaction in flight has no
// task of its own.
type pool struct {
	tasks   task.Runner
	limit   int // tasks at a time
	stopped <-chan struct{}
	wake    chan struct{} // has a token for each idle task that is to go on

	mu     sync.Mutex // guards the rest
	jobs   []func()
	head   int // of jobs
	active int // tasks, those that are idle not among them
	idle   int
}

func newPool(tasks task.Runner, limit int, stopped <-chan struct{}) *pool {
	return &pool{tasks: tasks, limit: limit, stopped: stopped, wake: make(chan struct{}, idleTasks)}
}

// put has a job run. It does not block. Once the member has stopped it may not run any more.
func (p *pool) put(job func()) {
	p.mu.Lock()
	p.jobs = append(p.jobs, job)
	wake, begin := p.idle > 0, p.idle == 0 && p.active < p.limit
	if wake {
		p.idle--
	}
	if wake || begin {
		p.active++
	}
	p.mu.Unlock()
	switch {
	case wake:
		p.wake <- struct{}{} // there is room: no more tokens than tasks that were idle
	case begin:
		p.tasks.Go(p.run)
	}
}

func (p *pool) run() {
	for {
		job, more := p.next()
		switch {
		case job != nil:
			job()
		case !more || p.tasks.Wait(task.Forever, p.wake, p.stopped) == 1:
			return
		}
	}
}

// next takes the first job. Without one the task is idle from now on, or, if more is false, over.
func (p *pool) next() (job func(), more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.head == len(p.jobs) {
		p.jobs, p.head = p.jobs[:0], 0
		p.active--
		if p.idle >= idleTasks {
			return nil, false
		}
		p.idle++
		return nil, true
	}
	job = p.jobs[p.head]
	p.jobs[p.head] = nil
	p.head++
	if p.head >= 1024 && p.head*2 > len(p.jobs) { // finished jobs are not kept
		p.jobs = append(p.jobs[:0], p.jobs[p.head:]...)
		p.head = 0
	}
	return job, true
}
