package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/holdfastdb/holdfast/internal/spent"
)

func TestAStatementCosts(t *testing.T) {
	const all = 1 << 20
	e := &Engine{}
	mode := sql.LoadSqlMode
	_ = mode
	for what, text := range map[string]string{
		"a long IN":            "SELECT * FROM t WHERE a IN (" + strings.TrimSuffix(strings.Repeat("1,", all/2), ",") + ")",
		"many rows":            "INSERT INTO t VALUES " + strings.TrimSuffix(strings.Repeat("(1),", all/4), ","),
		"parentheses":          "SELECT " + strings.Repeat("(", all/2) + "1" + strings.Repeat(")", all/2),
		"a few parentheses":    "SELECT " + strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000),
		"a text":               "SELECT '" + strings.Repeat("x", all) + "'",
		"parameters":           "SELECT " + strings.TrimSuffix(strings.Repeat("?,", 65535), ","),
		"additions":            "SELECT 1" + strings.Repeat("+1", all/2),
		"blanks":               "SELECT " + strings.Repeat(" ", all) + "1",
		"a comment":            "SELECT /* " + strings.Repeat("x", all) + " */ 1",
		"names":                "SELECT " + strings.TrimSuffix(strings.Repeat("a,", all/2), ","),
		"no SQL":               strings.Repeat("x ", all/2),
		"semicolons":           strings.Repeat(";", all),
		"a KILL":               "KILL " + strings.Repeat("1", all),
		"a USE":                "USE " + strings.Repeat("a", all),
		"quotes that are left": "SELECT '" + strings.Repeat(`\'`, all/2),
	} {
		m := sql.NewSqlModeFromString("")
		spent.Within(t, what, len(text), func() { _, _, _ = e.Parse(m, text) })
		fmt.Println(what, "done")
	}
}
