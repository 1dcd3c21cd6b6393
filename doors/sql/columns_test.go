package sql

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	sqlpart "github.com/holdfastdb/holdfast/doors/sql/part"
	"github.com/holdfastdb/holdfast/doors/sql/txn"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// model is a table as a test has it: rows by id, each with a text for each of its columns but the id.
type model struct {
	columns []string // in the table's order, without id, which stands at place at
	at      int
	rows    map[int]map[string]string
	named   int
}

// order is all columns in the table's order.
func (m *model) order() []string { return slices.Insert(slices.Clone(m.columns), m.at, "id") }

func (m *model) text() string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(m.rows)) {
		for i, c := range m.order() {
			if i > 0 {
				b.WriteByte('|')
			}
			if c == "id" {
				fmt.Fprint(&b, id)
			} else {
				b.WriteString(m.rows[id][c])
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// step makes a random statement, and does it to the model.
func (m *model) step(r *rand.Rand) string {
	value := func() string { return []string{"", "a", "some text", strings.Repeat("long ", 20)}[r.IntN(4)] }
	switch n := r.IntN(12); {
	case n < 2 || len(m.columns) == 0: // a column comes
		m.named++
		name, def := fmt.Sprintf("c%d", m.named), value()
		text := fmt.Sprintf("ALTER TABLE t ADD COLUMN %s VARCHAR(200) DEFAULT '%s'", name, def)
		if r.IntN(3) == 0 {
			def, text = "", fmt.Sprintf("ALTER TABLE t ADD COLUMN %s VARCHAR(200) NOT NULL", name)
		} else if r.IntN(3) == 0 {
			def, text = "NULL", fmt.Sprintf("ALTER TABLE t ADD COLUMN %s VARCHAR(200)", name)
		}
		all := m.order()
		to := len(all)
		switch r.IntN(3) {
		case 0:
			text, to = text+" FIRST", 0
		case 1:
			i := r.IntN(len(all))
			text, to = text+" AFTER "+all[i], i+1
		}
		m.place(slices.Insert(all, to, name))
		for _, row := range m.rows {
			row[name] = def
		}
		if r.IntN(8) == 0 {
			text += ", FORCE"
		}
		return text
	case n == 2 && len(m.columns) > 1: // a column goes
		name := m.columns[r.IntN(len(m.columns))]
		m.place(slices.DeleteFunc(m.order(), func(c string) bool { return c == name }))
		for _, row := range m.rows {
			delete(row, name)
		}
		return "ALTER TABLE t DROP COLUMN " + name
	case n == 3: // a column moves
		name := m.columns[r.IntN(len(m.columns))]
		m.place(slices.Insert(slices.DeleteFunc(m.order(), func(c string) bool { return c == name }), 0, name))
		return fmt.Sprintf("ALTER TABLE t MODIFY %s VARCHAR(200) FIRST", name)
	case n == 4: // a column gets another name
		name := m.columns[r.IntN(len(m.columns))]
		m.named++
		to := fmt.Sprintf("c%d", m.named)
		m.columns[slices.Index(m.columns, name)] = to
		for _, row := range m.rows {
			row[to] = row[name]
			delete(row, name)
		}
		return fmt.Sprintf("ALTER TABLE t CHANGE %s %s VARCHAR(%d)", name, to, 200+m.named)
	case n < 8: // a row comes
		id := r.IntN(60)
		row := map[string]string{}
		names, values := []string{"id"}, []string{fmt.Sprint(id)}
		for _, c := range m.columns {
			row[c] = value()
			names, values = append(names, c), append(values, "'"+row[c]+"'")
		}
		m.rows[id] = row
		return fmt.Sprintf("REPLACE INTO t (%s) VALUES (%s)", strings.Join(names, ", "), strings.Join(values, ", "))
	case n < 11: // a row changes
		name, id, v := m.columns[r.IntN(len(m.columns))], r.IntN(60), value()
		if row := m.rows[id]; row != nil {
			row[name] = v
		}
		return fmt.Sprintf("UPDATE t SET %s = '%s' WHERE id = %d", name, v, id)
	}
	id := r.IntN(60)
	delete(m.rows, id)
	return fmt.Sprintf("DELETE FROM t WHERE id = %d", id)
}

func (m *model) place(all []string) {
	m.at = slices.Index(all, "id")
	m.columns = slices.Delete(all, m.at, m.at+1)
}

// TestColumnsComeAndGo: whatever was altered, rows of every age have the values that they were given, and so after a restart.
func TestColumnsComeAndGo(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		r := rand.New(rand.NewPCG(seed, 9))
		g := newRig(t)
		c := g.connect("test")
		g.exec(c, "CREATE TABLE t (id INT PRIMARY KEY)")
		m := &model{rows: map[int]map[string]string{}}
		var done []string
		check := func(when string) {
			t.Helper()
			if got, err := query(c, "SELECT * FROM t ORDER BY id"); err != nil || got != m.text() {
				t.Fatalf("seed %d, %s: %v\ngot\n%s\nwant\n%s\n%s", seed, when, err, got, m.text(), strings.Join(done[max(0, len(done)-20):], "\n"))
			}
			if got, err := query(c, "CHECK TABLE t"); err != nil || got != "test.t|check|status|OK\n" {
				t.Fatalf("seed %d, %s: %s %v", seed, when, got, err)
			}
		}
		for i := range 120 {
			text := m.step(r)
			done = append(done, text)
			g.exec(c, text)
			if i%10 == 0 {
				check(text)
			}
		}
		g = newRigOn(t, g.rig.Store)
		c = g.connect("test")
		check("restarted")
		for range 20 {
			text := m.step(r)
			done = append(done, text)
			g.exec(c, text)
		}
		check("at last")
	}
}

// TestAColumnComesBesideWriters: statements go on while columns come and go, none fails, and each writes a row of the definition that it has found.
func TestAColumnComesBesideWriters(t *testing.T) {
	t.Parallel()
	const rows = 200
	l := newLarge(t, rows)
	var wg sync.WaitGroup
	over := make(chan struct{})
	var written atomic.Int64
	for n := range 3 {
		c := l.connect("test")
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 37))
			for {
				select {
				case <-over:
					return
				default:
				}
				id := 1 + r.IntN(rows)
				text := []string{
					fmt.Sprintf("UPDATE t SET k = k + 1 WHERE id = %d", id),
					fmt.Sprintf("DELETE FROM t WHERE id = %d", id),
					fmt.Sprintf("INSERT INTO t (id, k) VALUES (%d, %d) ON DUPLICATE KEY UPDATE k = k + 1", id, n),
				}[r.IntN(3)]
				if _, err := c.ExecContext(context.Background(), text); err != nil {
					t.Errorf("%s: %v", text, err)
					return
				}
				written.Add(1)
			}
		})
	}
	for i := range 12 {
		before := written.Load()
		l.exec(l.c, fmt.Sprintf("ALTER TABLE t ADD COLUMN more%d INT NOT NULL DEFAULT %d AFTER id", i, i))
		wait.Until(t, "rows are written", func() bool { return t.Failed() || written.Load() > before })
		if i%3 == 2 {
			l.exec(l.c, fmt.Sprintf("ALTER TABLE t DROP COLUMN more%d", i-1))
		}
		l.says(l.c, "0", fmt.Sprintf("SELECT COUNT(*) FROM t WHERE more%d <> %d", i, i))
	}
	close(over)
	wg.Wait()
	l.says(l.c, "test.t|check|status|OK", "CHECK TABLE t")
}

