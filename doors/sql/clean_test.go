package sql

import (
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
)

// TestAnIndexThatWasLeftHalfBuilt by a leader that died, and of whose goal the table has no note, is read by nobody, and a new leader drops it: its name is free again. A statement that defines does so
// too: nobody else builds the index while the statement has the definition locked.
func TestAnIndexThatWasLeftHalfBuilt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.connect("test")
	r.exec(c, "CREATE TABLE t (id INT PRIMARY KEY, k INT, KEY half (k))")
	r.exec(c, "INSERT INTO t VALUES (1, 5), (2, 6)")
	left := func() {
		t.Helper()
		table := r.m.Catalogue().Database("test").Table("t")
		part := sqlpart.Part{Kind: sqlpart.Define, Changes: []sqlpart.Change{{Verb: sqlpart.AlterTable, Object: table.ID, Version: table.Version,
			Database: table.Database, Name: table.Name, Definition: table.Definition, Indexes: []sqlpart.Index{{ID: table.Indexes[0].ID, State: sqlpart.Building}}}}}
		if res := r.rig.Apply(machinetest.Command(sqlpart.Machine, sqlpart.AppendPart(nil, &part)))[0]; res.Rejection != nil {
			t.Fatal(res.Rejection)
		}
		if got, err := query(c, "SHOW INDEX FROM t"); strings.Contains(got, "half") {
			t.Errorf("%q %v", got, err)
		}
	}
	left()
	r.exec(c, "CREATE INDEX half ON t (k)")
	left()
	if became := r.clean(); len(became) != 1 || became["test.t"] == nil {
		t.Errorf("an index of which nothing is known has become %v", became)
	}
	r.exec(c, "CREATE INDEX half ON t (k)")
	if got, err := query(c, "SELECT COUNT(*), SUM(k) FROM t FORCE INDEX (half) WHERE k > 0"); got != "2|11\n" {
		t.Errorf("%q %v", got, err)
	}
}
