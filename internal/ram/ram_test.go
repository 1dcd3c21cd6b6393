package ram

import (
	"testing"
	"testing/fstest"
)

const (
	mib     = 1 << 20
	meminfo = "MemTotal:        8388608 kB\nMemFree:          123456 kB\n"
	two     = "29 22 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	one     = "31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n36 30 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)

// TestTheLeastAncestorDecides: of the machine and every control group above the process, the one with the least memory decides.
func TestTheLeastAncestorDecides(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  Limit
	}{
		{"nothing is known", nil, Limit{0, "this machine's"}},
		{"no limit", map[string]string{"proc/meminfo": meminfo}, Limit{8192 * mib, "this machine's"}},
		{"groups without limits", map[string]string{"proc/meminfo": meminfo, "proc/self/mountinfo": two, "proc/self/cgroup": "0::/a.slice/b.service\n",
			"sys/fs/cgroup/a.slice/b.service/memory.max": "max\n", "sys/fs/cgroup/a.slice/memory.max": "max\n"}, Limit{8192 * mib, "this machine's"}},
		{"its own", map[string]string{"proc/meminfo": meminfo, "proc/self/mountinfo": two, "proc/self/cgroup": "0::/a.slice/b.service\n",
			"sys/fs/cgroup/a.slice/b.service/memory.max": "1073741824\n", "sys/fs/cgroup/a.slice/memory.max": "2147483648\n"},
			Limit{1024 * mib, "control group /sys/fs/cgroup/a.slice/b.service's"}},
		{"an ancestor's", map[string]string{"proc/meminfo": meminfo, "proc/self/mountinfo": two, "proc/self/cgroup": "0::/a.slice/b.service\n",
			"sys/fs/cgroup/a.slice/b.service/memory.max": "max\n", "sys/fs/cgroup/a.slice/memory.max": "2147483648\n"},
			Limit{2048 * mib, "control group /sys/fs/cgroup/a.slice's"}},
		{"above which the kernel slows it down", map[string]string{"proc/meminfo": meminfo, "proc/self/mountinfo": two, "proc/self/cgroup": "0::/b\n",
			"sys/fs/cgroup/b/memory.max": "2147483648\n", "sys/fs/cgroup/b/memory.high": "1073741824\n"}, Limit{1024 * mib, "control group /sys/fs/cgroup/b's"}},
		{"more than the machine has", map[string]string{"proc/meminfo": meminfo, "proc/self/mountinfo": two, "proc/self/cgroup": "0::/b\n",
			"sys/fs/cgroup/b/memory.max": "17179869184\n"}, Limit{8192 * mib, "this machine's"}},
		{"in a container with a namespace", map[string]string{"proc/meminfo": meminfo, "proc/self/mountinfo": two, "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "536870912\n"}, Limit{512 * mib, "control group /sys/fs/cgroup's"}},
		{"in a container that sees its own group as the root of the mount", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/docker/abc/inner\n",
			"proc/self/mountinfo":            "29 22 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
			"sys/fs/cgroup/inner/memory.max": "max\n", "sys/fs/cgroup/memory.max": "536870912\n"}, Limit{512 * mib, "control group /sys/fs/cgroup's"}},
		{"a path that is not below the mount", map[string]string{"proc/meminfo": meminfo, "proc/self/mountinfo": two, "proc/self/cgroup": "0::/../../x\n",
			"sys/fs/cgroup/memory.max": "536870912\n"}, Limit{512 * mib, "control group /sys/fs/cgroup's"}},
		{"version 1", map[string]string{"proc/meminfo": meminfo, "proc/self/mountinfo": one, "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/docker/abc\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n"}, Limit{512 * mib, "control group /sys/fs/cgroup/memory's"}},
		{"version 1 without a limit", map[string]string{"proc/meminfo": meminfo, "proc/self/mountinfo": one, "proc/self/cgroup": "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, Limit{8192 * mib, "this machine's"}},
	} {
		root := fstest.MapFS{}
		for name, data := range c.files {
			root[name] = &fstest.MapFile{Data: []byte(data)}
		}
		if got := read(root); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestThisMachine: the kernel that the test runs on says something.
func TestThisMachine(t *testing.T) {
	if l := Read(); l.Bytes < 64*mib {
		t.Errorf("%+v", l)
	}
}
