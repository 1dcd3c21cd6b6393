package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// shop is tables of several types, with unique and other indexes, and all that is read of them.
var shop = []struct {
	name, definition, primary string
	indexes                   []index
}{
	{"things", "CREATE TABLE things (id INT UNSIGNED NOT NULL, name VARCHAR(60) NOT NULL, born DATE NOT NULL, score DECIMAL(12,3) NOT NULL, " +
		"seen DATETIME(6) NOT NULL, noon TIME, made YEAR, note TEXT, raw VARBINARY(40), kind ENUM('red','green','blue'), marks SET('x','y','z'), " +
		"bits BIT(12), doc JSON, ratio DOUBLE, tiny TINYINT, big BIGINT UNSIGNED, PRIMARY KEY (id), UNIQUE KEY by_name (name), " +
		"KEY by_score (score), KEY by_born (born, name), UNIQUE KEY by_seen (seen))", "id",
		[]index{{"by_name", "name >= ''"}, {"by_score", "score >= -999999999"}, {"by_born", "born >= '1000-01-01'"}, {"by_seen", "seen >= '1000-01-01'"}}},
	{"parts", "CREATE TABLE parts (owner VARCHAR(20) COLLATE utf8mb4_bin NOT NULL, n BIGINT NOT NULL, serial BIGINT NOT NULL, body BLOB, tag CHAR(8) NOT NULL, " +
		"PRIMARY KEY (owner, n), UNIQUE KEY by_serial (serial), KEY by_tag (tag))", "owner, n",
		[]index{{"by_serial", "serial >= -1000"}, {"by_tag", "tag >= ''"}}},
	{"events", "CREATE TABLE events (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, happened TIMESTAMP(3) NOT NULL, what VARCHAR(30) NOT NULL, " +
		"KEY by_what (what, happened))", "id", []index{{"by_what", "what >= ''"}}},
}

// fillShop makes the tables and n rows in each. The values are the same in every run.
func fillShop(c *client, n int) error {
	if err := c.exec("CREATE DATABASE shop", "USE shop"); err != nil {
		return err
	}
	for _, t := range shop {
		if err := c.exec(t.definition); err != nil {
			return err
		}
	}
	r := rand.New(rand.NewPCG(5, 6))
	words := []string{"Ärger", "blue", "straße", "naïve", "zebra", "Quark", "it''s", "日本", "emoji 😀", ""}
	const piece = 100
	for from := 0; from < n; from += piece {
		var things, parts, events []string
		for id := from; id < min(from+piece, n); id++ {
			word := words[r.IntN(len(words))]
			things = append(things, fmt.Sprintf("(%d, '%s %d', '%d-%02d-%02d', %d.%03d, '2024-01-01 00:00:00.%06d', '%02d:%02d:%02d', %d, %s, x'%016x', '%s', '%s', b'%b', '{\"a\": %d, \"b\": [true, null]}', %g, %d, %d)",
				id, word, id, 1900+r.IntN(150), 1+r.IntN(12), 1+r.IntN(28), r.IntN(2000)-1000, r.IntN(1000), id, r.IntN(24), r.IntN(60), r.IntN(60), 1950+r.IntN(150),
				[]string{"NULL", "'" + strings.Repeat(word+" ", r.IntN(40)) + "'"}[r.IntN(2)], r.Uint64(), []string{"red", "green", "blue"}[r.IntN(3)],
				[]string{"", "x", "y,z"}[r.IntN(3)], r.IntN(4096), r.IntN(1000), r.NormFloat64()*1e6, r.IntN(256)-128, r.Uint64()))
			parts = append(parts, fmt.Sprintf("('owner %d', %d, %d, %s, 'tag %d')", r.IntN(50), id, id*7-1000, []string{"NULL", fmt.Sprintf("x'%0*x'", 2*(4+r.IntN(97)), r.Uint32())}[r.IntN(2)], r.IntN(20)))
			events = append(events, fmt.Sprintf("('2024-02-%02d %02d:00:00.%03d', '%s')", 1+r.IntN(28), r.IntN(24), r.IntN(1000), word))
		}
		if err := c.exec("INSERT INTO things VALUES "+strings.Join(things, ", "), "INSERT INTO parts VALUES "+strings.Join(parts, ", "),
			"INSERT INTO events (happened, what) VALUES "+strings.Join(events, ", ")); err != nil {
			return err
		}
	}
	// Some rows have moved in every index, and some are gone.
	return c.exec("UPDATE things SET name = CONCAT(name, ' again'), score = score + 1000, born = '2000-02-29' WHERE id % 7 = 3", "DELETE FROM things WHERE id % 11 = 5",
		"UPDATE parts SET tag = 'moved' WHERE n % 5 = 0", "DELETE FROM parts WHERE tag = 'tag 3'", "DELETE FROM events WHERE what = 'zebra'")
}

// readShop returns all rows of the tables, each table checked.
func readShop(n *proctest.Node) (rows []string, err error) {
	c, err := connect(n, "shop")
	if err != nil {
		return nil, err
	}
	defer c.close()
	for _, t := range shop {
		of, err := c.contents(t.name, t.primary, t.indexes...)
		if err != nil {
			return nil, err
		}
		rows = append(rows, of...)
		if err := c.checkTables(t.name); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// keepsShop judges that a restored server has the rows that were there, and that it gives no number of a row again.
func keepsShop(n *proctest.Node, were []string) error {
	rows, err := readShop(n)
	if err != nil {
		return err
	}
	if err := sameLines(rows, were); err != nil {
		return err
	}
	c, err := connect(n, "shop")
	if err != nil {
		return err
	}
	defer c.close()
	var most, next int64
	if err := errors.Join(c.one("SELECT MAX(id) FROM events", &most),
		c.exec("INSERT INTO events (happened, what) VALUES ('2024-03-01', 'restored')"),
		c.one("SELECT LAST_INSERT_ID()", &next)); err != nil {
		return err
	}
	if next <= most {
		return fmt.Errorf("a restored server gives the number %d to a new row, and has %d", next, most)
	}
	return nil
}

// rowsOfShop is how many rows fillShop makes in each table.
func (s *suite) rowsOfShop() int {
	if s.quick {
		return 400
	}
	return 4000
}
