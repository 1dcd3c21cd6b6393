package machine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/store"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/internal/golden"
)

// TestCommit: rows and entries of indexes are written as they come, the numbers of the table follow.
func TestCommit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tab := r.world()
	w := writes(tab, 2, op(sqlpart.Insert, 0, "a", "1"), op(sqlpart.Insert, 0, "b", "2"), op(sqlpart.Insert, 1, "1a", ""), op(sqlpart.Insert, 2, "xa", "y"))
	w.NextAuto = 10
	r.apply(commit(w))
	r.apply(commit(writes(tab, -1, op(sqlpart.Delete, 0, "a", ""), op(sqlpart.Delete, 1, "1a", ""), op(sqlpart.Update, 0, "b", "3"))))
	lower := writes(tab, 0)
	lower.NextAuto = 5 // a commit that was decided earlier
	r.apply(commit(lower))
	if got := r.rows(tab, 0) + " | " + r.rows(tab, 1) + " | " + r.rows(tab, 2); got != "b=3 |  | xa=y" {
		t.Errorf("the store has %s", got)
	}
	if tab.Rows() != 1 || tab.NextAuto() != 10 {
		t.Errorf("the table has %d rows, next value %d", tab.Rows(), tab.NextAuto())
	}
}

// TestTheCatalogueDecides: a commit of another definition is rejected, on every member alike, and leaves nothing.
func TestTheCatalogueDecides(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tab := r.world()
	insert := commit(writes(tab, 1, op(sqlpart.Insert, 0, "a", "1")))
	alter := define(sqlpart.Change{Verb: sqlpart.AlterTable, Object: tab.ID, Version: tab.Version, Name: "t", Definition: []byte("more columns"),
		Indexes: tab.Indexes})
	before := r.m.Catalogue()
	got := r.apply(insert, alter, insert, alter) // in one entry, so that none of it is published in between
	for i, want := range []entry.Code{0, 0, sqlpart.StaleDefinition, sqlpart.StaleDefinition} {
		if rejected(got[i]) != want {
			t.Errorf("command %d: %v, want %d", i, got[i].Rejection, want)
		}
	}
	if before.Database("test").Table("t") != tab || string(tab.Definition) != "columns" {
		t.Error("a catalogue that was read has changed")
	}
	now := r.table("test", "t")
	if now.Version == tab.Version || string(now.Definition) != "more columns" || now.Rows() != 1 || r.m.Catalogue().Index != r.Index {
		t.Errorf("%+v, and the catalogue is of entry %d", now, r.m.Catalogue().Index)
	}
	r.define(sqlpart.Change{Verb: sqlpart.DropTable, Object: now.ID, Version: now.Version})
	if code := rejected(r.apply(commit(writes(now, 1, op(sqlpart.Insert, 0, "b", "1"))))[0]); code != sqlpart.StaleDefinition {
		t.Errorf("a commit to a table that was dropped: %d", code)
	}
	if got := r.rows(now, 0); got != "" {
		t.Errorf("a table that was dropped has %s", got)
	}
	fewer := commit(sqlpart.Writes{Table: 2, Version: 1, Rows: -1})
	r = newRig(t)
	r.world()
	if code := rejected(r.apply(fewer)[0]); code != sqlpart.MalformedPart {
		t.Errorf("a table that loses more rows than it has: %d", code)
	}
}

