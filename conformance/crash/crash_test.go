// Package crash tests real `holdfast serve` processes while they fail: killed, paused, restarted in turn, wiped, out of disk, out of
// memory, flooded. Unmodified etcd clients do the talking. It is tests only, and no simulation: time and scheduling are real. A seed
// repeats a test's decisions, not the machine's (package sim replays exactly).
//
// By itself `go test` makes a short run of every test, for `make test`. The long run, whose counts are the project's claims, is
//
//	CRASH=long go test ./conformance/crash -count=1 -v -timeout 3h
//
// It also writes conformance/CRASH-RESULTS.md. CRASH_SEED=n repeats the decisions of a run, CRASH_<NAME>=n replaces one count (the names
// are in the calls of count). CRASH_ETCD=path runs the tests with a counterpart in etcd against that etcd: a test that a healthy etcd does
// not pass tests nothing.
package crash

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

var (
	long = os.Getenv("CRASH") == "long"
	seed = envInt("CRASH_SEED", int(time.Now().UnixNano()%1_000_000))
)

// rows of the results table, in the order the tests ended.
var (
	rowsMu sync.Mutex
	rows   []row
)

type row struct{ test, line, verdict string }

// besides is how many tests run beside each other, independent of -parallel: more clusters would starve each other's elections on two
// cores.
const besides = "3"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", besides); err != nil {
		panic(err)
	}
	code := m.Run()
	if long && os.Getenv("CRASH_ETCD") == "" && len(rows) > 0 {
		if err := writeTable(); err != nil {
			fmt.Fprintln(os.Stderr, "write results:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// writeTable merges this run's rows into the table: a run of one test replaces that test's line only.
func writeTable() error {
	root, err := proctest.Root()
	if err != nil {
		return err
	}
	name := filepath.Join(root, "conformance", "CRASH-RESULTS.md")
	lines := map[string]string{}
	var order []string
	put := func(test, line string) {
		if _, ok := lines[test]; !ok {
			order = append(order, test)
		}
		lines[test] = line
	}
	old, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for line := range strings.Lines(string(old)) {
		if cells := strings.Split(line, "|"); len(cells) == 6 && strings.HasPrefix(strings.TrimSpace(cells[1]), "Test") {
			put(strings.TrimSpace(cells[1]), strings.TrimSpace(line))
		}
	}
	day := time.Now().UTC().Format("2006-01-02")
	for _, r := range rows {
		put(r.test, fmt.Sprintf("| %s | %s | %s | %s |", r.test, r.verdict, strings.ReplaceAll(r.line, "|", "/"), day))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Real processes that fail: the last long run of each test\n\n"+
		"`CRASH=long go test ./conformance/crash -count=1 -v -timeout 3h`, all members and clients on one machine of %d cores. "+
		"A line says what was seen, whether or not it was good enough.\n\n"+
		"| test | verdict | seen | day |\n|---|---|---|---|\n", runtime.NumCPU())
	for _, test := range order {
		b.WriteString(lines[test] + "\n")
	}
	return os.WriteFile(name, []byte(b.String()), 0o644)
}

// summary prints the one line a test ends with and keeps it for the table. The seed is added.
func summary(t *testing.T, format string, args ...any) {
	t.Helper()
	line := fmt.Sprintf(format, args...) + fmt.Sprintf(", seed %d", seed)
	t.Log(line)
	verdict := "pass"
	if t.Failed() {
		verdict = "FAIL"
	}
	rowsMu.Lock()
	rows = append(rows, row{t.Name(), line, verdict})
	rowsMu.Unlock()
}

// barOf is a bar of time as this run holds it. The long run has the machine to itself and holds the bar as it stands. The short run shares
// its cores with other work, so it has no bar. Its summary has the figures, and a server that stalls ends with the run's time.
func barOf(d time.Duration) time.Duration {
	if long {
		return d
	}
	return math.MaxInt64
}

// excused reports whether err says no more than that the answer did not come within the server's own time. A busy machine makes a healthy server
// say so, and the short run passes over it.
func excused(err error) bool {
	code, known := errorCode(err)
	return !long && known && (code == codes.Unavailable || code == codes.DeadlineExceeded)
}

// rng is this test's source of decisions: the run's seed and the test's name.
func rng(t *testing.T) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(t.Name()))
	return rand.New(rand.NewPCG(uint64(seed), h.Sum64()))
}

// between draws from [lo, hi).
func between(r *rand.Rand, lo, hi time.Duration) time.Duration {
	return lo + time.Duration(r.Int64N(int64(hi-lo)))
}

// count is how often or how much: CRASH_<name>, else by the length of the run.
func count(name string, short, inLong int) int {
	if long {
		short = inLong
	}
	return envInt("CRASH_"+name, short)
}

// seconds is count for durations.
func seconds(name string, short, inLong int) time.Duration {
	return time.Duration(count(name, short, inLong)) * time.Second
}

func envInt(name string, def int) int {
	v := os.Getenv(name)
	if v == "" {
		return def
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		panic(fmt.Sprintf("%s=%s is not a number", name, v))
	}
	return n
}

// grouped writes 41233 as 41,233.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
