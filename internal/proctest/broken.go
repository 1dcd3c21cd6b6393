package proctest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Broken builds a program with a deliberate fault, in a directory of the caller's, and returns its path. It replaces a text that one source
// file has exactly once. A check shows with such a program that it would see the fault.
func Broken(dir, file, text, by string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	name := filepath.Join(root, file)
	source, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	if n := bytes.Count(source, []byte(text)); n != 1 {
		return "", fmt.Errorf("%s has %q %d times, not once: say what is to be replaced now", file, text, n)
	}
	other, over, bin := filepath.Join(dir, "broken.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "holdfast-broken")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {name: other}})
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(other, bytes.Replace(source, []byte(text), []byte(by), 1), 0o644), os.WriteFile(over, list, 0o644)); err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-trimpath", "-tags=gms_pure_go", "-buildvcs=false", "-overlay", over, "-o", bin, "./cmd/holdfast")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build a broken program: %w: %s", err, out)
	}
	return bin, nil
}
