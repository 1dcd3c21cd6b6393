package peer

import (
	"errors"
	"net"
	"strings"
	"syscall"
)

// endpoint splits an address into what package net wants: unix:PATH is a socket file, everything else host:port.
func endpoint(addr string) (network, at string) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return "unix", path
	}
	return "tcp", addr
}

// listen binds one address. A socket file is removed first. One left behind by a killed process would be in the way for ever, and cannot be
// told from one in use. Other servers do the same.
func listen(addr string) (net.Listener, error) {
	network, at := endpoint(addr)
	if network == "unix" {
		if err := syscall.Unlink(at); err != nil && !errors.Is(err, syscall.ENOENT) {
			return nil, err
		}
	}
	return net.Listen(network, at)
}
