package main

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// server is the package everything is linked in.
const server = "cmd/holdfast"

// changes is what a quick run knows of the time since the last full run of each door.
type changes struct {
	since map[string]since
	tree  tree
}

// since is what has changed since a door's last full run.
type since struct {
	commit string   // short
	why    string   // unknown, and why; "": files is complete
	files  []string // slash-separated, from the root
}

// tree is which packages each thing is made of, by their directories from the root.
type tree struct {
	server []string            // what the server is linked from
	spine  []string            // what its log stands on: a change there is one for every door
	doors  map[string][]string // a door's own packages and programs, with all they use
}

// affects reports whether a door is to be checked, and says why or why not.
func (c *changes) affects(door string) (why string, affected bool) {
	s := c.since[door]
	if s.why != "" {
		return s.why, true
	}
	for _, f := range s.files {
		if c.tree.concerns(f, door) {
			return fmt.Sprintf("%s has changed since its last full run at %s", f, s.commit), true
		}
	}
	return "unchanged since its last full run at " + s.commit, false
}

// concerns reports whether what door does to its clients, or how it is checked, may be another for a change of file.
func (t *tree) concerns(file, door string) bool {
	dir, name := path.Split(file)
	if strings.HasSuffix(name, ".md") || strings.HasSuffix(name, "_test.go") || strings.Contains("/"+dir, "/testdata/") {
		return false // in no program
	}
	if dir == "" || strings.HasPrefix(dir, "scripts/") || strings.HasPrefix(dir, "conformance/doors/") {
		return name != ".gitignore" // go.mod, Makefile: they decide how everything is built, and which programs run
	}
	if dir == "sqlite/extension/" {
		return door == "sqlite" // C: no package of Go's
	}
	pkg, known := t.packageOf(strings.TrimSuffix(dir, "/"))
	switch {
	case !known:
		return false // no program has it: documentation, benchmarks, the simulation
	case slices.Contains(t.doors[door], pkg):
		return true
	case slices.Contains(t.spine, pkg):
		return true
	case !slices.Contains(t.server, pkg):
		return false // a program that checks another door
	}
	for _, packages := range t.doors {
		if slices.Contains(packages, pkg) {
			return false // another door's
		}
	}
	return true // in the server and of no door: the wiring of the doors, or something new
}

// packageOf is the package a directory belongs to: its own, or the nearest above it, whose embedded files lie there.
func (t *tree) packageOf(dir string) (pkg string, known bool) {
	all := slices.Concat(t.server, t.spine)
	for _, packages := range t.doors {
		all = append(all, packages...)
	}
	for ; dir != "." && dir != "/"; dir = path.Dir(dir) {
		if slices.Contains(all, dir) {
			return dir, true
		}
	}
	return "", false
}

// changesSince looks at the tree, and at the last full runs that are committed.
func changesSince(file string) (*changes, error) {
	c := &changes{since: map[string]since{}, tree: tree{doors: map[string][]string{}}}
	committed, err := output("git", "show", "HEAD:"+file)
	if err != nil {
		committed = "" // there is none yet
	}
	runs := parseRuns(committed)
	for _, d := range doors {
		c.since[d.name] = filesSince(runs, d.name, file)
	}
	if c.tree.server, err = dependencies("./" + server); err != nil {
		return nil, err
	}
	// The log, and what serves and configures every door on it.
	if c.tree.spine, err = dependencies("./core/node"); err != nil {
		return nil, err
	}
	for _, p := range c.tree.server {
		if p == server || p == "serve" || strings.HasPrefix(p, "serve/") {
			c.tree.spine = append(c.tree.spine, p)
		}
	}
	for _, d := range doors {
		all, err := parts(slices.Concat(d.packages, d.own, d.fullOnly)...)
		if err != nil {
			return nil, err
		}
		c.tree.doors[d.name] = all
	}
	return c, nil
}

// filesSince is what has changed since the last full run of a door: in commits, and in the tree since the last one.
func filesSince(runs []row, door, file string) since {
	i := slices.IndexFunc(runs, func(r row) bool { return r.door == door })
	if i < 0 {
		return since{why: "no full run of it is recorded in " + file}
	}
	commit := runs[i].commit
	s := since{commit: commit[:min(len(commit), 12)]}
	if _, err := output("git", "merge-base", "--is-ancestor", commit, "HEAD"); err != nil {
		s.why = "the commit of its last full run, " + s.commit + ", is not one this tree comes from"
		return s
	}
	changed, err := output("git", "diff", "--name-only", commit)
	if err != nil {
		s.why = "what has changed since " + s.commit + " is not to be had: " + err.Error()
		return s
	}
	added, err := output("git", "ls-files", "--others", "--exclude-standard")
	if err != nil {
		s.why = "what is new in the tree is not to be had: " + err.Error()
		return s
	}
	s.files = strings.Fields(changed + added)
	return s
}

// dependencies is every package of this module that some packages are made of, by their directories from the root.
func dependencies(patterns ...string) ([]string, error) {
	listed, err := output("go", append([]string{"list", "-deps"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	return ofThisModule(strings.Fields(listed))
}

// parts is the packages themselves with their dependencies. Not so a program under another name (doors/kv/etcd), which has everything in
// it, and a door's simulated runs, which have the other doors.
func parts(patterns ...string) ([]string, error) {
	listed, err := output("go", append([]string{"list", "-f", `{{.ImportPath}}{{range .Deps}} {{.}}{{end}}`}, patterns...)...)
	if err != nil {
		return nil, err
	}
	var packages []string
	for line := range strings.Lines(listed) {
		words := strings.Fields(line)
		if strings.HasSuffix(words[0], "/sim") || slices.ContainsFunc(words[1:], func(p string) bool { return strings.HasSuffix(p, "/serve/server") }) {
			words = words[:1]
		}
		packages = append(packages, words...)
	}
	slices.Sort(packages)
	return ofThisModule(slices.Compact(packages))
}

// ofThisModule is the packages of this module among some, by their directories from the root.
func ofThisModule(packages []string) (dirs []string, err error) {
	module, err := output("go", "list", "-m")
	if err != nil {
		return nil, err
	}
	for _, p := range packages {
		if dir, ours := strings.CutPrefix(p, strings.TrimSpace(module)+"/"); ours {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

func output(name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		err = errors.Join(fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err), errors.New(strings.TrimSpace(said.String())))
	}
	return string(out), err
}

// head is the commit of the tree, and whether the tree has nothing beyond it but tables that runs have written.
func head() (commit string, clean bool, err error) {
	if commit, err = output("git", "rev-parse", "HEAD"); err != nil {
		return "", false, err
	}
	status, err := output("git", "status", "--porcelain")
	if err != nil {
		return "", false, err
	}
	clean = true
	for line := range strings.Lines(status) {
		clean = clean && strings.HasSuffix(strings.TrimSpace(line), ".md")
	}
	return strings.TrimSpace(commit), clean, nil
}
