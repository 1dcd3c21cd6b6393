package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version of this build; a release build may set it with -ldflags "-X main.version=…".
var version = "0.1.0-dev"

func versionCommand() *command {
	return &command{
		name:     "version",
		summary:  "print the version of this program",
		examples: []string{"holdfast version"},
		run: func(c *call) error {
			if len(c.args) > 0 {
				return usagef("version: takes no arguments; run `holdfast version`")
			}
			_, err := fmt.Fprintf(c.stdout, "holdfast %s%s %s %s/%s\n", version, revision(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// revision is the commit this was built from, if the build recorded it.
func revision() string {
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
