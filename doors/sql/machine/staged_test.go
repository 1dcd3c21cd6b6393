package machine

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
)

// large is a transaction as the leader keeps its hash.
type large struct {
	r    *rig
	tx   uint64
	hash uint64
	any  bool
}

func (l *large) piece(all ...sqlpart.Writes) *sqlpart.Part {
	p := &sqlpart.Part{Kind: sqlpart.Stage, Tx: l.tx, First: !l.any, Tables: all}
	l.any = true
	l.hash = Chain(l.hash, sqlpart.AppendPart(nil, p))
	return p
}

func (l *large) commit(all ...sqlpart.Writes) *sqlpart.Part {
	return &sqlpart.Part{Kind: sqlpart.Decide, Verdict: sqlpart.CommitStaged, Tx: l.tx, Hash: l.hash, Tables: all}
}

func (l *large) drop() *sqlpart.Part {
	return &sqlpart.Part{Kind: sqlpart.Decide, Verdict: sqlpart.DropStaged, Tx: l.tx}
}

func (l *large) move(bytes uint64) *sqlpart.Part {
	return &sqlpart.Part{Kind: sqlpart.Move, Tx: l.tx, Bytes: bytes}
}

// space counts the rows of a space.
func (r *rig) space(space byte) (n int) {
	r.T.Helper()
	it, err := r.Store.NewIter([]byte{letter, space}, []byte{letter, space + 1})
	if err != nil {
		r.T.Fatal(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	return n
}

func (r *rig) must(parts ...*sqlpart.Part) {
	r.T.Helper()
	for i, res := range r.apply(parts...) {
		if res.Rejection != nil {
			r.T.Fatalf("%s: %v", parts[i], res.Rejection)
		}
	}
}

func (r *rig) refused(code entry.Code, p *sqlpart.Part) {
	r.T.Helper()
	if got := rejected(r.apply(p)[0]); got != code {
		r.T.Errorf("%s: %d, want %d", p, got, code)
	}
}

// TestStaged: pieces are no rows until they have been committed and moved, whatever starts lie in between.
func TestStaged(t *testing.T) {
	t.Parallel()
	for _, restarts := range []bool{false, true} {
		r := newRig(t)
		tab := r.world()
		r.must(commit(writes(tab, 2, op(sqlpart.Insert, 0, "b", "old"), op(sqlpart.Insert, 0, "d", "goes"))))
		l := &large{r: r, tx: 7}
		step := func(parts ...*sqlpart.Part) {
			t.Helper()
			r.must(parts...)
			if restarts {
				r.reopen()
				tab = r.table("test", "t")
			}
		}
		step(l.piece(writes(tab, 0, op(sqlpart.Insert, 0, "a", "1"), op(sqlpart.Insert, 0, "c", "gone again"), op(sqlpart.Insert, 1, "1a", ""))),
			l.piece(writes(tab, 0, op(sqlpart.Update, 0, "b", "2"), op(sqlpart.Insert, 0, "a", "one"), op(sqlpart.Retract, 0, "c", ""))))
		step(l.piece(writes(tab, 0, op(sqlpart.Delete, 0, "d", ""))))
		if got := r.rows(tab, 0); got != "b=old d=goes" || tab.Rows() != 2 {
			t.Errorf("before the commit there is %s, %d rows", got, tab.Rows())
		}
		if all := r.m.Staged().All; len(all) != 1 || all[0].ID != 7 || all[0].Committed || !all[0].Has(tab.ID) || all[0].Has(tab.ID+1) {
			t.Errorf("%+v are staged", all)
		}
		next := writes(tab, 0)
		next.NextAuto, next.NextRow = 99, 3
		step(l.commit(next))
		if all := r.m.Staged().All; len(all) != 1 || !all[0].Committed || tab.NextAuto() != 99 {
			t.Errorf("%+v are staged, next value %d", all, tab.NextAuto())
		}
		if got := r.rows(tab, 0); got != "b=old d=goes" {
			t.Errorf("before the move there is %s", got)
		}
		for n := 1; ; n++ {
			res := r.apply(l.move(1))[0]
			if res.Rejection != nil {
				t.Fatal(res.Rejection)
			}
			if restarts {
				r.reopen()
				tab = r.table("test", "t")
			}
			if res.Of(sqlpart.Machine).(*sqlpart.Moved).Done {
				if n != 5 {
					t.Errorf("four rows and entries were moved by %d commands", n)
				}
				break
			}
			if r.space(spacePiece) != 4 {
				t.Errorf("%d pieces are staged while rows move", r.space(spacePiece))
			}
		}
		if got := r.rows(tab, 0) + " | " + r.rows(tab, 1); got != "a=one b=2 | 1a=" || tab.Rows() != 2 {
			t.Errorf("in the end there is %s, %d rows", got, tab.Rows())
		}
		if r.space(spacePiece)+r.space(spaceStaged) != 0 || len(r.m.Staged().All) != 0 {
			t.Errorf("%d pieces and %d transactions are left", r.space(spacePiece), r.space(spaceStaged))
		}
		r.refused(sqlpart.NotStaged, l.move(1))
	}
}

// TestStagedMembersAgree: a member that starts between any two entries writes what one does that runs on.
func TestStagedMembersAgree(t *testing.T) {
	t.Parallel()
	var dumps []string
	for _, restarts := range []bool{false, true} {
		r := newRig(t)
		tab := r.world()
		l := &large{r: r, tx: 1}
		var parts []*sqlpart.Part
		for i := range 20 {
			parts = append(parts, l.piece(writes(tab, 0, op(sqlpart.Insert, 0, fmt.Sprintf("%02d", i), "some value"))))
		}
		parts = append(parts, l.commit(), l.move(100), l.move(100), l.move(3))
		for _, p := range parts {
			r.must(p)
			if restarts {
				r.reopen()
			}
		}
		dumps = append(dumps, r.Dump())
	}
	if dumps[0] != dumps[1] {
		t.Errorf("one member has\n%s\nand the other one\n%s", dumps[0], dumps[1])
	}
}

// TestDropStaged: what is dropped leaves nothing, in the entry that staged it too, and its number is free.
func TestDropStaged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tab := r.world()
	l := &large{r: r, tx: math.MaxUint64}
	r.must(l.piece(writes(tab, 0, op(sqlpart.Insert, 0, "a", "1"))), l.drop())
	if n := r.space(spacePiece) + r.space(spaceStaged); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	l = &large{r: r, tx: math.MaxUint64}
	r.must(l.piece(writes(tab, 0, op(sqlpart.Insert, 0, "a", "2"))))
	r.must(l.commit())
	r.must(l.move(1))
	r.must(l.move(1))
	if got := r.rows(tab, 0); got != "a=2" {
		t.Errorf("there is %s", got)
	}
}

// TestWhatIsNotStaged: every part that does not follow from what was staged is rejected, and changes nothing.
func TestWhatIsNotStaged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tab := r.world()
	a := writes(tab, 0, op(sqlpart.Insert, 0, "a", "1"))
	l := &large{r: r, tx: 3}
	l.any = true
	r.refused(sqlpart.NotStaged, l.piece(a)) // not the first, and there is none
	r.refused(sqlpart.NotStaged, l.commit())
	r.refused(sqlpart.NotStaged, l.drop())
	r.refused(sqlpart.NotStaged, l.move(1))
	l = &large{r: r, tx: 3}
	first := l.piece(a)
	r.must(first)
	r.refused(sqlpart.NotStaged, first)
	r.refused(sqlpart.NotStaged, l.move(1))
	missing := *l
	missing.piece(writes(tab, 0, op(sqlpart.Insert, 0, "b", "2"))) // which the log does not have
	r.refused(sqlpart.NotStaged, missing.commit())
	old := a
	old.Version++
	r.refused(sqlpart.StaleDefinition, (&large{r: r, tx: 4}).piece(old))
	got := r.apply(l.commit(), l.move(1)) // the store does not have what the entry has done
	if rejected(got[0]) != 0 || rejected(got[1]) != sqlpart.NotStaged {
		t.Errorf("a move in the entry of the commit: %v, %v", got[0].Rejection, got[1].Rejection)
	}
	r.refused(sqlpart.NotStaged, l.piece(writes(tab, 0, op(sqlpart.Insert, 0, "b", "2"))))
	r.refused(sqlpart.NotStaged, l.commit())
	r.refused(sqlpart.NotStaged, l.drop())
	alter := sqlpart.Change{Verb: sqlpart.AlterTable, Object: tab.ID, Version: tab.Version, Name: "t", Definition: []byte("more columns"), Indexes: tab.Indexes}
	r.refused(sqlpart.TableMoving, define(alter))
	r.refused(sqlpart.TableMoving, define(sqlpart.Change{Verb: sqlpart.DropTable, Object: tab.ID, Version: tab.Version}))
	r.refused(sqlpart.TableMoving, define(sqlpart.Change{Verb: sqlpart.DropDatabase, Object: tab.Database, Version: r.m.Catalogue().Database("test").Version}))
	for range 2 {
		got := r.apply(l.move(1), l.move(1))
		if rejected(got[0]) != 0 || rejected(got[1]) != sqlpart.NotStaged {
			t.Errorf("two moves in one entry: %v, %v", got[0].Rejection, got[1].Rejection)
		}
	}
	if got := r.rows(tab, 0); got != "a=1" {
		t.Errorf("there is %s", got)
	}
	l = &large{r: r, tx: 5}
	r.must(l.piece(writes(tab, 0, op(sqlpart.Update, 0, "a", "2"))), define(alter)) // it is not committed: nothing holds the definition but its lock
	r.refused(sqlpart.StaleDefinition, l.commit())
	later := r.table("test", "t")
	r.refused(sqlpart.StaleDefinition, l.piece(writes(later, 0, op(sqlpart.Update, 0, "a", "2"))))
	r.must(l.drop())
	if got := r.rows(later, 0); got != "a=1" || r.space(spacePiece) != 0 {
		t.Errorf("there is %s, %d pieces", got, r.space(spacePiece))
	}
}

