package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/serve/server"
)

// tlogServer is a server with the tlog door, and how to talk to it.
type tlogServer struct {
	*running
	t   *testing.T
	url string
}

func serveTlog(t *testing.T, data string, args ...string) *tlogServer {
	t.Helper()
	at := freeAddr(t)
	return &tlogServer{serveFlags(t, data, append([]string{"--tlog", at}, args...)...), t, "http://" + at}
}

func (s *tlogServer) get(path string) (int, string) {
	s.t.Helper()
	res, err := http.Get(s.url + path)
	return s.read(res, err)
}

func (s *tlogServer) add(path, entry string) (int, string) {
	s.t.Helper()
	res, err := http.Post(s.url+path, "", strings.NewReader(entry))
	return s.read(res, err)
}

func (s *tlogServer) read(res *http.Response, err error) (int, string) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// checkpoint waits for one of at least a size and returns it.
func (s *tlogServer) checkpoint(path string, key *tiles.Verifier, size uint64) (*tiles.Checkpoint, string) {
	s.t.Helper()
	for end := time.Now().Add(wait.Limit(s.t)); ; time.Sleep(5 * time.Millisecond) {
		code, note := s.get(path)
		if code == 200 {
			c, _, err := tiles.OpenCheckpoint([]byte(note), key)
			if err != nil {
				s.t.Fatalf("%v in %q", err, note)
			}
			if c.Size >= size {
				return c, note
			}
		}
		if time.Now().After(end) {
			s.t.Fatalf("no checkpoint of %d: %d %s", size, code, note)
		}
	}
}

// says runs a command that must succeed and returns what it printed.
func says(t *testing.T, args ...string) string {
	t.Helper()
	status, out, errs := execute(nil, args...)
	if status != 0 {
		t.Fatalf("%s: status %d: %s", strings.Join(args, " "), status, errs)
	}
	return out
}

// refuses runs a command that must fail with these words.
func refuses(t *testing.T, words string, args ...string) {
	t.Helper()
	status, _, errs := execute(nil, args...)
	if status == 0 || !strings.Contains(errs, words) {
		t.Errorf("%s: status %d: %s; want %q", strings.Join(args, " "), status, errs, words)
	}
}

func vkeyOf(t *testing.T, text string) *tiles.Verifier {
	t.Helper()
	v, err := tiles.ParseVerifier(strings.TrimSpace(text))
	if err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return v
}

// TestALogFromItsFirstStart follows a log from the first start through every command and a lost key.
func TestALogFromItsFirstStart(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := serveTlog(t, data, "--tlog-origin", "log.example/2026")
	key := vkeyOf(t, says(t, "tlog", "vkey", "--data", data))
	if key.Name != "log.example/2026" {
		t.Fatalf("origin %s", key.Name)
	}
	keyFile := filepath.Join(data, "tlog-keys", "default.key")
	if info, err := os.Stat(keyFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key file: %v, %v", info, err)
	}
	if info, err := os.Stat(filepath.Dir(keyFile)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("key directory: %v, %v", info, err)
	}
	if c, _ := s.checkpoint("/checkpoint", key, 0); c.Size != 0 {
		t.Errorf("the first checkpoint has size %d", c.Size)
	}
	for i := range 300 {
		if code, body := s.add("/add", fmt.Sprintf("entry %d", i)); code != 200 || body != fmt.Sprint(i) {
			t.Fatalf("add: %d %s", code, body)
		}
	}
	s.checkpoint("/checkpoint", key, 300) // although no client asked for it
	code, body := s.add("/add?proof=1", "proved")
	p, err := tiles.ParseTlogProof([]byte(body))
	if code != 200 || err != nil {
		t.Fatalf("%d %s: %v", code, body, err)
	}
	if c, err := p.Verify([]byte("proved"), key); err != nil || c.Size < 301 {
		t.Errorf("proof: %+v, %v", c, err)
	}

	other := vkeyOf(t, says(t, "tlog", "create", "other", "--origin", "log.example/other", "--dedup", "--admin", s.adminAddr))
	for range 2 {
		if code, body := s.add("/logs/other/add", "same"); code != 200 || body != "0" {
			t.Errorf("a deduplicating log: %d %s", code, body)
		}
	}
	s.checkpoint("/logs/other/checkpoint", other, 1)
	refuses(t, "there is a log other", "tlog", "create", "other", "--origin", "log.example/third", "--admin", s.adminAddr)
	refuses(t, "log.example/2026", "tlog", "create", "third", "--origin", "log.example/2026", "--admin", s.adminAddr)
	refuses(t, "no space", "tlog", "create", "fourth", "--origin", "an origin", "--admin", s.adminAddr)
	if out := says(t, "tlog", "verify", s.url, "--vkey", filepath.Join(data, "tlog-keys", "default.vkey")); !strings.Contains(out, "has 301 entries") {
		t.Errorf("verify: %s", out)
	}
	says(t, "tlog", "verify", s.url+"/logs/other", "--vkey", other.String())
	refuses(t, "no good signature", "tlog", "verify", s.url, "--vkey", other.String())
	res, err := http.Get("http://" + s.adminAddr + "/metrics")
	if _, metrics := s.read(res, err); !strings.Contains(metrics, `holdfast_tlog_added_total{log="default"} 301`) ||
		!strings.Contains(metrics, `holdfast_tlog_checkpoint_size{log="other"} 1`) || strings.Contains(metrics, "holdfast_tlog_sign_seconds_count 0") {
		t.Errorf("metrics: %s", metrics)
	}
	_, before := s.get("/checkpoint")
	s.stop()

	s = serveTlog(t, data)
	if _, after := s.get("/checkpoint"); after != before {
		t.Errorf("after a restart the checkpoint is\n%s\nbefore\n%s", after, before)
	}
	if code, body := s.add("/add", "once more"); code != 200 || body != "301" {
		t.Errorf("add: %d %s", code, body)
	}
	s.checkpoint("/checkpoint", key, 302)
	s.stop()

	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	s = serveTlog(t, data)
	if code, body := s.add("/add", "x"); code != 503 || !strings.Contains(body, keyFile) {
		t.Errorf("without the key: %d %s", code, body)
	}
	if code, _ := s.get("/tile/0/000"); code != 200 {
		t.Errorf("reads without the key: %d", code)
	}
	s.stop()

	refuses(t, "wants a name and an origin", "tlog", "keygen", "default")
	says(t, "tlog", "keygen", "default", "--origin", "log.example/2026", "--tlog-keys", filepath.Dir(keyFile))
	refuses(t, "exists", "tlog", "keygen", "default", "--origin", "log.example/2026", "--tlog-keys", filepath.Dir(keyFile))
	cfg, err := load([]string{"--data", data, "--kv", freeAddr(t), "--tlog", freeAddr(t), "--admin", "off"}...)
	if err != nil {
		t.Fatal(err)
	}
	if err := startFails(t, cfg); err == nil || !strings.Contains(err.Error(), "another key than the log default was begun with") {
		t.Errorf("start with a foreign key: %v", err)
	}
}

