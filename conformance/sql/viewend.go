package main

import (
	"fmt"
	"time"
)

// viewEnd has views of a second. That of a transaction which has only read stays, and that of one which has locked a row ends with its
// transaction.
func (s *suite) viewEnd() (string, error) {
	var all []*client
	for range 3 {
		c, err := connect(s.node(), "")
		if err != nil {
			return "", err
		}
		defer c.close()
		all = append(all, c)
	}
	reader, writer, other := all[0], all[1], all[2]
	if err := other.exec("CREATE DATABASE IF NOT EXISTS two_views", "DROP TABLE IF EXISTS two_views.v", "CREATE TABLE two_views.v (id INT PRIMARY KEY, n INT NOT NULL)",
		"INSERT INTO two_views.v VALUES (1, 1), (2, 1)"); err != nil {
		return "", err
	}
	for _, c := range []*client{reader, writer} {
		if err := c.exec("USE two_views", "SET holdfast_view_seconds = 1", "START TRANSACTION WITH CONSISTENT SNAPSHOT"); err != nil {
			return "", err
		}
	}
	if err := writer.exec("SELECT * FROM v WHERE id = 1 FOR UPDATE"); err != nil {
		return "", err
	}
	if err := other.exec("UPDATE two_views.v SET n = 2 WHERE id = 2"); err != nil {
		return "", err
	}
	began, n := time.Now(), 0
	var err error
	for err == nil {
		if time.Since(began) > patience {
			return "", fmt.Errorf("after %s it reads from a view of a second", patience)
		}
		time.Sleep(50 * time.Millisecond)
		if err = writer.one("SELECT n FROM v WHERE id = 2", &n); err == nil && n != 1 {
			return "", fmt.Errorf("its snapshot shows %d", n)
		}
	}
	if err := expect(err, 1213, "40001"); err != nil {
		return "", err
	}
	took := time.Since(began)
	if err := other.exec("SET innodb_lock_wait_timeout = 1", "UPDATE two_views.v SET n = 3 WHERE id = 1"); err != nil {
		return "", fmt.Errorf("its lock is not free: %w", err)
	}
	if err := writer.one("SELECT n FROM v WHERE id = 2", &n); err != nil || n != 2 {
		return "", fmt.Errorf("the session reads %d behind it: %w", n, err)
	}
	if err := reader.one("SELECT SUM(n) FROM v", &n); err != nil || n != 2 {
		return "", fmt.Errorf("the snapshot of who has only read shows %d: %w", n, err)
	}
	return fmt.Sprintf("1213 after %s, the lock free, the session lives; who has only read goes on", round(took)), reader.exec("COMMIT")
}
