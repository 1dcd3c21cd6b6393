package results

import (
	"fmt"
	"os"
	"time"
)

// Steps are the steps of a run that is always whole, in order. They belong to one goroutine.
type Steps struct{ done []step }

type step struct {
	name, note string
	passed     bool
	took       time.Duration
}

// Do runs a step and prints what it came to: a note, or its error.
func (s *Steps) Do(name string, do func() (note string, err error)) {
	began := time.Now()
	note, err := do()
	if err != nil {
		note = err.Error()
	}
	d := step{name, note, err == nil, time.Since(began)}
	s.done = append(s.done, d)
	fmt.Printf("%-44s %s in %.0f s: %s\n", d.name, Verdict(d.passed, ""), d.took.Seconds(), d.note)
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
	t := NewTable(1, Heading{Text: "step"}, Heading{Text: "result"}, Heading{Text: "what it came to"}, Heading{Text: "time", Right: true})
	for _, d := range s.done {
		t.rows = append(t.rows, []string{d.name, Verdict(d.passed, ""), d.note, fmt.Sprintf("%.0f s", d.took.Seconds())})
	}
	passed, failed := s.Count()
	return os.WriteFile(file, fmt.Appendf(nil, "%s%d passed, %d failed.\n\n%s", head, passed, failed, t), 0o644)
}
