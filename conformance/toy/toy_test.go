// Package toy shows what a new door costs. testdata/toy.patch brings a machine, a worker and a door in folders of their own. The door is a
// bell: each ring is one command for the toy machine, the kv machine and a transparency log. The tests apply it to a copy of the tree,
// count its changes elsewhere, build the program and drive it. It is tests only, and the toy is in no build that users run.
//
// By itself `go test` takes a minute; CRASH=long adds the simulation and 100 kills.
package toy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

var long = os.Getenv("CRASH") == "long"

// linesElsewhere is how many lines a new machine, worker and door may cost outside of new folders. They are a door in the program's list,
// with its import, and an import that has it in simulated runs.
const linesElsewhere = 3

// copyTree copies what the repository has into a directory, with the patch applied.
func copyTree(t *testing.T) (dir string) {
	t.Helper()
	dir = copyOf(t)
	patch, err := filepath.Abs("testdata/toy.patch")
	if err != nil {
		t.Fatal(err)
	}
	run(t, dir, "git", "apply", patch)
	return dir
}

// copyOf copies what the repository has into a directory.
func copyOf(t *testing.T) (dir string) {
	t.Helper()
	root, err := proctest.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	run(t, root, "sh", "-c", `git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -T - -c | tar -x -C "$1"`, "sh", dir)
	return dir
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestThePatchStaysInItsFolders counts the lines that the patch adds or takes away in folders that are there without it.
func TestThePatchStaysInItsFolders(t *testing.T) {
	root, err := proctest.Root()
	if err != nil {
		t.Fatal(err)
	}
	patch, err := os.ReadFile("testdata/toy.patch")
	if err != nil {
		t.Fatal(err)
	}
	var elsewhere []string
	file, outside := "", false
	for line := range strings.Lines(string(patch)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "+++ "):
			file = strings.TrimPrefix(strings.TrimPrefix(line, "+++ "), "b/")
			_, err := os.Stat(filepath.Join(root, filepath.Dir(file)))
			outside = err == nil
		case strings.HasPrefix(line, "--- "):
		case outside && len(line) > 1 && (line[0] == '+' || line[0] == '-') && strings.TrimSpace(line[1:]) != "":
			elsewhere = append(elsewhere, file+": "+line)
		}
	}
	t.Logf("%d lines outside of new folders:\n%s", len(elsewhere), strings.Join(elsewhere, "\n"))
	if len(elsewhere) == 0 || len(elsewhere) > linesElsewhere {
		t.Errorf("%d lines outside of new folders, want 1 to %d", len(elsewhere), linesElsewhere)
	}
}

// seen is what the toy door says of one View.
type seen struct {
	Index, Rings, Key, Log uint64
	Last                   string
	KeyHas                 string `json:"key_has"`
}

func (s *seen) whole() bool { return s.Rings == s.Key && s.Key == s.Log && s.Last == s.KeyHas }

func look(at string) (s seen, err error) {
	client := &http.Client{Timeout: 5 * time.Second}
	res, err := client.Get("http://" + at + "/seen")
	if err != nil {
		return s, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(res.Body)
		return s, fmt.Errorf("%d %s", res.StatusCode, b)
	}
	return s, json.NewDecoder(res.Body).Decode(&s)
}

func ring(at, text string) (code int, body string) {
	client := &http.Client{Timeout: 12 * time.Second}
	res, err := client.PostForm("http://"+at+"/ring", url.Values{"text": {text}})
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

// cluster builds the patched program and starts members of it.
func cluster(t *testing.T, dir string, n int, flags ...string) *proctest.Cluster {
	t.Helper()
	bin := filepath.Join(dir, "bin", "holdfast")
	run(t, dir, "go", "build", "-trimpath", "-tags=gms_pure_go", "-buildvcs=false", "-o", bin, "./cmd/holdfast")
	c, err := proctest.New(t.TempDir(), proctest.Holdfast(bin, append([]string{"--toy", "{toy}"}, flags...)...), n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if t.Failed() {
			for _, node := range c.Nodes {
				t.Logf("%s, last lines:\n%s", node.Name, node.LogTail(40))
			}
		}
	})
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	return c
}

// rung rings until the level of the cluster allows it.
func rung(t *testing.T, at string) {
	t.Helper()
	for end := time.Now().Add(wait.Limit(t)); ; time.Sleep(100 * time.Millisecond) {
		code, body := ring(at, "first")
		if code == http.StatusOK {
			return
		}
		if code != http.StatusServiceUnavailable || time.Now().After(end) {
			t.Fatalf("ring: %d %s", code, body)
		}
	}
}

