package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfastdb/holdfast/doors/tlog/hammer"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// TestBenchTlog puts load on a server, and then on one that lies through a proxy.
func TestBenchTlog(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := serveTlog(t, data, "--tlog-origin", "log.example/2026")
	defer s.stop()
	vkey := filepath.Join(data, "tlog-keys", "default.vkey")
	key := vkeyOf(t, says(t, "tlog", "vkey", "--data", data))
	s.checkpoint("/checkpoint", key, 0) // the log has begun
	if code, _ := s.add("/add", "somebody else's"); code != 200 {
		t.Fatalf("add: %d", code)
	}

	// A thousand entries, each found at its index: three bundles and a part, among what others have put there.
	r := bench(t, s.url, "--vkey", vkey, "--count", "1000", "--writers", "8", "--verify", "all")
	if r.Adds != 1000 || r.Verified != 1000 || r.Wrong+r.Failed+r.PushedBack+r.Untimed != 0 || r.Uncovered || r.Size != 1001 {
		t.Errorf("%+v", r)
	}
	if r.Origin != "log.example/2026" || r.Queue.Count != 1000 || r.Integrate.Count != 1000 || r.Queue.Min <= 0 ||
		r.Queue.P50 > r.Queue.P99 || r.Queue.P99 > r.Queue.Max || r.Integrate.Max < r.Queue.Min {
		t.Errorf("%+v", r)
	}

	// At a rate, which a busy machine may not reach, until the time is over, and a sample of it.
	r = bench(t, s.url, "--vkey", key.String(), "--rate", "200", "--duration", "1s", "--writers", "4", "--size", "300")
	if r.Adds < 8 || float64(r.Adds) > 200*r.Seconds+1 || r.Asked != (r.Adds+63)/64 || r.Verified != r.Asked || r.FirstSize != 1001 || r.EntryBytes != 300 || r.Growth <= 0 {
		t.Errorf("%+v", r)
	}
	if out := says(t, "tlog", "verify", s.url, "--vkey", vkey); !strings.Contains(out, fmt.Sprintf("has %d entries", r.Size)) {
		t.Errorf("verify: %s, the tree had %d", out, r.Size)
	}

	// For people.
	out := says(t, "bench", "tlog", s.url, "--vkey", vkey, "--count", "10", "--verify", "none")
	for i, begin := range []string{"Write (16 writers): ", "Tree size: ", "Time in queue: ", "Observed time to integrate: "} {
		if lines := strings.Split(out, "\n"); len(lines) != 5 || !strings.HasPrefix(lines[i], begin) {
			t.Errorf("line %d of %q", i, out)
		}
	}

	// A log that answers another index than the entry has is found out; so is one whose tiles are of another log.
	liar := through(t, s.url, func(path string, n int64, b []byte) (int, []byte) {
		if index, err := strconv.Atoi(string(b)); err == nil && path == "/add" && n == 20 {
			return 200, []byte(strconv.Itoa(index - 1))
		}
		return 200, b
	})
	refuses(t, "1 of 40 entries are not where the log said: index", "bench", "tlog", liar, "--vkey", vkey, "--count", "40", "--verify", "all")
	liar = through(t, s.url, func(path string, _ int64, b []byte) (int, []byte) {
		if strings.HasPrefix(path, "/tile/0/") {
			b[0] ^= 1
		}
		return 200, b
	})
	refuses(t, "; see the server's log", "bench", "tlog", liar, "--vkey", vkey, "--count", "300", "--verify", "all")

	// A checkpoint that goes back ends the run at once, long before its time is over.
	var mu sync.Mutex
	var first []byte
	grown := false
	back := through(t, s.url, func(path string, _ int64, b []byte) (int, []byte) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case path != "/checkpoint":
		case first == nil:
			first = b
		case grown:
			return 200, first
		default:
			grown = !bytes.Equal(b, first)
		}
		return 200, b
	})
	refuses(t, "checkpoint: the log is broken: size ", "bench", "tlog", back, "--vkey", vkey, "--rate", "100", "--duration", "1h")

	// "Later" is obeyed and counted; an unknown outcome is a failure, and the entry is not sent again.
	busy := through(t, s.url, func(path string, n int64, b []byte) (int, []byte) {
		if path == "/add" && n <= 3 {
			return 503, nil
		}
		return 200, b
	})
	if r := bench(t, busy, "--vkey", vkey, "--count", "5", "--writers", "3"); r.PushedBack != 3 || r.Adds != 5 {
		t.Errorf("%+v", r)
	}
	lost := through(t, s.url, func(path string, n int64, b []byte) (int, []byte) {
		if path == "/add" && n == 2 {
			return 500, []byte("lost")
		}
		return 200, b
	})
	refuses(t, "1 adds failed, the first: add: status 500: lost", "bench", "tlog", lost, "--vkey", vkey, "--count", "5")
	refuses(t, "give the address of a log that answers", "bench", "tlog", "http://"+freeAddr(t), "--vkey", vkey)
	refuses(t, "give the address of a log that answers", "bench", "tlog", s.url+"/logs/none", "--vkey", vkey)
}