// TestARestoredLogIsHeld: a snapshot of 5,000 entries is restored after the original has published 9,000. It takes no entries, and goes on
// only if 5,000 were the last that any reader saw.
func TestARestoredLogIsHeld(t *testing.T) {
	t.Parallel()
	data, published := t.TempDir(), filepath.Join(t.TempDir(), "www")
	s := serveTlog(t, data, "--tlog-origin", "log.example/2026", "--tlog-publish", "file://"+published)
	key := vkeyOf(t, says(t, "tlog", "vkey", "--data", data))
	s.checkpoint("/checkpoint", key, 0) // the log has begun
	at5000 := s.fill(key, 0, 5000)
	wantPublished(t, published, 5000)
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	says(t, "snapshot", "save", snapshot, "--admin", s.adminAddr)
	s.stop()
	asOf5000, keysOf5000 := copyDir(t, published), copyDir(t, filepath.Join(data, "tlog-keys")) // as if the original had ended here
	s = serveTlog(t, data, "--tlog-publish", "file://"+published)
	at9000 := s.fill(key, 5000, 9000)
	wantPublished(t, published, 9000)
	s.stop()

	copied := filepath.Join(t.TempDir(), "copy")
	says(t, "snapshot", "restore", snapshot, "--data", copied, "--name", "r1")
	if b, err := os.ReadFile(snapshot); err != nil || bytes.Contains(b, []byte("PRIVATE+KEY")) {
		t.Errorf("the snapshot holds a private key, or %v", err)
	}
	keys := filepath.Join(data, "tlog-keys")
	s = serveTlog(t, copied, "--tlog-keys", keys)
	if code, body := s.add("/add", "another entry"); code != 503 || !strings.Contains(body, "holdfast resume") {
		t.Errorf("add to a restored log: %d %s", code, body)
	}
	if code, _ := s.get("/tile/entries/000"); code != 200 {
		t.Errorf("reads of a restored log: %d", code)
	}
	resume := func(checkpoint string) []string {
		return []string{"resume", "--tlog", "default", "--checkpoint", checkpoint, "--admin", s.adminAddr}
	}
	refuses(t, "has 5000 entries, the published checkpoint 9000", resume(at9000)...)
	refuses(t, "no checkpoint of this log", resume(noCheckpoint(t))...)
	if code, _ := s.add("/add", "another entry"); code != 503 {
		t.Errorf("add after resume was refused: %d", code)
	}
	s.stop()

	s = serveTlog(t, copied, "--tlog-keys", keys, "--tlog-publish", "file://"+published)
	refuses(t, "it has 9000 entries, the log 5000", resume(at5000)...) // the place it would be published to knows better
	if code, _ := s.add("/add", "another entry"); code != 503 {
		t.Errorf("add after resume was refused: %d", code)
	}
	s.stop()
	wantPublished(t, published, 9000)

	s = serveTlog(t, copied, "--tlog-keys", keysOf5000, "--tlog-publish", "file://"+asOf5000)
	if code, _ := s.add("/add", "another entry"); code != 503 {
		t.Errorf("add after a restart: %d", code)
	}
	says(t, resume(at5000)...)
	if code, body := s.add("/add", "another entry"); code != 200 || body != "5000" {
		t.Errorf("add to a resumed log: %d %s", code, body)
	}
	s.checkpoint("/checkpoint", key, 5001)
	refuses(t, "not held", resume(at5000)...)
	wantPublished(t, asOf5000, 5001)
	if out := says(t, "tlog", "verify", s.url, "--vkey", key.String()); !strings.Contains(out, "has 5001 entries") {
		t.Errorf("verify: %s", out)
	}
}

