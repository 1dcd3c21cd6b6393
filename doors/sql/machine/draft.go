package machine

import (
	"cmp"
	"maps"
	"slices"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/store"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
)

// draft is the catalogue as a Define makes it. Check makes one, because each change is judged by those before it. Do carries it out. A change
// copies the maps of the databases that it names, and nothing else.
type draft struct {
	m         *Machine
	counters  counters
	bytes     int64
	databases map[uint64]*Database // that differ; nil: dropped
	tables    map[uint64]*Table    // that differ; nil: dropped
	fresh     map[uint64]uint64    // by table: NextAuto that is set; a table that is created is among them
	emptied   []span               // rows to delete, in order
	created   []uint64
	last      uint64 // the database that was created last
}

// span is all rows of a table, or all entries of an index.
type span struct {
	table, index uint64
	whole        bool
}

func (m *Machine) draft() *draft {
	d := &draft{m: m, counters: m.counters, bytes: m.bytes, databases: map[uint64]*Database{}, tables: map[uint64]*Table{}, fresh: map[uint64]uint64{}}
	d.counters.version++
	return d
}

func (d *draft) database(id uint64) *Database {
	if db, ok := d.databases[id]; ok {
		return db
	}
	return d.m.databases[id]
}

func (d *draft) table(id uint64) *Table {
	if t, ok := d.tables[id]; ok {
		return t
	}
	return d.m.tables[id]
}

// named finds a database by its name.
func (d *draft) named(name string) bool {
	for id, db := range d.m.databases { // any order: a name has one database
		if db.Name == name && d.database(id) == db {
			return true
		}
	}
	for _, db := range d.databases { // any order: a name has one database
		if db != nil && db.Name == name {
			return true
		}
	}
	return false
}

// edit returns a database of the draft that may be changed.
func (d *draft) edit(id uint64) *Database {
	if db, ok := d.databases[id]; ok {
		return db
	}
	db := *d.m.databases[id]
	db.tables = maps.Clone(db.tables)
	d.databases[id] = &db
	return &db
}

func (d *draft) id() uint64 {
	d.counters.next++
	d.created = append(d.created, d.counters.next)
	return d.counters.next
}

// change judges a change and makes it.
func (d *draft) change(c *sqlpart.Change) *entry.Rejection {
	switch c.Verb {
	case sqlpart.CreateDatabase, sqlpart.CreateTable:
		if d.counters.next >= sqlpart.MaxID {
			return reject(sqlpart.CatalogueFull, "all %d ids were given", uint64(sqlpart.MaxID))
		}
		if c.Verb == sqlpart.CreateDatabase {
			return d.createDatabase(c)
		}
		return d.createTable(c)
	case sqlpart.AlterDatabase, sqlpart.DropDatabase:
		db := d.database(c.Object)
		switch {
		case db == nil:
			return reject(sqlpart.UnknownDatabase, "database %d", c.Object)
		case d.m.databases[c.Object] == nil || d.m.databases[c.Object].Version != c.Version:
			return reject(sqlpart.StaleDefinition, "database %s is not at version %d any more", db.Name, c.Version)
		case c.Verb == sqlpart.DropDatabase:
			for _, t := range db.Tables() {
				if d.m.moving(t.ID) {
					return reject(sqlpart.TableMoving, "table %s has rows that are committed and not at their places yet", t.Name)
				}
			}
			d.dropDatabase(db)
			return nil
		}
		return d.alterDatabase(db, c)
	}
	t := d.table(c.Object)
	switch {
	case t == nil:
		return reject(sqlpart.UnknownTable, "table %d", c.Object)
	case d.m.tables[c.Object] == nil || d.m.tables[c.Object].Version != c.Version:
		return reject(sqlpart.StaleDefinition, "table %s is not at version %d any more", t.Name, c.Version)
	case d.m.moving(c.Object):
		return reject(sqlpart.TableMoving, "table %s has rows that are committed and not at their places yet", t.Name)
	}
	switch c.Verb {
	case sqlpart.AlterTable:
		return d.alterTable(t, c)
	case sqlpart.DropTable:
		delete(d.edit(t.Database).tables, t.Name)
		d.dropTable(t)
	default: // Truncate
		next := *t
		next.Version = d.counters.version
		d.put(&next)
		d.fresh[t.ID] = cmp.Or(c.NextAuto, 1)
		d.emptied = append(d.emptied, span{table: t.ID, whole: true})
	}
	return nil
}

// grow takes room for definitions.
func (d *draft) grow(by int64) *entry.Rejection {
	if d.bytes += by; by > 0 && d.bytes > mostCatalogue {
		return reject(sqlpart.CatalogueFull, "all definitions together take more than %d bytes", int64(mostCatalogue))
	}
	return nil
}

func (d *draft) createDatabase(c *sqlpart.Change) *entry.Rejection {
	if d.named(c.Name) {
		return reject(sqlpart.DatabaseExists, "database %s", c.Name)
	}
	if rej := d.grow(size(c.Name, c.Definition)); rej != nil {
		return rej
	}
	db := &Database{ID: d.id(), Version: d.counters.version, Name: c.Name, Definition: slices.Clone(c.Definition), tables: map[string]*Table{}}
	d.databases[db.ID], d.last = db, db.ID
	return nil
}

