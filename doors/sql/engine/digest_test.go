package engine

import (
	"strings"
	"testing"
)

// TestDigests: statements that differ in their values alone have one digest, and no value is in it.
func TestDigests(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"SELECT c FROM sbtest1 WHERE id=42":                                         "SELECT c FROM sbtest1 WHERE id = ?",
		"select  c\nfrom t -- a comment\nwhere a in (1, -2,3.5e-7, 'x''y') /* z */": "select c from t where a in (...)",
		"INSERT INTO t (a, b) VALUES (1,'hush'),(2, x'1F'), (NULL, 0xFF)":           "INSERT INTO t (a, b) VALUES (...), (NULL, ?)",
		"INSERT INTO t VALUES (1,'a'),(2,'b'),(3,\"c\")":                            "INSERT INTO t VALUES (...)",
		"SELECT `a b`.c1, COUNT(*) FROM `a b` WHERE x > .5 AND y=?":                 "SELECT `a b`.c1, COUNT (*) FROM `a b` WHERE x > ? AND y = ?",
		"SET @x = 'secret', @@sql_mode=\"\"":                                        "SET @x = ?, @@sql_mode = ?",
		"SELECT f(1), f()":                                                          "SELECT f (...), f ()",
		"SELECT _utf8mb4'hush', n'hush', 1.5, -7":                                   "SELECT ?, ?, ?, ?",
		"SELECT a-1, -b FROM t WHERE a=-1 AND b IN (-1, +2)":                        "SELECT a - ?, - b FROM t WHERE a = ? AND b IN (...)",
		"SELECT 'not closed":                                                        "SELECT ?",
		"SELECT 1 # to the end":                                                     "SELECT ?",
		"XA COMMIT 'a','b',3":                                                       "XA COMMIT ?, ?, ?",
		"":                                                                          "",
	} { // any order: each is on its own
		if got := digestOf(text, false, false); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
	if got := digestOf(`SELECT "a" FROM t`, true, false); got != `SELECT "a" FROM t` {
		t.Errorf("with names in double quotes: %s", got)
	}
	if got := digestOf(`SELECT 'a\', 'hush', "b\", "c"`, false, true); got != "SELECT ?, ?, ?, ?" {
		t.Errorf("where a backslash is a letter: %s", got)
	}
	long := "SELECT " + strings.Repeat("aé,", 2000)
	if got := digestOf(long, false, false); len(got) > digestShown || !strings.HasPrefix(got, "SELECT aé, aé") {
		t.Errorf("a long one has %d bytes: %.40s", len(got), got)
	}
	if got := digestOf("INSERT INTO t VALUES ('"+strings.Repeat("x", 1<<20)+"')", false, false); got != "INSERT INTO t VALUES (?" {
		t.Errorf("of a large value: %.40s", got)
	}
}

// FuzzDigests: nothing that stands in quotes is in a digest.
func FuzzDigests(f *testing.F) {
	f.Add("SELECT 'a', 1 FROM t", "hush")
	f.Fuzz(func(t *testing.T, text, value string) {
		_ = digestOf(text, false, false)
		const mark = "qqhushqq"
		if strings.ContainsAny(text, "'\"`#/-\\") {
			return
		}
		if got := digestOf(text+" '"+mark+strings.NewReplacer("'", "''", "\\", "\\\\").Replace(value)+"'", false, false); strings.Contains(got, mark) {
			t.Errorf("%q shows a value", got)
		}
	})
}
