package results

import (
	"fmt"
	"os"
	"time"
)

// Steps are the steps of a run, in order. A run is whole, or goes on where an earlier one left off. They belong to one goroutine.
type Steps struct {
	done   []step
	before *Table // of the run that this one goes on with; nil: none
}

type step struct {
	name, note string
	passed     bool
	took       string
}

func newStepsTable() *Table {
	return NewTable(1, Heading{Text: "step"}, Heading{Text: "result"}, Heading{Text: "what it came to"}, Heading{Text: "time", Right: true})
}

// Resume takes over from the table in a file: Do does not do again what passed there.
func (s *Steps) Resume(file string) error {
	s.before = newStepsTable()
	_, err := s.before.Load(file)
	return err
}

// earlier is a step's result in the previous run, if it passed there.
func (s *Steps) earlier(name string) (step, bool) {
	if s.before == nil {
		return step{}, false
	}
	for _, r := range s.before.rows {
		if r[0] == name && r[1] == Verdict(true, "") {
			return step{name: name, note: r[2], passed: true, took: r[3]}, true
		}
	}
	return step{}, false
}

// Do runs a step and prints what it came to: a note, or its error.
func (s *Steps) Do(name string, do func() (note string, err error)) {
	if d, ok := s.earlier(name); ok {
		s.done = append(s.done, d)
		return
	}
	began := time.Now()
	note, err := do()
	if err != nil {
		note = err.Error()
	}
	d := step{name, note, err == nil, fmt.Sprintf("%.0f s", time.Since(began).Seconds())}
	s.done = append(s.done, d)
	fmt.Printf("%-44s %s in %s: %s\n", d.name, Verdict(d.passed, ""), d.took, d.note)
}

// Count returns how many steps passed and how many failed.
func (s *Steps) Count() (passed, failed int) {
	for _, d := range s.done {
		if d.passed {
			passed++
		}
	}
	return passed, len(s.done) - passed
}

// Write writes the steps under a head into a file.
func (s *Steps) Write(file, head string) error {
	t := newStepsTable()
	for _, d := range s.done {
		t.rows = append(t.rows, []string{d.name, Verdict(d.passed, ""), d.note, d.took})
	}
	passed, failed := s.Count()
	return os.WriteFile(file, fmt.Appendf(nil, "%s%d passed, %d failed.\n\n%s", head, passed, failed, t), 0o644)
}
