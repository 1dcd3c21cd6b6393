package engine

import (
	"encoding/hex"
	"reflect"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/holdfastdb/holdfast/doors/sql/row"
	"github.com/holdfastdb/holdfast/internal/golden"
)

func sample() *definition {
	return &definition{
		columns: []column{
			{name: "id", typ: "int unsigned", auto: true},
			{name: "name", typ: "varchar(20) COLLATE utf8mb4_bin", nullable: true, def: "'x'", hasDef: true, comment: "who", collation: sql.Collation_utf8mb4_bin},
			{name: "at", typ: "timestamp", def: "current_timestamp()", hasDef: true, onUpdate: "current_timestamp()"},
		},
		primary:   []keyPart{{column: 0}},
		indexes:   []indexDef{{id: 2, name: "by_name", unique: true, parts: []keyPart{{1, 5}, {0, 0}}, comment: "c"}},
		collation: sql.Collation_utf8mb4_general_ci, comment: "a table", lastIndex: 3,
	}
}

// constrained is sample with constraints.
func constrained() *definition {
	d := sample()
	d.checks = []checkDef{{name: "t_chk_1", expr: "id > 0", enforced: true}, {name: "lax", expr: "`at` is not null"}}
	d.foreign = []foreignDef{{name: "t_ibfk_1", columns: []int{1, 0}, parentDB: "d", parent: "p", parentColumns: []string{"a", "b"}, onDelete: actionCascade, onUpdate: actionSetNull}}
	return d
}

// TestConstrained: constraints make another version of the bytes, which a build before refuses.
func TestConstrained(t *testing.T) {
	t.Parallel()
	b := constrained().append(nil)
	golden.Check(t, "testdata/constrained.txt", hex.Dump(b))
	d, err := decodeDefinition(b)
	if err != nil || !reflect.DeepEqual(d, constrained()) {
		t.Errorf("%+v %v", d, err)
	}
	if b[0] == sample().append(nil)[0] {
		t.Error("the version is the one without constraints")
	}
	for n := range b {
		if d, err := decodeDefinition(b[:n]); err == nil {
			t.Fatalf("%d bytes of %d are a definition: %+v", n, len(b), d)
		}
	}
}

// placed is a definition whose columns have come and gone.
func placed() *definition {
	d := sample()
	d.first = 2
	d.places = []rowPlace{{column: 0}, {column: -1, kind: row.KindText}, {column: 2, initial: []byte{2}}, {column: -1, kind: row.KindVarint}, {column: 1}}
	d.columns = append(d.columns, column{name: "twice", typ: "int", nullable: true, gen: "id * 2", stored: true}, column{name: "once", typ: "int", gen: "id"})
	d.places = append(d.places, rowPlace{column: 3}, rowPlace{column: 4, initial: []byte{2}})
	return d
}

// copied is a table that is to be in the place of another one.
func copied() *definition {
	d := constrained()
	d.copyOf = 7
	return d
}

// TestPlaced: places make a version of their own, which comes back whole or not at all.
func TestPlaced(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func() *definition{"placed": placed, "copied": copied} {
		b := make().append(nil)
		golden.Check(t, "testdata/"+name+".txt", hex.Dump(b))
		d, err := decodeDefinition(b)
		if err != nil || !reflect.DeepEqual(d, make()) {
			t.Errorf("%s: %+v %v", name, d, err)
		}
		for n := range b {
			if d, err := decodeDefinition(b[:n]); err == nil {
				t.Fatalf("%s: %d bytes of %d are a definition: %+v", name, n, len(b), d)
			}
		}
		if _, err := decodeDefinition(append(b, 0)); err == nil {
			t.Errorf("%s: a byte too many", name)
		}
	}
}

// TestDefinition pins the bytes of docs/formats/sql.md, and a definition comes back whole or not at all.
func TestDefinition(t *testing.T) {
	t.Parallel()
	b := sample().append(nil)
	golden.Check(t, "testdata/definition.txt", hex.Dump(b))
	d, err := decodeDefinition(b)
	if err != nil || !reflect.DeepEqual(d, sample()) {
		t.Errorf("%+v %v", d, err)
	}
	for n := range b {
		if d, err := decodeDefinition(b[:n]); err == nil {
			t.Fatalf("%d bytes of %d are a definition: %+v", n, len(b), d)
		}
	}
	if _, err := decodeDefinition(append(b, 0)); err == nil {
		t.Error("a byte too many")
	}
}

// FuzzDefinition: what is decoded is written as the same bytes.
func FuzzDefinition(f *testing.F) {
	f.Add(sample().append(nil))
	f.Add(constrained().append(nil))
	f.Add(placed().append(nil))
	f.Add(copied().append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := decodeDefinition(b)
		if err != nil {
			return
		}
		if again, err := decodeDefinition(d.append(nil)); err != nil || !reflect.DeepEqual(d, again) {
			t.Errorf("%x: %v", b, err)
		}
	})
}
