package arch

import (
	"path"
	"strings"
)

// ImportName returns the name by which a file has to import the package at importPath (docs/STYLE.md). name is the file's own name for it,
// "" if it has none. Every door has a part and a machine, so the door's name comes first: kvpart, kvmachine. The core's own come in pairs
// of one name (core/entry/ident, core/machine/ident): eident and mident. A door is written doorkv where kv means something else; any other
// package has its own name, or its folder's before it: archiveship.
func ImportName(module, importPath, name string) string {
	rest, ours := strings.CutPrefix(importPath, module+"/")
	last, above := path.Base(rest), path.Base(path.Dir(rest))
	if !ours || name == "_" {
		return name
	}
	family, _, _ := strings.Cut(rest, "/")
	switch {
	case family == "core" && (above == "entry" || above == "machine"):
		if strings.HasSuffix(last, "test") {
			return name // helpers of tests have no pair
		}
		return above[:1] + last
	case family == "doors" && (last == "part" || last == "machine"):
		return above + last
	case name == "":
		return ""
	case above == "doors":
		return "door" + last
	case family == "doors", family == "archive", family == "sqlite" && above != "sqlite":
		return above + last
	}
	return name
}