// TestItVerifiesStaged: a machine that verifies stops the node where a transaction passes what another one has staged.
func TestItVerifiesStaged(t *testing.T) {
	t.Parallel()
	for what, p := range map[string]func(tab *Table) *sqlpart.Part{
		"a write": func(tab *Table) *sqlpart.Part { return commit(writes(tab, 1, op(sqlpart.Insert, 0, "a", "2"))) },
		"a read": func(tab *Table) *sqlpart.Part {
			return &sqlpart.Part{Kind: sqlpart.Commit, Reads: []sqlpart.Read{{Table: tab.ID, Key: []byte("a")}}}
		},
		"a piece": func(tab *Table) *sqlpart.Part {
			return (&large{tx: 9}).piece(writes(tab, 0, op(sqlpart.Insert, 0, "a", "2")))
		},
		"an update of nothing": func(tab *Table) *sqlpart.Part {
			return (&large{tx: 9}).piece(writes(tab, 0, op(sqlpart.Update, 0, "b", "2")))
		},
	} {
		for _, together := range []bool{false, true} {
			r := newRig(t)
			tab := r.world()
			l := &large{r: r, tx: 8}
			first := l.piece(writes(tab, 0, op(sqlpart.Insert, 0, "a", "1")))
			var err error
			if together {
				_, err = r.Try(commands(first, p(tab))...)
			} else if _, err = r.Try(commands(first)...); err == nil {
				_, err = r.Try(commands(p(tab))...)
			}
			if !errors.Is(err, ErrUnexpected) {
				t.Errorf("%s, in one entry %v: %v", what, together, err)
			}
		}
	}
}

