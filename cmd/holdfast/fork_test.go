package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/serve/server"
)

// copyDir copies a directory as cp -r does: every file is another one.
func copyDir(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// wantHeld checks that a server neither takes nor signs, and that every place that shows a log says so.
func (s *tlogServer) wantHeld(out *said, key *tiles.Verifier, size int, words ...string) {
	s.t.Helper()
	code, body := s.add("/add", "another entry")
	if code != 503 || !strings.Contains(body, "holdfast resume --tlog default") {
		s.t.Fatalf("add: %d %s", code, body)
	}
	res, err := http.Get("http://" + s.adminAddr + "/readyz")
	_, ready := s.read(res, err)
	for what, text := range map[string]string{"the answer": body, "readyz": ready, "status": says(s.t, "status", "--admin", s.adminAddr),
		"its log": out.line(s.t, "WARN", "log held", "log=default")} {
		for _, w := range words {
			if !strings.Contains(text, w) {
				s.t.Errorf("%s does not say %q: %s", what, w, text)
			}
		}
	}
	time.Sleep(300 * time.Millisecond) // three times as long as a checkpoint takes
	if c, _ := s.checkpoint("/checkpoint", key, 0); c.Size != uint64(size) {
		s.t.Errorf("a checkpoint of %d is served, want %d", c.Size, size)
	}
}

func tlogLogging(t *testing.T, data string, args ...string) (*tlogServer, *said) {
	t.Helper()
	at, out := freeAddr(t), &said{}
	return &tlogServer{serveLogging(t, out, data, append([]string{"--tlog", at}, args...)...), t, "http://" + at}, out
}

// TestAnOldCopySignsNothing: a copy of a data directory as of 300 entries is started after 600 were published. The proof is in a
// place of publication or, without one, in the note beside the key.
func TestAnOldCopySignsNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		apart, publish bool // the keys lie outside the data directory; there is a place
		words          string
	}{
		"keys inside and a place":  {false, true, "it has 600 entries, the log 300"},
		"keys outside":             {true, false, "default.highest beside its key: it has 600 entries, the log 300"},
		"keys outside and a place": {true, true, "it has 600 entries, the log 300"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, www := filepath.Join(t.TempDir(), "d"), filepath.Join(t.TempDir(), "www")
			args, keys := []string{}, filepath.Join(data, "tlog-keys")
			if c.apart {
				keys = filepath.Join(t.TempDir(), "keys")
				args = append(args, "--tlog-keys", keys)
			}
			if c.publish {
				args = append(args, "--tlog-publish", "file://"+www)
			}
			s := serveTlog(t, data, append(args, "--tlog-origin", "log.example/2026")...)
			key := vkeyOf(t, says(t, "tlog", "vkey", "--tlog-keys", keys))
			s.checkpoint("/checkpoint", key, 0)
			last := s.fill(key, 0, 300)
			if c.publish {
				wantPublished(t, www, 300)
			}
			s.stop()
			old := copyDir(t, data)
			s = serveTlog(t, data, args...)
			s.fill(key, 300, 600)
			if c.publish {
				wantPublished(t, www, 600)
			}
			s.stop()

			s, out := tlogLogging(t, old, args...)
			s.wantHeld(out, key, 300, c.words)
			refuses(t, c.words, "resume", "--tlog", "default", "--checkpoint", last, "--admin", s.adminAddr)
			s.wantHeld(out, key, 300, c.words)
			if c.publish {
				wantPublished(t, www, 600)
			}
			s.stop()

			s = serveTlog(t, data, args...) // the directory that has it goes on
			s.fill(key, 600, 610)
		})
	}
}

// TestACutLogSignsNothing: the files of a member's log end before what it has signed, as after a disk that lost what it had
// acknowledged.
func TestACutLogSignsNothing(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "d")
	s := serveTlog(t, data, "--tlog-origin", "log.example/2026")
	key := vkeyOf(t, says(t, "tlog", "vkey", "--data", data))
	s.checkpoint("/checkpoint", key, 0)
	s.fill(key, 0, 300)
	s.stop()
	early := copyDir(t, data)
	s = serveTlog(t, data)
	s.fill(key, 300, 600)
	s.stop()
	for _, part := range []string{"wal", "store"} { // beside them the keys with the note stay
		if err := os.RemoveAll(filepath.Join(data, part)); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(filepath.Join(data, part), os.DirFS(filepath.Join(early, part))); err != nil {
			t.Fatal(err)
		}
	}
	s, out := tlogLogging(t, data)
	s.wantHeld(out, key, 300, "default.highest beside its key: it has 600 entries, the log 300")
}

// TestAnOldSnapshotSignsNothing beyond what was noted, although the operator shows a checkpoint that is a prefix.
func TestAnOldSnapshotSignsNothing(t *testing.T) {
	t.Parallel()
	data, keys := t.TempDir(), filepath.Join(t.TempDir(), "keys")
	s := serveTlog(t, data, "--tlog-origin", "log.example/2026", "--tlog-keys", keys)
	key := vkeyOf(t, says(t, "tlog", "vkey", "--tlog-keys", keys))
	s.checkpoint("/checkpoint", key, 0)
	last := s.fill(key, 0, 300)
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	says(t, "snapshot", "save", snapshot, "--admin", s.adminAddr)
	s.fill(key, 300, 600)
	s.stop()
	restored := filepath.Join(t.TempDir(), "r")
	says(t, "snapshot", "restore", snapshot, "--data", restored, "--name", "r1")
	s, out := tlogLogging(t, restored, "--tlog-keys", keys)
	says(t, "resume", "--tlog", "default", "--checkpoint", last, "--admin", s.adminAddr)
	s.wantHeld(out, key, 300, "default.highest beside its key: it has 600 entries, the log 300")
}

