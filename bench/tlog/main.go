// Command tlog measures adds to a transparency log: Tessera's unmodified hammer against Tessera's own server on files
// (conformance-posix) and against Holdfast, alternating, at several numbers of writers. Both answer after the entry is
// durable. Then the same with `holdfast bench tlog`, which takes less of the processor and has percentiles; after each of
// these rounds the whole log is derived again with `holdfast tlog verify`. It prints a table with the server's CPU per add,
// and writes the same as JSON. Before that it times, for Holdfast alone, how long an entry takes until its proof is verified.
//
// What it measures is the growth of the tree over a window, by the size in the checkpoint; the load is paced so that it
// never waits for its own budget. The hammer needs the processor as well: at many writers on few cores the ratio says less
// about the servers than their CPU per add does.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/bench/host"
	"github.com/holdfastdb/holdfast/internal/proctest"
)

// warmup is how long the hammer runs before the window begins.
const warmup = 2 * time.Second

func main() {
	writers := flag.String("writers", "16,256,512,1024", "numbers of writers")
	rounds := flag.Int("rounds", 3, "rounds; the table has medians")
	seconds := flag.Int("seconds", 10, "length of the window")
	tools := flag.String("tools", "build/peers/tessera", "where scripts/tessera.sh put the tools")
	bin := flag.String("holdfast", "bin/holdfast", "the server")
	out := flag.String("json", "build/bench/tlog.json", "where the figures go, as JSON")
	onlyProofs := flag.Bool("proofs", false, "only time adds until their proofs are verified")
	flag.Parse()
	if err := run(*onlyProofs, *writers, *rounds, time.Duration(*seconds)*time.Second, *tools, *bin, *out); err != nil {
		fmt.Fprintln(os.Stderr, "bench tlog:", err)
		os.Exit(1)
	}
}

// figure is one server under one load with one number of writers: a value for each round.
type figure struct {
	Server     string    `json:"server"`
	Load       string    `json:"load"` // withHammer or withOurs
	Writers    int       `json:"writers"`
	AddsPerSec []float64 `json:"adds_per_second"`
	MicrosCPU  []float64 `json:"server_cpu_us_per_add"`
	P50        []float64 `json:"p50_ms,omitempty"` // of single adds; the hammer does not know them
	P99        []float64 `json:"p99_ms,omitempty"`
	Warnings   int       `json:"load_warnings"` // lines of the hammer's; adds that failed or were pushed back
}

// The loads.
const (
	withHammer = "hammer"
	withOurs   = "holdfast bench tlog"
)

func run(onlyProofs bool, list string, rounds int, window time.Duration, tools, bin, out string) error {
	dir, err := os.MkdirTemp("build/bench", "tlog.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	machine, err := host.Describe(dir)
	if err != nil {
		return err
	}
	fmt.Println(machine)
	if err := proofs(filepath.Join(dir, "proofs"), bin, window); err != nil {
		return fmt.Errorf("proofs: %w", err)
	}
	if onlyProofs {
		return nil
	}
	var figures []*figure
	for item := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(item))
		if err != nil {
			return fmt.Errorf("-writers %s: %w", list, err)
		}
		for _, load := range []string{withHammer, withOurs} {
			posix, holdfast, err := sideBySide(load, n, rounds, window, dir, tools, bin)
			if err != nil {
				return err
			}
			figures = append(figures, posix, holdfast)
			row(posix, holdfast)
		}
	}
	b, err := json.MarshalIndent(struct {
		Machine host.Machine `json:"machine"`
		Figures []*figure    `json:"figures"`
	}{machine, figures}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(out, append(b, '\n'), 0o644)
}

// sideBySide measures both servers under one load, in turns.
func sideBySide(load string, writers, rounds int, window time.Duration, dir, tools, bin string) (posix, holdfast *figure, err error) {
	posix = &figure{Server: "conformance-posix", Load: load, Writers: writers}
	holdfast = &figure{Server: "holdfast", Load: load, Writers: writers}
	for round := range rounds {
		pair := []*figure{posix, holdfast}
		if round%2 == 1 { // whoever goes first has the colder machine
			pair[0], pair[1] = pair[1], pair[0]
		}
		for _, f := range pair {
			at := filepath.Join(dir, fmt.Sprintf("%s.%d.%d.%t", f.Server, writers, round, load == withOurs))
			if err := measure(f, at, window, tools, bin); err != nil {
				return nil, nil, fmt.Errorf("%s, %d writers, %s: %w", f.Server, writers, load, err)
			}
		}
	}
	return posix, holdfast, nil
}

