package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// addAs posts an entry with a token.
func addAs(t *testing.T, client *http.Client, url, token, entry string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequest("POST", url+"/add", strings.NewReader(entry))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(b)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestAPublicLog: an address for reading alone, tokens for adding with a rate and a quota, over TLS. kv has its room however full the log
// is.
func TestAPublicLog(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cert, key := a.issue(t, "server", 2)
	ca := filepath.Join(a.dir, "ca.pem")
	data, tokens := t.TempDir(), filepath.Join(t.TempDir(), "tokens")
	writeFile(t, tokens, "# who may add\ndefault writer\ndefault slow 1000\ndefault full 0 20KiB\n")
	at, read := freeAddr(t), freeAddr(t)
	s := &tlogServer{serveFlags(t, data, "--tlog", at, "--tlog-read", read, "--tlog-tokens", tokens, "--tls-cert", cert, "--tls-key", key,
		"--tlog-origin", "log.example/2026"), t, "https://" + at}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: a.client(t, "", "")}}
	defer client.CloseIdleConnections()
	for _, token := range []string{"", "guess"} {
		if code, h, body := addAs(t, client, s.url, token, "x"); code != 401 || h.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("with the token %q: %d %s", token, code, body)
		}
	}
	code, _, body := addAs(t, client, s.url, "writer", "first")
	for deadline := time.Now().Add(wait.Limit(t)); code == 503 && time.Now().Before(deadline); code, _, body = addAs(t, client, s.url, "writer", "first") {
		time.Sleep(10 * time.Millisecond) // a log begins just after its server is ready
	}
	if code != 200 || body != "0" {
		t.Fatalf("add: %d %s", code, body)
	}
	limited := false
	for range 80 {
		code, h, body := addAs(t, client, s.url, "slow", strings.Repeat("x", 1000))
		if limited = code == 429 && h.Get("Retry-After") != ""; limited {
			break
		}
		if code != 200 {
			t.Fatalf("add: %d %s", code, body)
		}
	}
	if !limited {
		t.Error("80,000 bytes at a thousand a second")
	}
	if code, _, body := addAs(t, client, s.url, "full", "x"); code != 507 {
		t.Errorf("over the quota: %d %s", code, body)
	}
	if _, err := s.client(t, a.client(t, "", "")).Put(timely(t), "a", "1"); err != nil {
		t.Errorf("kv beside a full log: %v", err)
	}

	readURL := "https://" + read
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS"} {
		for _, path := range []string{"/add", "/checkpoint"} {
			req, _ := http.NewRequest(method, readURL+path, strings.NewReader("x"))
			req.Header.Set("Authorization", "Bearer writer")
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != 405 {
				t.Errorf("%s %s on the address for reading: %d", method, path, res.StatusCode)
			}
		}
	}
	vkey := filepath.Join(data, "tlog-keys", "default.vkey")
	if out := says(t, "tlog", "verify", readURL, "--vkey", vkey, "--tls-ca", ca); !strings.Contains(out, "verified in") {
		t.Errorf("verify: %s", out)
	}
	refuses(t, "certificate", "tlog", "verify", readURL, "--vkey", vkey)
	if out := says(t, "bench", "tlog", s.url, "--vkey", vkey, "--tls-ca", ca, "--token", "writer", "--writers", "2", "--count", "20", "--verify", "all"); out == "" {
		t.Error("bench says nothing")
	}
	if out := says(t, "tlog", "list", "--admin", s.adminAddr); !strings.Contains(out, "default") || !strings.Contains(out, "log.example/2026+") {
		t.Errorf("list: %s", out)
	}

	writeFile(t, tokens, "default another\n")
	time.Sleep(time.Second)
	if code, _, _ := addAs(t, client, s.url, "writer", "x"); code != 401 {
		t.Errorf("a token that was taken away: %d", code)
	}
	if code, _, body := addAs(t, client, s.url, "another", "x"); code != 200 {
		t.Errorf("a new token: %d %s", code, body)
	}
	writeFile(t, tokens, "no line of ours at all, with commas\n")
	time.Sleep(time.Second)
	if code, _, body := addAs(t, client, s.url, "another", "y"); code != 200 {
		t.Errorf("after the file was spoilt: %d %s", code, body)
	}
}

