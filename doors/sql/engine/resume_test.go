package engine

import (
	"encoding/hex"
	"reflect"
	"testing"

	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/internal/golden"
)

func sampleGoal() goal {
	return goal{def: sample(), name: "u", database: &sqlmachine.Database{ID: 7}, indexes: []sqlpart.Index{{ID: 2, State: sqlpart.Public}, {ID: 3, State: sqlpart.Public}}}
}

// TestNotes pins the bytes of docs/formats/sql.md. A note comes back whole, or as one that says nothing: then the build is dropped, or begins anew.
func TestNotes(t *testing.T) {
	t.Parallel()
	want := sampleGoal()
	note := want.note(9)
	at := progress{index: 3, from: []byte("row 5")}
	golden.Check(t, "testdata/notes.txt", hex.Dump(note)+hex.Dump(at.note()))
	got, database, ok := goalOf(note, 9)
	if !ok || database != 7 || got.name != want.name || !reflect.DeepEqual(got.def, want.def) || !reflect.DeepEqual(got.indexes, want.indexes) {
		t.Errorf("%+v %d %v", got, database, ok)
	}
	if _, _, ok := goalOf(note, 10); ok {
		t.Error("a note of another version of the table counts")
	}
	for n := range note {
		if _, _, ok := goalOf(note[:n], 9); ok {
			t.Errorf("%d bytes of %d are a goal", n, len(note))
		}
	}
	for _, p := range []progress{at, {index: 3, done: true}} {
		if got := progressOf(p.note()); !reflect.DeepEqual(got, p) {
			t.Errorf("%+v, want %+v", got, p)
		}
	}
	for n := range at.note() {
		if p := progressOf(at.note()[:n]); p.index != 0 {
			t.Errorf("%d bytes are %+v", n, p)
		}
	}
}

// FuzzNotes: what is decoded is written as a note that says the same.
func FuzzNotes(f *testing.F) {
	g := sampleGoal()
	f.Add(g.note(9))
	f.Add(progress{index: 3, from: []byte("row 5")}.note())
	f.Fuzz(func(t *testing.T, b []byte) {
		if g, _, ok := goalOf(b, 9); ok {
			if again, _, ok := goalOf(g.note(9), 9); !ok || !reflect.DeepEqual(g, again) {
				t.Errorf("%x: %+v", b, again)
			}
		}
		p := progressOf(b)
		if again := progressOf(p.note()); !reflect.DeepEqual(append(p.from, 0), append(again.from, 0)) || p.index != again.index || p.done != again.done {
			t.Errorf("%x: %+v and %+v", b, p, again)
		}
	})
}

// TestIndexesOfALifetime: the number under which notes lie is never an index's.
func TestIndexesOfALifetime(t *testing.T) {
	t.Parallel()
	d := sample()
	d.lastIndex = sqlpart.NotesIndex - 2
	if err := d.addIndex("last", false, "", []keyPart{{column: 0}}); err != nil {
		t.Error(err)
	}
	if err := d.addIndex("more", false, "", []keyPart{{column: 0}}); err == nil {
		t.Errorf("an index has the number %d", d.lastIndex)
	}
}
