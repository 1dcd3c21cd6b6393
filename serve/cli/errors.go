package cli

import (
	"fmt"
)

// UsageError says that the command line, the environment or the config file is wrong: exit status 2, nothing was tried.
type UsageError struct{ text string }

func (e *UsageError) Error() string { return e.text }

// StatusError is the exit status of a program that was run for the user. Nothing is printed: that program said why.
type StatusError int

func (e StatusError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Usagef makes a UsageError: "what: why; what to do next".
func Usagef(format string, args ...any) error {
	return &UsageError{fmt.Sprintf(format, args...)}
}

// Nearest returns the one of names that is closest to got, "" if none is close.
func Nearest(got string, names []string) string {
	best, limit := "", max(2, len(got)/3)+1 // closer than limit edits
	for _, n := range names {
		if d := edits(got, n); d < limit {
			best, limit = n, d
		}
	}
	return best
}

// edits is the number of letters to insert, delete or replace to turn a into b.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			above := row[j+1]
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			row[j+1] = min(cost, above+1, row[j]+1)
			diagonal = above
		}
	}
	return row[len(b)]
}
