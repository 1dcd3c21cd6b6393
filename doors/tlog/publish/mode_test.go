package publish

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/holdfastdb/holdfast/objstore"
)

// TestAPublishedLogIsReadByAll, unless its URL says otherwise: a web server under another name serves it.
func TestAPublishedLogIsReadByAll(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o022))
	for settings, want := range map[string][2]fs.FileMode{"": {0o644, 0o755}, "?mode=0600": {0o600, 0o700}} {
		dir := filepath.Join(t.TempDir(), "www")
		p, err := Open("file://"+dir+settings, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := p.(*Objects).store.Put(t.Context(), objstore.Object{Name: "tile/0/000", Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		for name, mode := range map[string]fs.FileMode{"": want[1], "tile": want[1], "tile/0/000": want[0]} {
			if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != mode {
				t.Errorf("%q: %s is %v, want %v: %v", settings, name, info.Mode(), mode, err)
			}
		}
	}
}
