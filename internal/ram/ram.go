// Package ram says how much memory this process may use: the machine's, or that of the control group with the least above it. It does not
// say how much of it is free, and changes nothing.
package ram

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Limit is how much memory there is, and whose it is in words that follow "a quarter of": "this machine's".
type Limit struct {
	Bytes int64 // 0: the kernel does not say
	Of    string
}

// Read asks the kernel.
func Read() Limit { return read(os.DirFS("/")) }

// read looks into proc and the mounted control groups of a file system.
func read(root fs.FS) Limit {
	l := Limit{Of: "this machine's"}
	info, _ := fs.ReadFile(root, "proc/meminfo") // no such file: the kernel is another one
	for line := range strings.Lines(string(info)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			if f := strings.Fields(rest); len(f) == 2 && f[1] == "kB" {
				kib, _ := strconv.ParseInt(f[0], 10, 64) // 0: as if it were not there
				l.Bytes = kib << 10
			}
		}
	}
	for _, h := range hierarchies(root) {
		for _, dir := range ancestors(h.dir, h.mount) {
			for _, file := range h.files {
				b, err := fs.ReadFile(root, path.Join(dir, file))
				if err != nil {
					continue // the root has no limit, and a path of another namespace is not here
				}
				n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64) // "max" is none
				if err == nil && n > 0 && (l.Bytes == 0 || n < l.Bytes) {
					l = Limit{n, "control group /" + dir + "'s"}
				}
			}
		}
	}
	return l
}

// hierarchy is a mounted tree of control groups that limit memory: version 2, or the memory controller of version 1.
type hierarchy struct {
	mount string // without the leading slash, as fs.FS names files
	dir   string // of this process's group
	files []string
}

// hierarchies finds them among the mounts of this process.
func hierarchies(root fs.FS) (all []hierarchy) {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	mounts, err := fs.ReadFile(root, "proc/self/mountinfo")
	if err != nil {
		return nil
	}
	of := map[string]string{} // this process's group, by the file system's type
	for line := range strings.Lines(string(groups)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(f) != 3:
		case f[0] == "0" && f[1] == "":
			of["cgroup2"] = f[2]
		case slices.Contains(strings.Split(f[1], ","), "memory"):
			of["cgroup"] = f[2]
		}
	}
	for line := range strings.Lines(string(mounts)) {
		before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
		at, what := strings.Fields(before), strings.Fields(after)
		if !ok || len(at) < 5 || len(what) < 3 {
			continue
		}
		group, here := of[what[0]]
		if !here || what[0] == "cgroup" && !slices.Contains(strings.Split(what[2], ","), "memory") {
			continue
		}
		// The mount shows the tree from at[3] on. In a container that is often the process's own group.
		below, inside := strings.CutPrefix(group, strings.TrimSuffix(at[3], "/"))
		if !inside {
			below = ""
		}
		h := hierarchy{mount: strings.TrimPrefix(at[4], "/"), files: []string{"memory.max", "memory.high"}}
		if what[0] == "cgroup" {
			h.files = []string{"memory.limit_in_bytes"}
		}
		h.dir = path.Join(h.mount, below)
		all = append(all, h)
	}
	return all
}

// ancestors lists dir and the directories above it, as far as the mount.
func ancestors(dir, mount string) (all []string) {
	for dir != mount && strings.HasPrefix(dir, mount+"/") {
		all = append(all, dir)
		dir = path.Dir(dir)
	}
	return append(all, mount)
}
