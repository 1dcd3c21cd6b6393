package arch

import (
	"fmt"
	"strings"
)

// Package is what `go list -json` says about one package of ours.
type Package struct {
	ImportPath string
	Dir        string
	Doc        string   // first sentence of the package comment
	GoFiles    []string // files of the shipped package
	Imports    []string
}

// Imports reports every import that the layer table does not allow, and every package without a row or a package comment. It also reports
// every row without a package, unless it is a default row. module is the module path of this repository.
func (r *Rules) Imports(module string, packages []Package) []string {
	var found []string
	used := make(map[string]bool)
	for _, p := range packages {
		path := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		row, star := r.row(path)
		if row == nil {
			found = append(found, fmt.Sprintf("%s: no row in the layer table", path))
			continue
		}
		used[row.Path] = true
		if len(p.GoFiles) > 0 && p.Doc == "" {
			found = append(found, fmt.Sprintf("%s: no package comment", path))
		}
		for _, imp := range p.Imports {
			if why := r.forbidden(row, star, path, imp, module); why != "" {
				found = append(found, fmt.Sprintf("%s imports %s: %s", path, imp, why))
			}
		}
	}
	for _, row := range r.Rows {
		if !used[row.Path] && !isDefault(row.Path) {
			found = append(found, fmt.Sprintf("the layer table names %s, which has no package", row.Path))
		}
	}
	return found
}

// forbidden says why package path (in row, as its star if it is a default row) may not import imp, or nothing.
func (r *Rules) forbidden(row *Row, star, path, imp, module string) string {
	if imp == "C" {
		return "no cgo"
	}
	if !within(imp, module) {
		// Only a path whose first part has a dot can be a third party's; the rest is the standard library.
		if first, _, _ := strings.Cut(imp, "/"); !strings.Contains(first, ".") || withinAny(imp, row.Third) {
			return ""
		}
		return "third party not in the last column of its row"
	}
	target := strings.TrimPrefix(imp, module+"/")
	to, _ := r.row(target)
	switch {
	case to == nil:
		return "the imported package has no row"
	case strange(path, target):
		return "of another door only its part may be imported, and by core and serve nothing of a door"
	case to.Path == row.Path && !isDefault(row.Path), within(target, path) && to.Layer <= row.Layer && !to.Nobody:
		return "" // the same row, or a parent its own child; packages of one default row have nothing else in common
	case to.Nobody && !row.Nobody:
		return "only tests may use it"
	case to.Layer > row.Layer:
		return fmt.Sprintf("layer %d may not see layer %d", row.Layer, to.Layer)
	case row.May != nil && row.May[0] == "all" && to.Layer < row.Layer, covers(row.May, star, target):
		return ""
	}
	return "not in the column 'may import' of its row"
}

// strange reports whether the package at path has no business with the door that target belongs to. Programs, tests and tools walk all doors.
func strange(path, target string) bool {
	parts, ours := strings.Split(target, "/"), strings.Split(path, "/")
	if parts[0] != "doors" || len(parts) < 2 {
		return false
	}
	switch ours[0] {
	case "doors":
		return ours[1] != parts[1] && parts[len(parts)-1] != "part"
	case "core", "serve", "archive", "objstore":
		return true
	}
	return false
}

// covers reports whether one of the paths or patterns of a column holds for target. star is the name that "*" stands for
// in it; where it is empty a "*" stands for any name.
func covers(patterns []string, star, target string) bool {
	for _, p := range patterns {
		if star != "" {
			p = strings.ReplaceAll(p, "*", star)
		}
		if _, ok := match(p, target); ok {
			return true
		}
	}
	return false
}
