package proctest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Earlier builds the program as of a commit of this repository, once, in build/earlier, and returns its path. Tests need it for members of
// two builds together. It needs the commit, which a shallow clone may not have.
func Earlier(commit string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "build", "earlier", commit)
	bin := filepath.Join(dir, "holdfast")
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	src, err := os.MkdirTemp("", "holdfast-earlier-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(src)
	if out, err := exec.Command("sh", "-c", `git -C "$1" archive "$2" | tar -x -C "$3"`, "sh", root, commit, src).CombinedOutput(); err != nil {
		return "", fmt.Errorf("take commit %s: %w: %s", commit, err, out)
	}
	if _, err := os.Stat(filepath.Join(src, "go.mod")); err != nil {
		return "", fmt.Errorf("commit %s is not in this clone; run `git fetch --unshallow`", commit)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-trimpath", "-tags=gms_pure_go", "-buildvcs=false", "-o", bin+".part", "./cmd/holdfast")
	build.Dir, build.Env = src, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build commit %s: %w: %s", commit, err, out)
	}
	return bin, os.Rename(bin+".part", bin)
}

// Become changes the build and the extra flags with which a node that has ended starts again, as the same member.
func (c *Cluster) Become(node *Node, bin string, extra ...string) {
	kind := Holdfast(bin, extra...)
	node.Process = NewProcess(node.LogFile(), bin, kind.args(node, c.Nodes)...)
}
