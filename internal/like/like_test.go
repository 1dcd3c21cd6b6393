package like

import (
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, pattern string
		want          bool
	}{
		{"", "", true}, {"a", "", false}, {"", "%", true}, {"", "_", false}, {"abc", "abc", true}, {"abc", "ab", false}, {"ab", "abc", false},
		{"abc", "a%", true}, {"abc", "%c", true}, {"abc", "%b%", true}, {"abc", "%d%", false}, {"abc", "a_c", true}, {"abc", "a__c", false},
		{"a%c", `a\%c`, true}, {"abc", `a\%c`, false}, {"a_c", `a\_c`, true}, {"abab", "%ab", true}, {"aab", "%ab", true}, {"abcabd", "%ab_", true},
		{"threads_connected", "threads%", true}, {"threads_connected", "%_connected", true}, {`a\`, `a\`, true}, {"abc", "%%%", true},
		{"größe", "gr__e", true}, {"größe", "%ß_", true}, {"é", "_", true},
	} {
		if got := Match(c.name, c.pattern); got != c.want {
			t.Errorf("%q LIKE %q: %v", c.name, c.pattern, got)
		}
	}
	if Match(strings.Repeat("a", 64), strings.Repeat("%a", 60)+"b") { // a search that tries all ways does not end
		t.Error("it has no b")
	}
}
