package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestOurReportIsRead, and a run of ours that failed is no figure.
func TestOurReportIsRead(t *testing.T) {
	said := `{"adds": 9, "pushed_back": 2, "failed": 1, "time_in_queue": {"min_ms": 0.5, "avg_ms": 1.25, "p50_ms": 1.5, "p99_ms": 7.25, "max_ms": 9},
		"time_to_integrate": {"min_ms": 2, "avg_ms": 12, "max_ms": 30}}`
	l := &loaded{}
	if err := ourReport(l, nil, "", []byte(said)); err != nil {
		t.Fatal(err)
	}
	if l.warnings != 3 || *l.queue != (Spread{0.5, 1.25, 1.5, 7.25, 9}) || l.integrate.Avg != 12 {
		t.Errorf("%+v, %+v, %+v", l, l.queue, l.integrate)
	}
	l = &loaded{}
	if err := ourReport(l, errors.New("exit status 1"), "holdfast: 3 adds failed", []byte(said)); err == nil || !strings.Contains(err.Error(), "3 adds failed") {
		t.Errorf("a failed run: %v", err)
	}
	for _, bad := range []string{"usage", "{}"} {
		if err := ourReport(l, nil, "", []byte(bad)); err == nil {
			t.Errorf("%q is read as a report", bad)
		}
	}
	if *l != (loaded{}) {
		t.Errorf("figures of failed runs are kept: %+v", l)
	}
}

// TestHammerWarningsAreCounted: the lines that say so.
func TestHammerWarningsAreCounted(t *testing.T) {
	if n := hammerWarnings("I1121 begins\nW1121 slow\nE1121 lost\nI1121 Max runtime reached\n"); n != 2 {
		t.Errorf("%d", n)
	}
}

// TestCommandLines: of ours nothing is verified meanwhile; the hammer repeats entries only with the published flags.
func TestCommandLines(t *testing.T) {
	b := &bench{tools: "tools", bin: "bin/holdfast"}
	s := &server{url: "http://h", key: "key"}
	for want, l := range map[string]load{
		"bin/holdfast bench tlog http://h --vkey key --writers 16 --rate 0 --size 64 --duration 3s --verify none --json":                               {Tool: withOurs, Writers: 16},
		"tools/hammer --log_public_key=key --log_url=http://h --max_read_ops=0 --num_writers=16 --max_write_ops=100000 --show_ui=false --dup_chance=0": {Tool: withHammer, Writers: 16},
		"tools/hammer --log_public_key=key --log_url=http://h --max_read_ops=0 --num_writers=512 --max_write_ops=512 --show_ui=false":                  smallLoads[0],
	} {
		if got := strings.Join(b.args(l, s, 3*time.Second), " "); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

func TestGroupsForMemoryAreFound(t *testing.T) {
	for said, want := range map[string]string{
		"0::/user.slice/a\n":                        "/sys/fs/cgroup/user.slice/a memory.max",
		"4:memory:/x\n1:cpu:/\n0::/\n":              "/sys/fs/cgroup/memory/x memory.limit_in_bytes",
		"12:cpu,cpuacct:/\n9:memory:/\n0::/other\n": "/sys/fs/cgroup/memory memory.limit_in_bytes",
		"1:cpu:/\n": "",
		"":          "",
	} {
		dir, file, err := memoryGroup(said)
		if got := strings.TrimSpace(dir + " " + file); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", said, got, err)
		}
	}
}

func TestListsOfProcessorsAreRead(t *testing.T) {
	if got, err := parseCores("0-2,8"); err != nil || !slices.Equal(got, []int{0, 1, 2, 8}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "a", "0-", "1,"} {
		if _, err := parseCores(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
	if got, err := allowedCores(); err != nil || len(got) == 0 {
		t.Errorf("%v, %v", got, err)
	}
}
