package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"
)

// pooledFrom is the number of connections from which on MariaDB runs with a pool of threads too.
const pooledFrom = 200

// sweep goes through all cells: a memory, a number of connections, a workload.
type sweep struct {
	*bench
	report *Report
	dir    string
	keep   func() error // writes the report so far
}

// run measures every cell that the report does not have yet. Results from before an error are in the report.
func (s *sweep) run(ctx context.Context) (err error) {
	if s.cost && s.report.Cost == nil {
		cost, err := s.costs(ctx, s.dir)
		if err != nil {
			return err
		}
		s.report.Cost = &cost
		fmt.Println(cost)
	}
	for _, memory := range s.memory {
		if err := s.at(ctx, memory); err != nil {
			return fmt.Errorf("--memory %dMiB: %w", memory, err)
		}
	}
	return nil
}

// todo are the cells of one memory that are not measured, in their order.
func (s *sweep) todo(memory int) (all []Cell) {
	for _, threads := range s.threads {
		for _, workload := range s.names {
			c := Cell{memory, threads, workload}
			if len(s.report.of(holdfast, c)) < s.rounds {
				all = append(all, c)
			}
		}
	}
	return all
}

// at measures the cells of one memory, on servers of their own.
func (s *sweep) at(ctx context.Context, memory int) (err error) {
	cells := s.todo(memory)
	if len(cells) == 0 {
		return nil
	}
	pooled := slices.ContainsFunc(cells, func(c Cell) bool { return c.Threads >= pooledFrom })
	servers, err := s.start(filepath.Join(s.dir, fmt.Sprint(memory)), memory, pooled)
	defer func() {
		for _, one := range servers {
			one.close()
		}
	}()
	if err != nil {
		return err
	}
	for _, one := range servers {
		began := time.Now()
		if _, err := s.sysbench(ctx, one, 16, "oltp_common", "prepare"); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		rate := float64(s.tables*s.rows) / time.Since(began).Seconds()
		s.report.Prepared = append(s.report.Prepared, Prepared{Server: one.name, Memory: memory, Rows: rate})
		fmt.Printf("%s, --memory %dMiB: %.0f rows/s loaded\n", one.name, memory, rate)
	}
	for _, c := range cells {
		// Rounds of a cell that was not finished go: servers have been started anew since.
		s.report.drop(c)
		if err := s.measure(ctx, servers, c); err != nil {
			return err
		}
		if err := s.keep(); err != nil {
			return err
		}
	}
	return nil
}

// measure runs one cell on all servers by turns, the first one changing with the round. The first round warms both up and is not kept.
func (s *sweep) measure(ctx context.Context, servers []*server, c Cell) error {
	if c.Threads < pooledFrom {
		servers = slices.DeleteFunc(slices.Clone(servers), func(one *server) bool { return one.name == pooledMariaDB })
	}
	for round := range s.rounds + 1 {
		for i := range servers {
			one := servers[(i+round)%len(servers)]
			r, err := s.round(ctx, one, c)
			if err != nil {
				return fmt.Errorf("%s, %s, %d threads: %w", one.name, c.Workload, c.Threads, err)
			}
			if round == 0 {
				continue
			}
			s.report.Rounds = append(s.report.Rounds, r)
			fmt.Printf("%s, %d threads, %s: %.0f tps, p95 %.1f ms, %.1f µs of CPU a statement\n", c.Workload, c.Threads, one.name, r.Rate, r.P95ms, r.CPUus)
		}
	}
	return nil
}
