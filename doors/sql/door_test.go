package sql

import (
	"testing"
)

func TestFirst(t *testing.T) {
	r := newRig(t)
	c := r.connect("test")
	r.exec(c, "CREATE TABLE sbtest1(id INTEGER NOT NULL, k INTEGER DEFAULT '0' NOT NULL, c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id)) /*! ENGINE = eloq */")
	r.exec(c, "INSERT INTO sbtest1(id, k, c, pad) VALUES(1, 5, 'a', 'b'),(2, 7, 'c', 'd'),(3,5,'e','f')")
	r.exec(c, "CREATE INDEX k_1 ON sbtest1(k)")
	t.Log(r.rows(c, "SELECT * FROM sbtest1"))
	t.Log(r.rows(c, "SELECT * FROM sbtest1 WHERE k=?", 5))
	t.Log(r.rows(c, "SELECT COUNT(*), SUM(k) FROM sbtest1 FORCE INDEX(k_1)"))
	r.exec(c, "UPDATE sbtest1 SET k=k+1 WHERE id=?", 1)
	r.exec(c, "UPDATE sbtest1 SET c=? WHERE id=?", "xx", 2)
	r.exec(c, "DELETE FROM sbtest1 WHERE id=?", 3)
	r.exec(c, "INSERT INTO sbtest1 (id, k, c, pad) VALUES (?, ?, ?, ?)", 3, 9, "q", "w")
	t.Log(r.rows(c, "SELECT * FROM sbtest1 WHERE k>5 ORDER BY k DESC"))
	t.Log(r.rows(c, "EXPLAIN SELECT * FROM sbtest1 WHERE k=5"))
	t.Log(r.rows(c, "SHOW CREATE TABLE sbtest1"))
	t.Log(r.rows(c, "SHOW TABLES"))
	t.Log(r.rows(c, "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c", 1, 100))
	_, err := query(c, "INSERT INTO sbtest1 (id, k, c, pad) VALUES (3,3,'','')")
	t.Log(err)
	_, err = query(c, "SELEC 1")
	t.Log(err)
	_, err = query(c, "SELECT nope FROM sbtest1")
	t.Log(err)
	r.exec(c, "DROP TABLE IF EXISTS sbtest1")
	t.Log(r.rows(c, "SHOW TABLES"))
}
