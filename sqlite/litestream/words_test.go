package litestream

import (
	"slices"
	"strings"
	"testing"
)

func TestACommandLineIsTakenApartAsAShellDoes(t *testing.T) {
	for line, want := range map[string][]string{
		"rails server -p 3000":           {"rails", "server", "-p", "3000"},
		"  a\t b\n":                      {"a", "b"},
		`sh -c 'a; b | "c"' x`:           {"sh", "-c", `a; b | "c"`, "x"},
		`a "" '' b\ c "d\"e" 'f\g' h"i"`: {"a", "", "", "b c", `d"e`, `f\g`, "hi"},
		`a $HOME "$HOME" "\$x" "\n"`:     {"a", "$HOME", "$HOME", "$x", `\n`},
	} {
		got, err := words(line)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", line, got, err)
		}
	}
	for line, want := range map[string]string{"": "it is empty", "''x'": "is not closed", `a "b`: "is not closed", `a\`: "ends with a backslash",
		"a && b": "& is for a shell", "a | b": "| is for a shell", "a > b": "> is for a shell", "a `b`": "` is for a shell"} {
		if got, err := words(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v", line, got, err)
		}
	}
}

func FuzzWords(f *testing.F) {
	f.Add(`a "b\"c" 'd' e\ f`)
	f.Fuzz(func(t *testing.T, line string) {
		got, err := words(line)
		if err != nil {
			return
		}
		var quoted []string
		for _, w := range got {
			quoted = append(quoted, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
		}
		if again, err := words(strings.Join(quoted, " ")); err != nil || !slices.Equal(again, got) {
			t.Errorf("%q: %q, quoted %q, %v", line, got, again, err)
		}
	})
}
