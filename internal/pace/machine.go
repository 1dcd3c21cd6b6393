package pace

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// crowded is the share of the processors' time that others may have during a run whose seconds count.
const crowded = 0.15

// Machine measures who has the processors during a run.
type Machine struct {
	began, own time.Duration // busy time of all processors together, and of this process and its children
	at         time.Time
	cpus       int
}

// Watch begins to measure.
func Watch() *Machine {
	busy, cpus := busyTime()
	return &Machine{began: busy, own: ownTime(), at: time.Now(), cpus: cpus}
}

// Others is the share of all processors' time since Watch that went to programs which neither this process nor its children have
// started, as far as those have ended; 0 where the system does not tell. What runs at a lower priority (nice) is not counted:
// it gives way.
func (m *Machine) Others() float64 {
	busy, _ := busyTime()
	all := time.Since(m.at) * time.Duration(m.cpus)
	if all <= 0 {
		return 0
	}
	return max(0, float64(busy-m.began-(ownTime()-m.own))/float64(all))
}

// Crowded reports whether others had so much of the machine that the run's seconds say nothing about its tests.
func (m *Machine) Crowded() bool { return m.Others() > crowded }

func busyTime() (busy time.Duration, cpus int) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0 // another system
	}
	return parseBusy(string(b))
}

// parseBusy reads /proc/stat (proc(5)): hundredths of a second since the start as user, nice, system, idle, iowait, irq, softirq, steal.
func parseBusy(stat string) (busy time.Duration, cpus int) {
	for line := range strings.Lines(stat) {
		fields := strings.Fields(line)
		switch {
		case len(fields) < 9 || !strings.HasPrefix(fields[0], "cpu"):
		case fields[0] != "cpu":
			cpus++
		default:
			for _, i := range []int{1, 3, 6, 7, 8} {
				n, err := strconv.ParseInt(fields[i], 10, 64)
				if err != nil {
					return 0, 0
				}
				busy += time.Duration(n) * 10 * time.Millisecond
			}
		}
	}
	return busy, cpus
}

// ownTime is what this process and its ended children have had.
func ownTime() (all time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err == nil {
			all += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return all
}
