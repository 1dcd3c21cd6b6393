package startpages

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestForget reads the whole program through, as a start does, and gives it back.
func TestForget(t *testing.T) {
	touched := touch(t)
	before := fileBacked(t)
	Forget()
	after := fileBacked(t)
	t.Logf("%d bytes read: %d kB resident, %d kB after", touched, before, after)
	if before-after < 1024 {
		t.Errorf("%d kB of the program were resident and %d kB are: nothing was given back", before, after)
	}
}

// touch reads every page of the program's own text, in place.
func touch(t *testing.T) int {
	t.Helper()
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(maps)) {
		span, rest, _ := strings.Cut(line, " ")
		low, high, _ := strings.Cut(span, "-")
		from, err1 := strconv.ParseInt(low, 16, 64)
		to, err2 := strconv.ParseInt(high, 16, 64)
		if err1 != nil || err2 != nil || !strings.HasPrefix(rest, "r-xp") || !strings.HasSuffix(rest, ".test\n") {
			continue
		}
		b := make([]byte, to-from)
		m, _ := mem.ReadAt(b, from) // what cannot be read is not touched
		n += m
	}
	return n
}

// fileBacked is what of files is resident in this process, in kB.
func fileBacked(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssFile:"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Skip("the kernel does not say what is resident of files")
	return 0
}
