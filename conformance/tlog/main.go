// Command tlog runs Tessera's own tools, unmodified, against a Holdfast server: the hammer with the flags of the published
// report over HTTP/1.1 and HTTP/2, the integration test, and fsck; and a verifier in another language (verify.py).
// scripts/tessera.sh installs the tools. It judges by what they print: the hammer's exit status does not tell errors, and
// fsck's tells nothing.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// script is the verifier that shares no code with the server, below the repository.
const script = "conformance/tlog/verify.py"

func main() {
	quick := flag.Bool("quick", false, "a tenth of the leaves")
	tools := flag.String("tools", "build/peers/tessera", "where scripts/tessera.sh put the tools")
	bin := flag.String("holdfast", "bin/holdfast", "the server")
	flag.Parse()
	if err := run(*tools, *bin, *quick); err != nil {
		fmt.Fprintln(os.Stderr, "tlog conformance:", err)
		os.Exit(1)
	}
}

// suite is one server under test.
type suite struct {
	tools, url, vkey, keyFile string
	published                 string // URL of the static files
	failed                    int
}

func run(tools, bin string, quick bool) error {
	dir, err := os.MkdirTemp("", "tlog-conformance")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c, err := proctest.New(dir, proctest.Holdfast(bin, "--tlog", "{tlog}", "--tlog-origin", "log.example/conformance",
		"--tlog-publish", "file://"+filepath.Join(dir, "published")), 1)
	if err != nil {
		return err
	}
	if err := c.Run(); err != nil {
		return err
	}
	defer c.Close()
	n := c.Nodes[0]
	vkey, err := exec.Command(bin, "tlog", "vkey", "--data", n.Dir).Output()
	if err != nil {
		return fmt.Errorf("tlog vkey: %w", err)
	}
	s := &suite{tools: tools, url: "http://" + n.Tlog, vkey: strings.TrimSpace(string(vkey)), keyFile: filepath.Join(n.Dir, "tlog-keys", "default.vkey"), published: "file://" + filepath.Join(dir, "published")}
	leaves := 30000
	if quick {
		leaves = 3000
	}
	s.step("hammer, 512 writers, 512 adds/s", func() (string, error) { return s.hammer(leaves, "--max_write_ops=512") })
	s.step("hammer over HTTP/2", func() (string, error) { return s.hammer(leaves, "--max_write_ops=5120", "--force_http2") })
	s.step("hammer with readers", func() (string, error) {
		return s.hammer(leaves, "--max_write_ops=5120", "--max_read_ops=500", "--num_readers_random=4", "--num_readers_full=4")
	})
	s.step("integration test", func() (string, error) { return s.integration(s.url) })
	s.step("integration test, published files", func() (string, error) { return s.integration(s.published) })
	s.step("fsck", func() (string, error) { return s.fsck(s.url) })
	s.step("fsck, published files", func() (string, error) { return s.fsck(s.published) })
	s.step("holdfast tlog verify", func() (string, error) {
		out, err := exec.Command(bin, "tlog", "verify", s.url, "--vkey", s.vkey).Output()
		return strings.TrimSpace(string(out)), err
	})
	s.step("holdfast tlog verify, published", func() (string, error) {
		out, err := exec.Command(bin, "tlog", "verify", s.published, "--vkey", s.vkey).Output()
		return strings.TrimSpace(string(out)), err
	})
	s.step("verifier in Python", func() (string, error) {
		out, err := exec.Command("python3", script, s.url, s.vkey).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%w: %s", err, last(out))
		}
		return strings.TrimSpace(string(out)), nil
	})
	if s.failed > 0 {
		return fmt.Errorf("%d failed", s.failed)
	}
	return nil
}

func (s *suite) step(name string, do func() (string, error)) {
	began := time.Now()
	note, err := do()
	verdict := "pass"
	if err != nil {
		verdict, note = "FAIL", err.Error()
		s.failed++
	}
	fmt.Printf("%s  %-34s %6.1f s  %s\n", verdict, name, time.Since(began).Seconds(), note)
}

// size is the size the server's checkpoint says.
func (s *suite) size() (size int, err error) {
	res, err := http.Get(s.url + "/checkpoint")
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	lines := strings.Split(string(b), "\n")
	if len(lines) < 3 {
		return 0, fmt.Errorf("checkpoint %q", b)
	}
	_, err = fmt.Sscan(lines[1], &size)
	return size, err
}

// hammer adds leaves and judges by the exit status and by every line that klog marks as a warning or worse.
func (s *suite) hammer(leaves int, flags ...string) (string, error) {
	size, err := s.size()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	args := append([]string{"--log_public_key=" + s.vkey, "--log_url=" + s.url, "--max_read_ops=0", "--num_writers=512", "--show_ui=false",
		fmt.Sprintf("--leaf_write_goal=%d", size+leaves), "--max_runtime=150s"}, flags...)
	out, err := exec.CommandContext(ctx, filepath.Join(s.tools, "hammer"), args...).CombinedOutput()
	var bad []string
	for _, line := range strings.Split(string(out), "\n") {
		if line != "" && strings.ContainsRune("WEF", rune(line[0])) {
			bad = append(bad, line)
		}
	}
	switch {
	case len(bad) > 0:
		return "", fmt.Errorf("%d lines of warnings or errors, the first: %s", len(bad), bad[0])
	case err != nil:
		return "", fmt.Errorf("%w: %s", err, last(out))
	}
	return fmt.Sprintf("%d leaves", leaves), nil
}

// integration writes through the door and reads from there or from the published files.
func (s *suite) integration(from string) (string, error) {
	cmd := exec.Command(filepath.Join(s.tools, "integration.test"), "--run_integration_test", "--log_url="+from, "--write_log_url="+s.url,
		"--log_public_key="+s.vkey, "-test.v")
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("PASS")) || bytes.Contains(out, []byte("SKIP")) {
		return "", fmt.Errorf("%w: %s", err, last(out))
	}
	return "1,024 entries, each read back and proved", nil
}

func (s *suite) fsck(from string) (string, error) {
	size, err := s.size()
	if err != nil {
		return "", err
	}
	time.Sleep(time.Second) // a publication is at most a few tenths of a second behind
	out, err := exec.Command(filepath.Join(s.tools, "fsck"), "--storage_url="+from, "--public_key="+s.keyFile, "--ui=false", "-N", "4").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, last(out))
	}
	if want := fmt.Sprintf("Successfully fsck'd log with size %d", size); !bytes.Contains(out, []byte(want)) {
		return "", errors.New("it does not say " + want + ": " + last(out))
	}
	return fmt.Sprintf("%d entries", size), nil
}

// last is the end of a program's output.
func last(out []byte) string {
	return strings.Join(strings.Fields(string(out[max(0, len(out)-600):])), " ")
}