// TestDefine walks through what a statement may do to the catalogue, and what is refused.
func TestDefine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	show := func() string {
		var all []string
		for _, d := range r.m.Catalogue().Databases() {
			s := fmt.Sprintf("%d %s@%d", d.ID, d.Name, d.Version)
			for _, tab := range d.Tables() {
				s += fmt.Sprintf(" (%d %s@%d rows %d next %d", tab.ID, tab.Name, tab.Version, tab.Rows(), tab.NextAuto())
				for _, x := range tab.Indexes {
					s += fmt.Sprintf(" x%d:%d", x.ID, x.State)
				}
				s += ")"
			}
			all = append(all, s)
		}
		return strings.Join(all, ", ")
	}
	public := func(ids ...uint64) (all []sqlpart.Index) {
		for _, id := range ids {
			all = append(all, sqlpart.Index{ID: id, State: sqlpart.Public})
		}
		return all
	}
	var out strings.Builder
	step := func(what string, p *sqlpart.Part) {
		res := r.apply(p)[0]
		fmt.Fprintf(&out, "%s: ", what)
		if res.Rejection != nil {
			fmt.Fprintf(&out, "%d %s\n", res.Rejection.Code, res.Rejection.Detail)
			return
		}
		if d, ok := res.Of(sqlpart.Machine).(*sqlpart.Defined); ok {
			fmt.Fprintf(&out, "version %d, created %v; ", d.Version, d.Created)
		}
		fmt.Fprintf(&out, "%s\n", show())
	}
	step("a database", define(sqlpart.Change{Verb: sqlpart.CreateDatabase, Name: "one"}))
	step("the same again", define(sqlpart.Change{Verb: sqlpart.CreateDatabase, Name: "one"}))
	step("two, the second of which is there", define(sqlpart.Change{Verb: sqlpart.CreateDatabase, Name: "two"}, sqlpart.Change{Verb: sqlpart.CreateDatabase, Name: "one"}))
	step("a database with tables", define(sqlpart.Change{Verb: sqlpart.CreateDatabase, Name: "two"},
		sqlpart.Change{Verb: sqlpart.CreateTable, Name: "a", Indexes: public(1, 2)}, sqlpart.Change{Verb: sqlpart.CreateTable, Name: "b", NextAuto: 7}))
	step("a table that is there", define(sqlpart.Change{Verb: sqlpart.CreateTable, Database: 2, Name: "a"}))
	step("a table of no database", define(sqlpart.Change{Verb: sqlpart.CreateTable, Database: 9, Name: "a"}))
	a := r.table("two", "a")
	step("rows", commit(writes(a, 1, op(sqlpart.Insert, 0, "k", "v"), op(sqlpart.Insert, 1, "i", ""), op(sqlpart.Insert, 2, "j", ""))))
	step("two names change places", define(
		sqlpart.Change{Verb: sqlpart.AlterTable, Object: 3, Version: 2, Name: "x", Indexes: public(1, 2)},
		sqlpart.Change{Verb: sqlpart.AlterTable, Object: 4, Version: 2, Name: "a"},
		sqlpart.Change{Verb: sqlpart.AlterTable, Object: 3, Version: 2, Name: "b", Indexes: public(1, 2)}))
	step("into another database, without an index", define(sqlpart.Change{Verb: sqlpart.AlterTable, Object: 3, Version: 3, Database: 1, Name: "b", Indexes: public(2)}))
	if got := r.rows(a, 0) + " | " + r.rows(a, 1) + " | " + r.rows(a, 2); got != "k=v |  | j=" {
		t.Errorf("the store has %s", got)
	}
	step("to a name that is taken", define(sqlpart.Change{Verb: sqlpart.CreateTable, Database: 2, Name: "b"},
		sqlpart.Change{Verb: sqlpart.AlterTable, Object: 3, Version: 4, Database: 2, Name: "b"}))
	step("empty", define(sqlpart.Change{Verb: sqlpart.Truncate, Object: 3, Version: 4}))
	if got := r.rows(a, 0) + r.rows(a, 2); got != "" {
		t.Errorf("the store has %s", got)
	}
	step("next value", define(sqlpart.Change{Verb: sqlpart.AlterTable, Object: 4, Version: 3, Name: "a", NextAuto: 3}))
	step("a definition of a database", define(sqlpart.Change{Verb: sqlpart.AlterDatabase, Object: 2, Version: 2, Name: "zwei", Definition: []byte("latin1")}))
	step("an old version", define(sqlpart.Change{Verb: sqlpart.DropDatabase, Object: 2, Version: 2}))
	step("a database and its tables", define(sqlpart.Change{Verb: sqlpart.DropDatabase, Object: 2, Version: 7}))
	step("a database that is gone", define(sqlpart.Change{Verb: sqlpart.DropDatabase, Object: 2, Version: 7}))
	step("a table that is gone", define(sqlpart.Change{Verb: sqlpart.DropTable, Object: 4, Version: 6}))
	step("dropped and made again", define(sqlpart.Change{Verb: sqlpart.DropTable, Object: 3, Version: 5}, sqlpart.Change{Verb: sqlpart.CreateTable, Database: 1, Name: "b"}))
	step("twice in one part", define(sqlpart.Change{Verb: sqlpart.DropTable, Object: 5, Version: 9}, sqlpart.Change{Verb: sqlpart.Truncate, Object: 5, Version: 9}))
	golden.Check(t, "testdata/define.txt", out.String())
	before := show()
	r.reopen()
	if got := show(); got != before {
		t.Errorf("after a restart %s, before it %s", got, before)
	}
}

