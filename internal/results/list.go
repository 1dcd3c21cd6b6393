package results

import "strings"

// ParseList reads a committed list, "NAME: why", one a line; # begins a comment.
func ParseList(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			name, why, _ := strings.Cut(line, ": ")
			out[name] = why
		}
	}
	return out
}

// Verdict is the cell of what passed, "passed", or failed, "FAILED" or "fails: " and why that is known, if it is.
func Verdict(passed bool, why string) string {
	switch {
	case passed:
		return "passed"
	case why != "":
		return "fails: " + why
	}
	return "FAILED"
}
