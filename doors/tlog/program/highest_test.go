package program

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/doors/tlog/checkpoint"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// signedAt is a checkpoint of a size under a key.
func signedAt(key *tiles.Signer, size uint64) []byte {
	n := &tiles.Note{Text: (&tiles.Checkpoint{Origin: key.Verifier().Name, Size: size, Root: tiles.LeafHash([]byte{byte(size)})}).Text()}
	key.Sign(n)
	return n.Append(nil)
}

func testKey(t *testing.T, origin string, seed byte) *tiles.Signer {
	t.Helper()
	s, err := tiles.NewSigner(origin, bytes.Repeat([]byte{seed}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// noteOf notes a checkpoint of one log.
func noteOf(h *highestFiles, log string, key *tiles.Signer, size uint64) error {
	return h.Note([]checkpoint.Noted{{Log: log, Key: key.Verifier(), Size: size, Note: signedAt(key, size)}})[0]
}

func wantHighest(t *testing.T, dir string, key *tiles.Signer, size uint64, here bool) {
	t.Helper()
	c, is, err := newHighestFiles(dir, slog.New(slog.DiscardHandler)).Last("x", key.Verifier())
	if err != nil {
		t.Fatal(err)
	}
	if c == nil || c.Size != size || is != here {
		t.Fatalf("the highest is %+v, written here: %t; want %d, %t", c, is, size, here)
	}
}

// TestTheHighestCheckpointIsKept over restarts, torn writes, copies and a change of key.
func TestTheHighestCheckpointIsKept(t *testing.T) {
	dir, key := t.TempDir(), testKey(t, "log.example/x", 1)
	path := filepath.Join(dir, "x.highest")
	if c, _, err := newHighestFiles(dir, slog.New(slog.DiscardHandler)).Last("x", key.Verifier()); c != nil || err != nil {
		t.Fatal(c, err)
	}
	note := func(key *tiles.Signer, sizes ...uint64) {
		t.Helper()
		h := newHighestFiles(dir, slog.New(slog.DiscardHandler))
		defer h.Close()
		for _, size := range sizes {
			if err := noteOf(h, "x", key, size); err != nil {
				t.Fatal(err)
			}
		}
	}
	note(key, 0, 5, 9)
	wantHighest(t, dir, key, 9, true)
	note(key, 12) // a new process goes on in the other place
	wantHighest(t, dir, key, 12, true)
	note(key, 3)
	wantHighest(t, dir, key, 12, true)
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}

	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := range 2 {
		torn := bytes.Clone(b)
		clear(torn[at*disk.BlockBytes+100 : at*disk.BlockBytes+200])
		if err := os.WriteFile(path, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		c, _, err := newHighestFiles(dir, slog.New(slog.DiscardHandler)).Last("x", key.Verifier())
		if err != nil || c.Size != 9 && c.Size != 12 {
			t.Errorf("with place %d torn: %+v, %v", at, c, err)
		}
		clear(torn[(1-at)*disk.BlockBytes+100 : (1-at)*disk.BlockBytes+200])
		if err := os.WriteFile(path, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		if c, _, err := newHighestFiles(dir, slog.New(slog.DiscardHandler)).Last("x", key.Verifier()); err == nil || !strings.Contains(err.Error(), "remove the file") {
			t.Errorf("with both torn: %+v, %v", c, err)
		}
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}

	copied := copyDir(t, dir)
	wantHighest(t, copied, key, 12, false)
	dir = copied
	note(key, 13) // a member that goes on with a copy makes a new file
	wantHighest(t, dir, key, 13, true)

	other := testKey(t, "log.example/other", 2)
	if c, _, err := newHighestFiles(dir, slog.New(slog.DiscardHandler)).Last("x", other.Verifier()); c != nil || err != nil {
		t.Errorf("of another key: %+v, %v", c, err)
	}
	note(other, 1)
	wantHighest(t, dir, other, 1, true)
}

// TestAFileThatIsTakenAwayIsMadeAgain: a running server writes to the file of that name, not to one that was removed.
func TestAFileThatIsTakenAwayIsMadeAgain(t *testing.T) {
	dir, key := t.TempDir(), testKey(t, "log.example/x", 1)
	h := newHighestFiles(dir, slog.New(slog.DiscardHandler))
	defer h.Close()
	for size := range uint64(4) {
		if err := noteOf(h, "x", key, size); err != nil {
			t.Fatal(err)
		}
		wantHighest(t, dir, key, size, true)
		if err := os.Remove(filepath.Join(dir, "x.highest")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "x.highest"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := noteOf(h, "x", key, 9); err == nil {
		t.Error("a note that could not be written is taken for written")
	}
}

// TestTwoProcessesShareOneFile: members on one machine may have one directory of keys. The one that is behind does not
// overwrite the other's note.
func TestTwoProcessesShareOneFile(t *testing.T) {
	dir, key := t.TempDir(), testKey(t, "log.example/x", 1)
	a, b := newHighestFiles(dir, slog.New(slog.DiscardHandler)), newHighestFiles(dir, slog.New(slog.DiscardHandler))
	defer a.Close()
	defer b.Close()
	note := func(h *highestFiles, size, want uint64) {
		t.Helper()
		if err := noteOf(h, "x", key, size); err != nil {
			t.Fatal(err)
		}
		wantHighest(t, dir, key, want, true)
	}
	note(a, 1, 1)
	note(b, 2, 2)
	for size := uint64(10); size < 30; size += 5 {
		note(a, size, size)
		note(a, size+1, size+1)
		note(b, size-3, size+1)
		note(b, size, size+1)
		note(b, size+2, size+2)
	}
}

func FuzzHighest(f *testing.F) {
	key, err := tiles.NewSigner("log.example/x", bytes.Repeat([]byte{1}, 32))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(appendHighest(nil, 7, signedAt(key, 3)))
	f.Add([]byte(highestHead))
	f.Fuzz(func(t *testing.T, b []byte) {
		inode, note, ok := parseHighest(b)
		if !ok || len(note)+64 > highestSlot {
			return
		}
		if i2, n2, ok := parseHighest(appendHighest(nil, inode, note)); !ok || i2 != inode || !bytes.Equal(n2, note) {
			t.Fatalf("%d %q became %d %q", inode, note, i2, n2)
		}
	})
}

// copyDir is a copy of a directory.
func copyDir(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}