func (r *rig) reopen() { *r = *openRig(r.T, r.Store) }

// TestRows pins the rows, as docs/formats/store.md has them.
func TestRows(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tab := r.world()
	w := writes(tab, 1, op(sqlpart.Insert, 0, "a", "1"), op(sqlpart.Insert, 1, "1a", ""))
	w.NextAuto = 300
	r.apply(commit(w))
	r.define(sqlpart.Change{Verb: sqlpart.CreateTable, Database: tab.Database, Name: "u"})
	bare := writes(r.table("test", "u"), 1, op(sqlpart.Insert, 0, "b", "2"))
	bare.NextRow = 5
	r.apply(commit(bare))
	open := &large{r: r, tx: 2}
	r.must(open.piece(writes(tab, 0, op(sqlpart.Update, 0, "a", "3"), op(sqlpart.Delete, 1, "1a", "")), writes(r.table("test", "u"), 0, op(sqlpart.Insert, 0, "c", "4"))))
	kept := &large{r: r, tx: 3}
	r.must(kept.piece(writes(tab, 0, op(sqlpart.Insert, 0, "f", "7"))))
	r.must(kept.prepare("order-1", sqlpart.Lock{Table: 3, Key: []byte("b"), Shared: true}))
	moves := &large{r: r, tx: 1}
	r.must(moves.piece(writes(r.table("test", "u"), 0, op(sqlpart.Insert, 0, "d", "5"), op(sqlpart.Insert, 0, "e", "6"))))
	r.must(moves.commit())
	r.must(moves.move(1))
	ranged := (&large{r: r, tx: 4}).prepare("order-2")
	ranged.Ranges = []sqlpart.Range{{Table: tab.ID, From: []byte("\x00\x00b"), To: []byte("\x00\x00c"), Shared: true}, {Table: r.table("test", "u").ID}}
	r.must(ranged)
	var out strings.Builder
	it, err := r.Store.NewIter([]byte{letter}, []byte{letter + 1})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	c := Spec.Census()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Row(it.Key(), v); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%x %x\n%s\n", it.Key(), v, DescribeRow(it.Key(), v))
	}
	fmt.Fprintf(&out, "%v\n", c.Counts())
	golden.Check(t, "testdata/rows.txt", out.String())
}

