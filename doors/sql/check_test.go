package sql

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
)

// TestCheckTableNamesWhatIsWrong: an entry that is missing, one too many, one that leads elsewhere, and a row under another key.
func TestCheckTableNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	const ok = "test.t|check|status|OK\n"
	for name, damage := range map[string]struct {
		do   func(d *damaged)
		says []string
	}{
		"nothing": {func(*damaged) {}, nil},
		"an entry is missing": {func(d *damaged) { d.remove(1, 1) },
			[]string{"index by_k does not lead to row 1", "index by_k has 2 entries, and the table 3 rows"}},
		"an entry of a unique index is missing": {func(d *damaged) { d.remove(2, 0) },
			[]string{"index one does not lead to row 1", "index one has 2 entries, and the table 3 rows"}},
		"an entry without a row": {func(d *damaged) { d.put(1, []byte("zz"), []byte{1}) },
			[]string{"index by_k has 4 entries, and the table 3 rows"}},
		"an entry that leads to another row": {func(d *damaged) { d.put(2, d.keys(2)[0], append([]byte{0}, d.keys(0)[2]...)) },
			[]string{"index one does not lead to row 1"}},
		"a row that is gone": {func(d *damaged) { d.remove(0, 2) },
			[]string{"index by_k has 3 entries, and the table 2 rows", "index one has 3 entries, and the table 2 rows"}},
		"a row under another key": {func(d *damaged) { d.put(0, append(d.keys(0)[2], 1), d.value(0, 2)) },
			[]string{"row 4 lies under another key than its own"}},
		"bytes that are no row": {func(d *damaged) { d.put(0, d.keys(0)[1], []byte{0xff, 0xff}) }, []string{"row 2: "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &damaged{r: newRig(t)}
			c := d.r.connect("test")
			d.r.exec(c, "CREATE TABLE t (id INT PRIMARY KEY, k INT, u VARCHAR(20), KEY by_k (k), UNIQUE KEY one (u))")
			d.r.exec(c, "INSERT INTO t VALUES (1, 10, 'one'), (2, 20, 'two'), (3, NULL, 'twelve')")
			damage.do(d)
			got, err := query(c, "CHECK TABLE t EXTENDED")
			if err != nil {
				t.Fatal(err)
			}
			if damage.says == nil {
				if got != ok {
					t.Errorf("%q", got)
				}
				return
			}
			for _, says := range damage.says {
				if !strings.Contains(got, "test.t|check|error|"+says) {
					t.Errorf("%q is not in %q", says, got)
				}
			}
			if !strings.HasSuffix(got, "test.t|check|error|Corrupt\n") {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestCheckTableOfRowsWithNumbers: a row whose key is no number, and an entry that leads to a row which is not there.
func TestCheckTableOfRowsWithNumbers(t *testing.T) {
	t.Parallel()
	d := &damaged{r: newRig(t)}
	c := d.r.connect("test")
	d.r.exec(c, "CREATE TABLE t (k INT, KEY by_k (k))")
	d.r.exec(c, "INSERT INTO t VALUES (1), (1)")
	if got, err := query(c, "CHECK TABLE t"); got != "test.t|check|status|OK\n" {
		t.Errorf("%q, %v", got, err)
	}
	value := d.value(0, 0)
	d.put(0, []byte{0xfe}, value)
	d.remove(1, 0)
	got, err := query(c, "CHECK TABLE t")
	for _, says := range []string{"row 3: ", "index by_k does not lead to row 1", "index by_k has 1 entries, and the table 3 rows"} {
		if err != nil || !strings.Contains(got, "test.t|check|error|"+says) {
			t.Errorf("%q is not in %q, %v", says, got, err)
		}
	}
	if _, err := query(c, "SELECT * FROM t"); number(err) != 1105 {
		t.Errorf("a row whose key is no number is read: %v", err)
	}
}

// damaged writes rows and entries past the engine.
type damaged struct{ r *rig }

func (d *damaged) begin() (*txn.Tx, *sqlmachine.Table) {
	d.r.t.Helper()
	table := d.r.m.Catalogue().Database("test").Table("t")
	x, err := d.r.options.Worker.Begin()
	if err == nil {
		err = x.UseTable(table.ID, table.Version, lock.IntentExclusive, txn.Wait{Time: time.Hour})
	}
	if err != nil {
		d.r.t.Fatal(err)
	}
	return x, table
}

// id is that of an index by its place in the definition, from 1; 0: the rows.
func id(table *sqlmachine.Table, n int) uint64 {
	if n == 0 {
		return 0
	}
	return table.Indexes[n-1].ID
}

func (d *damaged) keys(n int) (all [][]byte) {
	d.r.t.Helper()
	x, table := d.begin()
	defer x.Rollback()
	it, err := x.Scan(table.ID, id(table, n), nil, nil)
	if err != nil {
		d.r.t.Fatal(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		all = append(all, bytes.Clone(it.Key()[sqlmachine.PrefixBytes:]))
	}
	return all
}

func (d *damaged) value(n, i int) []byte {
	d.r.t.Helper()
	key := d.keys(n)[i]
	x, table := d.begin()
	defer x.Rollback()
	value, _, err := x.Get(table.ID, id(table, n), key)
	if err != nil {
		d.r.t.Fatal(err)
	}
	return bytes.Clone(value)
}

func (d *damaged) write(n int, key []byte, do func(x *txn.Tx, table, index uint64, stored int) error) {
	d.r.t.Helper()
	x, table := d.begin()
	_, _, stored, err := x.LockRow(table.ID, id(table, n), key, lock.Exclusive, txn.Wait{Time: time.Hour})
	if err == nil {
		err = do(x, table.ID, id(table, n), stored)
	}
	if err == nil {
		err = x.Commit()
	}
	if err != nil {
		d.r.t.Fatal(err)
	}
}

func (d *damaged) remove(n, i int) {
	d.r.t.Helper()
	key := d.keys(n)[i]
	d.write(n, key, func(x *txn.Tx, table, index uint64, stored int) error { return x.Delete(table, index, key, stored) })
}

func (d *damaged) put(n int, key, value []byte) {
	d.r.t.Helper()
	d.write(n, key, func(x *txn.Tx, table, index uint64, stored int) error { return x.Put(table, index, key, value, stored) })
}
