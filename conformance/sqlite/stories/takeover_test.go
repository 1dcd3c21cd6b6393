package stories

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/conformance/sqlite/rig"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// holder is a Python program that has a database open until its standard input ends.
const holder = `import sqlite3,sys
c=sqlite3.connect(sys.argv[1],isolation_level=None)
c.execute(sys.argv[2])
c.execute('select count(*) from entries').fetchall()
open(sys.argv[3],'w').close()
while True:
    import time; time.sleep(1)
`

// hold starts a program that has a database open, inside a transaction or not.
func (s *scene) hold(db, statement string) {
	s.t.Helper()
	mark := s.path(fmt.Sprintf("holds-%d", time.Now().UnixNano()))
	s.start(filepath.Base(mark), "/usr/bin/python3", "-c", holder, db, statement, mark)
	s.must(rig.Poll(wait.Limit(s.t), func() error { _, err := os.Stat(mark); return err }))
}

// TestAnAgentThatCannotGoOnLeavesTheOwnerAlone: everything that can fail is done before the fence.
func TestAnAgentThatCannotGoOnLeavesTheOwnerAlone(t *testing.T) {
	for name, second := range map[string]func(s *scene, db string) (command []string){
		"its file is held open": func(s *scene, db string) []string {
			s.hold(db, "select 1")
			return nil
		},
		"its file is in a transaction": func(s *scene, db string) []string {
			s.hold(db, "begin immediate")
			return nil
		},
		"its disk is full": func(s *scene, db string) []string {
			s.must(os.Rename(s.path("h2"), s.path("h2.before")))
			s.mkdir("h2")
			return rig.Small(s.path("h2"), "400k", s.path("h2.before"), nil)
		},
		"its disk is read-only": func(s *scene, db string) []string { return rig.ReadOnly(s.path("h2"), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.mkdir("h1", "h2")
			first, behind, url := s.database("h1/app.db", "WAL", 1), s.path("h2/app.db"), s.url("rep")
			s.once(first, url)
			s.copyTo(behind, first)
			owner := s.replicate("owner", first, url)
			owner.says("followed")
			s.sql(first, "INSERT INTO entries VALUES(2, randomblob(300000))")
			s.comes(url, 2)
			groups := s.groups("rep")
			line := append(second(s, behind), s.tools.Litestream, "replicate", behind, url)
			other := s.start("other", line[0], line[1:]...)
			// It tries, and tries again or ends; either way the owner goes on.
			_ = rig.Poll(6*time.Second, func() error {
				if !other.Running() || strings.Count(other.log(), "level=WARN")+strings.Count(other.log(), "level=ERROR") >= 2 {
					return nil
				}
				return fmt.Errorf("it goes on")
			})
			if l := other.log(); !strings.Contains(l, "WARN") && !strings.Contains(l, "ERROR") && !strings.Contains(strings.ToLower(l), "error") {
				t.Errorf("it says nothing:\n%s", l)
			}
			if n := s.groups("rep"); n != groups {
				t.Errorf("level 0 had %d files, and has %d:\n%s", groups, n, other.log())
			}
			s.sql(first, "INSERT INTO entries VALUES(3, 'x')")
			s.comes(url, 3)
			if names := s.files(s.path("h1")); strings.Contains(strings.Join(names, " "), "fenced") {
				t.Errorf("the owner's file is set aside: %v", names)
			}
			if status := owner.stop(); status != 0 {
				t.Errorf("the owner ended with %d:\n%s", status, owner.log())
			}
		})
	}
}

// TestOfTwoAgentsOneHasTheReplica: the one that began last; the other answers nothing more, and says so.
func TestOfTwoAgentsOneHasTheReplica(t *testing.T) {
	s := newScene(t)
	s.mkdir("h1", "h2")
	first, second, url := s.database("h1/app.db", "WAL", 2), s.path("h2/app.db"), s.url("rep")
	one := s.agent("one", first, url)
	one.says("followed")
	two := s.agent("two", second, url)
	two.says("followed")
	s.has(second, 2)
	a, b := s.app("a", first, 2, 1), s.app("b", second, 2, 1)
	line := a.Command(s.tools)
	s.try(line[0], line[1:]...)
	s.run("b", b)
	if said := a.Said(); len(said.OK) != 0 {
		t.Errorf("the first agent's application had %v answered", said.OK)
	}
	one.says("fenced")
	if status := two.stop(); status != 0 {
		t.Errorf("the second ended with %d:\n%s", status, two.log())
	}
	s.keeps(url, 3)
	if status := one.stop(); status == 0 || !strings.Contains(one.last(), "NOT STORED") {
		t.Errorf("the first, which has a row that nobody kept, ended with %d:\n%s", status, one.log())
	}
}

// TestTwoDatabasesOfOneNameAreRefused, by every way in, before anything is touched.
func TestTwoDatabasesOfOneNameAreRefused(t *testing.T) {
	for name, start := range map[string]func(s *scene) result{
		"run": func(s *scene) result {
			return s.bad(nil, s.tools.Holdfast, "sqlite", "run", "--replica", s.url("rep"), s.path("a/app.db"), s.path("b/app.db"), "--", "touch", s.path("ran"))
		},
		"replicate": func(s *scene) result {
			return s.bad(nil, s.tools.Holdfast, "sqlite", "replicate", "--replica", s.url("rep"), s.path("a/app.db"), s.path("b/app.db"))
		},
		"yml": func(s *scene) result {
			s.must(os.WriteFile(s.path("l.yml"), fmt.Appendf(nil, "dbs:\n  - path: %[1]s\n    replica: {url: %[3]s}\n  - path: %[2]s\n    replica: {url: %[3]s}\n",
				s.path("a/app.db"), s.path("b/app.db"), s.url("rep/app.db")), 0o600))
			return s.bad(nil, s.tools.Litestream, "replicate", "-config", s.path("l.yml"), "-once")
		},
		"one file by two names": func(s *scene) result {
			s.must(os.Symlink(s.path("a"), s.path("c")))
			return s.bad(nil, s.tools.Holdfast, "sqlite", "run", "--replica", s.url("rep"), s.path("a/app.db"), s.path("c/app.db"), "--", "touch", s.path("ran"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.mkdir("a", "b")
			a, b := s.database("a/app.db", "WAL", 1), s.database("b/app.db", "WAL", 2)
			start(s)
			s.has(a, 1)
			s.has(b, 2)
			if n := s.groups("rep") + s.groups("rep/app.db"); n > 0 {
				t.Errorf("%d groups are stored", n)
			}
			for _, f := range []string{"ran", "rep"} {
				if _, err := os.Lstat(s.path(f)); err == nil {
					t.Errorf("%s is there", f)
				}
			}
		})
	}
}
