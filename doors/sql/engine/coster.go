package engine

import (
	"math"
	"reflect"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/memo"
)

// coster is the planner's estimate of what a plan costs, with better guesses of how many rows the range of an index has. Without statistics the
// library takes half a table for every range, and joined twenty orders' lines with a table of a hundred thousand rows by reading all of that.
type coster struct{ memo.Coster }

// The library's factors of cost (memo/coster.go): they are not exported, and what is compared must be in one measure.
const (
	cpuFactor      = 0.01
	seqFactor      = 1.0
	randFactor     = 1.3
	memFactor      = 2.0
	lookupScalar   = 200.0
	rangeOfColumn  = 1.0 / 3 // of the rows that are left, those between two bounds of a column
	mostIndexParts = 16
)

// EstimateCost implements memo.Coster.
func (k coster) EstimateCost(c *sql.Context, e memo.RelExpr, s sql.StatsProvider) (float64, error) {
	switch j := e.(type) {
	case *memo.LookupJoin:
		if !j.Injective {
			break
		}
		left, right := rowsOf(c, j.Left), rowsOf(c, j.Right)
		// The whole left side, and one row of the right side for each of its rows.
		return left*seqFactor*(1+math.Log(right)/lookupScalar) + left*(randFactor+seqFactor), nil
	case *memo.HashJoin:
		if j.Op.IsPartial() {
			break
		}
		left, right := rowsOf(c, j.Left), rowsOf(c, j.Right)
		card := math.Min(math.Max(1, float64(j.Group().RelProps.GetStats().RowCount())), left*right)
		return left*(seqFactor+cpuFactor) + right*(seqFactor+memFactor) + card*cpuFactor, nil
	}
	return k.Coster.EstimateCost(c, e, s)
}

// rowsOf is about how many rows a part of a plan has, 1 at least.
func rowsOf(c *sql.Context, g *memo.ExprGroup) float64 {
	rows := math.Max(1, float64(g.RelProps.GetStats().RowCount()))
	switch e := g.Best.(type) {
	case *memo.IndexScan:
		return math.Min(rows, scanned(c, e, rows))
	case *memo.Filter:
		return math.Min(rows, rowsOf(c, e.Child))
	case *memo.LookupJoin:
		if e.Injective {
			return math.Min(rows, rowsOf(c, e.Left))
		}
	}
	return rows
}

// scanned is about how many rows the ranges of an index have. Every column of the index is taken to divide the rows alike: of a million rows and four
// columns, one value of the first leaves 31,623, and a range of the second a third of that.
func scanned(c *sql.Context, e *memo.IndexScan, most float64) float64 {
	if !e.Table.IsStatic() {
		return most
	}
	lookup, _, err := e.Table.GetLookup(c, nil)
	if err != nil {
		return most
	}
	ranges, ok := lookup.Ranges.(sql.MySQLRangeCollection)
	table, isTable := e.Table.UnderlyingTable().(sql.StatisticsTable)
	if !ok || !isTable {
		return most
	}
	all, _, err := table.RowCount(c)
	if err != nil {
		return most
	}
	columns := min(len(lookup.Index.Expressions()), mostIndexParts)
	if !lookup.Index.IsUnique() {
		columns++ // the primary key behind them
	}
	rows := 0.0
	for _, r := range ranges {
		rows += part(r, float64(max(all, 1)), columns)
	}
	return math.Max(1, math.Min(rows, most))
}

// isOne reports whether a column's range is one value.
func isOne(r sql.MySQLRangeColumnExpr) bool {
	switch r.Type() {
	case sql.RangeType_EqualNull:
		return true
	case sql.RangeType_ClosedClosed:
		return reflect.DeepEqual(sql.GetMySQLRangeCutKey(r.LowerBound), sql.GetMySQLRangeCutKey(r.UpperBound))
	}
	return false
}

// part is about how many of so many rows one range has.
func part(r sql.MySQLRange, all float64, columns int) float64 {
	left := 1.0
	for _, column := range r {
		if isOne(column) {
			left *= math.Pow(all, -1/float64(columns))
			continue
		}
		if column.HasLowerBound() || column.HasUpperBound() {
			left *= rangeOfColumn
		}
		break
	}
	return all * left
}
