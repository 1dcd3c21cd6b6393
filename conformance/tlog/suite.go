package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/results"
)

// script is the verifier that shares no code with the server, below the repository.
const script = "conformance/tlog/verify.py"

// patience is how long a publication may be behind before a step fails.
const patience = 30 * time.Second

// place is where the log can be read.
type place struct {
	name   string
	url    string // for readers: http:// or file://
	target string // for --tlog-publish; "" is the door itself
}

// suite is one server under test with the places it publishes to. It belongs to one goroutine.
type suite struct {
	tools, bin, dir string
	leaves          int // a hammer writes

	cluster *proctest.Cluster
	vkey    string
	places  []place // the door first
	steps   results.Steps
}

func (s *suite) node() *proctest.Node { return s.cluster.Nodes[0] }
func (s *suite) door() string         { return "http://" + s.node().Addr("tlog") }

// serve starts the server and notes its places. db may be nil.
func (s *suite) serve(b *bucket, db *database) error {
	flags := []string{"--tlog", "{tlog}", "--tlog-origin", "log.example/conformance"}
	places := []place{{name: "files", url: "file://" + filepath.Join(s.dir, "live"), target: "file://" + filepath.Join(s.dir, "live")}, b.place("live")}
	if db != nil {
		p, err := db.place("live")
		if err != nil {
			return err
		}
		places = append(places, p)
	}
	for _, p := range places {
		flags = append(flags, "--tlog-publish", p.target)
	}
	var err error
	if s.cluster, err = proctest.New(s.dir, proctest.Holdfast(s.bin, flags...), 1); err != nil {
		return err
	}
	if err := s.cluster.Run(); err != nil {
		return err
	}
	vkey, err := exec.Command(s.bin, "tlog", "vkey", "--data", s.node().Dir).Output()
	if err != nil {
		s.cluster.Close()
		return fmt.Errorf("tlog vkey: %w", err)
	}
	s.vkey = strings.TrimSpace(string(vkey))
	s.places = append([]place{{name: "door", url: s.door()}}, places...)
	if err := s.began(); err != nil {
		s.cluster.Close()
		return err
	}
	if db == nil {
		return nil
	}
	// The reader ends at once if there are no tables yet.
	if _, err := db.published("live", 0); err != nil {
		s.cluster.Close()
		return err
	}
	return db.read("live")
}

// began waits until the door shows the first checkpoint. A new log has none for moments after the server is ready. Before it signs, it asks
// every place of publication whether there is a later one.
func (s *suite) began() error {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		_, err := sizeAt(s.door())
		if err == nil {
			return nil
		}
		if time.Since(began) > patience {
			return fmt.Errorf("no checkpoint %s after the start: %w", patience, err)
		}
	}
}

// restart stops the server and starts it with other places to publish to.
func (s *suite) restart(flags ...string) error {
	if err := s.node().Term(patience); err != nil {
		return err
	}
	s.cluster.Reflag(s.node(), append([]string{"--tlog", s.node().Addr("tlog")}, flags...)...)
	return s.cluster.Restart(s.node())
}

// sizeAt is the size of the checkpoint that readers find at a URL.
func sizeAt(url string) (int, error) {
	b, err := fetch(url)
	if err != nil {
		return 0, err
	}
	lines := strings.Split(string(b), "\n")
	if len(lines) < 3 {
		return 0, fmt.Errorf("checkpoint %q", b)
	}
	return strconv.Atoi(lines[1])
}

func fetch(url string) ([]byte, error) {
	if dir, ok := strings.CutPrefix(url, "file://"); ok {
		return os.ReadFile(filepath.Join(dir, "checkpoint"))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/checkpoint", nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("checkpoint: %s", res.Status)
	}
	return b, err
}

// caughtUp waits until a place shows what the door shows, and returns that size.
func (s *suite) caughtUp(p place) (int, error) {
	want, err := sizeAt(s.door())
	if err != nil {
		return 0, err
	}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		size, err := sizeAt(p.url)
		if err == nil && size == want {
			return size, nil
		}
		if time.Since(began) > patience {
			return 0, fmt.Errorf("after %s it shows %d entries, the door %d (%v)", patience, size, want, err)
		}
	}
}

// hammer adds leaves and judges by the exit status and by every line that klog marks as a warning or worse.
func (s *suite) hammer(flags ...string) (string, error) {
	size, err := sizeAt(s.door())
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	args := append([]string{"--log_public_key=" + s.vkey, "--log_url=" + s.door(), "--max_read_ops=0", "--num_writers=512", "--show_ui=false",
		fmt.Sprintf("--leaf_write_goal=%d", size+s.leaves), "--max_runtime=150s"}, flags...)
	out, err := exec.CommandContext(ctx, filepath.Join(s.tools, "hammer"), args...).CombinedOutput()
	var bad []string
	ending := false
	for line := range strings.Lines(string(out)) {
		ending = ending || strings.Contains(line, "Reached tree size goal")
		// When it has reached its goal it cancels its own requests, and may warn of that.
		if strings.ContainsRune("WEF", rune(line[0])) && !(ending && strings.Contains(line, "context canceled")) {
			bad = append(bad, strings.TrimSpace(line))
		}
	}
	switch {
	case len(bad) > 0:
		return "", fmt.Errorf("%d lines of warnings or errors, the first: %s", len(bad), bad[0])
	case err != nil:
		return "", fmt.Errorf("%w: %s", err, last(out))
	}
	return fmt.Sprintf("%d leaves", s.leaves), nil
}

// integration writes through the door and reads from there or from a publication.
func (s *suite) integration(p place) (string, error) {
	cmd := exec.Command(filepath.Join(s.tools, "integration.test"), "--run_integration_test", "--log_url="+p.url, "--write_log_url="+s.door(),
		"--log_public_key="+s.vkey, "-test.v")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, last(out))
	}
	if !bytes.Contains(out, []byte("PASS")) || bytes.Contains(out, []byte("SKIP")) {
		return "", errors.New("it does not say PASS: " + last(out))
	}
	return "1,024 entries, each read back and proved", nil
}

// fsck has Tessera's own tool derive the whole log again. It passed if it names the size of the checkpoint fetched before.
func (s *suite) fsck(p place) (string, error) {
	size, err := s.caughtUp(p)
	if err != nil {
		return "", err
	}
	key := filepath.Join(s.node().Dir, "tlog-keys", "default.vkey")
	out, err := exec.Command(filepath.Join(s.tools, "fsck"), "--storage_url="+p.url, "--public_key="+key, "--ui=false", "-N", "4").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, last(out))
	}
	if want := fmt.Sprintf("Successfully fsck'd log with size %d ", size); !bytes.Contains(out, []byte(want)) {
		return "", errors.New("it does not say " + want + ": " + last(out))
	}
	return fmt.Sprintf("%d entries", size), nil
}

func (s *suite) verify(p place) (string, error) {
	if _, err := s.caughtUp(p); err != nil {
		return "", err
	}
	out, err := exec.Command(s.bin, "tlog", "verify", p.url, "--vkey", s.vkey).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("%w: %s", err, last(exit.Stderr))
	}
	note, _, _ := strings.Cut(string(out), " and root ")
	return note, err
}

func (s *suite) python(p place) (string, error) {
	out, err := exec.Command("python3", script, p.url, s.vkey).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, last(out))
	}
	return strings.TrimSpace(string(out)), nil
}

// last is the end of a program's output.
func last(out []byte) string {
	return strings.Join(strings.Fields(string(out[max(0, len(out)-600):])), " ")
}
