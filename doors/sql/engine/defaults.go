package engine

import (
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/information_schema"
)

// The library prints defaults in information_schema.columns with the quotes of SQL, and a DATE with a time of day.

// columnDefault is the place of COLUMN_DEFAULT in a row, behind the columns that name what it is the default of.
const columnDefault = 5

// The places of EXTRA and GENERATION_EXPRESSION.
const (
	columnExtra     = 17
	columnGenerated = 20
)

var ownColumns sync.Once

func newInformationSchema() sql.Database {
	ownColumns.Do(func() {
		made := information_schema.NewColumnsTable
		information_schema.NewColumnsTable = func() *information_schema.ColumnsTable {
			t := made()
			rows := t.RowIter
			t.RowIter = func(c *sql.Context, catalog sql.Catalog, all sql.Schema) (sql.RowIter, error) {
				inner, err := rows(c, catalog, all)
				if err != nil {
					return nil, err
				}
				return withDefaults(c, inner, all)
			}
			return t
		}
	})
	return information_schema.NewInformationSchemaDatabase()
}

// withDefaults are the rows of information_schema.columns with each default as MySQL shows it.
func withDefaults(c *sql.Context, rows sql.RowIter, all sql.Schema) (sql.RowIter, error) {
	columns := map[[3]string]*sql.Column{}
	for _, column := range all {
		columns[[3]string{strings.ToLower(column.DatabaseSource), strings.ToLower(column.Source), strings.ToLower(column.Name)}] = column
	}
	var fixed []sql.Row
	for {
		r, err := rows.Next(c)
		if errors.Is(err, io.EOF) {
			return sql.RowsToRowIter(fixed...), rows.Close(c)
		}
		if err != nil {
			return nil, errors.Join(err, rows.Close(c))
		}
		var name [3]string
		for i := range name {
			text, _ := r[i+1].(string)
			name[i] = strings.ToLower(text)
		}
		if column := columns[name]; column != nil && column.Default != nil && column.Default.IsLiteral() && r[columnDefault] != nil {
			text, null, err := literalDefault(c, column)
			if err != nil {
				return nil, errors.Join(err, rows.Close(c))
			}
			if r[columnDefault] = text; null {
				r[columnDefault] = nil
			}
		}
		if text, ok := r[columnExtra].(string); ok && strings.Contains(text, " GENERATED") {
			r[columnGenerated] = generatedText(c, name)
		}
		fixed = append(fixed, r)
	}
}
