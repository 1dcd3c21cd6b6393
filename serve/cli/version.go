package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Version of this build; a release build may set it with -ldflags "-X github.com/holdfastdb/holdfast/serve/cli.Version=…".
var Version = "0.1.0-dev"

// VersionCommand prints it.
func VersionCommand() *Command {
	return &Command{
		Name:     "version",
		Summary:  "print the version of this program",
		Examples: []string{"holdfast version"},
		Run: func(c *Call) error {
			if len(c.Args) > 0 {
				return Usagef("version: takes no arguments; run `holdfast version`")
			}
			_, err := fmt.Fprintf(c.Stdout, "holdfast %s%s %s %s/%s\n", Version, Revision(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// Revision is the commit this was built from, if the build recorded it.
func Revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	rev, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			rev = " " + s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	return rev + dirty
}
