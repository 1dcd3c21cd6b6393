package stories

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestARestoredDatabaseThatWasWrittenToGoesOn: the start script as people have it: restore if there is a replica, run migrations, replicate.
// Litestream 0.5.18 goes on behind the replica.
func TestARestoredDatabaseThatWasWrittenToGoesOn(t *testing.T) {
	for name, f := range map[string]struct {
		restore func(s *scene, db, url string)
		resume  func(s *scene, db, url string)
	}{
		"litestream -exec": {
			func(s *scene, db, url string) {
				s.good(s.tools.Litestream, "restore", "-if-db-not-exists", "-if-replica-exists", "-o", db, url)
			},
			func(s *scene, db, url string) {
				s.good(s.tools.Litestream, "replicate", "-exec", "sh -c 'sleep 0.3'", db, url)
			},
		},
		"litestream -once": {
			func(s *scene, db, url string) { s.good(s.tools.Litestream, "restore", "-o", db, url) },
			func(s *scene, db, url string) { s.once(db, url) },
		},
		"run": {
			func(s *scene, db, url string) {
				s.good(s.tools.Holdfast, "sqlite", "restore", "--to", db, "--if-db-not-exists", "--if-replica-exists", url)
			},
			func(s *scene, db, url string) {
				s.good(s.tools.Holdfast, "sqlite", "run", "--replica", url, db, "--", "sh", "-c", "sleep 0.3")
			},
		},
		"an agent until a signal": {
			func(s *scene, db, url string) { s.good(s.tools.Holdfast, "sqlite", "restore", "--to", db, url) },
			func(s *scene, db, url string) {
				p := s.agent("a", db, url)
				p.says("followed")
				if status := p.stop(); status != 0 {
					t.Errorf("it ended with %d:\n%s", status, p.log())
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			db, url := s.database("app.db", "WAL", 1), s.url("rep")
			s.once(db, url)
			s.wipe(db)
			f.restore(s, db, url)
			s.rows(db, 2, 2) // the migration, before replication begins
			f.resume(s, db, url)
			s.has(db, 2)
			s.keeps(url, 2)
			s.good(s.tools.Holdfast, "sqlite", "verify", url)
		})
	}
}

// TestARestoreToBeforeAMistakeIsKept: an operator restores to before a bad DELETE, and starts replication again at the same place. The database
// stays as it was restored, the replica follows it, and what was left behind can be restored.
func TestARestoreToBeforeAMistakeIsKept(t *testing.T) {
	for name, f := range map[string]struct {
		restore func(s *scene, db, url string)
		resume  func(s *scene, db, url string)
	}{
		"-txid, replicate": {
			func(s *scene, db, url string) {
				s.good(s.tools.Litestream, "restore", "-txid", "0000000000000001", "-o", db, url)
			},
			func(s *scene, db, url string) {
				p := s.replicate("a", db, url)
				s.comes(url, 5)
				if status := p.stop(); status != 0 {
					t.Errorf("it ended with %d:\n%s", status, p.log())
				}
			},
		},
		"-txid over the file, -once": {
			func(s *scene, db, url string) {
				s.good(s.tools.Litestream, "restore", "-force", "-txid", "0000000000000001", "-o", db, url)
			},
			func(s *scene, db, url string) { s.once(db, url) },
		},
		"--txid, run": {
			func(s *scene, db, url string) {
				s.good(s.tools.Holdfast, "sqlite", "restore", "--overwrite", "--to", db, "--txid", "0000000000000001", url)
			},
			func(s *scene, db, url string) {
				s.good(s.tools.Holdfast, "sqlite", "run", "--replica", url, db, "--", "sh", "-c", "sleep 0.3")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			db, url := s.database("app.db", "WAL", 5), s.url("rep")
			s.once(db, url)
			s.sql(db, "DELETE FROM entries")
			s.once(db, url)
			s.keeps(url, 0)
			if !strings.Contains(name, "over") && !strings.HasPrefix(name, "--") {
				s.wipe(db)
			}
			f.restore(s, db, url)
			s.has(db, 5)
			f.resume(s, db, url)
			s.has(db, 5)
			s.keeps(url, 5)
			s.keeps(url, 0, "--txid", "0000000000100003") // what was left behind
			// It goes on from there, also for the original's reader.
			s.rows(db, 6, 6)
			s.once(db, url)
			s.keeps(url, 6)
			s.original(url, 6)
		})
	}
}

// original says that Litestream's own restore has rows 1 to n, where it is built.
func (s *scene) original(url string, n int) {
	s.t.Helper()
	if s.tools.Original == "" {
		return
	}
	to := s.path("original.db")
	s.must(os.RemoveAll(to))
	s.good(s.tools.Original, "restore", "-o", to, url)
	s.has(to, n)
}

// TestARestoredFileHasTheModeThatOthersCanRead: 0644 less the umask, as Litestream's; over a file, that file's mode and owner.
func TestARestoredFileHasTheModeThatOthersCanRead(t *testing.T) {
	s := newScene(t)
	db, url := s.database("app.db", "WAL", 1), s.url("rep")
	s.once(db, url)
	mode := func(path string, want os.FileMode) {
		t.Helper()
		info, err := os.Stat(path)
		s.must(err)
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", filepath.Base(path), info.Mode().Perm(), want)
		}
	}
	umask := func(mask, program string, args ...string) {
		t.Helper()
		s.good("sh", append([]string{"-c", "umask " + mask + ` && exec "$@"`, "sh", program}, args...)...)
	}
	umask("022", s.tools.Litestream, "restore", "-o", s.path("a.db"), url)
	mode(s.path("a.db"), 0o644)
	umask("027", s.tools.Holdfast, "sqlite", "restore", "--to", s.path("b.db"), url)
	mode(s.path("b.db"), 0o640)
	s.must(os.WriteFile(s.path("c.db"), nil, 0o600))
	s.must(os.Chmod(s.path("c.db"), 0o664))
	chowned := os.Getuid() == 0
	if chowned {
		s.must(os.Chown(s.path("c.db"), 1234, 4321))
	}
	umask("022", s.tools.Holdfast, "sqlite", "restore", "--overwrite", "--to", s.path("c.db"), url)
	mode(s.path("c.db"), 0o664)
	if info, err := os.Stat(s.path("c.db")); err != nil {
		t.Error(err)
	} else if st := info.Sys().(*syscall.Stat_t); chowned && (st.Uid != 1234 || st.Gid != 4321) {
		t.Errorf("a file over another belongs to %d:%d", st.Uid, st.Gid)
	}
	// The agent restores a database that is not there.
	s.wipe(db)
	umask("022", s.tools.Holdfast, "sqlite", "run", "--replica", url, db, "--", "true")
	s.has(db, 1)
	mode(db, 0o644)
}

