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

// Forget gives back every page of the program's file that cannot be written. The program has doors, commands and libraries that one process uses a
// small part of, and starting it touches most of them: of 40 MB resident in an idle server 30 are such pages, and they were counted against the
// application beside it. What is used again is mapped again from the page cache, about half a microsecond a page. Where it does not work the process
// is larger, and nothing else. It may be called at any time by any goroutine.
func Forget() {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close() // it was read
	for s := bufio.NewScanner(maps); s.Scan(); {
		var from, to uintptr
		var may string
		line := s.Text()
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &may); err != nil || may[1] == 'w' || !strings.HasSuffix(line, exe) {
			continue
		}
		syscall.Syscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_DONTNEED) // advice
	}
}