// TestItVerifies: a machine that verifies stops the node at a row that the transaction cannot have seen, also in the entry that has made it so.
// One that does not verify reads nothing.
func TestItVerifies(t *testing.T) {
	t.Parallel()
	insert := func(tab *Table) *sqlpart.Part { return commit(writes(tab, 1, op(sqlpart.Insert, 0, "a", "1"))) }
	update := func(tab *Table) *sqlpart.Part { return commit(writes(tab, 0, op(sqlpart.Update, 0, "a", "2"))) }
	remove := func(tab *Table) *sqlpart.Part { return commit(writes(tab, 0, op(sqlpart.Delete, 0, "a", ""))) }
	truncate := func(tab *Table) *sqlpart.Part {
		return define(sqlpart.Change{Verb: sqlpart.Truncate, Object: tab.ID, Version: tab.Version})
	}
	read := func(hash uint64) func(tab *Table) *sqlpart.Part {
		return func(tab *Table) *sqlpart.Part {
			return &sqlpart.Part{Kind: sqlpart.Commit, Reads: []sqlpart.Read{{Table: tab.ID, Key: []byte("a"), Hash: hash}}}
		}
	}
	one, two := Hash([]byte("1")), Hash([]byte("2"))
	type step = func(tab *Table) *sqlpart.Part
	for _, c := range []struct {
		what  string
		steps []step
		ok    bool
	}{
		{"insert, update, delete", []step{insert, update, remove, insert}, true},
		{"insert twice", []step{insert, insert}, false},
		{"update of nothing", []step{update}, false},
		{"delete of nothing", []step{remove}, false},
		{"delete twice", []step{insert, remove, remove}, false},
		{"read as written", []step{read(0), insert, read(one), update, read(two), remove, read(0)}, true},
		{"a lost update", []step{insert, update, read(one)}, false},
		{"a phantom", []step{insert, read(0)}, false},
		{"emptied, then read", []step{insert, truncate, read(0)}, true},
		{"emptied, then read as it was", []step{insert, truncate, read(one)}, false},
	} {
		for _, together := range []bool{false, true} {
			for _, verify := range []bool{true, false} {
				r := newRig(t)
				if !verify {
					m := New()
					*r = rig{machinetest.Open(t, store.NewMem(), m), m}
				}
				tab := r.world()
				var parts []*sqlpart.Part
				for _, s := range c.steps {
					parts = append(parts, s(tab))
				}
				var err error
				if together {
					_, err = r.Try(commands(parts...)...)
				} else {
					for _, p := range parts {
						if err == nil {
							_, err = r.Try(commands(p)...)
						}
					}
				}
				if want := c.ok || !verify; (err == nil) != want || err != nil && !errors.Is(err, ErrUnexpected) {
					t.Errorf("%s, in one entry %v, verifying %v: %v", c.what, together, verify, err)
				}
			}
		}
	}
}

// TestAgainstAModel: random parts leave what a map of maps has, whether they share entries or not, and over restarts.
func TestAgainstAModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		g := rand.New(rand.NewPCG(seed, 1))
		r := newRig(t)
		r.define(sqlpart.Change{Verb: sqlpart.CreateDatabase, Name: "d"})
		model := map[string]map[string]string{} // by table, by key
		for range 60 {
			var parts []*sqlpart.Part
			name := fmt.Sprint("t", g.IntN(3))
			tab := r.table("d", name)
			switch n := g.IntN(10); {
			case tab == nil:
				parts = append(parts, define(sqlpart.Change{Verb: sqlpart.CreateTable, Database: 1, Name: name}))
				model[name] = map[string]string{}
			case n == 0:
				parts = append(parts, define(sqlpart.Change{Verb: sqlpart.DropTable, Object: tab.ID, Version: tab.Version}))
				delete(model, name)
			case n == 1:
				parts = append(parts, define(sqlpart.Change{Verb: sqlpart.Truncate, Object: tab.ID, Version: tab.Version}))
				model[name] = map[string]string{}
			case n == 2:
				r.reopen()
				continue
			default:
				for range 1 + g.IntN(4) {
					key, value := fmt.Sprint("k", g.IntN(8)), fmt.Sprint(g.IntN(100))
					_, there := model[name][key]
					switch {
					case there && g.IntN(2) == 0:
						parts = append(parts, commit(writes(tab, -1, op(sqlpart.Delete, 0, key, ""))))
						delete(model[name], key)
						continue
					case there:
						parts = append(parts, commit(writes(tab, 0, op(sqlpart.Update, 0, key, value))))
					default:
						parts = append(parts, commit(writes(tab, 1, op(sqlpart.Insert, 0, key, value))))
					}
					model[name][key] = value
				}
			}
			for _, res := range r.apply(parts...) {
				if res.Rejection != nil {
					t.Fatalf("seed %d: %v", seed, res.Rejection)
				}
			}
			for name, rows := range model { // any order: each is looked at by itself
				tab := r.table("d", name)
				if tab == nil || tab.Rows() != uint64(len(rows)) {
					t.Fatalf("seed %d: table %s is %+v, want %d rows", seed, name, tab, len(rows))
				}
				var want []string
				for i := range 8 {
					if v, ok := rows[fmt.Sprint("k", i)]; ok {
						want = append(want, fmt.Sprintf("k%d=%s", i, v))
					}
				}
				if got := r.rows(tab, 0); got != strings.Join(want, " ") {
					t.Fatalf("seed %d: table %s has %s, want %s", seed, name, got, want)
				}
			}
		}
	}
}