// TestStagedDamage: a row that no code of ours wrote stops the start, or the move.
func TestStagedDamage(t *testing.T) {
	t.Parallel()
	for what, row := range map[string][2]string{
		"a state":           {"sx\x00\x00\x00\x00\x00\x00\x00\x01", "\x01\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"},
		"no name":           {"sx\x00\x00\x00\x00\x00\x00\x00\x01", "\x01\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"},
		"tables":            {"sx\x00\x00\x00\x00\x00\x00\x00\x01", "\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01\x00"},
		"a short number":    {"sx\x00\x00\x00\x01", "\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"},
		"a row of its kind": {"sx\x00\x00\x00\x00\x00\x00\x00\x01", ""},
	} {
		r := newRig(t)
		b := r.Store.NewBatch()
		b.Set([]byte(row[0]), []byte(row[1]))
		if err := r.Store.Commit(b, r.Index); err != nil {
			t.Fatal(err)
		}
		if err := New().Load(r.Store, nil); err == nil {
			t.Errorf("%s: loaded", what)
		}
	}
	r := newRig(t)
	tab := r.world()
	l := &large{r: r, tx: 1}
	r.must(l.piece(writes(tab, 0, op(sqlpart.Insert, 0, "a", "1"))))
	r.must(l.commit())
	b := r.Store.NewBatch()
	b.Set(AppendPiece(nil, 1, append(AppendPrefix(nil, tab.ID, 0), 'a')), []byte{3})
	if err := r.Store.Commit(b, r.Index); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Try(commands(l.move(1))...); !errors.Is(err, errCorrupt) {
		t.Errorf("a piece without meaning was moved: %v", err)
	}
	if got := DescribeRow([]byte("sx\x00\x00\x00\x00\x00\x00\x00\x01"), nil); !strings.Contains(got, "makes no sense") {
		t.Error(got)
	}
}

