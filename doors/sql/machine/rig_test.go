package machine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/store"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
)

// rig drives one machine, which verifies.
type rig struct {
	*machinetest.Rig
	m *Machine
}

func newRig(t testing.TB) *rig { return openRig(t, store.NewMem()) }

func openRig(t testing.TB, st store.Store) *rig {
	t.Helper()
	m := NewVerifying()
	return &rig{machinetest.Open(t, st, m), m}
}

// apply applies one raft entry with one command per part.
func (r *rig) apply(parts ...*sqlpart.Part) []*entry.Result {
	r.T.Helper()
	return r.Apply(commands(parts...)...)
}

func commands(parts ...*sqlpart.Part) (all [][]entry.Part) {
	for _, p := range parts {
		all = append(all, machinetest.Command(sqlpart.Machine, sqlpart.AppendPart(nil, p)))
	}
	return all
}

// rejected is the code of a result, 0 of one that was applied.
func rejected(res *entry.Result) entry.Code {
	if res.Rejection == nil {
		return 0
	}
	return res.Rejection.Code
}

func define(changes ...sqlpart.Change) *sqlpart.Part {
	return &sqlpart.Part{Kind: sqlpart.Define, Changes: changes}
}

// define applies one Define and returns what it has created.
func (r *rig) define(changes ...sqlpart.Change) []uint64 {
	r.T.Helper()
	res := r.apply(define(changes...))[0]
	if res.Rejection != nil {
		r.T.Fatal(res.Rejection)
	}
	return res.Of(sqlpart.Machine).(*sqlpart.Defined).Created
}

// table returns a table by its names, or nil.
func (r *rig) table(database, name string) *Table {
	d := r.m.Catalogue().Database(database)
	if d == nil {
		return nil
	}
	return d.Table(name)
}

// world is a database "test" with a table "t", of an index that is public and one that is not.
func (r *rig) world() *Table {
	r.T.Helper()
	r.define(sqlpart.Change{Verb: sqlpart.CreateDatabase, Name: "test"},
		sqlpart.Change{Verb: sqlpart.CreateTable, Name: "t", Definition: []byte("columns"), Indexes: []sqlpart.Index{{ID: 1, State: sqlpart.Public},
			{ID: 2, State: sqlpart.Building}}})
	return r.table("test", "t")
}

func op(action sqlpart.Action, index uint64, key, value string) sqlpart.Op {
	return sqlpart.Op{Action: action, Index: index, Key: []byte(key), Value: []byte(value)}
}

// writes are those to one table, of its definition as it is.
func writes(t *Table, rows int64, all ...sqlpart.Op) sqlpart.Writes {
	w := sqlpart.Writes{Table: t.ID, Version: t.Version, Rows: rows}
	for i := range all {
		w.Ops = sqlpart.AppendOp(w.Ops, &all[i])
	}
	return w
}

func commit(all ...sqlpart.Writes) *sqlpart.Part {
	return &sqlpart.Part{Kind: sqlpart.Commit, Tables: all}
}

// rows prints the rows of an index: "a=1 b=2".
func (r *rig) rows(t *Table, index uint64) string {
	r.T.Helper()
	it, err := r.Store.NewIter(AppendPrefix(nil, t.ID, index), AppendEnd(nil, t.ID, index))
	if err != nil {
		r.T.Fatal(err)
	}
	defer it.Close()
	var all []string
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err == nil && index == 0 {
			_, v, err = Row(v)
		}
		if err != nil {
			r.T.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s=%s", it.Key()[PrefixBytes:], v))
	}
	return strings.Join(all, " ")
}