// TestTheToyIsServed drives one server: the door refuses below its level and serves at it, and every tool knows the machine.
func TestTheToyIsServed(t *testing.T) {
	dir := copyTree(t)
	c := cluster(t, dir, 1, "--hold-level")
	node := c.Nodes[0]
	at, bin := node.Addr("toy"), node.Bin()
	if code, body := ring(at, "too early"); code != http.StatusServiceUnavailable || !strings.Contains(body, "lane toy needs level 9, it is at 0") {
		t.Errorf("below the level: %d %s", code, body)
	}
	run(t, dir, bin, "member", "raise-level", "--admin", node.Admin)
	rung(t, at)
	for i := range 4 {
		if code, body := ring(at, fmt.Sprintf("ring %d", i)); code != http.StatusOK {
			t.Fatalf("ring: %d %s", code, body)
		}
	}
	if s, err := look(at); err != nil || !s.whole() || s.Rings != 5 || s.Last != "ring 3" {
		t.Errorf("seen %+v, %v", s, err)
	}
	wants := func(what, text string, all ...string) {
		t.Helper()
		for _, want := range all {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %q:\n%s", what, want, text)
			}
		}
	}
	wants("help", run(t, dir, bin, "serve", "--help"), "--toy ADDR")
	wants("status", run(t, dir, bin, "status", "--admin", node.Admin), "level: 10", "toy: 5 rings")
	wants("status --json", run(t, dir, bin, "status", "--json", "--admin", node.Admin), `"Rings": 5`)
	res, err := http.Get("http://" + node.Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	wants("metrics", string(metrics), "holdfast_toy_rings 5", `holdfast_queue_bytes{lane="toy"}`)
	snap := filepath.Join(t.TempDir(), "toy.snap")
	wants("snapshot save", run(t, dir, bin, "snapshot", "save", "--admin", node.Admin, snap), "5 rings")
	wants("snapshot status", run(t, dir, bin, "snapshot", "status", snap), "5 rings")
	if err := node.Term(wait.Limit(t)); err != nil {
		t.Fatal(err)
	}
	wants("inspect wal", run(t, dir, bin, "inspect", "wal", "--commands", node.Dir), `toy.ring "ring 3" + kv.put toy/last="ring 3" + tree.append`)
	restored := filepath.Join(t.TempDir(), "restored")
	wants("snapshot restore", run(t, dir, bin, "snapshot", "restore", snap, "--data", restored), "5 rings")
	wants("inspect store", run(t, dir, bin, "inspect", "store", restored, "--prefix", "y"), `bell rung 5 times, last "ring 3"`)
	help := strings.Join(strings.Fields(run(t, dir, bin, "inspect", "store", "--help")), " ") // wherever its lines break
	wants("inspect store --help", help, "ys is the bell")
	// The build without the toy has its rows refused, and says why.
	plain, err := proctest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(plain, "snapshot", "restore", snap, "--data", filepath.Join(t.TempDir(), "r")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "level 9") && !strings.Contains(string(out), "machine 'y'") {
		t.Errorf("a build without the machine restored it: %v\n%s", err, out)
	}
}

// TestNobodySeesHalf rings through three members that are killed, and looks at Views of all of them meanwhile. The machine, the key and the
// log always agree, and no acknowledged ring is missing.
func TestNobodySeesHalf(t *testing.T) {
	if !long {
		t.Skip("100 kills take minutes: only with CRASH=long")
	}
	dir := copyTree(t)
	run(t, dir, "go", "vet", "-tags=gms_pure_go", "./doors/toy/...")
	run(t, dir, "go", "test", "-tags=gms_pure_go", "./internal/arch")
	t.Logf("simulation: %s", run(t, dir, "go", "test", "-tags=gms_pure_go", "./sim", "-run", "TestSeeds", "-count=1", "-args", "-n", "200"))
	c := cluster(t, dir, 3)
	rung(t, c.Nodes[0].Addr("toy"))
	const kills = 100
	var stop atomic.Bool
	var acked, looks, half atomic.Int64
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for n := 0; !stop.Load(); n++ {
				if code, _ := ring(c.Nodes[(i+n)%3].Addr("toy"), fmt.Sprintf("%d of %d", n, i)); code == http.StatusOK {
					acked.Add(1)
				} else {
					time.Sleep(20 * time.Millisecond)
				}
			}
		})
	}
	for _, node := range c.Nodes {
		wg.Go(func() {
			last := uint64(0)
			for !stop.Load() {
				s, err := look(node.Addr("toy"))
				if err != nil {
					last = 0 // another process may be behind
					time.Sleep(20 * time.Millisecond)
					continue
				}
				looks.Add(1)
				if !s.whole() || s.Index < last {
					half.Add(1)
					t.Errorf("%s shows %+v after index %d", node.Name, s, last)
				}
				last = s.Index
			}
		})
	}
	for k := range kills {
		time.Sleep(300 * time.Millisecond)
		victims := []*proctest.Node{c.Nodes[k%3]}
		if k%7 == 0 {
			victims = c.Nodes
		}
		for _, v := range victims {
			if err := v.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		for _, v := range victims {
			if err := v.Start(); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.WaitReady(); err != nil {
			t.Fatal(err)
		}
	}
	stop.Store(true)
	wg.Wait()
	for _, node := range c.Nodes {
		var s seen
		var err error
		for end := time.Now().Add(wait.Limit(t)); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if s, err = look(node.Addr("toy")); err == nil && s.Rings > uint64(acked.Load()) {
				break
			}
		}
		if err != nil || !s.whole() || s.Rings < uint64(acked.Load())+1 {
			t.Errorf("%s ends with %+v, %v; %d rings were acknowledged after the first", node.Name, s, err, acked.Load())
		}
	}
	t.Logf("%d kills, %d rings acknowledged, %d Views, %d of them with half a command", kills, acked.Load(), looks.Load(), half.Load())
}