// TestATransactionOfBefore: a transaction whose snapshot is older than a column gets 1412, and one that uses the table, also prepared, keeps the column away.
func TestATransactionOfBefore(t *testing.T) {
	t.Parallel()
	l := newLarge(t, 300)
	other := l.connect("test")
	l.exec(other, "CREATE TABLE elsewhere (id INT PRIMARY KEY)")
	l.exec(other, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
	l.exec(l.c, "ALTER TABLE t ADD COLUMN a INT DEFAULT 7")
	l.fails(other, 1412, "SELECT * FROM t")
	l.exec(other, "ROLLBACK")

	// keptAway runs a statement that waits until end is called.
	keptAway := func(text string, end func()) {
		t.Helper()
		before, altered := l.options.Worker.Waiting(), make(chan error, 1)
		go func() {
			_, err := l.c.ExecContext(context.Background(), text)
			altered <- err
		}()
		wait.Until(t, text+" waits", func() bool { return len(altered) > 0 || l.options.Worker.Waiting() > before })
		if len(altered) > 0 {
			t.Errorf("%s did not wait: %v", text, <-altered)
			end()
			return
		}
		end()
		if err := <-altered; err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for i, text := range []string{"ALTER TABLE t ADD COLUMN b INT DEFAULT 9 FIRST", "ALTER TABLE t FORCE", "ALTER TABLE t ADD CHECK (k >= 0)"} {
		l.exec(other, "BEGIN")
		l.exec(other, "UPDATE t SET k = k + 1") // staged, with the bounds of this rig
		keptAway(text, func() { l.exec(other, "ROLLBACK") })
		l.exec(other, "XA START 'p'")
		l.exec(other, fmt.Sprintf("UPDATE t SET a = %d", 8-i)) // staged too
		l.exec(other, "XA END 'p'")
		l.exec(other, "XA PREPARE 'p'")
		keptAway(fmt.Sprintf("ALTER TABLE t ADD COLUMN c%d INT DEFAULT %d", i, i), func() { l.exec(other, "XA COMMIT 'p'") })
	}
	l.says(l.c, "300", "SELECT COUNT(*) FROM t WHERE a = 6 AND b = 9 AND c0 = 0 AND c2 = 2")
	l.sound(300)
}

// TestBelowTheLevel: while a member of an older build is there, no row gets a form that it cannot read. Indexes and names change as before.
func TestBelowTheLevel(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.connect("test")
	r.exec(c, "CREATE TABLE t (id INT PRIMARY KEY, k INT)")
	r.exec(c, "INSERT INTO t VALUES (1, 5)")
	r.OnPropose(func(parts []entry.Part) (*entry.Result, error) {
		if sqlpart.PartLevel(parts[0].Body) > sqlpart.StageLevel {
			return nil, node.ErrLevel
		}
		return r.propose(parts)
	})
	for _, text := range []string{"ALTER TABLE t ADD COLUMN a INT", "ALTER TABLE t DROP COLUMN k", "ALTER TABLE t MODIFY k VARCHAR(5)", "ALTER TABLE t DROP PRIMARY KEY"} {
		if _, err := c.ExecContext(context.Background(), text); number(err) != 1290 || !strings.Contains(err.Error(), "holdfast status") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"ALTER TABLE t ADD INDEX (k)", "ALTER TABLE t RENAME COLUMN k TO kk", "ALTER TABLE t MODIFY kk BIGINT", "ALTER TABLE t ADD CHECK (kk > 0)", "CREATE TABLE u (id INT PRIMARY KEY)"} {
		r.exec(c, text)
	}
	if got, err := query(c, "SHOW TABLES"); got != "t\nu\n" || err != nil {
		t.Errorf("%q %v", got, err)
	}
}

// TestACopyOfATable: while rows are copied others read them, a writer waits, nobody sees the copy, and the processlist says how far it is. KILL ends it,
// and nothing is left.
func TestACopyOfATable(t *testing.T) {
	t.Parallel()
	const rows = 2000
	l := newLarge(t, rows)
	other := l.connect("test")
	goOn, done := l.held("ALTER TABLE t MODIFY k VARCHAR(20), ADD COLUMN twice INT DEFAULT (id * 2)")
	defer goOn()
	if got, err := query(other, "SHOW PROCESSLIST"); err != nil || !strings.Contains(got, "|copying table: ") || !strings.Contains(got, " of about 2000 rows|") {
		t.Errorf("the processlist: %s %v", got, err)
	}
	l.says(other, "t", "SHOW TABLES")
	l.says(other, "1", "SELECT COUNT(*) FROM information_schema.tables WHERE TABLE_SCHEMA = 'test'")
	copied := l.m.Catalogue().Database("test").Tables()[0].Name
	for _, text := range []string{"SELECT * FROM `%s`", "DROP TABLE `%s`", "TRUNCATE `%s`", "ALTER TABLE `%s` FORCE", "LOCK TABLES `%s` READ"} {
		if _, err := query(other, fmt.Sprintf(text, copied)); number(err) != 1146 && number(err) != 1051 {
			t.Errorf(text+": %v", copied, err)
		}
	}
	l.says(other, fmt.Sprint(rows), "SELECT COUNT(*) FROM t")
	l.exec(other, "SET lock_wait_timeout = 1")
	l.fails(other, 1205, "UPDATE t SET k = 5 WHERE id = 1999")
	l.fails(other, 1205, "ALTER TABLE t DROP COLUMN k")
	l.fails(other, 1205, "DROP DATABASE test")
	goOn()
	if err := <-done; err != nil {
		t.Error(err)
	}
	l.says(other, fmt.Sprint(rows), "SELECT COUNT(*) FROM t WHERE twice = 2 * id AND k = CONCAT(id % 10)")
	l.exec(other, "INSERT INTO t (k) VALUES ('fresh')")
	l.says(other, fmt.Sprint(rows+1), "SELECT id FROM t WHERE k = 'fresh'")
	l.sound(rows + 1)

	goOn, done = l.held("ALTER TABLE t ENGINE=InnoDB")
	defer goOn()
	var id int
	if err := other.QueryRowContext(context.Background(), "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE '%ENGINE=InnoDB'").Scan(&id); err != nil {
		t.Fatal(err)
	}
	l.exec(other, fmt.Sprintf("KILL QUERY %d", id))
	goOn()
	if err := <-done; number(err) != 1317 {
		t.Errorf("a copy that was killed: %v", err)
	}
	if n := len(l.m.Catalogue().Database("test").Tables()); n != 1 {
		t.Errorf("%d tables are left", n)
	}
	l.sound(rows + 1)
}

// TestACopyWhoseTermEnds is dropped by the next leader, or by the next statement that copies; the table is as it was.
func TestACopyWhoseTermEnds(t *testing.T) {
	t.Parallel()
	const rows = 1500
	l := newLarge(t, rows)
	left := func(term uint64) {
		t.Helper()
		l.c = l.connect("test")
		goOn, done := l.held("ALTER TABLE t FORCE")
		defer goOn()
		l.OnPropose(func(parts []entry.Part) (*entry.Result, error) { return nil, node.ErrSuperseded })
		l.Lead(term)
		l.OnPropose(l.propose)
		goOn()
		if err := <-done; number(err) != 1213 {
			t.Errorf("a copy whose term has ended: %v", err)
		}
		l.c = l.connect("test")
		if n := len(l.m.Catalogue().Database("test").Tables()); n != 2 {
			t.Errorf("%d tables are left", n)
		}
		l.says(l.c, "t", "SHOW TABLES")
		l.sound(rows)
	}
	left(6)
	if err := l.d.Clean(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := len(l.m.Catalogue().Database("test").Tables()); n != 1 {
		t.Errorf("%d tables are left", n)
	}
	left(7)
	l.exec(l.c, "ALTER TABLE t MODIFY k VARCHAR(20)")
	l.sound(rows)
	left(8)
	l.exec(l.c, "DROP TABLE t")
	if err := l.d.Clean(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := len(l.m.Catalogue().Database("test").Tables()); n != 0 {
		t.Errorf("%d tables are left", n)
	}
}

// TestACopyOfLargeRows: rows that are larger than what a transaction keeps in memory come to the copy too.
func TestACopyOfLargeRows(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *txn.Options) { o.StageBytes, o.PieceBytes, o.MostBytes = 8<<10, 2<<10, 1<<20 })
	c := r.connect("test")
	r.exec(c, "CREATE TABLE t (id INT PRIMARY KEY, body TEXT)")
	for id := range 5 {
		r.exec(c, fmt.Sprintf("INSERT INTO t VALUES (%d, REPEAT('%d', 30000))", id, id))
	}
	r.exec(c, "ALTER TABLE t FORCE, ADD COLUMN n INT DEFAULT 3")
	if got, err := query(c, "SELECT COUNT(*), SUM(LENGTH(body)), SUM(n) FROM t"); got != "5|150000|15\n" || err != nil {
		t.Errorf("%q %v", got, err)
	}
}
