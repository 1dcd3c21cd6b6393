package program

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/doors/tlog/hammer"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// TestTheLiveViewDrawsOverItself, and only on a terminal.
func TestTheLiveViewDrawsOverItself(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if cli.IsTerminal(&b) {
		t.Error("a buffer is no terminal")
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if cli.IsTerminal(f) {
		t.Error("a file is no terminal")
	}
	draw := liveView(&b)
	draw(&hammer.Report{Writers: 512, Rate: 512, Size: 100})
	first := b.String()
	if strings.Contains(first, "\x1b[4A") || strings.Count(first, "\n") != 4 {
		t.Errorf("%q", first)
	}
	b.Reset()
	draw(&hammer.Report{Writers: 512, Rate: 512, Size: 200})
	if !strings.HasPrefix(b.String(), "\x1b[?7l\x1b[4A\x1b[2KWrite (512 writers): ") || !strings.Contains(b.String(), "Tree size: 200 (Δ ") {
		t.Errorf("%q", b.String())
	}
}
