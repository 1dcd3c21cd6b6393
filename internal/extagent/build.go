package extagent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build makes the extension, as `make extension` does, and returns where it is. root is the repository. HOLDFAST_SQLITE_SO in the
// environment names another build of it, which is taken as it is.
func Build(root, dir string) (string, error) {
	if so := os.Getenv("HOLDFAST_SQLITE_SO"); so != "" {
		return so, nil
	}
	so := filepath.Join(dir, "holdfast_sqlite.so")
	cmd := exec.Command(filepath.Join(root, "scripts", "extension.sh"), so)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the SQLite extension (it needs gcc, libc6-dev and libsqlite3-dev): %w\n%s", err, out)
	}
	return so, nil
}
