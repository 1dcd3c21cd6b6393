package machine

import (
	"maps"
	"slices"
	"sync/atomic"

	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
)

// Catalogue is what there is at one index of the log: databases and their tables. It never changes. Any goroutine.
type Catalogue struct {
	// Version is that of the newest definition.
	Version uint64
	// Index is the entry of the log that has made it; 0: it was loaded. A reader whose View is older takes a new one.
	Index     uint64
	databases map[string]*Database
}

// Database returns the database of a name, or nil.
func (c *Catalogue) Database(name string) *Database { return c.databases[name] }

// Databases lists all databases by name.
func (c *Catalogue) Databases() []*Database {
	all := make([]*Database, 0, len(c.databases))
	for _, name := range slices.Sorted(maps.Keys(c.databases)) {
		all = append(all, c.databases[name])
	}
	return all
}

// Database is a database of a Catalogue. It never changes.
type Database struct {
	ID, Version uint64
	Name        string
	Definition  []byte // the door's
	tables      map[string]*Table
}

// Table returns the table of a name, or nil.
func (d *Database) Table(name string) *Table { return d.tables[name] }

// Tables lists all tables by name.
func (d *Database) Tables() []*Table {
	all := make([]*Table, 0, len(d.tables))
	for _, name := range slices.Sorted(maps.Keys(d.tables)) {
		all = append(all, d.tables[name])
	}
	return all
}

// Table is a table of a Catalogue, of one definition. Rows and NextAuto alone change.
type Table struct {
	ID, Version, Database uint64
	Name                  string
	Definition            []byte // the door's
	Indexes               []sqlpart.Index
	live                  *live
}

// Rows is how many rows the table has at the applied index.
func (t *Table) Rows() uint64 { return t.live.rows.Load() }

// NextAuto is the smallest value that AUTO_INCREMENT may give at the applied index.
func (t *Table) NextAuto() uint64 { return t.live.auto.Load() }

// live is what changes of a table. All its definitions share it.
type live struct {
	rows, auto atomic.Uint64 // published

	// Apply goroutine only.
	numbers
	touched bool
}

// publish makes the numbers those that readers see.
func (l *live) publish() {
	l.rows.Store(l.numbers.rows)
	l.auto.Store(l.numbers.auto)
	l.touched = false
}

// size is what a definition takes of the catalogue's bound.
func size(name string, definition []byte) int64 {
	return int64(len(name)+len(definition)) + objectBytes
}

const (
	// objectBytes is about what a database or a table takes in memory beside its name and definition.
	objectBytes = 512
	// mostCatalogue bounds the sizes of all definitions. It is part of what a part means: every member rejects the same ones.
	mostCatalogue = 256 << 20
)
