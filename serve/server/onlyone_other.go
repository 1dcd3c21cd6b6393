//go:build !linux

package server

// runsAs is of Linux alone: elsewhere there is no such name to find.
func runsAs(string) (pid int32, ours bool) { return 0, false }