// bench runs `bench tlog` and reads its figures.
func bench(t *testing.T, args ...string) (r hammer.Report) {
	t.Helper()
	out := says(t, append([]string{"bench", "tlog", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return r
}

// through is a proxy of a log that changes its answers. change gets the path, the number of POST requests so far, and the log's answer, and
// returns the answer to give. An answer of 503 or 500 to a POST means that the log is not asked.
func through(t *testing.T, to string, change func(path string, n int64, b []byte) (int, []byte)) string {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	var posts atomic.Int64
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		n := int64(0)
		if req.Method == http.MethodPost {
			n = posts.Add(1)
			if code, b := change(req.URL.Path, n, nil); code != 200 {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(code)
				_, _ = w.Write(b)
				return
			}
		}
		rec := httptest.NewRecorder()
		proxy.ServeHTTP(rec, req)
		b, err := io.ReadAll(rec.Body)
		if err != nil || rec.Code != 200 {
			w.WriteHeader(rec.Code)
			return
		}
		_, b = change(req.URL.Path, n, bytes.Clone(b))
		_, _ = w.Write(b)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// TestBenchTlogRefuses what it cannot do, before anything is sent.
func TestBenchTlogRefuses(t *testing.T) {
	vkey := filepath.Join(t.TempDir(), "k.vkey")
	says(t, "tlog", "keygen", "k", "--origin", "log.example/k", "--tlog-keys", filepath.Dir(vkey))
	if _, err := os.Stat(vkey); err != nil {
		t.Fatal(err)
	}
	for args, words := range map[string]string{
		"":                                                       "wants an address and a public key",
		"http://h --vkey none":                                   "no Ed25519 key",
		"ftp://h --vkey KEY":                                     "is not the address of a log",
		"http://h --vkey KEY --size 8":                           "entries of 8 bytes; give 40 to 65535",
		"http://h --vkey KEY --writers 0":                        "0 writers",
		"http://h --vkey KEY --writers x":                        "not a number",
		"http://h --vkey KEY --rate -1":                          "a rate of -1",
		"http://h --vkey KEY --count -1":                         "not a number",
		"http://h --vkey KEY --duration 30":                      "not a time",
		"http://h --vkey KEY --duration 48h":                     "a duration of 48h",
		"http://h --vkey KEY --verify some":                      "give all, sample or none",
		"http://h --vkey KEY --verify all --count 9000000000000": "can be remembered",
	} {
		all := append([]string{"bench", "tlog"}, strings.Fields(strings.ReplaceAll(args, "KEY", vkey))...)
		status, _, errs := execute(nil, all...)
		if status != 2 || !strings.Contains(errs, words) || strings.Count(errs, ";") != 1 || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: status %d: %s; want %q", args, status, errs, words)
		}
	}
}

// TestBenchTlogOnATerminal shows the published report's lines while it runs, on a pseudo-terminal as a person has one, and
// leaves the figures for machines alone.
func TestBenchTlogOnATerminal(t *testing.T) {
	data := t.TempDir()
	s := serveTlog(t, data, "--tlog-origin", "log.example/2026")
	defer s.stop()
	vkey := filepath.Join(data, "tlog-keys", "default.vkey")
	s.checkpoint("/checkpoint", vkeyOf(t, says(t, "tlog", "vkey", "--data", data)), 0)

	screen, terminal := openTerminal(t)
	var mu sync.Mutex
	var shown bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		for b := make([]byte, 4096); ; {
			n, err := screen.Read(b)
			mu.Lock()
			shown.Write(b[:n])
			mu.Unlock()
			if err != nil { // the terminal was closed
				return
			}
		}
	}()
	var out bytes.Buffer
	status := cli.Run(commands(), []string{"bench", "tlog", s.url, "--vkey", vkey, "--writers", "4", "--rate", "100", "--duration", "2500ms", "--json"},
		&out, terminal, func(string) string { return "" })
	terminal.Close()
	<-read
	mu.Lock()
	defer mu.Unlock()
	var r hammer.Report
	if err := json.Unmarshal(out.Bytes(), &r); status != 0 || err != nil || r.Adds < 200 {
		t.Errorf("status %d, %v, %s", status, err, out.String())
	}
	for _, want := range []string{
		`\x1b\[2KWrite \(4 writers\): \d+/s in 1\.\d s, asked for 100/s; 0 pushed back, 0 failed\r\n`,
		`\x1b\[2KTree size: \d+ \(Δ \d+ qps over [12] s\)\r\n`,
		`\x1b\[2KTime in queue: [\d.]+/[\d.]+/[\d.]+ ms \(min/avg/max\); p50 `,
		`\x1b\[2KObserved time to integrate: [\d.]+/[\d.]+/[\d.]+ ms \(min/avg/max\); p50 `,
		`\x1b\[4A\x1b\[2KWrite \(4 writers\): \d+/s in 2\.\d s`, // drawn over the first
	} {
		if !regexp.MustCompile(want).Match(shown.Bytes()) {
			t.Errorf("the terminal does not show %s:\n%q", want, shown.String())
		}
	}
}

// openTerminal returns both ends of a pseudo-terminal: what a person looks at, and what a program writes to.
func openTerminal(t *testing.T) (screen, terminal *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { screen.Close() })
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return screen, terminal
}
