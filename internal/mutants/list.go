package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// mutant is one defect: a few edits of the tree, and the test that must fail with them.
//
// A list is text. "== name" begins a mutant; its lines are:
//
//	never: a row of docs/INVARIANTS.md, word for word; "-" for a defect that belongs to none
//	why: what would go wrong
//	in: the file that the following edits are of
//	- text that stands in the file exactly once (several such lines: consecutive lines of it; how much blank
//	  stands before and between words does not matter)
//	+ what stands there instead (no such line: nothing)
//	caught by: package.TestName [-long] [-hangs] [flags of the test]
//
// A test runs with -test.short unless -long is given; -hangs says that running into the time limit is how it notices. Empty
// lines and lines that begin with # are passed over.
type mutant struct {
	name  string // file of the list / name
	never string
	why   string
	edits []edit
	test  testRef
}

// edit replaces one place of a file.
type edit struct {
	file     string
	old, new []string // lines
}

// testRef names a test and how it is run. It is comparable: one that several mutants name is run once on the tree as it is.
type testRef struct {
	pkg, name string
	long      bool
	hangs     bool
	args      string // separated by spaces
}

func (t testRef) String() string {
	s := t.pkg + "." + t.name
	if t.long {
		s += " -long"
	}
	if t.hangs {
		s += " -hangs"
	}
	return strings.TrimSpace(s + " " + t.args)
}

// limit is how long the test may take.
func (t testRef) limit() time.Duration {
	if t.hangs {
		return 20 * time.Second
	}
	return 90 * time.Second
}

// readList reads every list of a directory.
func readList(dir string) ([]*mutant, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	var all []*mutant
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		group := strings.TrimSuffix(filepath.Base(file), ".txt")
		some, err := parseList(group, string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, some...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no mutants in %s", dir)
	}
	seen := map[string]bool{}
	for _, m := range all {
		if seen[m.name] {
			return nil, fmt.Errorf("two mutants are called %s", m.name)
		}
		seen[m.name] = true
	}
	return all, nil
}

func parseList(group, text string) (all []*mutant, err error) {
	var m *mutant
	file, replacing := "", false
	for i, line := range strings.Split(text, "\n") {
		bad := func(why string) ([]*mutant, error) { return nil, fmt.Errorf("line %d: %s: %q", i+1, why, line) }
		if name, ok := strings.CutPrefix(line, "== "); ok {
			m = &mutant{name: group + "/" + strings.TrimSpace(name)}
			all = append(all, m)
			file, replacing = "", true
			continue
		}
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if m == nil {
			return bad("a line before the first mutant")
		}
		if line[0] == '-' || line[0] == '+' {
			body := strings.TrimPrefix(line[1:], " ")
			switch {
			case file == "":
				return bad("an edit before the file it is of")
			case line[0] == '+' && (len(m.edits) == 0 || m.edits[len(m.edits)-1].file != file):
				return bad("a replacement of nothing")
			case line[0] == '+':
				e := &m.edits[len(m.edits)-1]
				e.new, replacing = append(e.new, body), true
			default:
				if replacing {
					m.edits = append(m.edits, edit{file: file})
					replacing = false
				}
				e := &m.edits[len(m.edits)-1]
				e.old = append(e.old, body)
			}
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if !ok || value == "" {
			return bad("neither a key nor an edit")
		}
		switch key {
		case "never":
			m.never = value
		case "why":
			m.why = value
		case "in":
			file, replacing = value, true
		case "caught by":
			if m.test, err = parseTest(value); err != nil {
				return bad(err.Error())
			}
		default:
			return bad("unknown key")
		}
	}
	for _, m := range all {
		if m.never == "" || m.why == "" || len(m.edits) == 0 || m.test.name == "" {
			return nil, fmt.Errorf("%s: a mutant needs never, why, an edit and the test it is caught by", m.name)
		}
	}
	return all, nil
}

var testForm = regexp.MustCompile(`^([a-z0-9/]+)\.(Test[A-Za-z0-9_]+(?:/[^ ]+)?)$`)

func parseTest(s string) (testRef, error) {
	words := strings.Fields(s)
	f := testForm.FindStringSubmatch(words[0])
	if f == nil {
		return testRef{}, errors.New("not package.TestName")
	}
	t := testRef{pkg: f[1], name: f[2]}
	words = words[1:]
	take := func(flag string) (found bool) {
		n := len(words)
		words = slices.DeleteFunc(words, func(w string) bool { return w == flag })
		return len(words) < n
	}
	t.long, t.hangs = take("-long"), take("-hangs")
	t.args = strings.Join(words, " ")
	return t, nil
}

// apply returns the changed files of a mutant by their names below root. An edit whose text is not there exactly once is an error. The code
// has changed, so whether a test would notice the defect is no longer known.
func (m *mutant) apply(root string) (map[string]string, error) {
	changed := map[string]string{}
	for _, e := range m.edits {
		text, ok := changed[e.file]
		if !ok {
			b, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				return nil, err
			}
			text = string(b)
		}
		at := e.pattern().FindAllStringIndex(text, -1)
		if len(at) != 1 {
			return nil, fmt.Errorf("%s: its text is in %s %d times, not once: %q", m.name, e.file, len(at), strings.Join(e.old, "\n"))
		}
		changed[e.file] = text[:at[0][0]] + strings.Join(e.new, "\n") + text[at[0][1]:]
	}
	return changed, nil
}

// pattern finds the text, however gofmt sets it: lines may be indented and words be apart by more or less.
func (e *edit) pattern() *regexp.Regexp {
	var lines []string
	for _, l := range e.old {
		words := strings.Fields(l)
		for i := range words {
			words[i] = regexp.QuoteMeta(words[i])
		}
		lines = append(lines, strings.Join(words, `[\t ]+`))
	}
	return regexp.MustCompile(strings.Join(lines, `[\t ]*\n[\t ]*`))
}
