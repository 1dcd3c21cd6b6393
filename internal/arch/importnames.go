package arch

import (
	"path"
	"strings"
)

// ImportName returns the name by which a file has to import the package at importPath (docs/STYLE.md), where name is what it
// writes before the path, "" if nothing. Packages of entry and machine come in pairs of one name (entry/kv, machine/kv), so they
// have one everywhere: ekv and mkv. Doors and workers have their own, or one that begins with what they are: doorkv.
func ImportName(module, importPath, name string) string {
	rest, ours := strings.CutPrefix(importPath, module+"/")
	family, _, below := strings.Cut(rest, "/")
	last := path.Base(rest)
	if !ours || !below || name == "_" {
		return name
	}
	switch family {
	case "entry", "machine":
		if strings.HasSuffix(last, "test") {
			return name // helpers of tests have no pair
		}
		return family[:1] + last
	case "door", "worker":
		if name != "" {
			return family + last
		}
	}
	return name
}
