package stories

import (
	"os"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/conformance/sqlite/rig"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestALinkIsTheFileItLeadsTo: agent and extension agree on a file, however each reaches it. The application says ack archive, and what returned
// is stored.
func TestALinkIsTheFileItLeadsTo(t *testing.T) {
	link := func(s *scene, to, at string) string {
		s.t.Helper()
		s.must(os.Symlink(to, s.path(at)))
		return s.path(at)
	}
	for name, paths := range map[string]func(s *scene, file string) (agent, app string){
		"the file": func(s *scene, file string) (string, string) { l := link(s, file, "app.db"); return l, l },
		"the directory": func(s *scene, file string) (string, string) {
			l := link(s, s.path("real"), "current") + "/app.db"
			return l, l
		},
		"two, one behind the other": func(s *scene, file string) (string, string) {
			return link(s, link(s, file, "first.db"), "second.db"), s.path("first.db")
		},
		"a relative one": func(s *scene, file string) (string, string) {
			s.mkdir("etc")
			return link(s, "../real/app.db", "etc/app.db"), file
		},
		"a way up and down": func(s *scene, file string) (string, string) {
			return s.path("real") + "/../real/./app.db", link(s, s.path("real"), "current") + "/../real/app.db"
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.mkdir("real")
			file := s.database("real/app.db", "WAL", 0)
			agent, path := paths(s, file)
			url := s.url("rep")
			a := s.app("a", path, 0, 3)
			line := append([]string{"sqlite", "run", "--interval", "200ms", "--socket", s.path("s"), "--replica", url}, limits()...)
			line = append(append(line, agent, "--"), a.Command(s.tools)...)
			s.good(s.tools.Holdfast, line...)
			if said := a.Said(); said.Ack != "archive" || len(said.OK) != 3 {
				t.Errorf("the application said %+v", said)
			}
			s.keeps(url, 3)
		})
	}
}

// TestALinkThatMovesIsSeen: a link whose target changes under an agent, as a deployment does, is another database. The agent does not
// continue with the old one in silence.
func TestALinkThatMovesIsSeen(t *testing.T) {
	s := newScene(t)
	s.mkdir("v1", "v2")
	s.database("v1/app.db", "WAL", 1)
	s.must(os.Symlink(s.path("v1"), s.path("current")))
	p := s.agent("a", s.path("current/app.db"), s.url("rep"), "--ack", "local")
	p.says("followed")
	s.comes(s.url("rep"), 1)
	s.database("v2/app.db", "WAL", 2)
	s.must(os.Remove(s.path("current")))
	s.must(os.Symlink(s.path("v2"), s.path("current")))
	s.must(rig.Poll(wait.Limit(s.t), func() error {
		if l := p.log(); !strings.Contains(l, "level=ERROR") && !strings.Contains(l, "level=WARN") {
			return os.ErrNotExist
		}
		return nil
	}))
	p.stop()
}

// TestAFileWithTwoNamesIsRefused: SQLite's WAL belongs to a name, so each name of a hard link has another.
func TestAFileWithTwoNamesIsRefused(t *testing.T) {
	s := newScene(t)
	db := s.database("app.db", "WAL", 1)
	s.must(os.Link(db, s.path("other.db")))
	s.bad(nil, s.tools.Litestream, "replicate", "-once", db, s.url("rep"))
	s.bad(nil, s.tools.Holdfast, "sqlite", "run", "--replica", s.url("rep"), db, "--", "true")
	if n := s.groups("rep"); n > 0 {
		t.Errorf("%d groups are stored", n)
	}
}
