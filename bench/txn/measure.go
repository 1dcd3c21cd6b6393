package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/holdfastdb/holdfast/bench/bars"
	"github.com/holdfastdb/holdfast/doors/sql/lock"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/internal/meter"
)

// Figures are of one shape at one number of transactions at a time.
type Figures struct {
	Events, Again int64 // committed, and rolled back because they stood in a circle
	Took, CPU     time.Duration
	Apply         time.Duration // on the loop; nothing else is in it
	P95           time.Duration
}

// spent is the processor time of this process: the load's own is in it.
func spent() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (m *member) applied() time.Duration {
	var r meter.Reading
	m.steps.Apply.Seconds.Read(&r)
	return r.Sum
}

// event runs one transaction until it is committed.
func (c *client) event(shape func(*client) error) (again int64, err error) {
	for {
		if c.x, err = c.m.worker.Begin(); err != nil {
			return again, err
		}
		if err = shape(c); err == nil {
			return again, c.x.Commit()
		}
		c.x.Rollback()
		if !errors.Is(err, txn.ErrDeadlock) {
			return again, err
		}
		again++
	}
}

// during runs clients until the time is over. done reports what each has done with it.
func during(ctx context.Context, clients int, d time.Duration, work func(ctx context.Context, i int) error) error {
	ctx, end := context.WithTimeout(ctx, d)
	defer end()
	var wg sync.WaitGroup
	errs := make([]error, clients)
	for i := range clients {
		wg.Go(func() {
			for ctx.Err() == nil && errs[i] == nil {
				errs[i] = work(ctx, i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// figures measures a shape.
func (b *bench) figures(ctx context.Context, m *member, name string, threads int) (f Figures, err error) {
	var took meter.Histogram
	var again atomic.Int64
	all := make([]*client, threads)
	for i := range all {
		all[i] = &client{m: m, rows: b.rows, at: i, r: rand.New(rand.NewPCG(uint64(i), uint64(threads))), next: uint64(b.rows) + uint64(time.Now().UnixNano())<<20 + uint64(i)}
	}
	began, cpu, apply := time.Now(), spent(), m.applied()
	err = during(ctx, threads, b.time, func(_ context.Context, i int) error {
		from := time.Now()
		n, err := all[i].event(shapes[name])
		took.Since(from)
		again.Add(n)
		return err
	})
	f.Took, f.CPU, f.Apply = time.Since(began), spent()-cpu, m.applied()-apply
	var r meter.Reading
	took.Read(&r)
	f.Events, f.Again, f.P95 = int64(r.Count), again.Load(), r.Quantile(0.95)
	return f, errors.Join(err, ctx.Err())
}

// fill writes the rows that the shapes begin with.
func (b *bench) fill(m *member) error {
	var wg sync.WaitGroup
	errs := make([]error, len(m.tables))
	for i, t := range m.tables {
		wg.Go(func() {
			c := &client{m: m, rows: b.rows, r: rand.New(rand.NewPCG(uint64(i), 1))}
			for id := 1; id <= b.rows && errs[i] == nil; {
				_, errs[i] = c.event(func(c *client) error {
					if err := c.x.UseTable(t.ID, t.Version, lock.IntentExclusive, patient); err != nil {
						return err
					}
					for end := id + b.batch; id < end && id <= b.rows; id++ {
						if err := c.insert(t, uint64(id)); err != nil {
							return err
						}
					}
					return nil
				})
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// measure runs all shapes on tables that are filled before.
func (b *bench) measure(ctx context.Context, dir string, judged *bars.List) error {
	m, err := start(ctx, dir, b.tables)
	if err != nil {
		return err
	}
	defer m.stop()
	if err := b.fill(m); err != nil {
		return err
	}
	fmt.Printf("\n%d tables of %d rows, %s each\n", b.tables, b.rows, b.time)
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "shape\tthreads\ttps\tp95 ms\tCPU µs an event\tApply µs an event\tin a circle\t")
	for _, name := range b.names {
		for _, threads := range b.threads {
			f, err := b.figures(ctx, m, name, threads)
			if err != nil {
				return err
			}
			per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(max(f.Events, 1)) }
			fmt.Fprintf(t, "%s\t%d\t%.0f\t%.2f\t%.1f\t%.1f\t%d\t\n", name, threads, float64(f.Events)/f.Took.Seconds(), float64(f.P95.Microseconds())/1000, per(f.CPU), per(f.Apply), f.Again)
			if name == "write_only" {
				judged.AtMost(fmt.Sprintf("time of Apply for a write_only event at %d threads", threads), mostApplyMicros, per(f.Apply), " µs")
			}
		}
	}
	return t.Flush()
}

// loadBulk fills one table as fast as it can.
func (b *bench) loadBulk(ctx context.Context, dir string, judged *bars.List) error {
	m, err := start(ctx, dir, 1)
	if err != nil {
		return err
	}
	defer m.stop()
	t := m.tables[0]
	var rows atomic.Int64
	all := make([]*client, b.writers)
	for i := range all {
		all[i] = &client{m: m, rows: 1 << 30, r: rand.New(rand.NewPCG(uint64(i), 2)), next: uint64(i) << 40}
	}
	began, cpu, apply := time.Now(), spent(), m.applied()
	err = during(ctx, b.writers, b.bulk, func(_ context.Context, i int) error {
		_, err := all[i].event(func(c *client) error {
			if err := c.x.UseTable(t.ID, t.Version, lock.IntentExclusive, patient); err != nil {
				return err
			}
			for range b.batch {
				c.next++
				if err := c.insert(t, c.next); err != nil {
					return err
				}
			}
			return nil
		})
		rows.Add(int64(b.batch))
		return err
	})
	took, cpu, apply := time.Since(began), spent()-cpu, m.applied()-apply
	if err = errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	n := float64(rows.Load())
	stored, log, err := m.onDisk()
	if err != nil {
		return err
	}
	logical := n * (rowBytes + 2*keyBytes)
	fmt.Printf("\n%d writers took %.0f rows of %d bytes with one index in %.1f s: %.0f rows/s, %.1f µs of CPU a row, %.1f µs of Apply\n", b.writers, n, rowBytes, took.Seconds(),
		n/took.Seconds(), float64(cpu.Microseconds())/n, float64(apply.Microseconds())/n)
	fmt.Printf("%.0f MB of rows and entries; the store's files have %.0f MB, the log's %.0f MB\n", logical/1e6, float64(stored)/1e6, float64(log)/1e6)
	judged.AtLeast(fmt.Sprintf("bulk load by %d writers", b.writers), leastRowsPerSecond, n/took.Seconds(), " rows/s")
	judged.AtMost("bytes of the store's files to bytes of rows and entries, at the end of the load", mostDiskRatio, float64(stored)/logical, "")
	return nil
}
