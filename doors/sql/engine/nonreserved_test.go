package engine

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// namePlaces are statements with a name in the place of %s.
var namePlaces = []string{
	"CREATE DATABASE %s",
	"CREATE DATABASE IF NOT EXISTS %s",
	"DROP DATABASE %s",
	"USE %s",
	"CREATE TABLE %s (id INT PRIMARY KEY)",
	"CREATE TABLE d.%s (id INT PRIMARY KEY)",
	"DROP TABLE %s",
	"TRUNCATE TABLE %s",
	"CREATE TABLE t (%s INT, id INT PRIMARY KEY, KEY (%s))",
	"CREATE TABLE t (id INT PRIMARY KEY, %s VARCHAR(10) NOT NULL)",
	"CREATE TABLE t (id INT PRIMARY KEY, KEY %s (id))",
	"CREATE INDEX %s ON t (id)",
	"CREATE INDEX i ON %s (id)",
	"SELECT %s FROM t",
	"SELECT t.%s FROM t",
	"SELECT id, %s, k FROM t",
	"SELECT * FROM %s",
	"SELECT * FROM %s WHERE id = 1",
	"SELECT %s.id FROM %s",
	"SELECT 1 AS %s",
	"SELECT id %s FROM t",
	"SELECT %s.id FROM t AS %s",
	"SELECT %s.id FROM t %s WHERE %s.id = 1",
	"SELECT id FROM t WHERE %s = 1 AND k > 2 ORDER BY %s",
	"SELECT COUNT(*) FROM t GROUP BY %s HAVING COUNT(*) > 1",
	"SELECT MAX(%s) FROM t",
	"INSERT INTO %s VALUES (1)",
	"INSERT INTO t (id, %s) VALUES (1, 2)",
	"INSERT INTO t (%s) VALUES (1)",
	"UPDATE t SET %s = 1 WHERE id = 2",
	"UPDATE %s SET k = 1",
	"DELETE FROM %s WHERE id = 1",
	"DELETE FROM t WHERE %s IN (1, 2)",
}

// refusedNames are words that a CREATE refuses with 1235 unless they have quotes: they begin clauses that this build does not have.
var refusedNames = []string{"encryption", "invisible", "key_block_size", "row_format", "tablespace"}

// options are words that are no names in a place: SELECT SQL_NO_CACHE is MySQL's own option, and INDEX DIRECTORY a clause that is refused.
var options = map[string][]string{"SELECT %s FROM t": {"sql_no_cache"}, "CREATE INDEX %s ON t (id)": {"directory"}}

// TestNamesThatAreNotReserved: every word that MySQL does not reserve is a name without quotes, in all places, and means the same as with quotes.
func TestNamesThatAreNotReserved(t *testing.T) {
	t.Parallel()
	e, mode := &Engine{}, sql.NewSqlModeFromString(defaultMode)
	words := []string{"comment_", "key1", "order_", "datum"}
	for word := range nonreserved() {
		words = append(words, word)
	}
	sort.Strings(words)
	failed := map[string][]string{}
	for _, word := range words {
		for _, place := range namePlaces {
			if strings.HasPrefix(place, "CREATE") && slices.Contains(refusedNames, word) || slices.Contains(options[place], word) {
				continue
			}
			text := strings.ReplaceAll(place, "%s", word)
			want, _, err := e.Parse(mode, strings.ReplaceAll(place, "%s", "`"+word+"`"))
			if err != nil {
				t.Fatal(place, err)
			}
			got, rest, err := e.Parse(mode, text)
			if err != nil || rest != "" || shown(got) != shown(want) {
				failed[place] = append(failed[place], word)
				if testing.Verbose() {
					t.Log(text, err)
				}
			}
		}
	}
	for _, place := range namePlaces {
		if len(failed[place]) > 0 {
			t.Errorf("%s: %d: %s", place, len(failed[place]), failed[place])
		}
	}
}

func shown(s *Statement) string {
	if s.ast == nil {
		return fmt.Sprint(s.check)
	}
	return strings.ReplaceAll(strings.ToLower(sqlparser.String(s.ast)), "`", "")
}

// TestPlaceOfASyntaxError: the place in 1064 is that of the client's text, whatever names were tried with quotes.
func TestPlaceOfASyntaxError(t *testing.T) {
	t.Parallel()
	e, mode := &Engine{}, sql.NewSqlModeFromString(defaultMode)
	for text, near := range map[string]string{
		"CREATE DATABASE slow nonsense here":             "nonsense here",
		"SELECT comment FROM slow WHERE\n id == 1":       "= 1",
		"SELECT * FROM slow nonsense2 nonsense3 WHERE 1": "nonsense3 WHERE 1",
	} {
		_, _, err := e.Parse(mode, text)
		if err == nil || !strings.Contains(err.Error(), "near '"+near+"' at line") {
			t.Errorf("%s: %v, want near %q", text, err, near)
		}
	}
}
