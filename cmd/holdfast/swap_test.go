package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	archiveship "github.com/holdfastdb/holdfast/archive/ship"
	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/objstore"
)

// heard is a server's log.
type heard struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.b.Write(p)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.b.String()
}

// page is what a path of a server's operator port answers.
func page(t *testing.T, r *running, path string) string {
	t.Helper()
	res, err := http.Get("http://" + r.adminAddr + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// filesBelow lists what is in a directory, nil if there is none.
func filesBelow(dir string) (all []string) {
	_ = filepath.Walk(dir, func(name string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			all = append(all, name)
		}
		return nil
	})
	return all
}

// TestAnArchiveThatIsAway: the archive's directory is another one than before, or there is none, as after a disk was unmounted. No write is
// answered at --ack archive, nothing is put in the archive's place, and each of the operator's sources says so. Writes at commit go on. The
// server may be started again meanwhile. When the archive is back it goes on by itself, and everything is in it.
func TestAnArchiveThatIsAway(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what string
		swap func(t *testing.T, dir string)
	}{
		{"gone", func(*testing.T, string) {}},
		{"empty", func(t *testing.T, dir string) {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}},
		{"another archive", func(t *testing.T, dir string) {
			if _, err := objstore.Identity(t.Context(), objstore.NewFile(dir), archiveship.IdentityName, true); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		for _, restarted := range []bool{false, true} {
			if restarted && testing.Short() && c.what != "gone" {
				continue
			}
			name := c.what
			if restarted {
				name += ", and the server is started again"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				awayArchive(t, c.swap, restarted)
			})
		}
	}
}

func awayArchive(t *testing.T, swap func(t *testing.T, dir string), restarted bool) {
	data, dir, log := t.TempDir(), filepath.Join(t.TempDir(), "archive"), &heard{}
	flags := []string{"--archive", "file://" + dir, "--archive-interval", "20ms", "--ack", "archive"}
	r := serveLogging(t, log, data, flags...)
	put := func(value string, level string, patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := r.client(t, nil).Put(metadata.AppendToOutgoingContext(ctx, "holdfast-ack", level), "key", value)
		return err
	}
	if err := put("1", "archive", wait.Limit(t)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	swap(t, dir)
	had := len(filesBelow(dir))
	_, err := os.Stat(dir)
	was := err == nil
	if restarted {
		r.stop()
		r = serveLogging(t, log, data, flags...)
	}
	if err := put("2", "archive", time.Second); err == nil {
		t.Error("a write was answered at --ack archive, and the archive is away")
	}
	if err := put("3", "commit", wait.Limit(t)); err != nil {
		t.Errorf("a write at commit: %v", err)
	}
	wait.Until(t, "the status says so", func() bool { return archiveOf(t, r).Archive.Away != "" })
	if text := says(t, "status", "--admin", r.adminAddr); !strings.Contains(text, "THE ARCHIVE IS AWAY") {
		t.Error(text)
	}
	if text := page(t, r, "/readyz"); !strings.HasPrefix(text, "ok\n") || !strings.Contains(text, "the archive is away, and nothing is acknowledged as archived") {
		t.Errorf("/readyz: %s", text)
	}
	if text := page(t, r, "/metrics"); !strings.Contains(text, "holdfast_archive_away 1\n") {
		t.Error("the metric does not say so")
	}
	if text := log.String(); !strings.Contains(text, "the archive is away") {
		t.Errorf("the log does not say so:\n%s", text)
	}
	if _, err := os.Stat(dir); (err == nil) != was || len(filesBelow(dir)) != had {
		t.Errorf("files were put in the archive's place: %v, %d before", filesBelow(dir), had)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	upToDate(t, r)
	if err := put("4", "archive", wait.Limit(t)); err != nil {
		t.Errorf("the archive is back: %v", err)
	}
	if st := archiveOf(t, r).Archive; st.Away != "" || st.Alarm != "" {
		t.Errorf("%+v", st)
	}
	if text := says(t, "verify", "--from", "file://"+dir); !strings.Contains(text, "restorable") {
		t.Error(text)
	}
	to := filepath.Join(t.TempDir(), "restored")
	says(t, "restore", "--from", "file://"+dir, "--data", to)
	r.stop()
	r = serveFlags(t, to)
	if res, err := r.client(t, nil).Get(timely(t), "key"); err != nil || len(res.Kvs) != 1 || string(res.Kvs[0].Value) != "4" {
		t.Errorf("restored: %v %v", res, err)
	}
}

// TestAnArchiveGivenUpByName: the archive's directory is lost for good. Another one takes its place only if the operator names the one that
// is lost.
func TestAnArchiveGivenUpByName(t *testing.T) {
	t.Parallel()
	data, dir := t.TempDir(), filepath.Join(t.TempDir(), "archive")
	flags := []string{"--archive", "file://" + dir, "--archive-interval", "20ms"}
	r := serveFlags(t, data, flags...)
	if _, err := r.client(t, nil).Put(timely(t), "key", "1"); err != nil {
		t.Fatal(err)
	}
	upToDate(t, r)
	id := archiveOf(t, r).Archive.Identity
	r.stop()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	r = serveFlags(t, data, flags...)
	wait.Until(t, "the archive is away", func() bool { return archiveOf(t, r).Archive.Away != "" })
	r.stop()
	r = serveFlags(t, data, append(flags, "--archive-lost", id)...)
	upToDate(t, r)
	if now := archiveOf(t, r).Archive.Identity; now == id || now == "" {
		t.Errorf("the new archive has identity %q", now)
	}
	if text := says(t, "verify", "--from", "file://"+dir); !strings.Contains(text, "restorable") {
		t.Error(text)
	}
	refuses(t, "no identity of an archive", "serve", "--data", t.TempDir(), "--archive", "file://"+dir, "--archive-lost", "all")
}
