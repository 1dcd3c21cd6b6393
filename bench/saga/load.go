package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// warmup is how long a load of ours runs before it counts.
const warmup = time.Second

// refusal says which of our sagas are refused by their second service: so many of a hundred, evenly.
type refusal int

func (r refusal) of(n int) bool { return (n+1)*int(r)/100 > n*int(r)/100 }

// emptyWork is the work of our load where nothing is refused.
const emptyWork = "two empty branches"

func (r refusal) work() string {
	if r == 0 {
		return emptyWork
	}
	return fmt.Sprintf("%d %% compensated", int(r))
}

// own measures sagas of two empty branches, by our tool.
func (b *bench) own(ctx context.Context) error { return b.turns(ctx, b.clients, []refusal{0}) }

// failureClients is how many clients there are while sagas fail.
const failureClients = 20

// failures measures sagas of which some are refused by their second service and have to be compensated.
func (b *bench) failures(ctx context.Context) error {
	return b.turns(ctx, []int{failureClients}, []refusal{1, 50})
}

// turns measures each coordinator in turn under each load.
func (b *bench) turns(ctx context.Context, clients []int, refused []refusal) error {
	var failed error
	for round := range b.rounds {
		for _, n := range clients {
			for _, r := range refused {
				servers := slices.DeleteFunc(slices.Clone(b.servers), func(s string) bool { return s == none || s == floor && r > 0 })
				for i := range servers {
					server := servers[(i+round)%len(servers)]
					if err := ctx.Err(); err != nil {
						return err
					}
					if err := b.load(ctx, server, n, r, round); err != nil {
						fmt.Printf("  %-10s %d clients, %s, round %d, IS VOID: %v\n", server, n, r.work(), round, err)
						failed = errors.Join(failed, fmt.Errorf("%s, %d clients, %s: %w", server, n, r.work(), err))
					}
				}
			}
		}
	}
	return failed
}

// load measures one coordinator under a load of ours and adds a round to its figure.
func (b *bench) load(ctx context.Context, server string, clients int, refused refusal, round int) (err error) {
	dir, err := os.MkdirTemp(b.dir, "load.")
	if err != nil {
		return err
	}
	c, err := b.start(server, filepath.Join(dir, "coordinator"))
	if err != nil {
		return err
	}
	s, err := newServices(2)
	if err != nil {
		return errors.Join(err, c.close())
	}
	defer func() {
		err = errors.Join(err, s.close(), c.close(), os.RemoveAll(dir))
		syscall.Sync() // the next one does not pay for what this one left to be written
	}()
	syscall.Sync()
	ctx, cancel := context.WithTimeout(ctx, warmup+b.window)
	defer cancel()
	var wg sync.WaitGroup
	writers := make([]*writer, clients)
	began := time.Now()
	for i := range writers {
		writers[i] = &writer{id: i, services: s, refused: refused, from: began.Add(warmup), until: began.Add(warmup + b.window)}
		wg.Go(func() { writers[i].run(ctx) })
	}
	time.Sleep(time.Until(began.Add(warmup)))
	m := &meter{coordinator: c}
	if err := m.start(); err != nil {
		return err
	}
	wg.Wait()
	all, err := together(writers)
	if err != nil {
		return err
	}
	sample, err := m.sample(len(all.took))
	if err != nil {
		return err
	}
	sample.Round, sample.Undone, sample.PerSecond = round, all.undone, float64(len(all.took))/b.window.Seconds()
	sample.P50, sample.P99, sample.Max = percentile(all.took, 50), percentile(all.took, 99), percentile(all.took, 100)
	if sample.Repeated, err = all.check(s); err != nil {
		return err
	}
	if server != floor {
		undone := all.everUndone()
		if err := c.all(len(all.sagas)-undone, 0, &undone); err != nil {
			return err
		}
	}
	f := b.report.figure(withOurs, refused.work(), clients, server)
	f.Rounds = append(f.Rounds, *sample)
	fmt.Printf("  %-10s %d clients, %s: %s\n", server, clients, refused.work(), sample)
	return nil
}

// writer is one client of a load: it sends a saga, waits for its end and sends the next.
type writer struct {
	id          int
	services    *services
	refused     refusal
	from, until time.Time // what counts is what ends in between

	sagas  []saga
	took   []time.Duration // of those that count
	undone int             // of those that count
	err    error
}

// saga is one of which the end is known.
type saga struct {
	gid  string
	done bool
}

func (w *writer) run(ctx context.Context) {
	c := newClient()
	defer c.close()
	undo, agree, refuse := w.services.url(0, agrees), w.services.url(1, agrees), w.services.url(1, refuses)
	for n := 0; ctx.Err() == nil; n++ {
		refused := w.refused.of(n + 37*w.id) // not all clients at once
		t := transaction{gid: "bench-" + strconv.Itoa(w.id) + "-" + strconv.Itoa(n), kind: "saga", wait: true,
			steps: [][2]string{{undo, undo}, {agree, agree}}}
		if refused {
			t.steps[1] = [2]string{refuse, refuse}
		}
		began := time.Now()
		done, err := c.submit(&t)
		if err == nil && done == refused {
			err = fmt.Errorf("saga %s: done is %v although its service said otherwise", t.gid, done)
		}
		if err != nil {
			w.err = err
			return
		}
		w.sagas = append(w.sagas, saga{t.gid, done})
		if now := time.Now(); now.After(w.from) && now.Before(w.until) {
			w.took = append(w.took, now.Sub(began))
			if !done {
				w.undone++
			}
		}
	}
}

// together is what all writers of a load did, with the times in order; the error is that of one that failed.
func together(writers []*writer) (*writer, error) {
	all := &writer{}
	for _, w := range writers {
		if w.err != nil {
			return nil, w.err
		}
		all.sagas, all.took = append(all.sagas, w.sagas...), append(all.took, w.took...)
		all.undone += w.undone
	}
	slices.Sort(all.took)
	return all, nil
}

// check compares every answer with the services' calls.
func (w *writer) check(s *services) (repeated int, err error) {
	for _, one := range w.sagas {
		n, err := s.seen(one.gid).judge(one.gid, one.done)
		if err != nil {
			return 0, err
		}
		repeated += n
	}
	return repeated, nil
}

func (w *writer) everUndone() (n int) {
	for _, one := range w.sagas {
		if !one.done {
			n++
		}
	}
	return n
}

// percentile of times in order, in milliseconds: what so many of a hundred took at most. 0 if there are none.
func percentile(sorted []time.Duration, percent float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return micros(sorted[min(int(percent*float64(len(sorted))/100), len(sorted)-1)]) / 1000
}
