package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// smallMemory is what the small machine has, in bytes.
const smallMemory = 1 << 30

// The loads of the small machine: the flags of the published report, the same from our tool, and its operator's later change by hand. That
// is 600 writers that send as fast as they can (see published).
var smallLoads = []load{
	{Tool: withHammer, Writers: 512, Rate: 512, Published: true},
	{Tool: withOurs, Writers: 512, Rate: 512},
	{Tool: withOurs, Writers: 600},
}

// smallMachine measures on the published report's machine: one processor, with the load on another, and 1 GB. The report's has the
// operating system in its memory as well.
func (b *bench) smallMachine(ctx context.Context) error {
	cores, err := allowedCores()
	if err != nil {
		return err
	}
	if len(cores) < 2 {
		return errors.New("one processor for the server and one for the load are two; this program may use one")
	}
	at := place{server: onCore(cores[0]), load: onCore(cores[1])}
	b.report.Small = fmt.Sprintf("server on processor %d, load on %d, both by affinity", cores[0], cores[1])
	limit := "memory limited to 1 GB by a cgroup"
	if g, err := newCgroup(smallMemory); err != nil {
		limit = fmt.Sprintf("no cgroup can be made (%v): memory asserted, the most a server had resident must be below 1 GB", err)
	} else if err := g.close(); err != nil {
		return err
	}
	b.report.Small += "; " + limit
	fmt.Println("small machine: " + b.report.Small)
	for _, l := range smallLoads {
		window := b.window
		if l.Rate == 0 {
			window = b.small
		}
		for _, name := range []string{posix, holdfast} {
			f := b.report.figure(smallMachine, name, l)
			if err := b.measureSmall(ctx, f, window, at); err != nil {
				return fmt.Errorf("%s, %s: %w", name, l, err)
			}
		}
	}
	return nil
}

// measureSmall gives each server a cgroup of its own, if one may be made. A server must not be charged for file pages of the previous one.
func (b *bench) measureSmall(ctx context.Context, f *Figure, window time.Duration, at place) (err error) {
	if g, none := newCgroup(smallMemory); none == nil {
		defer func() { err = errors.Join(err, g.close()) }()
		at.server = append(g.enter(), at.server...)
	}
	if err := b.measure(ctx, f, window, at); err != nil {
		return err
	}
	if most := f.Rounds[len(f.Rounds)-1].Memory; most > smallMemory {
		return fmt.Errorf("%d MB were resident: that is no machine of 1 GB", most>>20)
	}
	return nil
}

// onCore is what to write before a command line so that it runs on one processor. Set before the program starts: Go takes the
// number of its workers from it, as it would on a machine with one processor.
func onCore(n int) []string { return []string{"taskset", "-c", strconv.Itoa(n)} }

// allowedCores are the processors this program may use.
func allowedCores() ([]int, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return parseCores(strings.TrimSpace(list))
		}
	}
	return nil, errors.New("the kernel does not say which processors may be used")
}

// parseCores reads the kernel's form of lists, 0-3,8.
func parseCores(list string) (out []int, err error) {
	for item := range strings.SplitSeq(list, ",") {
		from, to, ok := strings.Cut(item, "-")
		if !ok {
			to = from
		}
		low, err := strconv.Atoi(from)
		if err != nil {
			return nil, fmt.Errorf("list of processors %q: %w", list, err)
		}
		high, err := strconv.Atoi(to)
		if err != nil {
			return nil, fmt.Errorf("list of processors %q: %w", list, err)
		}
		for n := low; n <= high; n++ {
			out = append(out, n)
		}
	}
	return out, nil
}
