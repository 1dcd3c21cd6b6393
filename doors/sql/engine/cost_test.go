package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
	"github.com/holdfastdb/holdfast/internal/spent"
)

// manyOf is a list of n equal elements.
func manyOf(n int, one string) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }

// TestAStatementOfTooManyTokensIsNotParsed: what the parser makes of a packet is a hundred times as long, so it is counted before, at the price of reading
// the text.
func TestAStatementOfTooManyTokensIsNotParsed(t *testing.T) {
	e := &Engine{}
	mode := sql.NewSqlModeFromString("")
	const all = 4 << 20
	for what, text := range map[string]string{
		"names":        "SELECT " + manyOf(all/2, "a"),
		"a long IN":    "SELECT * FROM t WHERE a IN (" + manyOf(all/2, "1") + ")",
		"rows":         "INSERT INTO t VALUES " + manyOf(all/4, "(1)"),
		"parentheses":  "SELECT " + strings.Repeat("(", all/2) + "1" + strings.Repeat(")", all/2),
		"additions":    "SELECT 1" + strings.Repeat("+1", all/2),
		"parameters":   "SELECT " + manyOf(all/2, "?"),
		"no SQL":       strings.Repeat("x ", all/2),
		"empty quotes": "SELECT " + manyOf(all/3, "''"),
	} {
		spent.Within(t, what, len(text), func() {
			_, _, err := e.Parse(mode, text)
			if told := (*wire.Error)(nil); !errors.As(err, &told) || told.Code != wire.ErrOutOfMemory {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	for what, text := range map[string]string{
		"a text":                  "SELECT '" + strings.Repeat("a,", all/2) + "'",
		"a comment":               "SELECT 1 /* " + strings.Repeat("a,", all/2) + "*/",
		"parameters":              "SELECT " + manyOf(65535, "?"),
		"a dump":                  "INSERT INTO t VALUES " + manyOf(20_000, "(1,'a name of somebody','and a longer text, with words',2.5)"),
		"statements":              "SELECT 1;" + strings.Repeat("SELECT 1;", all/9),
		"as many as there may be": "SELECT " + manyOf(leastParsed/tokenBytes/2-2, "a"),
	} {
		if _, _, err := e.Parse(mode, text); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
