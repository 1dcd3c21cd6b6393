package main

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// lines reads a result, each row as its values with bars between.
func (c *client) lines(text string) (all []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	rows, err := c.QueryContext(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	values, into := make([]sql.NullString, len(names)), make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		var line strings.Builder
		for i, v := range values {
			if i > 0 {
				line.WriteByte('|')
			}
			if v.Valid {
				line.WriteString(v.String)
			} else {
				line.WriteString("NULL")
			}
		}
		all = append(all, line.String())
	}
	return all, rows.Err()
}

// checkTables has the server check tables. Each must be OK.
func (c *client) checkTables(names ...string) error {
	lines, err := c.lines("CHECK TABLE " + strings.Join(names, ", "))
	if err != nil {
		return err
	}
	if len(lines) != len(names) {
		return fmt.Errorf("CHECK TABLE of %d tables answers %q", len(names), lines)
	}
	for _, l := range lines {
		if !strings.HasSuffix(l, "|check|status|OK") {
			return fmt.Errorf("CHECK TABLE: %s", l)
		}
	}
	return nil
}

// index names one index of a table, and a condition that every row meets and that is read by the index.
type index struct{ name, all string }

// contents returns the rows of a table in the order of its primary key. It fails where an index leads to other rows.
func (c *client) contents(table, primary string, indexes ...index) ([]string, error) {
	rows, err := c.lines("SELECT * FROM " + table + " ORDER BY " + primary)
	if err != nil {
		return nil, err
	}
	sorted := slices.Sorted(slices.Values(rows))
	for _, x := range indexes {
		text := fmt.Sprintf("SELECT * FROM %s FORCE INDEX (%s) WHERE %s", table, x.name, x.all)
		key, err := c.keyOf(text)
		if err != nil {
			return nil, err
		}
		if key != x.name {
			return nil, fmt.Errorf("%s is read by %q, where %s is forced", table, key, x.name)
		}
		by, err := c.lines(text)
		if err != nil {
			return nil, err
		}
		slices.Sort(by)
		if err := sameLines(by, sorted); err != nil {
			return nil, fmt.Errorf("%s by %s and by its primary key: %w", table, x.name, err)
		}
	}
	return rows, nil
}

// sameLines fails with the first line in which two results differ.
func sameLines(now, then []string) error {
	for i := range max(len(now), len(then)) {
		a, b := "nothing", "nothing"
		if i < len(now) {
			a = now[i]
		}
		if i < len(then) {
			b = then[i]
		}
		if a != b {
			return fmt.Errorf("row %d is %s, and %s is due; %d rows, where %d are due", i+1, a, b, len(now), len(then))
		}
	}
	return nil
}
