package host

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Touch writes to most of the unused memory, once, and gives it back. It returns how many bytes that were and the time for one page of 4
// KiB.
//
// A hypervisor gives a virtual machine its memory when it is used for the first time. That costs the machine some 10 us a page, not 2 us.
// Without this, the server that first grows beyond the memory used so far pays for that in its round. The server that takes more memory pays
// more often. Later rounds may be given other pages; so it is three quarters of the free memory, not as much as a server takes.
// A hypervisor that takes free memory back undoes some of it while the benchmark runs.
func Touch(ctx context.Context) (bytes int64, page time.Duration, err error) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0, err
	}
	free, err := parseFree(string(b))
	if err != nil {
		return 0, 0, err
	}
	const piece = 64 << 20
	began := time.Now()
	for want := free / 4 * 3; bytes+piece <= want && ctx.Err() == nil; bytes += piece {
		// MAP_POPULATE touches every page in the call. All stay mapped until the end: a page that is given back would be the next one's.
		m, err := syscall.Mmap(-1, 0, piece, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_POPULATE)
		if err != nil {
			return bytes, 0, fmt.Errorf("touch memory: %w", err)
		}
		defer syscall.Munmap(m)
	}
	if bytes > 0 {
		page = time.Since(began) / time.Duration(bytes>>12)
	}
	return bytes, page, ctx.Err()
}

// parseFree finds in /proc/meminfo how many bytes are unused. MemAvailable would be more, but pages of files have been touched already.
func parseFree(meminfo string) (int64, error) {
	for line := range strings.Lines(meminfo) {
		if rest, ok := strings.CutPrefix(line, "MemFree:"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read free memory: %w", err)
			}
			return n << 10, nil
		}
	}
	return 0, fmt.Errorf("read free memory: no line MemFree")
}