// TestALogWithoutItsKeySaysSo, after a restore and after any start: wherever an operator looks, and without making the member not ready.
func TestALogWithoutItsKeySaysSo(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := serveTlog(t, data, "--tlog-origin", "log.example/2026")
	key := vkeyOf(t, says(t, "tlog", "vkey", "--data", data))
	s.checkpoint("/checkpoint", key, 0)
	last := s.fill(key, 0, 3)
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	says(t, "snapshot", "save", snapshot, "--admin", s.adminAddr)
	s.stop()

	restored := filepath.Join(t.TempDir(), "r")
	says(t, "snapshot", "restore", snapshot, "--data", restored, "--name", "r1")
	file := filepath.Join(restored, "tlog-keys", "default.key")
	s = serveTlog(t, restored)
	tells := func(words ...string) {
		t.Helper()
		status := says(t, "status", "--admin", s.adminAddr)
		list := says(t, "tlog", "list", "--admin", s.adminAddr)
		code, ready := s.read(http.Get("http://" + s.adminAddr + "/readyz"))
		for _, w := range words {
			if !strings.Contains(status, w) || !strings.Contains(list, w) || !strings.Contains(ready, w) {
				t.Errorf("not everywhere %q:\n%s\n%s\n%s", w, status, list, ready)
			}
		}
		if code != 200 || !strings.HasPrefix(ready, "ok\n") {
			t.Errorf("readyz: %d %s", code, ready)
		}
		if len(words) == 0 && (strings.Contains(status+ready, "takes no entries") || !strings.Contains(list, "  ok ")) {
			t.Errorf("all is well, and it says:\n%s\n%s\n%s", status, list, ready)
		}
	}
	tells("read-only: no key: "+file+" is missing", "put the log's own key there", "holdfast resume --tlog default")
	if list := says(t, "tlog", "list", "--admin", s.adminAddr); !strings.Contains(list, "held, read-only: no key") {
		t.Errorf("list: %s", list)
	}
	out := says(t, "resume", "--tlog", "default", "--checkpoint", last, "--admin", s.adminAddr)
	if !strings.Contains(out, "read-only: no key: "+file) || strings.Contains(out, "goes on") {
		t.Errorf("resume: %s", out)
	}
	refuses(t, "read-only: no key: "+file, "resume", "--tlog", "default", "--checkpoint", last, "--admin", s.adminAddr)
	s.stop()

	s = serveTlog(t, restored)
	tells("read-only: no key: "+file+" is missing", "put the log's own key there")
	if list := says(t, "tlog", "list", "--admin", s.adminAddr); strings.Contains(list, "held") {
		t.Errorf("list: %s", list)
	}
	if code, body := s.add("/add", "one more"); code != 503 || !strings.Contains(body, "read-only: no key: "+file) {
		t.Errorf("add: %d %s", code, body)
	}
	b, err := os.ReadFile(filepath.Join(data, "tlog-keys", "default.key"))
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, b, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(wait.Limit(t)); ; time.Sleep(20 * time.Millisecond) {
		if code, body := s.add("/add", "one more"); code == 200 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("the key is there, and add says %d %s", code, body)
		}
	}
	tells()
}

// wantPublished waits until a directory holds a checkpoint of a size.
func wantPublished(t *testing.T, dir string, size int) {
	t.Helper()
	for end := time.Now().Add(wait.Limit(t)); ; time.Sleep(10 * time.Millisecond) {
		note, err := os.ReadFile(filepath.Join(dir, "checkpoint"))
		if err == nil && strings.Contains(string(note), fmt.Sprintf("\n%d\n", size)) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d entries are not published to %s: %s, %v", size, dir, note, err)
		}
	}
}

