package sql

import (
	"context"
	"testing"
)

// TestCommentsAlone: a text of comments is no error, as the first line of MariaDB's dumps is one, and behind a statement it has no answer of its own.
func TestCommentsAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.connect("test")
	for _, text := range []string{"/*M!999999 enable the sandbox mode */ ", "-- a line", "# a line\n/* and another */ ;"} {
		r.exec(c, text)
	}
	for _, text := range []string{"/*M!999999 enable the sandbox mode */ \n/*!40101 SET @a = 1 */", "/* x */ /*!40101 SET @a = 1 */", "/*M!999999 x */ SET @a = 1", "/*!40101 SET @a=@@CHARACTER_SET_CLIENT */",
		"-- a line\n/*!40101 SET @a = 1 */"} {
		if _, err := c.ExecContext(context.Background(), text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{" ", ";", ""} {
		if _, err := c.ExecContext(context.Background(), text); number(err) != 1065 {
			t.Errorf("%q: %v, want 1065", text, err)
		}
	}
	if got, err := query(c, "SELECT '/*M! a */', 2 /*M!100100 - 1 */"); got != "/*M! a */|2\n" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	for _, text := range []string{"SELECT 1; -- the end", "SELECT 1; /* the end */", "SELECT 1 # the end", "/* from here */ SELECT 1", "/*!40101 SELECT 1 */"} {
		if got, err := query(c, text); got != "1\n" || err != nil {
			t.Errorf("%q: %q %v", text, got, err)
		}
	}
}

// TestDefinitionsAreShownBesideLockedTables: dumps look at information_schema while they have their tables locked.
func TestDefinitionsAreShownBesideLockedTables(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.connect("test")
	r.exec(c, "CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE u (id INT PRIMARY KEY); LOCK TABLES t READ")
	if got, err := query(c, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'test' ORDER BY table_name"); got != "t\nu\n" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	// What they ask for of which there is none.
	for _, text := range []string{"SHOW TRIGGERS LIKE 't'", "SHOW EVENTS", "SHOW FUNCTION STATUS WHERE Db = 'test'", "show procedure  status; "} {
		if got, err := query(c, text); got != "" || err != nil {
			t.Errorf("%s: %q %v", text, got, err)
		}
	}
	// What stands around the rows of a table in a dump.
	r.exec(c, "UNLOCK TABLES; LOCK TABLES `t` WRITE; /*!40000 ALTER TABLE `t` DISABLE KEYS */; INSERT INTO `t` VALUES (1),(2)")
	if got, err := query(c, "/*!40000 ALTER TABLE `t` ENABLE KEYS */; SHOW WARNINGS"); err != nil {
		t.Errorf("%q %v", got, err)
	}
	if _, err := c.ExecContext(context.Background(), "ALTER TABLE none DISABLE KEYS"); number(err) != 1146 {
		t.Errorf("of no table: %v, want 1146", err)
	}
	if _, err := query(c, "SELECT * FROM u"); number(err) != 1100 {
		t.Errorf("a table that is not locked: %v, want 1100", err)
	}
}
