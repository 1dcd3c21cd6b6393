package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// connections are those that clients on this machine have to an address, as the kernel sees them: the client's address and port of each.
func connections(address string) (map[string]bool, error) {
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} { // Java's sockets are of the second kind
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		established(string(b), port, all)
	}
	return all, nil
}

// established adds the open connections to a port.
func established(table string, port int, all map[string]bool) {
	const open = "01"
	want := fmt.Sprintf(":%04X", port)
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[2], want) && f[3] == open {
			all[f[1]] = true
		}
	}
}
