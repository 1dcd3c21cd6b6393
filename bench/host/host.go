// Package host describes a benchmark's machine: processor, load, time stolen by neighbours, the price of an fsync. It also has the
// statistics that every benchmark here prints. It measures no server and starts no process.
package host

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Machine describes the machine of the figures; without it none of them means anything.
type Machine struct {
	CPU        string  `json:"cpu"`
	Cores      int     `json:"cores"`
	Kernel     string  `json:"kernel"`
	Load       string  `json:"load_average_at_start"`
	SyncBefore float64 `json:"fdatasync_before_ms"`
	SyncAfter  float64 `json:"fdatasync_after_ms"` // filled in by the caller at the end, by SyncTime

	// TouchedMiB is how much memory Touch wrote to before, and PageUS what a page took; 0: the benchmark does not.
	TouchedMiB int64   `json:"memory_touched_before_mib,omitempty"`
	PageUS     float64 `json:"page_touched_before_us,omitempty"`
}

func (m Machine) String() string {
	return fmt.Sprintf("%d cores (%s), kernel %s, load %s, fdatasync %.3f ms", m.Cores, m.CPU, m.Kernel, m.Load, m.SyncBefore)
}

// Describe looks at the machine and times the disk below dir.
func Describe(dir string) (Machine, error) {
	m := Machine{Cores: runtime.NumCPU(), CPU: "unknown"}
	// Names are for the reader; a machine that does not tell is no reason not to measure.
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				m.CPU = strings.TrimSpace(strings.TrimLeft(name, "\t :"))
				break
			}
		}
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(b))
	}
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		if f := strings.Fields(string(b)); len(f) > 0 {
			m.Load = f[0]
		}
	}
	var err error
	m.SyncBefore, err = SyncTime(dir)
	return m, err
}

// SyncTime is the median of 400 fdatasyncs of 1 KiB each in preallocated space, in milliseconds.
func SyncTime(dir string) (float64, error) {
	f, err := os.CreateTemp(dir, "sync")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(make([]byte, 4<<20)); err != nil {
		return 0, err
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	block := bytes.Repeat([]byte("x"), 1<<10)
	var times []float64
	for i := range 400 {
		began := time.Now()
		if _, err := f.WriteAt(block, int64(i)<<10); err != nil {
			return 0, err
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			return 0, fmt.Errorf("fdatasync in %s: %w", filepath.Dir(f.Name()), err)
		}
		times = append(times, float64(time.Since(began))/float64(time.Millisecond))
	}
	return Median(times), nil
}

// Ticks counts what the processors did since the machine was started, in clock ticks.
type Ticks struct{ All, Idle, Stolen uint64 }

// tick is USER_HZ, which is 100 on every Linux architecture Go runs on.
const tick = 10 * time.Millisecond

// CPUTicks reads them. Stolen ticks are those in which a virtual processor had work and the hypervisor ran another machine.
func CPUTicks() (Ticks, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Ticks{}, err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return parseTicks(line)
}

// parseTicks reads "cpu user nice system idle iowait irq softirq steal guest guest_nice"; guests' time is part of user's.
func parseTicks(line string) (t Ticks, err error) {
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return Ticks{}, fmt.Errorf("read cpu ticks: unexpected line %q", line)
	}
	for i, s := range f[1:9] {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return Ticks{}, fmt.Errorf("read cpu ticks: %w", err)
		}
		t.All += n
		switch i {
		case 3, 4: // waiting for a disk is idle too
			t.Idle += n
		case 7:
			t.Stolen = n
		}
	}
	return t, nil
}

// StolenSince is the share of all processor time stolen since before, 0 to 1.
func (t Ticks) StolenSince(before Ticks) float64 {
	if t.All <= before.All {
		return 0
	}
	return float64(t.Stolen-before.Stolen) / float64(t.All-before.All)
}

// BusySince is the processor time that processes and the kernel of this machine used since before.
func (t Ticks) BusySince(before Ticks) time.Duration {
	return time.Duration(t.All-t.Idle-t.Stolen-(before.All-before.Idle-before.Stolen)) * tick
}

// Median of a non-empty list; the mean of the middle two of an even number.
func Median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	n := len(x)
	return (x[(n-1)/2] + x[n/2]) / 2
}

// Deviation is the standard deviation of a sample (n-1 below the line), 0 for fewer than two.
func Deviation(x []float64) float64 {
	if len(x) < 2 {
		return 0
	}
	mean, sum := 0.0, 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		sum += (v - mean) * (v - mean)
	}
	return math.Sqrt(sum / float64(len(x)-1))
}
