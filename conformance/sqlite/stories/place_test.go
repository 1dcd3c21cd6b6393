package stories

import (
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/internal/bucket"
)

// bucket starts a bucket for a scene, and returns its place as Holdfast's commands take it and as Litestream's do.
func (s *scene) bucket() (b *bucket.Bucket, url, litestreamURL string) {
	s.t.Helper()
	b, err := bucket.Start()
	s.must(err)
	s.t.Cleanup(func() { _ = b.Close() }) // what it holds goes with it
	s.env = append(b.Env(), "AWS_CA_BUNDLE=")
	return b, b.URL("app"), b.URL("app") + "?endpoint=" + strings.TrimPrefix(b.Env()[0], "AWS_ENDPOINT_URL=") + "&forcePathStyle=true&region=us-east-1"
}

// TestAPlaceThatCannotBeEndsTheStart: a fault that no later attempt can change ends `-once` and the start of `run` within seconds. The
// status is 1, there is one line, and the program does not run.
func TestAPlaceThatCannotBeEndsTheStart(t *testing.T) {
	closed := func() string { // a port without a listener
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return "http://" + l.Addr().String()
	}
	in := func(name string) func(s *scene) (string, string) {
		return func(s *scene) (string, string) { return s.url(name), s.url(name) }
	}
	for name, place := range map[string]func(s *scene) (url, litestreamURL string){
		"a dangling directory": func(s *scene) (string, string) {
			s.must(os.Symlink(s.path("not-mounted/disk"), s.path("backup")))
			return in("backup/app")(s)
		},
		"below /proc": func(s *scene) (string, string) { return "file:///proc/x/y", "file:///proc/x/y" },
		"below a file": func(s *scene) (string, string) {
			s.must(os.WriteFile(s.path("file"), []byte("x"), 0o600))
			return in("file/app")(s)
		},
		"a link to itself": func(s *scene) (string, string) {
			s.must(os.Symlink(s.path("loop"), s.path("loop")))
			return in("loop/app")(s)
		},
		"no such bucket": func(s *scene) (string, string) {
			_, url, l := s.bucket()
			return strings.Replace(url, "holdfast", "elsewhere", 1), strings.Replace(l, "holdfast", "elsewhere", 1)
		},
		"refused credentials": func(s *scene) (string, string) {
			b, url, l := s.bucket()
			b.Fail(func(*http.Request) bucket.Fault { return bucket.Denied })
			return url, l
		},
		"nobody listens": func(s *scene) (string, string) {
			s.env = []string{"AWS_ENDPOINT_URL=" + closed(), "AWS_ACCESS_KEY_ID=k", "AWS_SECRET_ACCESS_KEY=s"}
			return "s3://holdfast/app", "s3://holdfast/app?endpoint=" + closed() + "&forcePathStyle=true&region=us-east-1"
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			db := s.database("app.db", "WAL", 1)
			url, litestreamURL := place(s)
			r := s.bad(nil, s.tools.Litestream, "replicate", "-once", db, litestreamURL)
			if strings.Contains(r.out, "replication complete") {
				t.Errorf("it says that it is complete:\n%s", r.out)
			}
			s.bad(nil, s.tools.Holdfast, "sqlite", "run", "--replica", url, db, "--", "touch", s.path("ran"))
			if _, err := os.Stat(s.path("ran")); err == nil {
				t.Error("the program ran")
			}
			s.has(db, 1)
		})
	}
}

// TestAnAgentThatRunsWaitsForItsPlace: without an end of its own it tries again, says so, and ends with a signal at once.
func TestAnAgentThatRunsWaitsForItsPlace(t *testing.T) {
	s := newScene(t)
	db := s.database("app.db", "WAL", 1)
	s.must(os.Symlink(s.path("not-mounted/disk"), s.path("backup")))
	p := s.replicate("a", db, s.url("backup/app"))
	p.says("it is tried again")
	if rss, err := p.RSS(); err != nil || rss > 200<<20 {
		t.Errorf("%d bytes of memory, %v", rss, err)
	}
	s.mkdir("not-mounted/disk") // the disk is mounted
	s.comes(s.url("backup/app"), 1)
	if status := p.stop(); status != 0 {
		t.Errorf("it ended with %d:\n%s", status, p.log())
	}
}

// TestWhatIsNoDatabaseIsAnError: `-once` with nothing to store does not say that it is complete.
func TestWhatIsNoDatabaseIsAnError(t *testing.T) {
	for name, make := range map[string]func(s *scene, db string){
		"no file":      func(*scene, string) {},
		"a short file": func(s *scene, db string) { s.must(os.WriteFile(db, []byte("SQLite"), 0o600)) },
		"a text": func(s *scene, db string) {
			s.must(os.WriteFile(db, []byte(strings.Repeat("no database, a text\n", 500)), 0o600))
		},
		"a directory": func(s *scene, db string) { s.mkdir("app.db") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			db := s.path("app.db")
			make(s, db)
			r := s.bad(nil, s.tools.Litestream, "replicate", "-once", db, s.url("rep"))
			if strings.Contains(r.out, "replication complete") {
				t.Errorf("it says that it is complete:\n%s", r.out)
			}
		})
	}
}

// TestAStoreWithoutConditionsIsRefused: one that takes no notice of If-None-Match, or does not have it, would let two agents write over each other.
func TestAStoreWithoutConditionsIsRefused(t *testing.T) {
	for name, fault := range map[string]bucket.Fault{"ignores them": bucket.Unconditional, "has none": bucket.NoConditions} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			db := s.database("app.db", "WAL", 1)
			b, url, litestreamURL := s.bucket()
			b.Fail(func(*http.Request) bucket.Fault { return fault })
			s.bad(nil, s.tools.Litestream, "replicate", "-once", db, litestreamURL)
			s.bad([]string{"--single-writer"}, s.tools.Holdfast, "sqlite", "run", "--replica", url, db, "--", "true")
			r := s.good(s.tools.Holdfast, "sqlite", "run", "--single-writer", "--replica", url, db, "--", "sh", "-c", "sleep 0.3")
			if !strings.Contains(r.out, "fencing") {
				t.Errorf("it does not say that fencing is off:\n%s", r.out)
			}
			s.keeps(url, 1)
		})
	}
}
