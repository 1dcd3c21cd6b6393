package stories

import (
	"os"
	"testing"
)

// TestADamagedTailIsFollowedByASnapshot: the agent has the whole database, so what is damaged at a replica's end costs a snapshot and no person.
func TestADamagedTailIsFollowedByASnapshot(t *testing.T) {
	for name, damage := range map[string]func(s *scene){
		"the newest group is empty": func(s *scene) { s.must(os.Truncate(s.newest("rep"), 0)) },
		"the newest group is cut": func(s *scene) {
			info, err := os.Stat(s.newest("rep"))
			s.must(err)
			s.must(os.Truncate(s.newest("rep"), info.Size()/2))
		},
		"the newest group is another text": func(s *scene) {
			b, err := os.ReadFile(s.newest("rep"))
			s.must(err)
			for i := range b {
				b[i] ^= 0x55
			}
			s.must(os.WriteFile(s.newest("rep"), b, 0o600))
		},
		"the manifest is garbage": func(s *scene) { s.must(os.WriteFile(s.path("rep/holdfast/manifest"), []byte("garbage"), 0o600)) },
		"the manifest is empty":   func(s *scene) { s.must(os.Truncate(s.path("rep/holdfast/manifest"), 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			db, url := s.database("app.db", "WAL", 1), s.url("rep")
			s.once(db, url)
			s.rows(db, 2, 2)
			s.once(db, url)
			damage(s)
			s.rows(db, 3, 3)
			p := s.replicate("a", db, url)
			s.comes(url, 3)
			if status := p.stop(); status != 0 {
				t.Errorf("it ended with %d:\n%s", status, p.log())
			}
			s.rows(db, 4, 4)
			s.once(db, url)
			s.keeps(url, 4)
		})
	}
}

// TestAMissingLevelFileIsGoneRound: any complete set of files restores.
func TestAMissingLevelFileIsGoneRound(t *testing.T) {
	s := newScene(t)
	db, url := s.database("app.db", "WAL", 1), s.url("rep")
	p := s.agent("a", db, url, "--ack", "local", "--levels", "1s", "--l0-retention", "1h")
	p.says("followed")
	s.rows(db, 2, 3)
	s.comes(url, 3)
	s.poll("a file of level 1", func() bool { return len(s.files(s.path("rep/ltx/1"))) > 0 })
	if status := p.stop(); status != 0 {
		t.Fatalf("it ended with %d:\n%s", status, p.log())
	}
	for _, f := range s.files(s.path("rep/ltx/1")) {
		s.must(os.Remove(s.path("rep/ltx/1/" + f)))
	}
	s.keeps(url, 3)
	s.rows(db, 4, 4)
	s.once(db, url)
	s.keeps(url, 4)
}
