package server

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// How late the kernel may wake the runtime's monitor thread, in nanoseconds, usually and while there is little to do (processors.go). In
// the latter case no goroutine waits for the processor that it takes back, except for a rare slow disk.
const (
	sysmonSlack     = "2000000"
	sysmonSlackRest = "5000000"
)

// sysmonSetting is the file that says so, "" if there is none. Set before anything else runs.
var sysmonSetting string

// slackSysmon is for when calmSysmon has found the thread; else, or if it is refused, everything stays as it is.
func slackSysmon(slack string) {
	if sysmonSetting != "" {
		_ = os.WriteFile(sysmonSetting, []byte(slack), 0)
	}
}

// calmSysmon lets the runtime's monitor thread sleep longer. Go starts that thread first, and it looks every 20 µs for processors to take
// back from blocking system calls, as long as anything happens. A server whose commands come in bursts wakes it thousands of times a
// second. That was an eighth of the CPU of three members under 64 clients, and a quarter under a single client. Its work can wait 2 ms:
// most fdatasyncs take less, and a slower one costs no more than 2 ms of the processor. The runtime has no setting for it, but Linux lets a
// process loosen the timers of its threads (proc(5), timerslack_ns).
//
// It is optional: where /proc is missing or refuses, everything works as before. A thread that the monitor starts inherits the slack, and
// if thread ids have wrapped, the second thread may not be the monitor at all. Timers of such a thread come up to 2 ms late, or 5, while
// the shortest that matters is a tick of 50 ms.
func calmSysmon() {
	dir, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	var ids []int
	for _, d := range dir {
		if id, err := strconv.Atoi(d.Name()); err == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	if len(ids) < 2 || ids[0] != os.Getpid() {
		return
	}
	sysmonSetting = filepath.Join("/proc", strconv.Itoa(ids[1]), "timerslack_ns")
	slackSysmon(sysmonSlack)
}
