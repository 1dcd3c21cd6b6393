package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/conformance/sqlite/rig"
	"github.com/holdfastdb/holdfast/internal/bucket"
)

// flow is something people do. play returns what it came to in words, or an error that says what is not as expected.
type flow struct {
	name, expected string
	play           func(p *player) (string, error)
}

// first returns the first error of steps, which are done until one fails.
func first(steps ...func() error) error {
	for _, s := range steps {
		if err := s(); err != nil {
			return err
		}
	}
	return nil
}

// create is a program that makes a database as SQLite's default has it, or in WAL mode, and stays a moment.
func create(p *player, pragma string) string {
	return fmt.Sprintf(`/usr/bin/python3 -c "import sqlite3,time; c=sqlite3.connect('%s',isolation_level=None,timeout=5); c.execute('%s'); `+
		`c.execute('create table entries(n integer primary key, pad blob)'); [c.execute('insert into entries values(?,?)',(i,'x')) for i in range(1,6)]; time.sleep(3)"`,
		p.path("app.db"), pragma)
}

var flows = []flow{
	{"a container's first start: `replicate -exec` of a program that makes its database, WAL", "all 5 rows are stored", func(p *player) (string, error) {
		return "5 rows", first(
			func() error {
				return p.good("replicate", "-exec", create(p, "pragma journal_mode=wal"), p.path("app.db"), p.url("rep"))
			},
			func() error { return p.keeps("rep", 5) })
	}},
	{"the same, SQLite's default journal mode", "all 5 rows are stored", func(p *player) (string, error) {
		return "5 rows", first(
			func() error {
				return p.good("replicate", "-exec", create(p, "select 1"), p.path("app.db"), p.url("rep"))
			},
			func() error { return p.keeps("rep", 5) })
	}},
	{"`replicate -once` of a database with a rollback journal", "it is stored", func(p *player) (string, error) {
		return "3 rows", first(
			func() error { return p.make("app.db", "DELETE", 3) },
			func() error { return p.once("app.db", "rep") },
			func() error { return p.keeps("rep", 3) })
	}},
	{"`replicate`, rows, SIGTERM", "what was committed is stored", func(p *player) (string, error) {
		if err := p.make("app.db", "WAL", 1); err != nil {
			return "", err
		}
		s, err := p.start("replicate", p.path("app.db"), p.url("rep"))
		return "50 rows", first(
			func() error { return err },
			func() error { return p.comes("rep", 1) },
			func() error { return p.rows("app.db", 2, 50) },
			func() error { return s.Term(patience) },
			func() error { return s.ExitError() },
			func() error { return p.keeps("rep", 50) })
	}},
	{"`restore` of the newest state", "all rows", func(p *player) (string, error) {
		return "4 rows", first(
			func() error { return p.make("app.db", "WAL", 2) },
			func() error { return p.once("app.db", "rep") },
			func() error { return p.rows("app.db", 3, 4) },
			func() error { return p.once("app.db", "rep") },
			func() error { return p.keeps("rep", 4) })
	}},
	{"restore, one migration, `replicate -exec`", "it goes on behind the replica", func(p *player) (string, error) {
		return "2 rows in file and replica", first(
			func() error { return p.make("app.db", "WAL", 1) },
			func() error { return p.once("app.db", "rep") },
			func() error { return p.fresh("app.db") },
			func() error {
				return p.good("restore", "-if-db-not-exists", "-if-replica-exists", "-o", p.path("app.db"), p.url("rep"))
			},
			func() error { return p.rows("app.db", 2, 2) },
			func() error { return p.good("replicate", "-exec", "sleep 2", p.path("app.db"), p.url("rep")) },
			func() error { return p.has("app.db", 2) },
			func() error { return p.keeps("rep", 2) })
	}},
	{"restore to before a mistake, `replicate`", "the database stays as it was restored, and the replica follows it", func(p *player) (string, error) {
		err := first(
			func() error { return p.make("app.db", "WAL", 5) },
			func() error { return p.once("app.db", "rep") },
			func() error { return rig.Do(p.path("app.db"), "DELETE FROM entries") },
			func() error { return p.once("app.db", "rep") },
			func() error { return p.fresh("app.db") },
			func() error {
				return p.good("restore", "-txid", "0000000000000001", "-o", p.path("app.db"), p.url("rep"))
			})
		if err != nil {
			return "", err
		}
		s, err := p.start("replicate", p.path("app.db"), p.url("rep"))
		return "5 rows in file and replica", first(
			func() error { return err },
			func() error { return p.comes("rep", 5) },
			func() error { return s.Term(patience) },
			func() error { return p.has("app.db", 5) },
			func() error { return p.keeps("rep", 5) })
	}},
	{"the same, then restore what was left behind by its TXID", "it can still be restored", func(p *player) (string, error) {
		var mistake string
		return "the state after the mistake", first(
			func() error { return p.make("app.db", "WAL", 5) },
			func() error { return p.once("app.db", "rep") },
			func() error { return p.rows("app.db", 6, 7) },
			func() error { return p.once("app.db", "rep") },
			func() (err error) { mistake, err = p.newest("rep"); return },
			func() error { return p.fresh("app.db") },
			func() error {
				return p.good("restore", "-txid", "0000000000000001", "-o", p.path("app.db"), p.url("rep"))
			},
			func() error { return p.once("app.db", "rep") },
			func() error { return p.keeps("rep", 5) },
			func() error { return p.keeps("rep", 7, "-txid", mistake) })
	}},
	{"another replica place for the same database", "the new place has everything", func(p *player) (string, error) {
		return "3 rows in the new, 2 in the old", first(
			func() error { return p.make("app.db", "WAL", 2) },
			func() error { return p.once("app.db", "first") },
			func() error { return p.rows("app.db", 3, 3) },
			func() error { return p.once("app.db", "second") },
			func() error { return p.keeps("second", 3) },
			func() error { return p.keeps("first", 2) })
	}},
	{"the newest object is damaged (0 bytes), then rows, then `replicate`", "everything is stored again", func(p *player) (string, error) {
		err := first(
			func() error { return p.make("app.db", "WAL", 1) },
			func() error { return p.once("app.db", "rep") },
			func() error { return p.rows("app.db", 2, 2) },
			func() error { return p.once("app.db", "rep") },
			func() error {
				name, err := p.group("rep", "0")
				if err == nil {
					err = os.Truncate(name, 0)
				}
				return err
			},
			func() error { return p.rows("app.db", 3, 3) })
		if err != nil {
			return "", err
		}
		s, err := p.start("replicate", p.path("app.db"), p.url("rep"))
		return "3 rows", first(
			func() error { return err },
			func() error { return p.comes("rep", 3) },
			func() error { return s.Term(patience) })
	}},
	{"a file of level 1 is lost, `restore`", "the groups of level 0 are whole, so all rows", func(p *player) (string, error) {
		err := p.make("app.db", "WAL", 1)
		text := fmt.Sprintf("levels:\n  - interval: 1s\nl0-retention: 1h\ndbs:\n  - path: %s\n    replica:\n      url: %s\n", p.path("app.db"), p.url("rep"))
		err = errors.Join(err, os.WriteFile(p.path("l.yml"), []byte(text), 0o600))
		if err != nil {
			return "", err
		}
		s, err := p.start("replicate", "-config", p.path("l.yml"))
		return "3 rows", first(
			func() error { return err },
			func() error { return p.comes("rep", 1) },
			func() error { return p.rows("app.db", 2, 3) },
			func() error { return p.comes("rep", 3) },
			func() error { return rig.Poll(patience, func() error { _, err := p.group("rep", "1"); return err }) },
			func() error { return s.Term(patience) },
			func() error {
				name, err := p.group("rep", "1")
				if err == nil {
					err = os.Remove(name)
				}
				return err
			},
			func() error { return p.keeps("rep", 3) })
	}},
	{"the database is a symbolic link", "what it leads to is stored", func(p *player) (string, error) {
		return "3 rows", first(
			func() error { return p.make("real.db", "WAL", 3) },
			func() error { return os.Symlink(p.path("real.db"), p.path("app.db")) },
			func() error { return p.once("app.db", "rep") },
			func() error { return p.rows("real.db", 4, 4) },
			func() error { return p.once("app.db", "rep") },
			func() error { return p.keeps("rep", 4) })
	}},
	{"a directory above the database is a symbolic link", "it is stored", func(p *player) (string, error) {
		return "3 rows", first(
			func() error { return os.Mkdir(p.path("v1"), 0o755) },
			func() error { return p.make("v1/app.db", "WAL", 3) },
			func() error { return os.Symlink(p.path("v1"), p.path("current")) },
			func() error { return p.once("current/app.db", "rep") },
			func() error { return p.keeps("rep", 3) })
	}},
	{"`replicate -once` to a bucket that is not there", "status 1 within 10 s", func(p *player) (string, error) {
		b, err := bucket.Start()
		if err != nil {
			return "", err
		}
		p.buckets = append(p.buckets, b)
		p.env = []string{"AWS_ACCESS_KEY_ID=k", "AWS_SECRET_ACCESS_KEY=s"}
		url := "s3://elsewhere/app?endpoint=" + strings.TrimPrefix(b.Env()[0], "AWS_ENDPOINT_URL=") + "&forcePathStyle=true&region=us-east-1"
		if err := p.make("app.db", "WAL", 1); err != nil {
			return "", err
		}
		return p.fails(url)
	}},
	{"`replicate -once` behind a dangling link (a disk that is not mounted)", "status 1 within 10 s", func(p *player) (string, error) {
		if err := errors.Join(p.make("app.db", "WAL", 1), os.Symlink(p.path("not-mounted/disk"), p.path("backup"))); err != nil {
			return "", err
		}
		return p.fails(p.url("backup/app"))
	}},
	{"`replicate` behind a dangling link, then the disk is mounted, then SIGTERM", "it waits, stores, and ends", func(p *player) (string, error) {
		if err := errors.Join(p.make("app.db", "WAL", 2), os.Symlink(p.path("not-mounted/disk"), p.path("backup"))); err != nil {
			return "", err
		}
		s, err := p.start("replicate", p.path("app.db"), p.url("backup/app"))
		return "2 rows", first(
			func() error { return err },
			func() error { time.Sleep(time.Second); return os.MkdirAll(p.path("not-mounted/disk"), 0o755) },
			func() error { return p.comes("backup/app", 2) },
			func() error { return s.Term(patience) })
	}},
	{"`replicate -once` of a file of 6 bytes", "status 1: it is no database", func(p *player) (string, error) {
		if err := os.WriteFile(p.path("app.db"), []byte("SQLite"), 0o600); err != nil {
			return "", err
		}
		return p.fails(p.url("rep"))
	}},
	{"the mode of a restored file under umask 022", "644: another user's program can read it", func(p *player) (string, error) {
		if err := first(func() error { return p.make("app.db", "WAL", 1) }, func() error { return p.once("app.db", "rep") }); err != nil {
			return "", err
		}
		program := p.program
		p.program = "/bin/sh"
		err := p.good("-c", `umask 022 && exec "$0" "$@"`, program, "restore", "-o", p.path("r.db"), p.url("rep"))
		p.program = program
		if err != nil {
			return "", err
		}
		info, err := os.Stat(p.path("r.db"))
		if err != nil {
			return "", err
		}
		if info.Mode().Perm() != 0o644 {
			return "", fmt.Errorf("mode %o", info.Mode().Perm())
		}
		return "mode 644", nil
	}},
	{"`restore` over a database with `-force`", "the restored one is there", func(p *player) (string, error) {
		return "1 row", first(
			func() error { return p.make("app.db", "WAL", 1) },
			func() error { return p.once("app.db", "rep") },
			func() error { return p.rows("app.db", 2, 3) },
			func() error { return p.good("restore", "-force", "-o", p.path("app.db"), p.url("rep")) },
			func() error { return p.has("app.db", 1) })
	}},
}

// fails runs `replicate -once`, which must end with an error and say nothing of completion.
func (p *player) fails(url string) (string, error) {
	began := time.Now()
	out, status, err := p.try(10*time.Second, "replicate", "-once", p.path("app.db"), url)
	switch {
	case err != nil:
		return "", err
	case status == 0:
		return "", errors.New("status 0, and nothing is stored")
	case strings.Contains(out, "replication complete"):
		return "", fmt.Errorf("status %d, and it says that it is complete", status)
	}
	return fmt.Sprintf("status %d after %.0f s", status, time.Since(began).Seconds()), nil
}
