package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A copy of a server's data directory is started while the original runs, at another place and with the original's address for others. It
// is refused. Where the original has ended it starts.
func TestACopyWithTheAddressOfItsOriginalIsRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "n1")
	_, id := c.nodes["n1"].IDs()
	dir := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(dir, os.DirFS(c.dirs["n1"])); err != nil {
		t.Fatal(err)
	}
	c.dirs["n1"] = dir
	delete(c.fs, "n1")
	elsewhere := StartOptions{PeerListen: []string{freeAddr(t)}}
	if _, err := c.start("n1", elsewhere); err == nil || !strings.Contains(err.Error(), "a process at "+c.peers["n1"]) ||
		!strings.Contains(err.Error(), "runs as the same member (n1") {
		t.Fatalf("beside its original: %v", err)
	}
	c.stop("n1")
	n, err := c.start("n1", elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	if _, again := n.IDs(); again != id {
		t.Errorf("it is %x, and was %x", again, id)
	}
}