func (d *draft) alterDatabase(db *Database, c *sqlpart.Change) *entry.Rejection {
	if db.Name != c.Name && d.named(c.Name) {
		return reject(sqlpart.DatabaseExists, "database %s", c.Name)
	}
	if rej := d.grow(size(c.Name, c.Definition) - size(db.Name, db.Definition)); rej != nil {
		return rej
	}
	db = d.edit(db.ID)
	db.Version, db.Name, db.Definition = d.counters.version, c.Name, slices.Clone(c.Definition)
	return nil
}

func (d *draft) dropDatabase(db *Database) {
	for _, t := range db.Tables() {
		d.dropTable(t)
	}
	d.bytes -= size(db.Name, db.Definition)
	d.databases[db.ID] = nil
}

// dropTable drops a table that its database does not name any more.
func (d *draft) dropTable(t *Table) {
	d.bytes -= size(t.Name, t.Definition)
	d.tables[t.ID] = nil
	delete(d.fresh, t.ID)
	d.emptied = append(d.emptied, span{table: t.ID, whole: true})
}

// put has a new definition of a table in its database.
func (d *draft) put(t *Table) {
	d.tables[t.ID] = t
	d.edit(t.Database).tables[t.Name] = t
}

func (d *draft) createTable(c *sqlpart.Change) *entry.Rejection {
	id := cmp.Or(c.Database, d.last)
	db := d.database(id)
	switch {
	case db == nil:
		return reject(sqlpart.UnknownDatabase, "database %d", id)
	case db.tables[c.Name] != nil:
		return reject(sqlpart.TableExists, "table %s.%s", db.Name, c.Name)
	}
	if rej := d.grow(size(c.Name, c.Definition)); rej != nil {
		return rej
	}
	t := &Table{ID: d.id(), Version: d.counters.version, Database: db.ID, Name: c.Name, Definition: slices.Clone(c.Definition),
		Indexes: slices.Clone(c.Indexes), live: &live{}}
	d.put(t)
	d.fresh[t.ID] = cmp.Or(c.NextAuto, 1)
	return nil
}

func (d *draft) alterTable(t *Table, c *sqlpart.Change) *entry.Rejection {
	to := d.database(cmp.Or(c.Database, t.Database))
	switch {
	case to == nil:
		return reject(sqlpart.UnknownDatabase, "database %d", c.Database)
	case (to.ID != t.Database || c.Name != t.Name) && to.tables[c.Name] != nil:
		return reject(sqlpart.TableExists, "table %s.%s", to.Name, c.Name)
	}
	if rej := d.grow(size(c.Name, c.Definition) - size(t.Name, t.Definition)); rej != nil {
		return rej
	}
	next := *t
	next.Version, next.Database, next.Name = d.counters.version, to.ID, c.Name
	next.Definition, next.Indexes = slices.Clone(c.Definition), slices.Clone(c.Indexes)
	delete(d.edit(t.Database).tables, t.Name)
	d.put(&next)
	for _, x := range t.Indexes {
		if !slices.ContainsFunc(next.Indexes, func(y sqlpart.Index) bool { return y.ID == x.ID }) {
			d.emptied = append(d.emptied, span{table: t.ID, index: x.ID})
		}
	}
	if c.NextAuto != 0 {
		d.fresh[t.ID] = c.NextAuto
	}
	return nil
}

// write carries the draft out. Rows are deleted first: the store sorts a batch best that begins with ranges.
func (d *draft) write(b store.Batch) {
	m := d.m
	for _, s := range d.emptied {
		lower, upper := AppendPrefix(nil, s.table, s.index), AppendEnd(nil, s.table, s.index)
		if s.whole {
			upper = appendTableEnd(nil, s.table)
		}
		b.DeleteRange(lower, upper)
		if m.verify {
			m.seen.empty(lower, upper)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(d.databases)) {
		key := objectKey(spaceDatabase, id)
		if db := d.databases[id]; db != nil {
			m.databases[id] = db
			b.Set(key, db.append(nil))
			continue
		}
		delete(m.databases, id)
		b.Delete(key)
	}
	for _, id := range slices.Sorted(maps.Keys(d.tables)) {
		key := objectKey(spaceTable, id)
		if t := d.tables[id]; t != nil {
			m.tables[id] = t
			b.Set(key, t.append(nil))
			continue
		}
		delete(m.tables, id)
		b.Delete(key)
		b.Delete(objectKey(spaceNumbers, id))
	}
	for _, s := range d.emptied {
		if t := m.tables[s.table]; t != nil && s.whole {
			t.live.numbers.rows = 0
			m.touch(t)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(d.fresh)) {
		t := m.tables[id]
		t.live.numbers.auto = d.fresh[id]
		m.touch(t)
	}
	m.counters, m.bytes, m.defined = d.counters, d.bytes, true
	b.Set([]byte{letter, spaceCounters}, m.counters.append(nil))
}

// checkDefine judges a Define. The plan is a draft.
func (m *Machine) checkDefine(p *sqlpart.Part) (any, *entry.Rejection, error) {
	d := m.draft()
	for i := range p.Changes {
		if rej := d.change(&p.Changes[i]); rej != nil {
			return nil, rej, nil
		}
	}
	return d, nil, nil
}
