package rig

import "os"

// Bound is a command line that runs a command in a mount namespace of its own, in which the directory real is also at at. The command is the
// process itself, not a child of it.
func Bound(real, at string, command []string) []string {
	return namespace(`mount --bind "$0" "$1" && shift && exec "$@"`, append([]string{real, at}, command...))
}

// Small is a command line that runs a command in a mount namespace of its own. There the directory at is a new file system of size bytes,
// filled from the directory from.
func Small(at, size, from string, command []string) []string {
	return namespace(`mount -t tmpfs -o size="$1" none "$0" && cp -a "$2/." "$0/" && shift 2 && exec "$@"`, append([]string{at, size, from}, command...))
}

// ReadOnly is a command line that runs a command in a mount namespace of its own, in which nothing in the directory can be written.
func ReadOnly(dir string, command []string) []string {
	return namespace(`mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"`, append([]string{dir}, command...))
}

func namespace(script string, args []string) []string {
	line := []string{"unshare", "--mount", "--propagation", "private"}
	if os.Getuid() != 0 {
		line = append(line, "--map-root-user") // a namespace of users lets any user mount
	}
	return append(append(line, "--", "sh", "-c", script), args...)
}
