package sqlite

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// forgetStart gives back the pages of the program's own file that only its start has touched: an agent shares its machine with the application,
// runs a tenth of the program, and starting it touches most of it (40 MB of 44 resident). What is used again is read again, from the page cache. Only
// mappings that cannot be written are given back; where that does not work the process is larger, and nothing else.
func forgetStart() {
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
