package proctest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"time"
)

// MariaDB is a throw-away database server on a free loopback port, with a data directory of its own. It syncs every commit. It
// can be killed and started again like any Process.
type MariaDB struct {
	*Process
	Addr string // host:port

	dir    string
	socket string
}

// NewMariaDB installs a database below a new directory and starts its server; extra flags go to the server. It runs as the user
// who runs the test, needs no service manager, and dies with the program. scripts/mariadb.sh installs what it needs.
func NewMariaDB(extra ...string) (*MariaDB, error) {
	server, err := find("mariadbd")
	if err != nil {
		return nil, err
	}
	install, err := find("mariadb-install-db")
	if err != nil {
		return nil, err
	}
	who, err := user.Current()
	if err != nil {
		return nil, err
	}
	addr, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	// Not below the test's directory: the name of a socket may have no more than 107 bytes.
	dir, err := os.MkdirTemp("", "mariadb")
	if err != nil {
		return nil, err
	}
	m := &MariaDB{Addr: addr, dir: dir, socket: filepath.Join(dir, "socket")}
	data := filepath.Join(dir, "data")
	_, port, err := net.SplitHostPort(m.Addr)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	out, err := exec.Command(install, "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", "--user="+who.Username,
		"--datadir="+data).CombinedOutput()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mariadb-install-db: %w\n%s", err, out), os.RemoveAll(dir))
	}
	m.Process = NewProcess(filepath.Join(dir, "log"), server, append([]string{"--no-defaults", "--user=" + who.Username, "--datadir=" + data,
		"--socket=" + m.socket, "--bind-address=127.0.0.1", "--port=" + port, "--skip-name-resolve",
		"--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1"}, extra...)...)
	if err := m.Restart(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// find looks where Debian puts servers too, which is not in everybody's PATH.
func find(name string) (string, error) {
	for _, path := range []string{name, "/usr/sbin/" + name} {
		if p, err := exec.LookPath(path); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("%s is not installed; run scripts/mariadb.sh", name)
}

// Restart starts a server that has ended and waits until it answers.
func (m *MariaDB) Restart() error {
	if err := m.Start(); err != nil {
		return err
	}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		_, err := m.SQL("SELECT 1")
		if err == nil {
			return nil
		}
		if !m.Running() || time.Since(began) > readyTimeout {
			return fmt.Errorf("mariadbd does not answer: %w; last lines:\n%s", err, m.LogTail(20))
		}
	}
}

// SQL runs statements as root and returns what the server answered, a row a line and its columns with tabs between.
func (m *MariaDB) SQL(text string) (string, error) {
	client, err := find("mariadb")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, client, "--no-defaults", "--user=root", "--socket="+m.socket, "--batch", "--raw", "--skip-column-names")
	cmd.Stdin = strings.NewReader(text)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("mariadb: %w: %s", err, strings.TrimSpace(errs.String()))
	}
	return strings.TrimRight(string(out), "\n"), nil
}

// Database makes a database and a user who may do everything in it.
func (m *MariaDB) Database(name, user, password string) error {
	return m.grant("CREATE DATABASE `"+name+"`;\n", "ALL", name, user, password)
}

// Reader makes a user who may only read a database.
func (m *MariaDB) Reader(database, user, password string) error {
	return m.grant("", "SELECT", database, user, password)
}

func (m *MariaDB) grant(before, rights, database, user, password string) error {
	_, err := m.SQL(fmt.Sprintf("%sCREATE USER '%s'@'127.0.0.1' IDENTIFIED BY '%s';\nGRANT %s ON `%s`.* TO '%[2]s'@'127.0.0.1';\n",
		before, user, password, rights, database))
	return err
}

// Close kills the server and removes everything.
func (m *MariaDB) Close() error { return errors.Join(m.Kill(), os.RemoveAll(m.dir)) }
