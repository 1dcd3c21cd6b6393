package main

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/bench/bars"
	"github.com/holdfastdb/holdfast/doors/sql/lock"
	sqlmachine "github.com/holdfastdb/holdfast/doors/sql/machine"
)

// TestShapesKeepTables: what the shapes measure is what they do: behind all of them each row has its entry, and there is no other.
func TestShapesKeepTables(t *testing.T) {
	b := &bench{tables: 2, rows: 300, time: 20 * time.Millisecond, batch: 50}
	m, err := start(context.Background(), filepath.Join(t.TempDir(), "m"), b.tables)
	if err != nil {
		t.Fatal(err)
	}
	defer m.stop()
	if err := b.fill(m); err != nil {
		t.Fatal(err)
	}
	for _, name := range shapeNames {
		f, err := b.figures(context.Background(), m, name, 3)
		if err != nil || f.Events == 0 {
			t.Errorf("%s: %d events, %v", name, f.Events, err)
		}
	}
	rows := 0
	for _, table := range m.tables {
		x, err := m.worker.Begin()
		if err == nil {
			err = x.UseTable(table.ID, table.Version, lock.Metadata, patient)
		}
		if err != nil {
			t.Fatal(err)
		}
		entries := map[string]bool{}
		each := func(index uint64, f func(key, value []byte)) {
			it, err := x.Scan(table.ID, index, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			for ok := it.First(); ok; ok = it.Next() {
				value, err := it.Value()
				if err != nil {
					t.Fatal(err)
				}
				f(it.Key()[sqlmachine.PrefixBytes:], value)
			}
			if err := it.Close(); err != nil {
				t.Error(err)
			}
		}
		each(byNumber, func(key, _ []byte) { entries[string(key)] = true })
		each(0, func(key, value []byte) {
			rows++
			entry := string(value[:8]) + string(key)
			if len(key)+len(value) != rowBytes || !entries[entry] {
				t.Errorf("row %x of %d bytes has no entry", key, len(key)+len(value))
			}
			delete(entries, entry)
		})
		if len(entries) > 0 {
			t.Errorf("%d entries have no row", len(entries))
		}
		x.Rollback()
	}
	if rows <= b.tables*b.rows {
		t.Errorf("%d rows: nothing was inserted", rows)
	}
}

// TestBulkIsJudged: the figures of a bulk load reach their bars or miss them.
func TestBulkIsJudged(t *testing.T) {
	b := &bench{bulk: 50 * time.Millisecond, writers: 2, batch: 10}
	var judged bars.List
	if err := b.loadBulk(context.Background(), filepath.Join(t.TempDir(), "m"), &judged); err != nil || len(judged) != 2 || judged[0].Got == nil || *judged[0].Got <= 0 {
		t.Errorf("%v %+v", err, judged)
	}
}

// TestCommandLine: what makes no sense is refused.
func TestCommandLine(t *testing.T) {
	good := bench{tables: 1, rows: 200, time: 1, writers: 1, batch: 1}
	for _, c := range []struct {
		threads, names string
		ok             bool
	}{{"1,16", "point_select, insert", true}, {"1", "", true}, {"0", "insert", false}, {"x", "insert", false}, {"1", "update", false}} {
		b := good
		if err := b.parse(c.threads, c.names); (err == nil) != c.ok {
			t.Errorf("%q %q: %v", c.threads, c.names, err)
		}
	}
	b := good
	b.rows = 10
	if b.parse("1", "insert") == nil {
		t.Error("tables of 10 rows are taken")
	}
}
