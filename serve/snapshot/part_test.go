package snapshot

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A snapshot is never written to an existing file: it could be a link to another place, or readable by others.
func TestSnapshotsAreNotWrittenOverWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	victim, part := filepath.Join(dir, "victim"), filepath.Join(dir, "s.part")
	if err := os.WriteFile(victim, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, part); err != nil {
		t.Fatal(err)
	}
	if f, err := createPart(part); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("%v, %v", f, err)
	}
	if b, err := os.ReadFile(victim); string(b) != "precious" {
		t.Errorf("what the link points to holds %q, %v", b, err)
	}
	if _, err := os.Lstat(part); err != nil {
		t.Errorf("what was there is gone: %v", err)
	}
	f, err := createPart(filepath.Join(dir, "t.part"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
}