// TestDamage: rows that no code of ours wrote stop the load, and are printed for what they are.
func TestDamage(t *testing.T) {
	t.Parallel()
	for what, row := range map[string][2]string{
		"counters":                   {"sc", "\x02\x01\x01"},
		"a database":                 {"sd\x00\x00\x00\x01", "\x01"},
		"a database of a short key":  {"sd\x00\x00\x01", "\x01\x01\x01a\x00"},
		"a table of no database":     {"st\x00\x00\x00\x07", "\x01\x01\x09\x01a\x00\x00"},
		"a table's indexes":          {"st\x00\x00\x00\x07", "\x01\x01\x01\x01a\x00\x01\x00\x00"},
		"a second table of the name": {"st\x00\x00\x00\x07", "\x01\x01\x01\x01t\x00\x00"},
		"numbers of no table":        {"sn\x00\x00\x00\x07", "\x01\x01\x01"},
		"numbers":                    {"sn\x00\x00\x00\x02", "\x01\x01"},
	} {
		r := newRig(t)
		r.world()
		b := r.Store.NewBatch()
		b.Set([]byte(row[0]), []byte(row[1]))
		if err := r.Store.Commit(b, r.Index); err != nil {
			t.Fatal(err)
		}
		if err := New().Load(r.Store, nil); err == nil {
			t.Errorf("%s: loaded", what)
		}
	}
	for _, key := range []string{"", "s", "sc", "sd\x00\x00\x00\x01", "sd\x00\x00\x00\x01x", "sr\x00\x00\x00\x01\x00\x00", "sr\x00\x00\x00\x01\x00\x00k", "s!\x00\x00\x00\x01"} {
		if got := DescribeRow([]byte(key), nil); !strings.Contains(got, "makes no sense") && !strings.Contains(got, "early") {
			t.Errorf("%q: %s", key, got)
		}
	}
}

// FuzzRows: what the catalogue's rows decode to encodes to the same bytes.
func FuzzRows(f *testing.F) {
	f.Add([]byte("\x01\x01\x01"))
	f.Add([]byte("\x01\x01\x04test\x03abc"))
	f.Add([]byte("\x01\x01\x02\x01t\x00\x01\x01\x02"))
	f.Add([]byte("\x01\x02\x00\x00\x00\x00\x00\x00\x00\x01\x09\x01\x03\x04\x01a\x01b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var c counters
		var n numbers
		var d Database
		var tab Table
		var st staged
		for what, row := range map[string]interface {
			decode([]byte) error
			append([]byte) []byte
		}{"counters": &c, "numbers": &n, "database": &d, "table": &tab, "staged": &st} {
			if err := row.decode(b); err == nil && string(row.append(nil)) != string(b) {
				t.Errorf("%s: %x came back as %x", what, b, row.append(nil))
			}
		}
	})
}

// TestNumbersOfRows: the largest next one stays, over a truncation and a start.
func TestNumbersOfRows(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tab := r.world()
	for _, next := range []uint64{7, 3} {
		w := writes(tab, 1, op(sqlpart.Insert, 0, fmt.Sprint(next), "1"))
		w.NextRow = next
		r.apply(commit(w))
	}
	r.define(sqlpart.Change{Verb: sqlpart.Truncate, Object: tab.ID, Version: tab.Version, NextAuto: 1})
	for range 2 {
		tab = r.table("test", "t")
		if auto, row, err := Next(r.Store, tab.ID); auto != 1 || row != 7 || err != nil {
			t.Errorf("next value %d, next row %d, %v", auto, row, err)
		}
		r.reopen()
		r.apply(commit(writes(r.table("test", "t"), 1, op(sqlpart.Insert, 0, r.rows(tab, 0)+"a", "1"))))
	}
}