// startFails starts a server that should not come up.
func startFails(t *testing.T, cfg *server.Config) error {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	su, err := cfg.Setup(log)
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.Start(timely(t), su, log)
	if err == nil {
		s.Shutdown()
	}
	return err
}

// noCheckpoint is a file that is no checkpoint.
func noCheckpoint(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(file, []byte("no checkpoint\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestABucketIsALogOfItsOwn: what is published to a bucket verifies without the server that wrote it.
func TestABucketIsALogOfItsOwn(t *testing.T) {
	back := s3mem.New()
	if err := back.CreateBucket("logs"); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(gofakes3.New(back).Server())
	defer srv.Close()
	for name, v := range map[string]string{"AWS_ENDPOINT_URL_S3": srv.URL, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_SESSION_TOKEN": "", "AWS_REGION": ""} {
		t.Setenv(name, v)
	}
	data := t.TempDir()
	s := serveTlog(t, data, "--tlog-publish", "s3://logs/2026/x")
	vkey := filepath.Join(data, "tlog-keys", "default.vkey")
	s.checkpoint("/checkpoint", vkeyOf(t, says(t, "tlog", "vkey", "--data", data)), 0) // the log has begun
	for i := range 260 {
		if code, body := s.add("/add", fmt.Sprintf("entry %d", i)); code != 200 {
			t.Fatalf("add: %d %s", code, body)
		}
	}
	published := srv.URL + "/logs/2026/x"
	for end := time.Now().Add(wait.Limit(t)); ; time.Sleep(20 * time.Millisecond) {
		res, err := http.Get(published + "/checkpoint")
		code, note := s.read(res, err)
		if code == 200 && strings.Contains(note, "\n260\n") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("not published in 10 s: %d %s", code, note)
		}
	}
	s.stop()
	if out := says(t, "tlog", "verify", published, "--vkey", vkey); !strings.Contains(out, "has 260 entries") {
		t.Errorf("verify: %s", out)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	refuses(t, "no credentials; set AWS_ACCESS_KEY_ID", "serve", "--data", filepath.Join(data, "none"), "--tlog-publish", "s3://logs/b")
}

// TestLogsAreBoundedByMemory: every member keeps the hashes on the right edge of every log in memory. So there are no more logs than
// --memory has room for. The operator is told with the request that would be too much.
func TestLogsAreBoundedByMemory(t *testing.T) {
	s := serveTlog(t, t.TempDir(), "--memory", "111MiB")
	created := 0
	for ; created < 300; created++ {
		res, err := http.Post("http://"+s.adminAddr+"/v1/tlog/logs", "application/json",
			strings.NewReader(fmt.Sprintf(`{"name":"log%d","origin":"log%d.example"}`, created, created)))
		code, body := s.read(res, err)
		if code == http.StatusInsufficientStorage && strings.Contains(body, "--memory of a member has room for") {
			break
		}
		if code != http.StatusCreated {
			t.Fatalf("log %d: %d %s", created, code, body)
		}
	}
	if created < 40 || created > 200 {
		t.Errorf("%d logs in the room of 98 MiB", created)
	}
}

// TestWhileUsersAreOnAnAddNeedsAToken: on loopback as well, as at the other doors. Reading stays open to everybody.
func TestWhileUsersAreOnAnAddNeedsAToken(t *testing.T) {
	t.Parallel()
	for _, tokens := range []bool{false, true} {
		t.Run(fmt.Sprintf("tokens=%t", tokens), func(t *testing.T) {
			t.Parallel()
			var args []string
			const token = "0123456789abcdef"
			if tokens {
				file := filepath.Join(t.TempDir(), "tokens")
				writeFile(t, file, "default "+token+"\n")
				args = []string{"--tlog-tokens", file}
			}
			s := serveTlog(t, t.TempDir(), args...)
			add := func(token string) int {
				t.Helper()
				req, err := http.NewRequestWithContext(timely(t), "POST", s.url+"/add", strings.NewReader("entry"))
				if err != nil {
					t.Fatal(err)
				}
				if token != "" {
					req.Header.Set("Authorization", "Bearer "+token)
				}
				code, _ := s.read(http.DefaultClient.Do(req))
				return code
			}
			open := map[bool]int{false: 200, true: 401}[tokens]
			if code := add(""); code != open {
				t.Errorf("before users are on: %d, want %d", code, open)
			}
			kv := s.client(t, nil)
			enableUsers(t, kv)
			if code := add(""); code != 401 {
				t.Errorf("while users are on, an add without a token: %d", code)
			}
			if tokens {
				if code := add(token); code != 200 {
					t.Errorf("an add with a token: %d", code)
				}
			}
			if code, _ := s.get("/checkpoint"); code != 200 && code != 404 { // 404: nothing was added yet
				t.Errorf("reading: %d", code)
			}
		})
	}
}
