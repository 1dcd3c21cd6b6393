package startpages

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestForget reads the whole program through, as a start does, and gives it back.
func TestForget(t *testing.T) {
	touched := touch(t)
	before := fileBacked(t)
	Forget()
	after := fileBacked(t)
	t.Logf("%d bytes read: %d kB resident, %d kB after", touched, before, after)
	if before-after < touched>>11 { // half: what runs on is in use again
		t.Errorf("%d kB of the program were resident and %d kB are: nothing was given back", before, after)
	}
}

// TestWhatWasWrittenStays: a page of the program's file that was written to, in memory, before it could not be any more keeps what was written.
func TestWhatWasWrittenStays(t *testing.T) {
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	b, err := syscall.Mmap(int(exe.Fd()), 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(b)
	b[100] ^= 0xff
	written := b[100]
	if err := syscall.Mprotect(b, syscall.PROT_READ); err != nil {
		t.Fatal(err)
	}
	Forget()
	if b[100] != written {
		t.Error("a page that a loader has written to is the file's again")
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
