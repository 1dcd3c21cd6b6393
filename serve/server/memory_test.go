package server

import (
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/internal/ram"
)

// machine has the test run on one with so much memory.
func machine(t *testing.T, bytes int64) {
	before := readLimit
	readLimit = func() ram.Limit { return ram.Limit{Bytes: bytes, Of: "this machine's"} }
	t.Cleanup(func() { readLimit = before })
}

// TestTheDefaultIsAQuarter of the memory there is, within bounds, and the operator hears of what; a value that was given is that value.
func TestTheDefaultIsAQuarter(t *testing.T) {
	for _, tc := range []struct {
		there int64
		given string
		want  int64
		why   string
	}{
		{2048 * mib, "", 512 * mib, "a quarter of this machine's 2.0 GiB"},
		{512 * mib, "", 256 * mib, "the least default; a quarter of this machine's 512.0 MiB is less"},
		{64 << 30, "", 4 << 30, "the largest default; a quarter of this machine's 64.0 GiB is no less"},
		{0, "", 256 * mib, "the default where the kernel does not say how much there is"},
		{2048 * mib, "128MiB", 128 * mib, "given"},
	} {
		machine(t, tc.there)
		m, err := MemoryOf(tc.given)
		if err != nil || m.Bytes != tc.want || m.Why != tc.why {
			t.Errorf("of %d MiB, given %q: %+v, %v", tc.there/mib, tc.given, m, err)
		}
		args := []string{"--data", "d", "--kv", "127.0.0.1:0"}
		if tc.given != "" {
			args = append(args, "--memory", tc.given)
		}
		c, err := load(t, args, nil, "")
		if err != nil || c.memory != tc.want || c.memoryWhy != tc.why {
			t.Errorf("serve: %d, %q, %v", c.memory, c.memoryWhy, err)
		}
	}
	if _, err := MemoryOf("lots"); err == nil || !strings.Contains(err.Error(), "HOLDFAST_MEMORY lots: not a size") {
		t.Error(err)
	}
}
