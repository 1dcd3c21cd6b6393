package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cgroup is a group of processes with a limit of memory, below the group of this program, whose own limits still hold.
type cgroup struct{ dir string }

// cgroupRoot is where systems of today mount them.
const cgroupRoot = "/sys/fs/cgroup"

// newCgroup makes a group, of version 1 or 2, as the system has for memory. The error says why it may not.
func newCgroup(limit int64) (*cgroup, error) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	parent, file, err := memoryGroup(string(b))
	if err != nil {
		return nil, err
	}
	g := &cgroup{dir: filepath.Join(parent, fmt.Sprintf("holdfast-bench-%d", os.Getpid()))}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, err
	}
	err = os.WriteFile(filepath.Join(g.dir, file), []byte(strconv.FormatInt(limit, 10)), 0o644)
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	// A kernel may round what it was told, or have no such control: what it says now is what counts.
	said, err := os.ReadFile(filepath.Join(g.dir, file))
	if n, err2 := strconv.ParseInt(string(bytes.TrimSpace(said)), 10, 64); err != nil || err2 != nil || n > limit {
		return nil, errors.Join(fmt.Errorf("%s says %q", file, said), err, g.close())
	}
	return g, nil
}

// memoryGroup finds the directory of a process's group for memory in what /proc/PID/cgroup says, and the file in it that has the
// limit.
func memoryGroup(said string) (dir, file string, err error) {
	for line := range strings.Lines(said) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		for controller := range strings.SplitSeq(f[1], ",") {
			if controller == "memory" {
				return filepath.Join(cgroupRoot, "memory", f[2]), "memory.limit_in_bytes", nil
			}
		}
		if f[0] == "0" && f[1] == "" {
			dir, file = filepath.Join(cgroupRoot, f[2]), "memory.max"
		}
	}
	if dir == "" {
		return "", "", errors.New("the kernel has no groups for memory")
	}
	return dir, file, nil
}

// enter is what to write before a command line so that it runs in the group.
func (g *cgroup) enter() []string {
	return []string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(g.dir, "cgroup.procs")}
}

// close removes the group. Its processes must have ended; the kernel may take a moment to notice.
func (g *cgroup) close() error {
	var err error
	for range 50 {
		if err = os.Remove(g.dir); !errors.Is(err, syscall.EBUSY) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}
