package stories

import (
	"syscall"
	"testing"
)

// TestASignalThatIsSentTwiceIsARequest: timeout(1) signals an agent and then its process group, and a script passes on what the terminal has sent
// to both. The second one is no order to end at once: what was committed is stored first.
func TestASignalThatIsSentTwiceIsARequest(t *testing.T) {
	for name, start := range map[string]func(s *scene, db, url string) *process{
		"sqlite replicate": func(s *scene, db, url string) *process { return s.agent("a", db, url, "--ack", "local") },
		"litestream":       func(s *scene, db, url string) *process { return s.start("a", s.tools.Litestream, "replicate", db, url) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			db, url := s.database("app.db", "WAL", 1), s.url("rep")
			agent := start(s, db, url)
			agent.says("followed")
			s.rows(db, 2, 50)
			for range 2 {
				s.must(syscall.Kill(agent.PID(), syscall.SIGTERM))
			}
			if status := agent.end(); status != 0 {
				t.Errorf("it ended with %d:\n%s", status, agent.log())
			}
			s.keeps(url, 50)
		})
	}
}
