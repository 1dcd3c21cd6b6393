package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/bench/host"
)

// published measures the table of DTM's report: every row with every coordinator, in turns.
func (b *bench) published(ctx context.Context) error {
	var failed error
	for round := range b.rounds {
		for _, w := range works {
			if !slices.Contains(b.works, w.short()) {
				continue
			}
			servers := slices.DeleteFunc(slices.Clone(b.servers), func(s string) bool { return s == none && !w.alone() })
			for i := range servers { // the first one has the colder machine
				server := servers[(i+round)%len(servers)]
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := b.cell(ctx, w, server, round); err != nil {
					fmt.Printf("  %-10s %s, round %d, IS VOID: %v\n", server, w.name, round, err)
					failed = errors.Join(failed, fmt.Errorf("%s, %s: %w", server, w.name, err))
				}
			}
		}
	}
	return failed
}

// cell measures one coordinator on one row, with data and processes of its own, and adds a round to its figure.
func (b *bench) cell(ctx context.Context, w work, server string, round int) (err error) {
	dir, err := os.MkdirTemp(b.dir, "cell.")
	if err != nil {
		return err
	}
	c, err := b.start(server, filepath.Join(dir, "coordinator"))
	if err != nil {
		return err
	}
	s, err := b.startService(dir, w, server != none)
	if err != nil {
		return errors.Join(err, c.close())
	}
	defer func() {
		err = errors.Join(err, s.close(), c.close(), os.RemoveAll(dir))
		syscall.Sync() // the next one does not pay for what this one left to be written
	}()
	syscall.Sync()
	m := &meter{coordinator: c, service: s}
	if err := m.start(); err != nil {
		return err
	}
	a, err := ab(ctx, b.window, benchURL+"bench", filepath.Join(dir, "percentiles"))
	if err != nil {
		return err
	}
	sample, err := m.sample(a.answered)
	if err != nil {
		return err
	}
	if a.answered+2*abClients > accounts {
		return fmt.Errorf("%d transactions: the bench service has begun to give their ids again", a.answered)
	}
	sample.Round, sample.Tool = round, micros(a.cpu)/float64(a.answered)
	sample.PerSecond, sample.P50, sample.P99, sample.Max = a.perSecond, a.p50, a.p99, a.max
	if err := b.checkCell(c, s, w, a.answered); err != nil {
		return err
	}
	b.report.figure(withAB, w.name, abClients, server).Rounds = append(b.report.figure(withAB, w.name, abClients, server).Rounds, *sample)
	fmt.Printf("  %-10s %-15s %s\n", server, w.name, sample)
	return nil
}

// checkCell compares the answers with what services and coordinator hold.
func (b *bench) checkCell(c *coordinator, s *service, w work, answered int) error {
	if c.name == none || c.name == floor {
		time.Sleep(100 * time.Millisecond) // ApacheBench's requests in flight end: there is no client to ask
		return s.check(w, c.name != none, answered, abClients)
	}
	if err := c.all(answered, abClients, nil); err != nil {
		return err
	}
	return s.check(w, true, answered, abClients)
}

// meter takes the processor times of everything around a measurement.
type meter struct {
	coordinator *coordinator
	service     *service // nil: it is in this process

	ticks             host.Ticks
	used              used
	business, serving time.Duration
}

func (m *meter) start() (err error) {
	if m.used, err = m.coordinator.cpu(); err != nil {
		return err
	}
	if m.business, m.serving, err = m.services(); err != nil {
		return err
	}
	m.ticks, err = host.CPUTicks()
	return err
}

// services is what the services' database and the services themselves have used.
func (m *meter) services() (business, serving time.Duration, err error) {
	if m.service == nil {
		return 0, ownCPU(), nil
	}
	if business, err = m.service.database.CPU(); err != nil {
		return 0, 0, err
	}
	serving, err = m.service.CPU()
	return business, serving, err
}

// sample is what was used since start, for each of so many sagas.
func (m *meter) sample(sagas int) (*Sample, error) {
	if sagas == 0 {
		return nil, errors.New("nothing was answered")
	}
	ticks, err := host.CPUTicks()
	if err != nil {
		return nil, err
	}
	u, err := m.coordinator.cpu()
	if err != nil {
		return nil, err
	}
	business, serving, err := m.services()
	if err != nil {
		return nil, err
	}
	memory, err := m.coordinator.memory()
	if err != nil {
		return nil, err
	}
	each := func(d time.Duration) float64 { return micros(d) / float64(sagas) }
	return &Sample{Sagas: sagas, Server: each(u.server - m.used.server), Database: each(u.database - m.used.database),
		Business: each(business - m.business), Service: each(serving - m.serving), Memory: memory, Stolen: ticks.StolenSince(m.ticks)}, nil
}

// ownCPU is what this process has used.
func ownCPU() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err) // the kernel knows no such call
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func (s *Sample) String() string {
	text := fmt.Sprintf("%6.0f/s, p50 %.1f ms, p99 %.1f ms, coordinator %.0f µs", s.PerSecond, s.P50, s.P99, s.Server)
	if s.Database > 0 {
		text += fmt.Sprintf(" + its database %.0f µs", s.Database)
	}
	if s.Undone > 0 {
		text += fmt.Sprintf(", %d undone", s.Undone)
	}
	if s.Repeated > 0 {
		text += fmt.Sprintf(", %d calls REPEATED", s.Repeated)
	}
	if s.Stolen > 0.02 {
		text += fmt.Sprintf(", %.0f %% of the machine stolen", 100*s.Stolen)
	}
	return text
}