// TestADatabaseThatIsBehindIsBroughtUpToDate, and its old copy is kept.
func TestADatabaseThatIsBehindIsBroughtUpToDate(t *testing.T) {
	s := newScene(t)
	s.mkdir("h1", "h2")
	first, second, url := s.database("h1/app.db", "WAL", 1), s.path("h2/app.db"), s.url("rep")
	s.once(first, url)
	s.copyTo(second, first) // a backup of long ago, without a record of where it is from
	s.rows(first, 2, 5)
	s.once(first, url)
	p := s.agent("a", second, url)
	p.says("followed")
	s.has(second, 5)
	if !s.aside(second) {
		t.Errorf("no copy of the old file: %v", s.files(s.path("h2")))
	}
	if status := p.stop(); status != 0 {
		t.Errorf("it ended with %d", status)
	}
	s.keeps(url, 5)
}

// TestAnotherPlaceBeginsAnew: what was stored elsewhere is not said of a new place.
func TestAnotherPlaceBeginsAnew(t *testing.T) {
	s := newScene(t)
	db := s.database("app.db", "WAL", 3)
	s.once(db, s.url("first"))
	s.rows(db, 4, 4)
	s.once(db, s.url("second"))
	s.keeps(s.url("second"), 4)
	s.keeps(s.url("first"), 3)
	r := s.good(s.tools.Holdfast, "sqlite", "run", "--replica", s.url("third"), db, "--", "true")
	if strings.Contains(r.out, "level=ERROR") {
		t.Errorf("the third place:\n%s", r.out)
	}
	s.keeps(s.url("third"), 4)
}