// TestChain: the hash tells pieces, their order and their number apart.
func TestChain(t *testing.T) {
	t.Parallel()
	over := func(pieces ...string) (h uint64) {
		for _, p := range pieces {
			h = Chain(h, []byte(p))
		}
		return h
	}
	known := map[uint64]string{}
	for _, pieces := range [][]string{{}, {"a"}, {"b"}, {"a", "b"}, {"b", "a"}, {"ab"}, {"a", "b", "b"}} {
		h, name := over(pieces...), strings.Join(pieces, ",")
		if was, ok := known[h]; ok {
			t.Errorf("%q has the hash of %q", name, was)
		}
		known[h] = name
	}
}

func (l *large) prepare(name string, locks ...sqlpart.Lock) *sqlpart.Part {
	return &sqlpart.Part{Kind: sqlpart.Decide, Verdict: sqlpart.PrepareStaged, Tx: l.tx, Hash: l.hash, Name: []byte(name), Locks: locks}
}

// TestPrepared: what is prepared stays over starts, with its name and its locks, and can be committed and dropped.
func TestPrepared(t *testing.T) {
	t.Parallel()
	for _, commits := range []bool{true, false} {
		r := newRig(t)
		tab := r.world()
		l, reads := &large{r: r, tx: 1}, &large{r: r, tx: 2}
		r.must(l.piece(writes(tab, 0, op(sqlpart.Insert, 0, "a", "1"))), l.prepare("one", sqlpart.Lock{Table: tab.ID, Key: []byte("b"), Shared: true}))
		two := reads.prepare("two")
		two.Ranges = []sqlpart.Range{{Table: tab.ID, From: []byte("\x00\x00b"), Shared: true}}
		r.must(two)
		r.refused(sqlpart.DuplicateName, (&large{r: r, tx: 3}).prepare("one"))
		r.refused(sqlpart.NotStaged, l.prepare("another"))
		r.refused(sqlpart.NotStaged, l.piece(writes(tab, 0, op(sqlpart.Insert, 0, "b", "1"))))
		r.refused(sqlpart.StaleDefinition, (&large{r: r, tx: 3}).prepare("three", sqlpart.Lock{Table: 99, Key: []byte("b")}))
		ranged := (&large{r: r, tx: 3}).prepare("three")
		ranged.Ranges = []sqlpart.Range{{Table: 99}}
		r.refused(sqlpart.StaleDefinition, ranged)
		r.refused(sqlpart.TableMoving, define(sqlpart.Change{Verb: sqlpart.DropTable, Object: tab.ID, Version: tab.Version}))
		r.reopen()
		all := r.m.Staged().All
		if len(all) != 2 || !all[0].Prepared || string(all[0].Name) != "one" || all[0].Hash == 0 || string(all[1].Name) != "two" ||
			len(all[0].Ranges) != 0 || len(all[1].Ranges) != 1 || string(all[1].Ranges[0].From) != "\x00\x00b" || !all[1].Ranges[0].Shared || !all[1].Has(tab.ID) {
			t.Fatalf("%+v", all)
		}
		l.hash = all[0].Hash
		if !commits {
			r.must(l.drop(), reads.drop())
		} else {
			r.must(l.commit(), reads.commit())
			r.must(l.move(1), reads.move(1))
			r.must(l.move(1))
		}
		if got := r.rows(r.table("test", "t"), 0); (got == "a=1") != commits || got != "" && !commits {
			t.Errorf("committed %v: there is %s", commits, got)
		}
		if n := r.space(spacePiece) + r.space(spaceStaged) + r.space(spaceLock); n != 0 {
			t.Errorf("%d rows are left", n)
		}
		r.must((&large{r: r, tx: 1}).prepare("one")) // the name and the number are free
	}
}
