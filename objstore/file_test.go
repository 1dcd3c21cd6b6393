package objstore

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Several writers of one object, by one value and by several as in several processes: every reader sees one writer's bytes whole.
func TestReadersSeeWholeFilesOfManyWriters(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	const writers, rounds = 4, 60
	body := func(w, round int) []byte { return bytes.Repeat([]byte{byte('a' + w)}, 1+(round%7)*9_000+w*4_000) }
	shared := NewFile(dir)
	if err := shared.Put(ctx, Object{Name: "d/o", Data: body(0, 0)}); err != nil {
		t.Fatal(err)
	}
	var writing, reading sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		reading.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				b, err := shared.Get(ctx, "d/o")
				if err != nil || len(b) == 0 || bytes.Count(b, b[:1]) != len(b) {
					t.Errorf("%d bytes, of one writer %d: %v", len(b), bytes.Count(b, b[:min(1, len(b))]), err)
					return
				}
				w := int(b[0] - 'a')
				if !wholeOf(b, w, rounds, body) {
					t.Errorf("%d bytes of writer %d, who never wrote so many", len(b), w)
					return
				}
			}
		})
	}
	for w := range writers {
		s := shared
		if w%2 == 1 {
			s = NewFile(dir)
		}
		writing.Go(func() {
			for round := range rounds {
				if err := s.Put(ctx, Object{Name: "d/o", Data: body(w, round)}); err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
			}
		})
	}
	writing.Wait()
	close(done)
	reading.Wait()
	if names := listDir(t, filepath.Join(dir, "d")); len(names) != 1 {
		t.Errorf("left behind: %q", names)
	}
}

func wholeOf(b []byte, w, rounds int, body func(w, round int) []byte) bool {
	for round := range rounds {
		if len(body(w, round)) == len(b) {
			return true
		}
	}
	return false
}

// A dead writer's half-written file is removed by a later Put into that directory, and a present writer's stays.
func TestLeftoversOfDeadWritersAreRemoved(t *testing.T) {
	dir := t.TempDir()
	old, young := filepath.Join(dir, tempPrefix+"o"), filepath.Join(dir, tempPrefix+"o-77")
	for _, name := range []string{old, young, filepath.Join(dir, "kept")} {
		if err := os.WriteFile(name, []byte("half"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-2 * tempLife)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(dir, "kept"), long, long); err != nil {
		t.Fatal(err)
	}
	if err := NewFile(dir).Put(context.Background(), object("o", "1")); err != nil {
		t.Fatal(err)
	}
	if names := strings.Join(listDir(t, dir), " "); names != tempPrefix+"o-77 kept o" {
		t.Errorf("there are %s", names)
	}
}

// A Put that cannot be finished leaves nothing.
func TestAFailedPutLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "o", "x"), 0o755); err != nil { // nothing can be renamed over it
		t.Fatal(err)
	}
	if err := NewFile(dir).Put(context.Background(), object("o", "1")); err == nil {
		t.Fatal("a directory was replaced")
	}
	if names := strings.Join(listDir(t, dir), " "); names != "o" {
		t.Errorf("there are %s", names)
	}
}

func listDir(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
