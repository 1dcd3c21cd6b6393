package engine

import (
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// The library compares the row before a statement and the row behind it to see a change, by the collations of the columns. In these 'a' is 'A':
// MySQL compares bytes. So while a statement that writes is made ready to run, the columns of its tables have collations that compare characters.

// byCharacters is a type of texts with the collation that compares their characters. ok false: the type has it, or is none of texts.
func byCharacters(t sql.Type) (exact sql.Type, ok bool, err error) {
	text, is := t.(sql.TypeWithCollation)
	if !is || !types.IsTextOnly(t) {
		return t, false, nil
	}
	id := text.Collation().CharacterSet().BinaryCollation()
	if id == text.Collation() {
		return t, false, nil
	}
	exact, err = text.WithNewCollation(id)
	return exact, err == nil, err
}

// columnsByCharacters are columns whose texts compare by their characters. some false: all of them do already.
func columnsByCharacters(columns sql.Schema) (exact sql.Schema, some bool, err error) {
	exact = slices.Clone(columns)
	for i, c := range columns {
		t, ok, err := byCharacters(c.Type)
		if err != nil {
			return nil, false, err
		}
		if ok {
			column := *c
			column.Type = t
			exact[i], some = &column, true
		}
	}
	return exact, some, nil
}

// compareExactly makes the columns by which an UPDATE finds the rows that it changes.
func (t *table) compareExactly() error {
	exact, some, err := columnsByCharacters(t.schema.Schema[:len(t.def.columns)])
	if some {
		t.exactly = exact
	}
	return err
}

// exactColumns are the columns of a table in a statement, with texts that compare by their characters.
func (t *tableView) exactColumns() sql.Schema {
	n := len(t.exactly)
	return append(t.exactly[:n:n], t.columns.Schema[n:]...)
}

// comparingJoined has an UPDATE of several tables ask for their columns anew: aliases keep those that they were asked for before, and projections have the
// types of their expressions.
func comparingJoined(c *sql.Context, n sql.Node) (sql.Node, error) {
	n, _, err := transform.Node(c, n, func(c *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
		switch a := n.(type) {
		case *plan.TableAlias:
			n, err := a.WithChildren(c, a.Child)
			return n, transform.NewTree, err
		case *plan.Project:
			exact, some, err := projectedByCharacters(c, a.Projections)
			if err != nil || !some {
				return n, transform.SameTree, err
			}
			n, err := a.WithExpressions(c, exact...)
			return n, transform.NewTree, err
		}
		return n, transform.SameTree, nil
	})
	return n, err
}

// projectedByCharacters are columns that a projection passes on, with texts that compare by their characters. some false: all of them do already.
func projectedByCharacters(c *sql.Context, all []sql.Expression) (exact []sql.Expression, some bool, err error) {
	exact = slices.Clone(all)
	for i, e := range all {
		f, ok := e.(*expression.GetField)
		if !ok {
			continue
		}
		t, ok, err := byCharacters(f.Type(c))
		if err != nil {
			return nil, false, err
		}
		if ok {
			exact[i], some = expression.NewGetFieldWithTable(f.Index(), int(f.TableId()), t, f.Database(), f.Table(), f.Name(), f.IsNullable(c)), true
		}
	}
	return exact, some, nil
}

// comparingUpserted has INSERT … ON DUPLICATE KEY UPDATE compare the row that it changes by characters.
func comparingUpserted(c *sql.Context, n sql.Node) (sql.Node, error) {
	n, _, err := transform.Node(c, n, func(c *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
		into, ok := n.(*plan.InsertInto)
		if !ok || !into.OnDupExprs.HasUpdates() {
			return n, transform.SameTree, nil
		}
		to, ok := into.Destination.(*plan.InsertDestination)
		if !ok {
			return n, transform.SameTree, nil
		}
		exact, some, err := columnsByCharacters(to.Sch)
		if err != nil || !some {
			return n, transform.SameTree, err
		}
		own := *to
		own.Sch = exact
		n, err = into.WithChildren(c, &own)
		return n, transform.NewTree, err
	})
	return n, err
}
