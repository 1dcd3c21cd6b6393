package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// silentBucket is a bucket behind a server that can be told to answer nothing.
func silentBucket(t *testing.T) (silent *atomic.Bool) {
	t.Helper()
	back := s3mem.New()
	if err := back.CreateBucket("logs"); err != nil {
		t.Fatal(err)
	}
	silent = new(atomic.Bool)
	h := gofakes3.New(back).Server()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if silent.Load() {
			http.Error(w, "<Error><Code>AccessDenied</Code><Message>no</Message></Error>", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	for name, v := range map[string]string{"AWS_ENDPOINT_URL_S3": srv.URL, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_SESSION_TOKEN": "", "AWS_REGION": ""} {
		t.Setenv(name, v)
	}
	return silent
}

// TestALogWaitsForAPlaceThatDoesNotAnswer, unless the note beside the key covers it; a copied note covers nothing, an operator's word
// does.
func TestALogWaitsForAPlaceThatDoesNotAnswer(t *testing.T) {
	silent := silentBucket(t)
	data := filepath.Join(t.TempDir(), "d")
	const publish = "--tlog-publish=s3://logs/x"
	s := serveTlog(t, data, "--tlog-origin", "log.example/2026", publish)
	key := vkeyOf(t, says(t, "tlog", "vkey", "--data", data))
	s.checkpoint("/checkpoint", key, 0)
	last := s.fill(key, 0, 300)
	s.stop()
	copied := copyDir(t, data)

	silent.Store(true)
	s, out := tlogLogging(t, data, publish)
	if code, body := s.add("/add", "one more"); code != 200 {
		t.Errorf("add where the note covers the log: %d %s", code, body)
	}
	s.checkpoint("/checkpoint", key, 301)
	out.line(t, "WARN", "log goes on although a place does not answer", "s3://logs/x")
	s.stop()

	s, out = tlogLogging(t, copied, publish)
	s.wantHeld(out, key, 300, "s3://logs/x does not answer")
	silent.Store(false)
	for end := time.Now().Add(wait.Limit(t)); ; time.Sleep(20 * time.Millisecond) {
		if code, body := s.add("/add", "another history"); code == 200 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("the place answers and add says %d %s", code, body)
		}
	}
	s.checkpoint("/checkpoint", key, 301)
	s.stop()

	silent.Store(true)
	s, out = tlogLogging(t, copyDir(t, copied), publish)
	s.wantHeld(out, key, 301, "s3://logs/x does not answer")
	refuses(t, "no checkpoint of this log", "resume", "--tlog", "default", "--checkpoint", noCheckpoint(t), "--admin", s.adminAddr)
	says(t, "resume", "--tlog", "default", "--checkpoint", last, "--admin", s.adminAddr)
	if code, body := s.add("/add", "on the operator's word"); code != 200 {
		t.Errorf("add after resume: %d %s", code, body)
	}
	refuses(t, "not held", "resume", "--tlog", "default", "--checkpoint", last, "--admin", s.adminAddr)
}

// deafPlace is an address that takes connections and says nothing.
func deafPlace(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// TestAPlaceThatHangsDoesNotSilenceAnother: of two places one takes connections and never answers, the other is ahead.
func TestAPlaceThatHangsDoesNotSilenceAnother(t *testing.T) {
	t.Parallel()
	data, www := filepath.Join(t.TempDir(), "d"), filepath.Join(t.TempDir(), "www")
	s := serveTlog(t, data, "--tlog-origin", "log.example/2026", "--tlog-publish", "file://"+www)
	key := vkeyOf(t, says(t, "tlog", "vkey", "--data", data))
	s.checkpoint("/checkpoint", key, 0)
	s.fill(key, 0, 20)
	wantPublished(t, www, 20)
	s.stop()
	old := copyDir(t, data)
	s = serveTlog(t, data, "--tlog-publish", "file://"+www)
	s.fill(key, 20, 40)
	wantPublished(t, www, 40)
	s.stop()
	s, out := tlogLogging(t, old, "--tlog-publish", "mysql://u@"+deafPlace(t)+"/db", "--tlog-publish", "file://"+www)
	s.wantHeld(out, key, 20, "it has 40 entries, the log 20")
}

// TestAStoreWithoutConditionsIsRefused at the start, with one line, and the data directory is not touched.
func TestAStoreWithoutConditionsIsRefused(t *testing.T) {
	back := s3mem.New()
	if err := back.CreateBucket("logs"); err != nil {
		t.Fatal(err)
	}
	h := gofakes3.New(back).Server()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("If-Match")
		h.ServeHTTP(w, r)
	}))
	defer srv.Close()
	for name, v := range map[string]string{"AWS_ENDPOINT_URL_S3": srv.URL, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_SESSION_TOKEN": "", "AWS_REGION": ""} {
		t.Setenv(name, v)
	}
	data := filepath.Join(t.TempDir(), "d")
	refuses(t, "--tlog-publish s3://logs/x: the store does not keep to the condition", "serve", "--data", data, "--kv", freeAddr(t), "--tlog", freeAddr(t),
		"--admin", "off", "--tlog-publish", "s3://logs/x")
	if _, err := os.Stat(data); err == nil {
		t.Error("the data directory was made")
	}
}