// TestAKeyBesideARunningServerIsFound: within a second or so, and that it is missing is said.
func TestAKeyBesideARunningServerIsFound(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := serveTlog(t, data, "--tlog-origin", "log.example/2026")
	key := vkeyOf(t, says(t, "tlog", "vkey", "--data", data))
	s.checkpoint("/checkpoint", key, 0)
	s.fill(key, 0, 10)
	s.stop()
	file := filepath.Join(data, "tlog-keys", "default.key")
	away := filepath.Join(t.TempDir(), "default.key")
	if err := os.Rename(file, away); err != nil {
		t.Fatal(err)
	}
	s, out := tlogLogging(t, data)
	out.line(t, "WARN", "the key is missing", "default.key")
	b, err := os.ReadFile(away)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, file, string(b))
	out.line(t, "the key is there", "default.key") // even without adds
	if code, body := s.add("/add", "goes on"); code != 200 {
		t.Errorf("add: %d %s", code, body)
	}
	s.checkpoint("/checkpoint", key, 11)
}

// TestRestoreNamesItsLogs, the keys that are missing, and the command that goes on.
func TestRestoreNamesItsLogs(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := serveTlog(t, data, "--tlog-origin", "log.example/2026")
	key := vkeyOf(t, says(t, "tlog", "vkey", "--data", data))
	s.checkpoint("/checkpoint", key, 0)
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	says(t, "snapshot", "save", snapshot, "--admin", s.adminAddr)
	s.stop()
	restored := filepath.Join(t.TempDir(), "r")
	out := says(t, "snapshot", "restore", snapshot, "--data", restored, "--name", "r1")
	for _, want := range []string{"transparency log default (log.example/2026)", "read-only: no key: put the original's at " + filepath.Join(restored, "tlog-keys", "default.key"),
		"holdfast resume --tlog default --checkpoint FILE"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q: %s", want, out)
		}
	}
	keys := filepath.Join(data, "tlog-keys")
	if out := says(t, "snapshot", "restore", snapshot, "--data", filepath.Join(t.TempDir(), "s"), "--name", "r1", "--tlog-keys", keys); strings.Contains(out, "no snapshot") {
		t.Errorf("with the key: %s", out)
	}
}

// TestPublishedCheckpointsAlone: with --tlog-checkpoints published every checkpoint that readers get can be verified at the place as it is
// then, although many more were signed.
func TestPublishedCheckpointsAlone(t *testing.T) {
	t.Parallel()
	data, www := t.TempDir(), filepath.Join(t.TempDir(), "www")
	s := serveTlog(t, data, "--tlog-origin", "log.example/2026", "--tlog-publish", "file://"+www, "--tlog-checkpoints", "published",
		"--tlog-publish-interval", "150ms", "--tlog-checkpoint-interval", "10ms")
	key := vkeyOf(t, says(t, "tlog", "vkey", "--data", data))
	s.checkpoint("/checkpoint", key, 0)
	seen := map[uint64]bool{}
	for i := range 120 {
		if code, body := s.add("/add", fmt.Sprintf("entry %d", i)); code != 200 {
			t.Fatalf("add: %d %s", code, body)
		}
		time.Sleep(5 * time.Millisecond)
		c, _ := s.checkpoint("/checkpoint", key, 0)
		seen[c.Size] = true
		for _, ref := range []tiles.Ref{{Level: tiles.EntryLevel, Width: int(c.Size)}, {Level: 0, Width: int(c.Size)}} {
			if c.Size == 0 {
				continue
			}
			if _, err := os.Stat(filepath.Join(www, filepath.FromSlash(ref.Path()))); err != nil {
				t.Errorf("%d is shown: %v", c.Size, err)
			}
		}
	}
	if len(seen) < 3 || len(seen) > 100 {
		t.Errorf("%d sizes were shown", len(seen))
	}
	code, body := s.add("/add?proof=1", "proved")
	if p, err := tiles.ParseTlogProof([]byte(body)); code != 200 || err != nil {
		t.Fatalf("%d %s: %v", code, body, err)
	} else if c, err := p.Verify([]byte("proved"), key); err != nil || c.Size != 121 {
		t.Errorf("proof: %+v, %v", c, err)
	}
	wantPublished(t, www, 121)
	refuses(t, "give --tlog-publish", "serve", "--data", data, "--tlog-checkpoints", "published")
	refuses(t, "choose signed or published", "serve", "--data", data, "--tlog-checkpoints", "all")

	// A publication is checked and put again by a command.
	if err := os.Remove(filepath.Join(www, "tile", "entries", "000.p", "121")); err != nil {
		t.Fatal(err)
	}
	refuses(t, "tile/entries/000.p/121 is missing", "tlog", "republish", "default", "--check", "--admin", s.adminAddr)
	if out := says(t, "tlog", "republish", "default", "--admin", s.adminAddr); !strings.Contains(out, "1 missing or altered, 1 put again") {
		t.Errorf("republish: %s", out)
	}
	says(t, "tlog", "verify", "file://"+www, "--vkey", key.String())
}
