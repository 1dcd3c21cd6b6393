package sql

import (
	"strings"
	"testing"
)

// TestWhatIsShownMakesTheTable: the statement that SHOW CREATE TABLE prints makes the same table, as a dump that is loaded again needs.
func TestWhatIsShownMakesTheTable(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.connect("test")
	shown := func(name string) string {
		t.Helper()
		text, err := query(c, "SHOW CREATE TABLE "+name)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimPrefix(text, name+"|")
	}
	for _, text := range []string{
		`CREATE TABLE made (id INT PRIMARY KEY)`,
		"CREATE TABLE made (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, `a b` VARCHAR(20) DEFAULT 'it''s \\\\ \"x\"', e ENUM('x','y,z') NOT NULL DEFAULT 'y,z', " +
			"s SET('p','q') DEFAULT 'p,q', b BIT(12) DEFAULT b'101010101010', at TIMESTAMP(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), " +
			"d DECIMAL(20,10) DEFAULT -1.5, t TEXT NOT NULL, KEY k (t(7), e), UNIQUE KEY u (d))",
		`CREATE TABLE made (a CHAR(3) CHARACTER SET latin1 COLLATE latin1_swedish_ci, b VARBINARY(8) DEFAULT 'xy', y YEAR DEFAULT 1999, dt DATETIME(6) DEFAULT '1999-12-31 23:59:59.5', PRIMARY KEY (a, y))`,
	} {
		r.exec(c, text)
		first := shown("made")
		r.exec(c, "DROP TABLE made")
		r.exec(c, first)
		if again := shown("made"); again != first {
			t.Errorf("%s\nis shown as\n%s, and that makes\n%s", text, first, again)
		}
		r.exec(c, "DROP TABLE made")
	}
}
