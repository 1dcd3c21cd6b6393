package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// The servers.
const (
	posix        = "conformance-posix"
	personality  = "Tessera at 10 ms"
	tesseraMySQL = "conformance-mysql"
	holdfast     = "holdfast"
)

// server is a running server with a log of its own.
type server struct {
	*proctest.Process
	url, key string // of the log
	data     string // directory
}

// start runs a server with an empty log below dir and waits for its first checkpoint.
func (b *bench) start(name, dir string, at place) (*server, error) {
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	keys := filepath.Join(dir, "keys")
	vkey, err := exec.Command(b.bin, "tlog", "keygen", "default", "--origin", "log.example/bench", "--tlog-keys", keys).Output()
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	s := &server{url: "http://" + addr, key: strings.TrimSpace(string(vkey)), data: filepath.Join(dir, "data")}
	var line []string
	switch name {
	case holdfast:
		line = []string{b.bin, "serve", "--data", s.data, "--tlog", addr, "--admin", "off", "--tlog-keys", keys, "--memory", proctest.Memory}
	case tesseraMySQL:
		line = []string{filepath.Join(b.tools, "conformance-mysql"), "--listen=" + addr, "--private_key_path=" + filepath.Join(keys, "default.key"),
			"--publish_interval=1s"}
	default:
		program := map[string]string{posix: "conformance-posix", personality: "personality"}[name]
		line = []string{filepath.Join(b.tools, program), "--storage_dir=" + s.data, "--listen=" + addr,
			"--private_key=" + filepath.Join(keys, "default.key")}
	}
	line = slices.Concat(at.server, line, at.flags)
	s.Process = proctest.NewProcess(filepath.Join(dir, "log"), line[0], line[1:]...)
	if err := s.Start(); err != nil {
		return nil, err
	}
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if _, err := size(s.url); err == nil {
			return s, nil
		} else if !s.Running() || time.Since(began) > 20*time.Second {
			err = fmt.Errorf("no checkpoint: %w\n%s", err, s.LogTail(10))
			_ = s.Kill() // the error that is returned says more
			return nil, err
		}
	}
}

// point is a server at one moment.
type point struct {
	at   time.Time
	size int
	cpu  time.Duration
}

func (s *server) take() (at point, err error) {
	if at.size, err = size(s.url); err != nil {
		return at, err
	}
	at.at = time.Now()
	at.cpu, err = s.CPU()
	return at, err
}

// size is the number of entries the newest checkpoint covers.
func size(url string) (int, error) {
	res, err := http.Get(url + "/checkpoint")
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return 0, err
	}
	lines := strings.Split(string(b), "\n")
	if res.StatusCode != http.StatusOK || len(lines) < 3 {
		return 0, fmt.Errorf("checkpoint: %s %q", res.Status, b)
	}
	return strconv.Atoi(lines[1])
}

// freeAddress is an address without a listener.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// peakMemory is the most memory that a process had resident so far, in bytes.
func peakMemory(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" && f[2] == "kB" {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("process %d does not say how much memory it had", pid)
}
