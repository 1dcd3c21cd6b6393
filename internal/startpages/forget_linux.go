// Package startpages gives back the pages of the program's own file that only its start has touched. It is not about the heap: that is the
// garbage collector's (internal/budget).
package startpages

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Forget gives back every page of the program's file that cannot be written, and never was. The program has doors, commands and libraries
// that one process uses a small part of, and starting it touches most of them. Of 40 MB resident in an idle server 30 are such pages. A
// page used again is mapped again from the page cache, about half a microsecond a page. Where it does not work the process is larger, and
// nothing else. It may be called at any time by any goroutine.
func Forget() {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer maps.Close() // it was read
	// All are found before the first is given back: finding them uses pages too.
	var all [][2]uintptr
	var span [2]uintptr
	ours := false
	for s := bufio.NewScanner(maps); s.Scan(); {
		line := s.Text()
		// A program that is linked with C has read-only pages that a loader has written to before: those are not the file's.
		if kB, ok := strings.CutPrefix(line, "Anonymous:"); ok && ours && strings.TrimSpace(kB) == "0 kB" {
			all = append(all, span)
		}
		if line[0] >= 'A' && line[0] <= 'Z' {
			continue // about the mapping above
		}
		ours = false
		if strings.HasSuffix(line, exe) {
			var may string
			n, _ := fmt.Sscanf(line, "%x-%x %s", &span[0], &span[1], &may)
			ours = n == 3 && len(may) == 4 && may[1] != 'w'
		}
	}
	for _, m := range all {
		syscall.Syscall(syscall.SYS_MADVISE, m[0], m[1]-m[0], syscall.MADV_DONTNEED) // advice
	}
}
