package typetest

import (
	_ "embed"
	"fmt"
	"strings"
)

// Differences has the answers of Holdfast that are not MariaDB's, below the reason for each.
//
//go:embed testdata/differences.txt
var Differences string

// unexplained is the heading of answers without a reason.
const unexplained = "# No reason yet."

// refusedType is the label of the line that stands for a whole type that a server refuses.
const refusedType = "create"

// line is an answer by its place: the type and the label.
type line struct{ section, label, answer string }

func (l *line) place() string { return l.section + ": " + l.label }

// linesOf returns the answers of a script.
func linesOf(script string) (all []line) {
	section := ""
	for l := range strings.Lines(script) {
		l = strings.TrimSuffix(l, "\n")
		if name, ok := strings.CutPrefix(l, "= "); ok {
			section = name
		} else if label, answer, ok := cut(l); ok {
			all = append(all, line{section, label, answer})
		}
	}
	return all
}

// cut divides a line into its label and its answer, which may be empty.
func cut(l string) (label, answer string, ok bool) {
	if label, ok = strings.CutSuffix(l, strings.TrimRight(given, " ")); ok {
		return label, "", true
	}
	return strings.Cut(l, given)
}

// explained is a line of the list of differences.
type explained struct{ reason, answer string }

// readDifferences reads the list: its reasons in their order, and its lines by their place.
func readDifferences(text string) (reasons []string, all map[string]explained) {
	all = map[string]explained{}
	reason := unexplained
	for l := range strings.Lines(text) {
		l = strings.TrimSuffix(l, "\n")
		if strings.HasPrefix(l, "# ") {
			if reason = l; l != unexplained {
				reasons = append(reasons, l)
			}
		} else if place, answer, ok := cut(l); ok {
			all[place] = explained{reason, answer}
		}
	}
	return reasons, all
}

// Compare returns the list of differences as it is now: each answer that is not the recorded one, below its reason. bad names the answers that have
// none, because the list does not have them, or has another answer in their place.
func Compare(recorded, now, differences string) (list string, bad []string) {
	reasons, known := readDifferences(differences)
	refused, answers := map[string]bool{}, map[string]string{}
	for _, l := range linesOf(now) {
		answers[l.place()] = l.answer
		refused[l.section] = refused[l.section] || l.label == refusedType
	}
	then := linesOf(recorded)
	was := map[string]string{}
	for _, l := range then {
		was[l.place()] = l.answer
		if _, ok := answers[l.place()]; !ok && !refused[l.section] {
			bad = append(bad, l.place()+": no answer")
		}
	}
	found := map[string][]string{}
	for _, l := range linesOf(now) {
		place := l.place()
		if answer, ok := was[place]; ok && answer == l.answer {
			continue
		}
		k, ok := known[place]
		if !ok || k.answer != l.answer || k.reason == unexplained {
			k.reason = unexplained
			bad = append(bad, fmt.Sprintf("%s\n     now: %s\n MariaDB: %s", place, l.answer, was[place]))
		}
		found[k.reason] = append(found[k.reason], strings.TrimRight(place+given+l.answer, " "))
	}
	var out strings.Builder
	for _, r := range append(reasons, unexplained) {
		if len(found[r]) > 0 {
			fmt.Fprintf(&out, "%s\n%s\n\n", r, strings.Join(found[r], "\n"))
		}
	}
	return out.String(), bad
}

// Count returns how many answers a script has.
func Count(script string) int { return len(linesOf(script)) }
