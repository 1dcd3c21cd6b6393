// Package arch holds the repository to docs/CODEMAP.md. It parses the layer table and the table of forbidden calls there and reports every
// package that breaks them. The page is the only source, so page and code cannot drift apart. It looks at what ships; test files may import
// more. It is not a linter: form and bugs are staticcheck's work.
package arch

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Row is one path of the layer table. A path covers exactly that package, or everything below it if it ends in "/...". With a "*" in place
// of one name it is the default row of a family. It covers each package of that form without a row of its own.
type Row struct {
	Layer  int
	Path   string
	May    []string // paths of ours, read like Path; in a default row "*" is the package's own name; a first one "all" = any smaller layer, beside the others
	Third  []string // module or package prefixes of others, beyond the standard library
	Nobody bool     // no other row may import it
}

// Ban is one row of the table of forbidden calls.
type Ban struct {
	Paths  []string // path prefixes it holds in; "*" = everywhere
	Except []string
	What   []string // "time.Now", "import os", "go statement", "range over a map"
}

// Rules are both tables.
type Rules struct {
	Rows []Row
	Bans []Ban
}

// Parse reads the tables out of the page. Their header rows are recognised by their first cells.
func Parse(page string) (*Rules, error) {
	rules := &Rules{}
	var table string
	for i, line := range strings.Split(page, "\n") {
		if !strings.HasPrefix(line, "|") {
			table = ""
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case cells[0] == "layer":
			table = "layers"
		case cells[0] == "not allowed":
			table = "bans"
		case strings.HasPrefix(cells[0], "--"):
		case table == "layers":
			if err := rules.addRow(cells); err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
		case table == "bans":
			if len(cells) < 3 {
				return nil, fmt.Errorf("line %d: a forbidden call needs three cells", i+1)
			}
			ban := Ban{What: quoted(cells[0])}
			in, except, _ := strings.Cut(cells[1], "except")
			ban.Paths, ban.Except = quoted(in), quoted(except)
			if strings.HasPrefix(in, "everywhere") {
				ban.Paths = []string{"*"}
			}
			if len(ban.What) == 0 || len(ban.Paths) == 0 {
				return nil, fmt.Errorf("line %d: nothing is forbidden, or nowhere", i+1)
			}
			rules.Bans = append(rules.Bans, ban)
		}
	}
	if len(rules.Rows) == 0 || len(rules.Bans) == 0 {
		return nil, fmt.Errorf("found %d layers and %d forbidden calls: the tables are gone", len(rules.Rows), len(rules.Bans))
	}
	return rules, nil
}

func (r *Rules) addRow(cells []string) error {
	if len(cells) != 5 {
		return fmt.Errorf("a layer needs five cells, not %d", len(cells))
	}
	row := Row{May: quoted(cells[3]), Third: quoted(cells[4])}
	if cells[0] == "–" { // test-only: above everything, no package may import it
		row.Layer, row.Nobody = 100, true
	} else {
		n, err := strconv.Atoi(cells[0])
		if err != nil {
			return fmt.Errorf("layer %q: %w", cells[0], err)
		}
		row.Layer = n
	}
	if strings.HasPrefix(cells[3], "all") {
		row.May = append([]string{"all"}, row.May...)
	}
	paths := quoted(cells[1])
	if len(paths) == 0 {
		return fmt.Errorf("a layer without a path")
	}
	for _, p := range paths {
		if strings.Count(p, "*") > 1 {
			return fmt.Errorf("%s has two places for a name; a default row has one", p)
		}
		row := row
		row.Path = p
		r.Rows = append(r.Rows, row)
	}
	return nil
}

// quoted returns the words in backquotes, with {a,b} expanded.
func quoted(cell string) []string {
	var out []string
	for i, part := range strings.Split(cell, "`") {
		if i%2 == 1 {
			out = append(out, expand(part)...)
		}
	}
	return out
}

func expand(s string) []string {
	open, end := strings.Index(s, "{"), strings.Index(s, "}")
	if open < 0 || end < open {
		return []string{s}
	}
	var out []string
	for _, alt := range strings.Split(s[open+1:end], ",") {
		out = append(out, s[:open]+strings.TrimSpace(alt)+s[end+1:])
	}
	return out
}

// row finds the row of a package: one with its exact path, else the most specific default row, else the longest "/..."
// above it. star is the name that the "*" of a default row stands for, and empty for any other row.
func (r *Rules) row(path string) (best *Row, star string) {
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Path == path {
			return row, ""
		}
		if name, ok := match(row.Path, path); ok && (best == nil || moreSpecific(row.Path, best.Path)) {
			best, star = row, name
		}
	}
	return best, star
}

// moreSpecific reports whether pattern a goes before pattern b where both hold for a package.
func moreSpecific(a, b string) bool {
	if da, db := isDefault(a), isDefault(b); da != db {
		return da
	}
	return len(a) > len(b)
}

// isDefault reports whether a row's path is that of a family's default row.
func isDefault(path string) bool { return strings.Contains(path, "*") }

// match reports whether a path or pattern of the table holds for the package at path. star is the name that a "*" stood for.
func match(pattern, path string) (star string, ok bool) {
	if pattern == path {
		return "", true
	}
	if prefix, below := strings.CutSuffix(pattern, "/..."); below {
		return "", within(path, prefix)
	}
	head, tail, found := strings.Cut(pattern, "*")
	if !found || len(path) <= len(head)+len(tail) || !strings.HasPrefix(path, head) || !strings.HasSuffix(path, tail) {
		return "", false
	}
	star = path[len(head) : len(path)-len(tail)]
	return star, !strings.Contains(star, "/")
}

// within reports whether path is prefix or lies below it.
func within(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// withinAny reports whether path is one of the prefixes or lies below one. A "*" in a prefix stands for one name; alone it is everything.
func withinAny(path string, prefixes []string) bool {
	for _, p := range prefixes {
		p = strings.TrimSuffix(p, "/...")
		if p == "*" || within(path, p) {
			return true
		}
		for at := path; strings.Contains(p, "*") && at != "."; at = filepath.Dir(at) {
			if _, ok := match(p, at); ok {
				return true
			}
		}
	}
	return false
}