// TestALeaderWithAnOlderNoteGoesOn: each of three members has keys of its own. The new leader has signed nothing yet, and knows the
// signatures of others as a former follower. It goes on, and so does the first after it.
func TestALeaderWithAnOlderNoteGoesOn(t *testing.T) {
	t.Parallel()
	keys := filepath.Join(t.TempDir(), "keys")
	key := vkeyOf(t, says(t, "tlog", "keygen", "default", "--origin", "log.example/three", "--tlog-keys", keys))
	peers := []string{freeAddr(t), freeAddr(t), freeAddr(t)}
	list := fmt.Sprintf("n1=%s,n2=%s,n3=%s", peers[0], peers[1], peers[2])
	www := filepath.Join(t.TempDir(), "www")
	members := make([]*tlogServer, 3)
	started := make(chan error, 3)
	for i := range members {
		at, data := freeAddr(t), filepath.Join(t.TempDir(), "d")
		own := copyDir(t, keys)
		go func() {
			r, err := serveErr(t, data, "--tlog", at, "--tlog-keys", own, "--name", fmt.Sprintf("n%d", i+1), "--peers", list,
				"--tlog-publish", "file://"+www)
			members[i] = &tlogServer{r, t, "http://" + at}
			started <- err
		}()
	}
	for range members {
		if err := <-started; err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range members {
		t.Cleanup(m.stop)
	}
	members[0].leader(members).checkpoint("/checkpoint", key, 0) // the log has begun
	size := 0
	for round := range 4 {
		leads := members[0].leader(members)
		leads.checkpoint("/checkpoint", key, uint64(size))
		for range 50 {
			if code, body := leads.add("/add", fmt.Sprintf("entry %d", size)); code != 200 {
				t.Fatalf("round %d: add: %d %s", round, code, body)
			}
			size++
		}
		leads.checkpoint("/checkpoint", key, uint64(size))
		wantPublished(t, www, size)
		err := leads.Node().TransferLeader(timely(t), 0)
		for end := time.Now().Add(wait.Limit(t)); errors.Is(err, node.ErrTransferTargetUnknown) && time.Now().Before(end); { // none has answered lately
			time.Sleep(20 * time.Millisecond)
			err = leads.Node().TransferLeader(timely(t), 0)
		}
		if err != nil && !errors.Is(err, node.ErrTimeoutTransfer) {
			t.Fatal(err)
		}
	}
}

// serveErr is serveLogging for another goroutine than the test's.
func serveErr(t *testing.T, data string, args ...string) (*running, error) {
	r := &running{kvAddr: freeAddr(t), adminAddr: freeAddr(t), data: data}
	cfg, err := load(append([]string{"--data", data, "--kv", r.kvAddr, "--admin", r.adminAddr}, args...)...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
	defer cancel()
	log := server.NewLog(io.Discard, slog.LevelInfo)
	su, err := cfg.Setup(log)
	if err != nil {
		return nil, err
	}
	r.Server, err = server.Start(ctx, su, log)
	return r, err
}

// leader waits for a leader and returns it.
func (s *tlogServer) leader(members []*tlogServer) *tlogServer {
	s.t.Helper()
	for end := time.Now().Add(wait.Limit(s.t)); ; time.Sleep(10 * time.Millisecond) {
		for _, m := range members {
			if term, _ := m.Node().Leadership(); term != 0 {
				return m
			}
		}
		if time.Now().After(end) {
			s.t.Fatal("no leader in 20 s")
		}
	}
}

// TestASecondCloneStopsAtItsFirstPublication: two copies of a directory run at once and publish to one place.
func TestASecondCloneStopsAtItsFirstPublication(t *testing.T) {
	t.Parallel()
	data, www := filepath.Join(t.TempDir(), "d"), filepath.Join(t.TempDir(), "www")
	publish := "--tlog-publish=file://" + www
	s := serveTlog(t, data, "--tlog-origin", "log.example/2026", publish)
	key := vkeyOf(t, says(t, "tlog", "vkey", "--data", data))
	s.checkpoint("/checkpoint", key, 0)
	s.fill(key, 0, 20)
	wantPublished(t, www, 20)
	s.stop()
	clone := copyDir(t, data)
	a := serveTlog(t, data, publish)
	b := serveTlog(t, clone, publish)
	for end := time.Now().Add(wait.Limit(t)); ; time.Sleep(10 * time.Millisecond) { // both have asked and may go on
		if code, _ := b.add("/add", "of the clone"); code == 200 {
			break
		} else if time.Now().After(end) {
			t.Fatal("the clone never went on")
		}
	}
	wantPublished(t, www, 21)
	code, body := a.add("/add", "of the original")
	if code != 200 {
		t.Fatalf("add: %d %s", code, body)
	}
	for end := time.Now().Add(wait.Limit(t)); code != 503; time.Sleep(10 * time.Millisecond) { // the clone was first: it goes on, and the original stops
		if code, body = a.add("/add", "once more"); time.Now().After(end) {
			t.Fatalf("add: %d %s", code, body)
		}
	}
	if !strings.Contains(body, "at size 21 its root is") || !strings.Contains(body, "holdfast resume --tlog default") {
		t.Errorf("it says %s", body)
	}
	b.fill(key, 21, 30)
	wantPublished(t, www, 30)
}
