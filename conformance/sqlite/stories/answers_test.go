package stories

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/conformance/sqlite/rig"
	"github.com/holdfastdb/holdfast/internal/bucket"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// poll waits until ok does.
func (s *scene) poll(what string, ok func() bool) {
	s.t.Helper()
	if err := rig.Poll(wait.Limit(s.t), func() error {
		if !ok() {
			return errors.New("it does not come: " + what)
		}
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
}

// TestTheMachineIsKilled: what returned under archive is restored on another disk; the next run on an empty disk restores it by itself.
func TestTheMachineIsKilled(t *testing.T) {
	s := newScene(t)
	db, url := s.database("app.db", "WAL", 0), s.url("rep")
	agent := s.agent("a", db, url)
	s.managed(db)
	s.run("a", s.app("a", db, 0, 5))
	s.must(agent.Kill())
	s.wipe(db)
	s.keeps(url, 5)
	s.good(s.tools.Holdfast, "sqlite", "run", "--replica", url, db, "--", "true")
	s.has(db, 5)
}

// TestTheAgentIsKilled: under archive writes are refused and reads go on until an agent is there again. Under local writes go on, and the
// next agent stores them.
func TestTheAgentIsKilled(t *testing.T) {
	s := newScene(t)
	db, url := s.database("app.db", "WAL", 0), s.url("rep")
	agent := s.agent("a", db, url)
	s.managed(db)
	s.run("a", s.app("a", db, 0, 2))
	s.must(agent.Kill())
	refused := s.app("refused", db, 2, 1)
	line := refused.Command(s.tools)
	s.good(line[0], line[1:]...)
	if said := refused.Said(); len(said.OK) > 0 || len(said.No) != 1 || !strings.Contains(said.No[0], "readonly") {
		t.Errorf("without an agent the application said %+v", said)
	}
	s.has(db, 2) // read, meanwhile
	local := s.app("local", db, 2, 1)
	local.Ack = "local"
	s.run("local", local)
	agent = s.agent("b", db, url)
	s.comes(url, 3)
	if status := agent.stop(); status != 0 {
		t.Errorf("the second agent ended with %d:\n%s", status, agent.log())
	}
}

// TestTheBucketIsAway: under archive a commit is an error after the timeout and the next are refused; then everything is stored, without a restart.
func TestTheBucketIsAway(t *testing.T) {
	s := newScene(t)
	db := s.database("app.db", "WAL", 0)
	b, url, _ := s.bucket()
	agent := s.agent("a", db, url)
	s.managed(db)
	s.run("a", s.app("a", db, 0, 2))
	b.Fail(func(*http.Request) bucket.Fault { return bucket.Hang })
	away := s.app("away", db, 2, 2)
	line := away.Command(s.tools)
	s.good(line[0], line[1:]...)
	if said := away.Said(); len(said.OK) > 0 || len(said.No) != 2 || !strings.Contains(said.No[0], "disk I/O error") || !strings.Contains(said.No[1], "readonly") {
		t.Errorf("while the bucket was away the application said %+v", said)
	}
	s.has(db, 3) // the commit that was an error was made
	agent.says("it is tried again")
	b.Fail(nil)
	s.comes(url, 3)
	s.poll("writes go on", func() bool {
		next := s.app("next", db, 3, 1)
		s.must(os.RemoveAll(next.Says))
		line := next.Command(s.tools)
		s.good(line[0], line[1:]...)
		return len(next.Said().OK) == 1
	})
	s.keeps(url, 4)
	if status := agent.stop(); status != 0 {
		t.Errorf("it ended with %d:\n%s", status, agent.log())
	}
}

// TestTheBucketIsAwayAtTheEnd: the last line says what is not stored, and the status is 1.
func TestTheBucketIsAwayAtTheEnd(t *testing.T) {
	s := newScene(t)
	db := s.database("app.db", "WAL", 1)
	b, url, _ := s.bucket()
	agent := s.agent("a", db, url, "--ack", "local")
	agent.says("followed")
	s.comes(url, 1)
	b.Fail(func(*http.Request) bucket.Fault { return bucket.Unavailable })
	s.rows(db, 2, 2)
	if status := agent.stop(); status != 1 || !strings.Contains(agent.last(), "NOT STORED") {
		t.Errorf("it ended with %d:\n%s", status, agent.log())
	}
}

// TestTheDiskOfTheReplicaIsNotMounted: nothing is acknowledged into the directory that lies there instead, and when the disk is back everything
// is stored.
func TestTheDiskOfTheReplicaIsNotMounted(t *testing.T) {
	for name, leave := range map[string]func(s *scene){
		"an empty directory": func(s *scene) { s.mkdir("rep") },
		"nothing":            func(*scene) {},
		"another replica":    func(s *scene) { s.copyTo(s.path("rep"), s.path("foreign")) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.once(s.database("foreign.db", "WAL", 7), s.url("foreign"))
			db, url := s.database("app.db", "WAL", 0), s.url("rep")
			agent := s.agent("a", db, url)
			s.managed(db)
			s.run("a", s.app("a", db, 0, 2))
			s.must(os.Rename(s.path("rep"), s.path("rep.away")))
			leave(s)
			away := s.app("away", db, 2, 1)
			line := away.Command(s.tools)
			s.good(line[0], line[1:]...)
			if said := away.Said(); len(said.OK) > 0 {
				t.Errorf("a commit returned that no replica has: %+v", said)
			}
			agent.says("level=ERROR")
			s.must(os.RemoveAll(s.path("rep")))
			s.must(os.Rename(s.path("rep.away"), s.path("rep")))
			s.keeps(url, 2)
			_ = agent.stop() // whether it has stored the third by now is not said
			s.once(db, url)
			has, err := rig.Rows(db) // the third too, unless the agent knew already and refused it
			s.must(err)
			s.keeps(url, len(has))
		})
	}
}

// TestTheBucketWasEmptied: at the start of the next agent, at the latest, the missing acknowledged commits are named, and nothing is done
// about it in silence.
func TestTheBucketWasEmptied(t *testing.T) {
	s := newScene(t)
	db := s.database("app.db", "WAL", 0)
	b, url, _ := s.bucket()
	agent := s.agent("a", db, url)
	s.managed(db)
	s.run("a", s.app("a", db, 0, 2))
	if status := agent.stop(); status != 0 {
		t.Errorf("it ended with %d:\n%s", status, agent.log())
	}
	s.must(b.Empty())
	r := s.bad([]string{"stored"}, s.tools.Holdfast, "sqlite", "run", "--replica", url, db, "--", "touch", s.path("ran"))
	if _, err := os.Stat(s.path("ran")); err == nil {
		t.Errorf("the program ran:\n%s", r.out)
	}
}

// TestAProgramWithoutTheExtension: its commits never wait. Under archive the agent warns of the first, and stores it within the interval.
func TestAProgramWithoutTheExtension(t *testing.T) {
	s := newScene(t)
	db, url := s.database("app.db", "WAL", 0), s.url("rep")
	agent := s.agent("a", db, url)
	agent.says("followed")
	s.rows(db, 1, 1)
	agent.says("without the extension")
	s.comes(url, 1)
	if status := agent.stop(); status != 0 {
		t.Errorf("it ended with %d:\n%s", status, agent.log())
	}
	// With --require-extension such a commit ends the agent.
	agent = s.agent("b", db, url, "--require-extension")
	agent.says("followed")
	s.rows(db, 2, 2)
	if status := agent.end(); status != 1 {
		t.Errorf("with --require-extension it ended with %d:\n%s", status, agent.log())
	}
}

// TestTheJournalModeIsDelete: SQLite's default. The agent switches the database to WAL when it takes it over, and everything is stored.
func TestTheJournalModeIsDelete(t *testing.T) {
	s := newScene(t)
	db, url := s.database("app.db", "DELETE", 1), s.url("rep")
	s.once(db, url)
	if mode, err := rig.One(db, "PRAGMA journal_mode"); err != nil || mode != "wal" {
		t.Errorf("the mode is %q, %v", mode, err)
	}
	s.keeps(url, 1)
	// With --wal=never it is left, and said, and nothing is taken for stored.
	other := s.database("other.db", "DELETE", 1)
	r := s.bad([]string{"NOT STORED"}, s.tools.Holdfast, "sqlite", "run", "--wal=never", "--replica", s.url("never"), other, "--", "true")
	if !strings.Contains(r.last(), "NOT STORED") {
		t.Errorf("its last line:\n%s", r.out)
	}
	if mode, err := rig.One(other, "PRAGMA journal_mode"); err != nil || mode != "delete" {
		t.Errorf("the mode is %q, %v", mode, err)
	}
}

// TestAProgramSwitchesAwayFromWAL while an agent follows: it is not fought, and it is said.
func TestAProgramSwitchesAwayFromWAL(t *testing.T) {
	s := newScene(t)
	db, url := s.database("app.db", "WAL", 1), s.url("rep")
	agent := s.agent("a", db, url, "--ack", "local")
	agent.says("followed")
	s.comes(url, 1)
	s.poll("the mode is changed", func() bool {
		_ = rig.Do(db, "PRAGMA journal_mode=DELETE") // it is busy until the agent rests
		mode, err := rig.One(db, "PRAGMA journal_mode")
		return err == nil && mode == "delete"
	})
	s.rows(db, 2, 2)
	agent.says("NOT STORED")
	if status := agent.stop(); status != 1 || !strings.Contains(agent.last(), "NOT STORED") {
		t.Errorf("it ended with %d:\n%s", status, agent.log())
	}
}

// TestTheDiskOfTheReplicaIsFull: under archive a commit is an error, as with a bucket that is away; when there is room it is stored.
func TestTheDiskOfTheReplicaIsFull(t *testing.T) {
	s := newScene(t)
	db := s.database("app.db", "WAL", 0)
	b, url, _ := s.bucket()
	agent := s.agent("a", db, url)
	s.managed(db)
	s.run("a", s.app("a", db, 0, 1))
	b.Fail(func(*http.Request) bucket.Fault { return bucket.Full })
	full := s.app("full", db, 1, 1)
	line := full.Command(s.tools)
	s.good(line[0], line[1:]...)
	if said := full.Said(); len(said.OK) > 0 {
		t.Errorf("a commit returned that is not stored: %+v", said)
	}
	b.Fail(nil)
	s.comes(url, 2)
	_ = agent.stop()
}

// TestTheDiskOfTheDatabaseIsFull: SQLite says so to the application; what returned is stored, and the agent goes on.
func TestTheDiskOfTheDatabaseIsFull(t *testing.T) {
	s := newScene(t)
	s.mkdir("small", "before")
	s.database("before/app.db", "WAL", 0)
	url := s.url("rep")
	a := s.app("a", s.path("small/app.db"), 0, 1000)
	line := append([]string{s.tools.Holdfast, "sqlite", "run", "--interval", "200ms", "--ack-timeout", "2s", "--shutdown-timeout", "2s", "--socket", s.path("s"), "--replica", url,
		s.path("small/app.db"), "--"}, a.Command(s.tools)...)
	line = rig.Small(s.path("small"), "300k", s.path("before"), line)
	r := s.try(line[0], line[1:]...)
	said := a.Said()
	if len(said.OK) == 0 || len(said.No) == 0 {
		t.Fatalf("%d inserts returned, %d failed", len(said.OK), len(said.No))
	}
	to := s.path("restored.db")
	s.good(s.tools.Holdfast, "sqlite", "restore", "--to", to, url)
	has, err := rig.Rows(to)
	s.must(err)
	for _, n := range said.OK {
		if !has[n] {
			t.Fatalf("row %d returned and is not stored; the agent:\n%s", n, r.out)
		}
	}
}
