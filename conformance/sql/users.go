package main

import (
	"bytes"
	"fmt"
)

// users has Debian's mariadb client log in as users of both plugins, by the right password and a wrong one. Each user must be kept to its
// database.
func (s *suite) users() (string, error) {
	root, err := connect(s.node(), "")
	if err != nil {
		return "", err
	}
	defer root.close()
	if err := root.exec("CREATE DATABASE IF NOT EXISTS theirs", "CREATE DATABASE IF NOT EXISTS others"); err != nil {
		return "", err
	}
	for _, plugin := range []string{"mysql_native_password", "caching_sha2_password"} {
		user := "of_" + plugin[:6]
		if err := root.exec("DROP USER IF EXISTS "+user, "CREATE USER "+user+" IDENTIFIED WITH "+plugin+" BY 'it''s a secret'", "GRANT ALL ON theirs.* TO "+user); err != nil {
			return "", err
		}
		for i, c := range []struct{ password, text, want string }{
			{"it's a secret", "SELECT CURRENT_USER();", user + "@%"},
			{"it's a secret", "SELECT CURRENT_USER();", user + "@%"}, // by the server's cache
			{"it's a secret", "USE theirs; CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (7); SELECT id + 70 FROM t; DROP TABLE t;", "77"},
			{"it's a secret", "SHOW DATABASES;", "theirs"},
			{"it's a secret", "USE others;", "ERROR 1044 (42000)"},
			{"it's a secret", "CREATE TABLE others.t (id INT PRIMARY KEY);", "ERROR 1142 (42000)"},
			{"it's a secret", "CREATE USER x;", "ERROR 1227 (42000)"},
			{"another", "SELECT 1;", "ERROR 1045 (28000)"},
		} {
			// The client does otherwise where its user has not said that there is no TLS.
			flags := []string{"--user=" + user, "--password=" + c.password, "--batch"}
			if i%2 == 1 {
				flags = append(flags, "--skip-ssl")
			}
			out, err := s.mariadb([]byte(c.text), flags...)
			if !bytes.Contains(out, []byte(c.want)) || bytes.Contains(out, []byte("others\n")) {
				return "", fmt.Errorf("%s, %s: %q (%v), want %q", plugin, c.text, out, err, c.want)
			}
		}
		if err := root.exec("DROP USER " + user); err != nil {
			return "", err
		}
		if out, _ := s.mariadb([]byte("SELECT 1;"), "--user="+user, "--password=it's a secret", "--skip-ssl"); !bytes.Contains(out, []byte("ERROR 1045")) {
			return "", fmt.Errorf("%s: a dropped user: %q", plugin, out)
		}
	}
	return "both plugins", nil
}
