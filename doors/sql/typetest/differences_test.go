package typetest

import (
	"strings"
	"testing"
)

// TestCompareFinds: an answer that is another, is missing or has no reason is found, and one with a reason is not.
func TestCompareFinds(t *testing.T) {
	t.Parallel()
	const recorded = "# head\n\n= INT\ncolumn INT\nv 1 => 1 / 1\nv 2 => 2 / 2\norder =>\n"
	for name, c := range map[string]struct {
		now, differences string
		bad              int
		list             string
	}{
		"same":             {recorded, "", 0, ""},
		"another":          {strings.Replace(recorded, "2 / 2", "3 / 2", 1), "", 1, unexplained + "\nINT: v 2 => 3 / 2\n\n"},
		"with a reason":    {strings.Replace(recorded, "2 / 2", "3 / 2", 1), "# Why.\nINT: v 2 => 3 / 2\n", 0, "# Why.\nINT: v 2 => 3 / 2\n\n"},
		"changed since":    {strings.Replace(recorded, "2 / 2", "4 / 2", 1), "# Why.\nINT: v 2 => 3 / 2\n", 1, unexplained + "\nINT: v 2 => 4 / 2\n\n"},
		"no longer":        {recorded, "# Why.\nINT: v 2 => 3 / 2\n", 0, ""},
		"missing":          {strings.Replace(recorded, "v 2 => 2 / 2\n", "", 1), "", 1, ""},
		"refused type":     {"# head\n\n= INT\ncreate => error 1235\n", "# Why.\nINT: create => error 1235\n", 0, "# Why.\nINT: create => error 1235\n\n"},
		"still unresolved": {strings.Replace(recorded, "2 / 2", "3 / 2", 1), unexplained + "\nINT: v 2 => 3 / 2\n", 1, unexplained + "\nINT: v 2 => 3 / 2\n\n"},
	} {
		list, bad := Compare(recorded, c.now, c.differences)
		if len(bad) != c.bad || list != c.list {
			t.Errorf("%s: %d bad, %v, list %q", name, len(bad), bad, list)
		}
	}
}

// TestDifferencesAreKnown: the list that is built in has a reason for each line.
func TestDifferencesAreKnown(t *testing.T) {
	t.Parallel()
	reasons, all := readDifferences(Differences)
	if len(reasons) == 0 || len(all) == 0 {
		t.Fatal("no differences are built in")
	}
	for place, x := range all { // any order: each is looked at
		if x.reason == unexplained {
			t.Errorf("%s has no reason", place)
		}
	}
}
