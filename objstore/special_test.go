package objstore

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestSpecialFilesAreNamed: a reader of an object under whose name lies something else neither waits nor reads without end, and is told the
// path. The list has the name, so that nothing takes the object for missing. A removal removes what is no directory.
func TestSpecialFilesAreNamed(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	sock, err := net.Listen("unix", at("socket"))
	do(t, err, syscall.Mkfifo(at("pipe"), 0o600), os.Symlink("/dev/zero", at("zero")), os.Symlink("/dev/null", at("null")),
		os.Mkdir(at("dir"), 0o700), os.Symlink(at("dir"), at("linked")), os.Symlink(at("pipe"), at("to-pipe")), os.Symlink("/nowhere/at/all", at("dangling")))
	defer sock.Close()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit(t))
	defer cancel()
	s := NewFile(dir)
	for _, name := range []string{"socket", "pipe", "zero", "null", "dir", "linked", "to-pipe"} {
		_, get := s.Get(ctx, name)
		_, _, version := s.GetVersion(ctx, name)
		_, open := s.Open(ctx, name, 0, -1)
		_, most := GetMost(ctx, s, name, 10)
		_, match := s.PutIfMatch(ctx, object(name, "x"), Absent)
		_, id := Identity(ctx, s, name, true)
		for call, err := range map[string]error{"get": get, "version": version, "open": open, "most": most, "match": match, "identity": id} {
			if !errors.Is(err, ErrSpecial) || !Final(err) || !strings.Contains(err.Error(), at(name)) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s of %s: %v", call, name, err)
			}
		}
		if err := s.PutIfAbsent(ctx, object(name, "x")); !errors.Is(err, ErrExists) {
			t.Errorf("created over %s: %v", name, err)
		}
	}
	if _, err := s.Get(ctx, "dangling"); !errors.Is(err, ErrAbsent) {
		t.Errorf("a link to nothing: %v", err)
	}
	found, err := list(s, "", "")
	if want := "null:0 pipe:0 socket:0 to-pipe:0 zero:0"; err != nil || strings.Join(found, " ") != want {
		t.Errorf("listed %q, want %s: %v", found, want, err)
	}
	do(t, s.Delete(ctx, "pipe", "zero", "null", "to-pipe", "socket", "dir"), s.Put(ctx, object("zero", "1")))
	if b, err := s.Get(ctx, "zero"); err != nil || string(b) != "1" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := os.Stat("/dev/zero"); err != nil {
		t.Error(err)
	}
}

// TestAHugeFileIsNotRead: it is refused by its size alone.
func TestAHugeFileIsNotRead(t *testing.T) {
	dir := t.TempDir()
	do(t, os.WriteFile(filepath.Join(dir, "o"), nil, 0o600), os.Truncate(filepath.Join(dir, "o"), 3<<30))
	s := NewFile(dir)
	wait.Quickly(t, "the refusal", time.Second, func() {
		if _, err := s.Get(t.Context(), "o"); !errors.Is(err, ErrTooLarge) {
			t.Error(err)
		}
	})
	if _, err := GetMost(t.Context(), s, "o", 1<<10); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "1024") {
		t.Errorf("%v", err)
	}
	do(t, os.Truncate(filepath.Join(dir, "o"), 1<<10))
	if b, err := GetMost(t.Context(), s, "o", 1<<10); err != nil || len(b) != 1<<10 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if _, err := GetMost(t.Context(), s, "none", 1<<10); !errors.Is(err, ErrAbsent) {
		t.Errorf("%v", err)
	}
	if _, err := GetMost(t.Context(), s, "o", 1<<10-1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a byte more: %v", err)
	}
	memory := NewMemory()
	do(t, memory.Put(t.Context(), Object{Name: "o", Data: make([]byte, 9)}))
	if b, err := GetMost(t.Context(), memory, "o", 9); err != nil || len(b) != 9 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if _, err := GetMost(t.Context(), memory, "o", 8); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v", err)
	}
}

// TestListsFollowLinks to other disks, as uploads do, but not in a circle.
func TestListsFollowLinks(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	do(t, os.Symlink(other, filepath.Join(dir, "moved")))
	s := NewFile(dir)
	do(t, s.Put(t.Context(), object("moved/a/o", "1"), object("moved/z", "22")), os.WriteFile(filepath.Join(other, "file"), []byte("333"), 0o600),
		os.Symlink(filepath.Join(other, "file"), filepath.Join(dir, "linked")))
	if found, err := list(s, "", ""); err != nil || strings.Join(found, " ") != "linked:3 moved/a/o:1 moved/file:3 moved/z:2" {
		t.Errorf("%q, %v", found, err)
	}
	do(t, os.Symlink(dir, filepath.Join(other, "up")))
	if found, err := list(s, "", ""); !Final(err) || len(found) > 4 || !strings.Contains(err.Error(), "moved/up") {
		t.Errorf("%q, %v", found, err)
	}
}
