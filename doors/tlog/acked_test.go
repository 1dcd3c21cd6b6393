package tlog

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/serve/ack"
	"github.com/holdfastdb/holdfast/serve/ack/acktest"
)

func TestAnswersOfAnArchiveSessionWaitForTheArchive(t *testing.T) {
	s, _, url := open(t, Options{Ack: ack.Dial{Archiving: true}}, "default+index")
	c := http.DefaultClient
	ask := func(level, method, path string, body string) (int, string) {
		t.Helper()
		res, b := call(t, c, method, url+path, []byte(body), ack.Header, level)
		return res.StatusCode, string(b)
	}
	if code, b := ask("commit", "POST", "/add", "first"); code != 200 || b != "0" {
		t.Fatal(code, b)
	}
	s.signNow("default")
	for i, r := range []struct {
		method, path string
		code         int
	}{
		{"POST", "/add", 200},
		{"POST", "/add?proof=1", 200},
		{"GET", "/checkpoint", 200},
		{"HEAD", "/checkpoint", 200},
		{"GET", "/tile/entries/000.p/1", 200},
		{"GET", "/tile/0/000.p/1", 200},
		{"GET", "/tile/0/000.p/200", 404},
		{"GET", "/proof/inclusion?index=0", 200},
		{"GET", "/proof/consistency?from=0&to=1", 200},
		{"GET", "/lookup?hash=" + strings.Repeat("00", 32), 404},
	} {
		what := r.method + " " + r.path
		body := ""
		if r.method == "POST" {
			body = what
		}
		if code, b := ask("commit", "POST", "/add", fmt.Sprint("not archived ", i)); code != 200 {
			t.Fatal(code, b)
		}
		s.signNow("default")
		acktest.Held(t, s, what, func() error {
			if code, b := ask("archive", r.method, r.path, body); code != r.code {
				return fmt.Errorf("%d %s", code, b)
			}
			return nil
		})
	}
}

// A checkpoint that is archived, and what is below it, can be read while the archive is away.
func TestWhatIsArchivedIsReadWithoutTheArchive(t *testing.T) {
	t.Parallel()
	s, _, url := open(t, Options{RequestTimeout: time.Second, Ack: ack.Dial{Archiving: true, Default: ack.Archive}}, "default")
	c := http.DefaultClient
	add := func(entry string) {
		t.Helper()
		if res, b := call(t, c, "POST", url+"/add", []byte(entry), ack.Header, "commit"); res.StatusCode != 200 {
			t.Fatal(res.Status, string(b))
		}
	}
	add("first")
	s.signNow("default")
	expect(t, c, "GET", url+"/checkpoint", 503)
	s.SetArchived(s.ReadIndex())
	expect(t, c, "GET", url+"/checkpoint", 200)
	add("second")
	for _, path := range []string{"/checkpoint", "/tile/entries/000.p/1", "/proof/inclusion?index=0"} {
		expect(t, c, "GET", url+path, 200)
	}
	s.signNow("default")
	expect(t, c, "GET", url+"/checkpoint", 503)
	expect(t, c, "GET", url+"/tile/entries/000.p/2", 503)
}

func TestWrittenButNotArchived(t *testing.T) {
	t.Parallel()
	s, _, url := open(t, Options{RequestTimeout: time.Second, Ack: ack.Dial{Archiving: true, Default: ack.Archive}}, "default")
	c := http.DefaultClient
	for i, path := range []string{"/add", "/add?proof=1"} {
		res, b := call(t, c, "POST", url+path, []byte(path))
		at := s.ReadIndex()
		if path != "/add" {
			at-- // the checkpoint came behind it
		}
		if want := fmt.Sprintf("written at %d.0@1, not archived\n", at); res.StatusCode != 500 || string(b) != want || res.Header.Get("Retry-After") != "" {
			t.Errorf("%s: %s %s, want 500 %s", path, res.Status, b, want)
		}
		if size := s.logs.Find("default").View().Size; size != uint64(i)+1 {
			t.Errorf("%s: %d entries", path, size)
		}
	}
	s.signNow("default")
	expect(t, c, "GET", url+"/checkpoint", 503, "Retry-After: 1")
	if res, b := call(t, c, "GET", url+"/checkpoint", nil, ack.Header, "commit"); res.StatusCode != 200 {
		t.Error(res.Status, string(b))
	}
	_, _, plain := open(t, Options{}, "default")
	for _, r := range []struct{ url, level string }{{url, "soon"}, {plain, "archive"}} {
		if res, b := call(t, c, "POST", r.url+"/add", []byte("x"), ack.Header, r.level); res.StatusCode != 400 || !strings.Contains(string(b), "holdfast-ack") {
			t.Errorf("%s: %s %s", r.level, res.Status, b)
		}
	}
	if size := s.logs.Find("default").View().Size; size != 2 {
		t.Errorf("%d entries", size)
	}
}
