package sql

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestAKeyThatItsColumnCannotHaveReadsNothing: comparisons with numbers beyond a column's, and with texts that are longer, find what they find without an index,
// read no other rows, and lock no others.
func TestAKeyThatItsColumnCannotHaveReadsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	planner := r.another(func(o *Options) { o.NoExecutor = true })
	c, looker := r.connectTo(planner, "test"), r.connectTo(planner, "test")
	r.exec(c, "CREATE TABLE t (id INT PRIMARY KEY, s SMALLINT UNSIGNED, b BIGINT, u BIGINT UNSIGNED, d DECIMAL(5,2), v VARCHAR(3), KEY (s), KEY (b), KEY (u), KEY (d), KEY (v))")
	r.exec(c, `INSERT INTO t VALUES (-2147483648, 0, -9223372036854775808, 0, -999.99, 'a'), (2147483647, 65535, 9223372036854775807, 18446744073709551615, 999.99, 'zzz'),
		(1, NULL, NULL, NULL, NULL, NULL), (5, 5, 5, 5, 5, 'b'), (6, 6, 6, 6, 1.01, 'c'), (7, 7, 7, 7, 1, 'd')`)
	for column, values := range map[string][]string{ // any order: each is by itself; NULL is the third row
		"id": {"-2147483648", "2147483647", "1", "5", "6", "7"},
		"s":  {"0", "65535", "", "5", "6", "7"},
		"b":  {"-9223372036854775808", "9223372036854775807", "", "5", "6", "7"},
		"u":  {"0", "18446744073709551615", "", "5", "6", "7"},
		"d":  {"-999.99", "999.99", "", "5", "1.01", "1"},
	} {
		for _, value := range []string{"9223372036854775808", "1099511627776", "-1099511627776", "-9223372036854775809", "18446744073709551616", "1e30", "-1e30", "1.005", "5.00",
			"-1", "100000", "2147483648", "2147483647", "9223372036854775807e0", "9223372036854775808e0", "-999.995"} {
			for form, holds := range ofNumbers { // any order: each is by itself
				want := "\n"
				for i, v := range values {
					if v != "" && holds(cmpNumbers(v, value), cmpNumbers(v, "6")) || v == "" && strings.HasSuffix(form, "IS NULL") {
						want += []string{"-2147483648", "2147483647", "1", "5", "6", "7"}[i] + "\n"
					}
				}
				lines := strings.Split(strings.TrimSuffix(want, "\n"), "\n")
				slices.Sort(lines)
				where := strings.NewReplacer("x", column, "v", value).Replace(form)
				if got := withoutWarnings(answer(c, "SELECT id FROM t WHERE "+where, nil)); got != strings.Join(lines, "\n") {
					t.Errorf("%s: %q, want %q", where, got, lines)
				}
			}
		}
	}
	for _, form := range []string{"x = 'y'", "x < 'y'", "x <= 'y'", "x > 'y'", "x >= 'y'", "x IN ('c', 'y')", "x BETWEEN 'y' AND 'c'"} {
		for _, value := range []string{"zzzz", "aa", "aaaaaa", "b", "baaaaaa", "c  "} {
			where := strings.NewReplacer("x", "v", "y", value).Replace(form)
			oracle := strings.NewReplacer("x", "CONCAT(v, '')", "y", value).Replace(form)
			if got, want := answer(c, "SELECT id FROM t WHERE "+where, nil), answer(c, "SELECT id FROM t WHERE "+oracle, nil); got != want {
				t.Errorf("%s: %q, and by the expression %q", where, got, want)
			}
		}
	}
	for _, of := range []struct {
		where string
		args  []any
		most  int // rows
	}{
		{"id = 9223372036854775808", nil, 0},
		{"id = 1099511627776", nil, 0},
		{"id > 1099511627776", nil, 0},
		{"id >= -1099511627776 AND id < -1099511627776", nil, 0},
		{"id IN (5, 1099511627776)", nil, 1},
		{"id IN (5, 9223372036854775808)", nil, 1},
		{"id BETWEEN 6 AND 9223372036854775808", nil, 3},
		{"b = 9223372036854775808", nil, 0},
		{"u > 18446744073709551616", nil, 0},
		{"u < -1", nil, 0},
		{"s = -1", nil, 0},
		{"s BETWEEN 100000 AND 200000", nil, 0},
		{"d = 1.005", nil, 0},
		{"d > 1000", nil, 0},
		{"d BETWEEN 1.005 AND 4.999", nil, 1},
		{"v = 'aaaaaa'", nil, 0},
		{"v BETWEEN 'aaaaa' AND 'aaaab'", nil, 0},
		{"id = ?", []any{int64(1) << 40}, 0},
		{"id = ?", []any{uint64(1) << 63}, 0},
		{"id > ?", []any{int64(1) << 40}, 0},
		{"id < ?", []any{-int64(1) << 40}, 0},
		{"id IN (?, ?)", []any{5, int64(1) << 40}, 1},
		{"id BETWEEN ? AND ?", []any{int64(1) << 40, int64(1) << 41}, 0},
		{"s = ?", []any{100000}, 0},
		{"v = ?", []any{"aaaaaa"}, 0},
	} {
		for _, text := range []string{"SELECT * FROM t WHERE " + of.where, "SELECT * FROM t WHERE " + of.where + " FOR UPDATE", "UPDATE t SET v = 'x' WHERE " + of.where, "DELETE FROM t WHERE " + of.where} {
			for n := range 2 { // the second time by a kept plan
				tx, err := c.BeginTx(context.Background(), nil)
				if err != nil {
					t.Fatal(err)
				}
				before := rowsRead(t, c)
				if _, err := tx.ExecContext(context.Background(), text, of.args...); err != nil {
					t.Fatal(text, err)
				}
				if read := rowsRead(t, c) - before; read > of.most {
					t.Errorf("%s %v, execution %d: %d rows are read, want %d", text, of.args, n, read, of.most)
				}
				locks, err := query(looker, "SELECT COUNT(*) FROM holdfast.locks WHERE lock_type = 'row' AND index_name = 'PRIMARY'")
				if err != nil {
					t.Fatal(err)
				}
				if want := fmt.Sprint("\n", of.most); strings.HasPrefix(text, "SELECT") && !strings.HasSuffix(text, "UPDATE") && strings.TrimSpace(locks) != "0" ||
					strings.TrimSpace(locks) > strings.TrimSpace(want) {
					t.Errorf("%s %v, execution %d: %s rows are locked, want %d", text, of.args, n, strings.TrimSpace(locks), of.most)
				}
				if err := tx.Rollback(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// ofNumbers are conditions on a number x, a constant v, and 6, and when they hold: by how x compares with v, and with 6.
var ofNumbers = map[string]func(v, six int) bool{
	"x = v": func(v, _ int) bool { return v == 0 }, "x <> v": func(v, _ int) bool { return v != 0 }, "x <=> v": func(v, _ int) bool { return v == 0 },
	"x < v": func(v, _ int) bool { return v < 0 }, "x <= v": func(v, _ int) bool { return v <= 0 },
	"x > v": func(v, _ int) bool { return v > 0 }, "x >= v": func(v, _ int) bool { return v >= 0 },
	"v > x": func(v, _ int) bool { return v < 0 }, "v <= x": func(v, _ int) bool { return v >= 0 },
	"NOT (x > v)": func(v, _ int) bool { return v <= 0 }, "NOT (x = v)": func(v, _ int) bool { return v != 0 },
	"x BETWEEN v AND 6":     func(v, six int) bool { return v >= 0 && six <= 0 },
	"x BETWEEN 6 AND v":     func(v, six int) bool { return six >= 0 && v <= 0 },
	"x NOT BETWEEN v AND 6": func(v, six int) bool { return v < 0 || six > 0 },
	"x IN (6, v)":           func(v, six int) bool { return v == 0 || six == 0 },
	"x IN (v, v)":           func(v, _ int) bool { return v == 0 },
	"x NOT IN (6, v)":       func(v, six int) bool { return v != 0 && six != 0 },
	"(x = v OR x = 6)":      func(v, six int) bool { return v == 0 || six == 0 },
	"(x < v) IS NULL":       func(_, _ int) bool { return false },
}

// cmpNumbers compares a column's number with a constant: as floats, where the constant has an exponent.
func cmpNumbers(a, constant string) int {
	if strings.Contains(constant, "e") {
		x, _ := strconv.ParseFloat(a, 64)        // digits
		y, _ := strconv.ParseFloat(constant, 64) // digits
		return cmp.Compare(x, y)
	}
	x, _ := new(big.Rat).SetString(a)        // digits
	y, _ := new(big.Rat).SetString(constant) // digits
	return x.Cmp(y)
}

// rowsRead is how many rows the session's statements have read.
func rowsRead(t *testing.T, c *sql.Conn) (n int) {
	t.Helper()
	var name string
	if err := c.QueryRowContext(context.Background(), "SHOW STATUS LIKE 'Handler_read_rnd_next'").Scan(&name, &n); err != nil {
		t.Fatal(err)
	}
	return n
}