func row(posix, holdfast *figure) {
	p, h := host.Median(posix.AddsPerSec), host.Median(holdfast.AddsPerSec)
	cp, ch := host.Median(posix.MicrosCPU), host.Median(holdfast.MicrosCPU)
	fmt.Printf("%5d writers  %-19s  posix %8.0f/s %6.1f µs CPU   holdfast %8.0f/s %6.1f µs CPU   rate ×%.2f  CPU ×%.2f  warnings %d and %d\n",
		posix.Writers, posix.Load, p, cp, h, ch, h/p, ch/cp, posix.Warnings, holdfast.Warnings)
	if len(holdfast.P99) > 0 {
		fmt.Printf("%27s an add  posix p50 %.1f p99 %.1f ms   holdfast p50 %.1f p99 %.1f ms\n", "",
			host.Median(posix.P50), host.Median(posix.P99), host.Median(holdfast.P50), host.Median(holdfast.P99))
	}
}

// measure runs one server and one load and adds a value to each list of f.
func measure(f *figure, dir string, window time.Duration, tools, bin string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	addr, err := freeAddress()
	if err != nil {
		return err
	}
	keys := filepath.Join(dir, "keys")
	vkey, err := exec.Command(bin, "tlog", "keygen", "default", "--origin", "log.example/bench", "--tlog-keys", keys).Output()
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	data := filepath.Join(dir, "data")
	p := proctest.NewProcess(filepath.Join(dir, "log"), bin, "serve", "--data", data, "--tlog", addr, "--admin", "off", "--tlog-keys", keys)
	if f.Server != "holdfast" {
		p = proctest.NewProcess(filepath.Join(dir, "log"), filepath.Join(tools, "conformance-posix"), "--storage_dir="+data, "--listen="+addr,
			"--private_key="+filepath.Join(keys, "default.key"))
	}
	if err := p.Start(); err != nil {
		return err
	}
	defer p.Kill()
	url := "http://" + addr
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if _, err := size(url); err == nil {
			break
		} else if time.Since(began) > 20*time.Second {
			return fmt.Errorf("no checkpoint: %w\n%s", err, p.LogTail(10))
		}
	}
	key := strings.TrimSpace(string(vkey))
	load, read := hammer, hammerWarnings
	if f.Load == withOurs {
		load, read = ours, ourReport
	}
	// The load ends by itself; what it waits for then, a checkpoint of everything, may take half a minute.
	ctx, cancel := context.WithTimeout(context.Background(), warmup+window+60*time.Second)
	defer cancel()
	l := load(ctx, f.Writers, url, key, warmup+window+2*time.Second, tools, bin)
	var said, figures bytes.Buffer
	l.Stderr, l.Stdout = &said, &figures
	if err := l.Start(); err != nil {
		return err
	}
	time.Sleep(warmup)
	first, err := take(p, url)
	if err != nil {
		return err
	}
	time.Sleep(window)
	last, err := take(p, url)
	if err != nil {
		return err
	}
	if err := read(f, l.Wait(), said.String(), figures.Bytes()); err != nil {
		return err
	}
	if f.Load == withOurs {
		if out, err := exec.Command(bin, "tlog", "verify", url, "--vkey", key).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	added := float64(last.size - first.size)
	if added == 0 {
		return errors.New("the log did not grow")
	}
	f.AddsPerSec = append(f.AddsPerSec, added/last.at.Sub(first.at).Seconds())
	f.MicrosCPU = append(f.MicrosCPU, float64((last.cpu-first.cpu).Microseconds())/added)
	return nil
}

// point is a server at one moment.
type point struct {
	at   time.Time
	size int
	cpu  time.Duration
}

func take(p *proctest.Process, url string) (at point, err error) {
	if at.size, err = size(url); err != nil {
		return at, err
	}
	at.at = time.Now()
	at.cpu, err = p.CPU()
	return at, err
}

// size is the number of entries the newest checkpoint covers.
func size(url string) (int, error) {
	res, err := http.Get(url + "/checkpoint")
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	lines := strings.Split(string(b), "\n")
	if res.StatusCode != http.StatusOK || len(lines) < 3 {
		return 0, fmt.Errorf("checkpoint: %s %q", res.Status, b)
	}
	return strconv.Atoi(lines[1])
}

// freeAddress is an address nobody listens on right now.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
