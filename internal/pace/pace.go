// Package pace names runs of tests that take longer than docs/TESTS.md allows them on two cores. It fails nothing, and it is no benchmark.
// It finds a sleep that got longer, a loop that was doubled, a case that belongs into the full run.
package pace

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Variable is the environment variable that says by which factor a run may exceed what is allowed, for slower machines; 0
// asks for no judgement.
const Variable = "PACE"

// tolerance is the factor where Variable is not set.
const tolerance = 1.5

// everythingElse is the row for tests without a row of their own.
const everythingElse = "everything else"

// Allowed is how long each package or group may take. Read only.
type Allowed struct {
	seconds map[string]float64
	factor  float64
}

// Read takes the table below a heading of a Markdown file: names in backquotes and seconds, and a row for everything else.
func Read(file, heading string) (*Allowed, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	a := &Allowed{seconds: map[string]float64{}, factor: tolerance}
	if text, ok := os.LookupEnv(Variable); ok {
		if a.factor, err = strconv.ParseFloat(text, 64); err != nil || a.factor < 0 {
			return nil, fmt.Errorf("%s=%s: want a factor, or 0 for no judgement", Variable, text)
		}
	}
	here := false
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			here = strings.TrimSpace(strings.TrimLeft(line, "#")) == heading
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if !here || !strings.HasPrefix(line, "|") || len(cells) < 2 {
			continue
		}
		name, text := strings.Trim(strings.TrimSpace(cells[0]), "`"), strings.TrimSpace(cells[1])
		if text == "seconds" || strings.Trim(text, ":-") == "" {
			continue // the table's head
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || n <= 0 {
			return nil, fmt.Errorf("%s: %s may take %q seconds", file, name, text)
		}
		if _, twice := a.seconds[name]; twice {
			return nil, fmt.Errorf("%s has two rows for %s", file, name)
		}
		a.seconds[name] = n
	}
	if _, ok := a.seconds[everythingElse]; !ok {
		return nil, fmt.Errorf("%s has no table with a row for %s below %q", file, everythingElse, heading)
	}
	return a, nil
}

// Names is every name with a row of its own.
func (a *Allowed) Names() []string {
	var names []string
	for name := range a.seconds {
		if name != everythingElse {
			names = append(names, name)
		}
	}
	return names
}

// Judge returns the fault of the time that name took, nil for none.
func (a *Allowed) Judge(name string, took time.Duration) error {
	allowed, ok := a.seconds[name]
	if !ok {
		allowed = a.seconds[everythingElse]
	}
	if a.factor == 0 || took.Seconds() <= allowed*a.factor {
		return nil
	}
	return fmt.Errorf("%s took %.1f s, more than %.4g times the %.4g s that docs/TESTS.md allows: make it faster, say there why it may take longer, or "+
		"set %s to a larger factor if this machine is slower", name, took.Seconds(), a.factor, allowed, Variable)
}
