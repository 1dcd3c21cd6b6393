package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/bench/host"
)

// place is the part of the machine that a server and its load get, with its special settings. The zero place is all of the machine for
// both.
type place struct {
	server, load []string // words before the command lines
	flags        []string // more flags of the server
	// during is called when the window begins, and its result when the window is over, to write its findings into the sample. Optional.
	during func(s *server) (over func(*Sample) error, err error)
}

// measure runs one server and one load and adds a round to f.
func (b *bench) measure(ctx context.Context, f *Figure, window time.Duration, at place) error {
	dir, err := os.MkdirTemp(b.dir, "round.")
	if err != nil {
		return err
	}
	defer func() {
		os.RemoveAll(dir)
		syscall.Sync() // the next server does not pay for what this one left to be written
	}()
	s, err := b.start(f.Server, dir, at)
	if err != nil {
		return err
	}
	defer s.Kill()
	sample, err := b.load(ctx, f.load, s, window, at)
	if err != nil {
		return err
	}
	if f.Tool == withOurs {
		if out, err := exec.Command(b.bin, "tlog", "verify", s.url, "--vkey", s.key).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	if sample.Memory, err = peakMemory(s.PID()); err != nil {
		return err
	}
	if sample.Size, err = size(s.url); err != nil {
		return err
	}
	sample.LoadCPU /= float64(sample.Size)
	if err := s.Term(30 * time.Second); err != nil {
		return err
	}
	if err := b.footprint(f.Server, s, sample); err != nil {
		return err
	}
	f.Rounds = append(f.Rounds, *sample)
	fmt.Printf("  %-19s %s: %s\n", f.Server, f.load, sample)
	return nil
}

// load puts a load on a server and takes its measure over the window. The CPU time of the load tool is of its whole run.
func (b *bench) load(ctx context.Context, l load, s *server, window time.Duration, at place) (*Sample, error) {
	// The load ends soon after the window; what it waits for then, a checkpoint of everything, may take half a minute.
	ctx, cancel := context.WithTimeout(ctx, warmup+window+60*time.Second)
	defer cancel()
	r, err := b.begin(ctx, l, s, warmup+window+time.Second, at.load)
	if err != nil {
		return nil, err
	}
	if err := sleep(ctx, warmup); err != nil {
		return nil, err
	}
	ticks, err := host.CPUTicks()
	if err != nil {
		return nil, err
	}
	first, err := s.take()
	if err != nil {
		return nil, err
	}
	over := func(*Sample) error { return nil }
	if at.during != nil {
		if over, err = at.during(s); err != nil {
			return nil, err
		}
	}
	if err := sleep(ctx, time.Until(first.at.Add(window))); err != nil {
		return nil, err
	}
	last, err := s.take()
	if err != nil {
		return nil, err
	}
	ticksAfter, err := host.CPUTicks()
	if err != nil {
		return nil, err
	}
	sample := &Sample{}
	if err := over(sample); err != nil {
		return nil, err
	}
	done, err := r.end()
	if err != nil {
		return nil, err
	}
	added := float64(last.size - first.size)
	if added == 0 {
		return nil, errors.New("the log did not grow")
	}
	seconds := last.at.Sub(first.at).Seconds()
	sample.Seconds, sample.AddsPerSec, sample.Stolen = seconds, added/seconds, ticksAfter.StolenSince(ticks)
	sample.CPU, sample.Busy, sample.LoadCPU = micros(last.cpu-first.cpu)/added, (last.cpu-first.cpu).Seconds()/seconds, micros(done.cpu)
	sample.Warnings, sample.Queue, sample.Integrate = done.warnings, done.queue, done.integrate
	return sample, nil
}

// sleep ends early, with an error, when ctx does.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func (l load) String() string {
	offered := ""
	if l.Rate > 0 {
		offered = fmt.Sprintf(" at %d/s", l.Rate)
	}
	return fmt.Sprintf("%s, %d writers%s", l.Tool, l.Writers, offered)
}

func (s *Sample) String() string {
	text := fmt.Sprintf("%.0f/s, server %.1f µs CPU an add", s.AddsPerSec, s.CPU)
	if v := avg(s.Queue); !math.IsNaN(v) {
		text += fmt.Sprintf(", in queue %.1f ms, p99 %.1f ms", v, s.Queue.P99)
	}
	if s.Warnings > 0 {
		text += fmt.Sprintf(", %d WARNINGS of the load tool", s.Warnings)
	}
	if s.Stolen > 0.02 {
		text += fmt.Sprintf(", %.0f %% of the machine stolen", 100*s.Stolen)
	}
	return text
}
