package crash

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// idleBar is the resident memory of a one-node server without any request so far. Linking the engine of the sql door takes 25 MB of it: the
// tables of its collations and functions are filled when the program starts. Nothing of it runs where the door is off.
const idleBar = 60 << 20

// TestIdle starts one node with default settings and leaves it alone. It takes little memory, and its disk may sleep once the store has
// flushed.
func TestIdle(t *testing.T) {
	processTest(t, false)
	c := start(t, 1)
	node := c.Nodes[0]
	time.Sleep(2 * time.Second)
	rss, err := node.RSS()
	if err != nil {
		t.Fatal(err)
	}
	if rss > idleBar {
		t.Errorf("RSS %d MB, bar %d MB", rss>>20, idleBar>>20)
	}
	if !long { // the last flush comes five minutes after the first write
		summary(t, "idle: RSS %.1f MB", float64(rss)/(1<<20))
		return
	}
	if err := untilAnswered(t, putOnce(dial(t, node.KV), "k", "v")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(seconds("IDLE_SETTLE", 0, 330))
	watched := seconds("IDLE_SECONDS", 0, 60)
	wrote := writtenBytes(t, node.PID())
	syncs, traced := countSyncs(t, node.PID(), watched)
	wrote = writtenBytes(t, node.PID()) - wrote
	if syncs > 0 || wrote > 0 {
		t.Errorf("%d syncs and %d bytes written in %s of idleness", syncs, wrote, watched)
	}
	how := "counted by strace"
	if !traced {
		how = "not counted (no strace)"
	}
	later, err := node.RSS()
	if err != nil {
		t.Fatal(err)
	}
	summary(t, "idle: RSS %.1f MB after the start, %.1f MB after six minutes; in %s then %d syncs (%s), %d bytes written", float64(rss)/(1<<20),
		float64(later)/(1<<20), watched, syncs, how, wrote)
}

// writtenBytes is what the process has caused to be written to disks.
func writtenBytes(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "io"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "write_bytes: "); ok {
			n, err := strconv.Atoi(strings.TrimSpace(rest))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no write_bytes in %s", b)
	return 0
}

// countSyncs watches the process for d. Without strace it only waits.
func countSyncs(t *testing.T, pid int, d time.Duration) (n int, traced bool) {
	t.Helper()
	path, err := exec.LookPath("strace")
	if err != nil {
		t.Log("no strace: syncs are not counted, only bytes")
		time.Sleep(d)
		return 0, false
	}
	out := filepath.Join(t.TempDir(), "strace")
	cmd := exec.Command(path, "-f", "-qq", "-e", "trace=fsync,fdatasync,sync_file_range,syncfs,sync", "-o", out, "-p", strconv.Itoa(pid))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(d)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatalf("strace ended early: %v", err)
	}
	_ = cmd.Wait() // ends by the signal
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), "sync"), true
}
