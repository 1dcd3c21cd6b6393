package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/store"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/server"
)

// fill adds entries until the log has a number of them, from many clients at once, and returns a file with the checkpoint.
func (s *tlogServer) fill(key *tiles.Verifier, from, to int) (file string) {
	s.t.Helper()
	var wg sync.WaitGroup
	failed := make(chan string, 1)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}
	defer client.CloseIdleConnections()
	for w := range 32 {
		wg.Go(func() {
			for i := from + w; i < to; i += 32 {
				res, err := client.Post(s.url+"/add", "", strings.NewReader(fmt.Sprintf("entry %d", i)))
				if err == nil {
					_, _ = io.Copy(io.Discard, res.Body) // the status says it all
					res.Body.Close()
				}
				if err != nil || res.StatusCode != 200 {
					select {
					case failed <- fmt.Sprintf("add of entry %d: %v, %+v", i, err, res):
					default:
					}
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case why := <-failed:
		s.t.Fatal(why)
	default:
	}
	c, note := s.checkpoint("/checkpoint", key, uint64(to))
	if c.Size != uint64(to) {
		s.t.Fatalf("%d entries after %d adds", c.Size, to)
	}
	file = filepath.Join(s.t.TempDir(), "checkpoint")
	if err := os.WriteFile(file, []byte(note), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return file
}

// said collects what a server logs.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

// times waits until the words have been said so often.
func (s *said) times(t *testing.T, n int, words string) {
	t.Helper()
	for end := time.Now().Add(wait.Limit(t)); ; time.Sleep(10 * time.Millisecond) {
		s.mu.Lock()
		all := s.b.String()
		s.mu.Unlock()
		if strings.Count(all, words) == n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%q was not said %d times:\n%s", words, n, all)
		}
	}
}

// line waits for a line with these words.
func (s *said) line(t *testing.T, words ...string) string {
	t.Helper()
	for end := time.Now().Add(wait.Limit(t)); ; time.Sleep(10 * time.Millisecond) {
		s.mu.Lock()
		all := s.b.String()
		s.mu.Unlock()
	lines:
		for line := range strings.Lines(all) {
			for _, w := range words {
				if !strings.Contains(line, w) {
					continue lines
				}
			}
			return line
		}
		if time.Now().After(end) {
			t.Fatalf("no line with %q in\n%s", words, all)
		}
	}
}

// altered is a server on a restored copy of a log, with its store open to the wrong hands before. A restored store has everything in
// tables and nothing in the log, so that what was changed is not written again at the start.
func altered(t *testing.T, snapshot, keys string, change func(st store.Store)) (*tlogServer, *said) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "copy")
	says(t, "snapshot", "restore", snapshot, "--data", data, "--name", "r1")
	st, err := store.Open(filepath.Join(data, "store"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	set(t, st, row('l'), 1) // an attacker who can write all rows can also clear the mark of a restore
	change(st)
	if err := st.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	out := &said{}
	at := freeAddr(t)
	r := serveLogging(t, out, data, "--tlog", at, "--tlog-keys", keys)
	return &tlogServer{r, t, "http://" + at}, out
}

// set changes one byte of a row, with a checksum that fits.
func set(t *testing.T, st store.Store, key []byte, at int) {
	t.Helper()
	v, ok, err := st.Get(nil, key)
	if err != nil || !ok {
		t.Fatalf("row %x: %v, %v", key, ok, err)
	}
	if at < 0 {
		at += len(v)
	}
	v[at] ^= 1
	b := st.NewBatch()
	b.Set(key, v)
	if err := st.Commit(b, st.Applied()); err != nil {
		t.Fatal(err)
	}
}

// row is the key of a row of the first log, rowAt that of a hash or tile of a level; docs/formats/store.md has the table.
func row(space byte) []byte { return []byte{'t', space, 0, 0, 0, 1} }

func rowAt(space, level byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64(append(row(space), level), n)
}

// TestASplitViewCannotBeServed: an attacker who can write into the store, checksums included, changes the log's content. The leader signs
// nothing that its contents do not give, and the scrub finds any unsigned change. Each names the place and both sides' values. A byte that
// flips in a file stops the server, which names the file and where in it.
func TestASplitViewCannotBeServed(t *testing.T) {
	data := t.TempDir()
	s := serveTlog(t, data, "--tlog-origin", "log.example/2026")
	key := vkeyOf(t, says(t, "tlog", "vkey", "--data", data))
	const size = 5000                   // 19 bundles and 136 entries
	s.checkpoint("/checkpoint", key, 0) // the log has begun
	s.fill(key, 0, size)
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	says(t, "snapshot", "save", snapshot, "--admin", s.adminAddr)
	s.stop()
	keys := filepath.Join(data, "tlog-keys")
	hash := `[A-Za-z0-9+/]{43}=`

	for what, c := range map[string]struct {
		change func(st store.Store)
		text   string
	}{
		"the frontier":       {func(st store.Store) { set(t, st, row('f'), -1) }, `right edge of level 0, hash 4992: ` + hash + `, but ` + hash + ` was expected`},
		"the right edge":     {func(st store.Store) { set(t, st, rowAt('n', 1, 17), 3) }, `right edge of level 1, hash 16: ` + hash + `, but ` + hash},
		"the last full tile": {func(st store.Store) { set(t, st, rowAt('h', 0, 18), 40) }, `last full tile of level 0, hash 4608: ` + hash + `, but ` + hash},
	} {
		t.Run(what, func(t *testing.T) {
			s, out := altered(t, snapshot, keys, c.change)
			if code, body := s.add("/add", "one more"); code != 200 && code != 503 { // found with the first signature it asks for
				t.Fatalf("add: %d %s", code, body)
			}
			line := out.line(t, "no more checkpoints", "log=default")
			if !regexp.MustCompile(c.text).MatchString(line) {
				t.Errorf("it says %s, want %s", line, c.text)
			}
			if code, body := s.add("/add", "and another"); code != 503 || !strings.Contains(body, "found it damaged") {
				t.Errorf("add to a damaged log: %d %s", code, body)
			}
			time.Sleep(300 * time.Millisecond) // three times as long as a checkpoint takes
			if c, _ := s.checkpoint("/checkpoint", key, 0); c.Size != size {
				t.Errorf("a checkpoint of %d was served", c.Size)
			}
		})
	}
	t.Run("an interior tile", func(t *testing.T) {
		s, _ := altered(t, snapshot, keys, func(st store.Store) {
			set(t, st, rowAt('h', 0, 7), 5*tiles.HashSize+1)
		})
		err := serve.Machine[*tlogmachine.Machine](s.Host()).Find("default").Scrub(func(_, _ uint64) error { return nil })
		if want := `tile of level 0, hash 1797: ` + hash + `, but ` + hash + ` was expected`; err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("the scrub says %v, want %s", err, want)
		}
	})
	t.Run("untouched", func(t *testing.T) { // or the cases above would show nothing
		s, _ := altered(t, snapshot, keys, func(store.Store) {})
		if err := serve.Machine[*tlogmachine.Machine](s.Host()).Find("default").Scrub(func(_, _ uint64) error { return nil }); err != nil {
			t.Error(err)
		}
		if code, body := s.add("/add", "one more"); code != 200 || body != "5000" {
			t.Errorf("add: %d %s", code, body)
		}
		s.checkpoint("/checkpoint", key, size+1)
	})
	t.Run("a byte in a file", func(t *testing.T) {
		copied := filepath.Join(t.TempDir(), "copy")
		says(t, "snapshot", "restore", snapshot, "--data", copied, "--name", "r1")
		file := flipInTable(t, filepath.Join(copied, "store"))
		out := &said{}
		at := freeAddr(t)
		s := &tlogServer{serveLogging(t, out, copied, "--tlog", at, "--tlog-keys", keys), t, "http://" + at}
		for n := uint64(0); n < size/tiles.Width; n++ { // a reader of the whole log
			for _, level := range []int{tiles.EntryLevel, 0} {
				if res, err := http.Get(s.url + "/" + tiles.Ref{Level: level, N: n, Width: tiles.Width}.Path()); err == nil {
					res.Body.Close()
				}
			}
		}
		var err error
		select {
		case err = <-s.Failed():
		case <-time.After(wait.Limit(t)):
			t.Fatal("the server runs on")
		}
		if !strings.Contains(err.Error(), file) || !regexp.MustCompile(`block \d+/\d+: .*checksum mismatch`).MatchString(err.Error()) {
			t.Errorf("it stops with %v; want the file %s and the place in it", err, file)
		}
	})
}

// flipInTable flips one byte in the middle of the largest table of a store and returns the file's name.
func flipInTable(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.sst"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tables in %s: %v", dir, err)
	}
	var largest string
	var b []byte
	for _, f := range files {
		if c, err := os.ReadFile(f); err != nil {
			t.Fatal(err)
		} else if len(c) > len(b) {
			largest, b = f, c
		}
	}
	b[len(b)/3] ^= 1
	if err := os.WriteFile(largest, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Base(largest)
}

// serveLogging is serveFlags with the server's log written to out.
func serveLogging(t *testing.T, out io.Writer, data string, args ...string) *running {
	t.Helper()
	r := &running{kvAddr: freeAddr(t), adminAddr: freeAddr(t), data: data}
	cfg, err := load(append([]string{"--data", data, "--kv", r.kvAddr, "--admin", r.adminAddr}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
	defer cancel()
	log := slog.New(slog.NewTextHandler(out, nil))
	su, err := cfg.Setup(log)
	if err != nil {
		t.Fatal(err)
	}
	r.setup = su
	if r.Server, err = server.Start(ctx, su, log); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.stop)
	return r
}
