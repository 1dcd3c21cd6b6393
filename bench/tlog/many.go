package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

const (
	// manyLogs is how many logs share a server, each with an add a second, by manyAdders clients.
	manyLogs   = 1000
	manyAdders = 50
)

// ManyLogs is the resources of a server with so many logs.
type ManyLogs struct {
	Logs   int     `json:"logs"`
	Rate   int     `json:"adds_per_second"` // of all together
	Adds   int     `json:"adds"`
	CPU    float64 `json:"server_cpu_us_per_add"`
	RSS    float64 `json:"rss_mib"`         // at the end of the load
	Idle   float64 `json:"rss_at_rest_mib"` // a minute later
	Behind float64 `json:"slowest_add_ms"`
}

func (m *ManyLogs) String() string {
	return fmt.Sprintf("logs: %d, adds a second: %d: %d adds, %.0f µs of the server's CPU each, the slowest %.0f ms, %.0f MiB resident, %.0f a minute later",
		m.Logs, m.Rate, m.Adds, m.CPU, m.Behind, m.RSS, m.Idle)
}

// moreMemory is what the logs beyond one take where as much is added, in MiB; NaN if it was not measured.
func (r *Report) moreMemory() float64 {
	if len(r.Many) < 3 {
		return math.NaN()
	}
	return r.Many[2].RSS - r.Many[1].RSS
}

// many measures a server with one log at rest and under load, and one with a thousand under the same load.
func (b *bench) many(ctx context.Context) error {
	for _, of := range []struct{ logs, rate int }{{1, 1}, {1, manyLogs}, {manyLogs, manyLogs}} {
		m, err := b.withLogs(ctx, of.logs, of.rate)
		if err != nil {
			return fmt.Errorf("%d logs: %w", of.logs, err)
		}
		b.report.Many = append(b.report.Many, m)
		fmt.Println("  " + m.String())
	}
	return nil
}

func (b *bench) withLogs(ctx context.Context, logs, rate int) (*ManyLogs, error) {
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	admin, err := freeAddress()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.dir, fmt.Sprintf("many.%d.%d", logs, rate))
	keys := filepath.Join(dir, "keys")
	if out, err := exec.Command(b.bin, "tlog", "keygen", "default", "--origin", "log.example/bench", "--tlog-keys", keys, "--memory", proctest.Memory).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make a key: %w: %s", err, out)
	}
	p := proctest.NewProcess(filepath.Join(dir, "log"), b.bin, "serve", "--data", filepath.Join(dir, "data"), "--tlog", addr, "--admin", admin, "--tlog-keys", keys, "--memory", proctest.Memory)
	if err := p.Start(); err != nil {
		return nil, err
	}
	defer p.Kill() // its data goes with the directory
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: manyAdders}, Timeout: 30 * time.Second}
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if _, err = size("http://" + addr); err == nil {
			break
		}
		if time.Since(began) > 20*time.Second || ctx.Err() != nil {
			return nil, fmt.Errorf("no checkpoint: %w\n%s", err, p.LogTail(10))
		}
	}
	paths := []string{"/add"}
	for n := 1; n < logs; n++ {
		// A fresh cluster is at the level that more than 256 logs need in a moment; until then it answers 503.
		err := post(client, "http://"+admin+"/v1/tlog/logs", fmt.Sprintf(`{"name":"l%d","origin":"log.example/%d"}`, n, n))
		for began := time.Now(); err != nil && strings.Contains(err.Error(), "503") && time.Since(began) < 10*time.Second && ctx.Err() == nil; {
			time.Sleep(50 * time.Millisecond)
			err = post(client, "http://"+admin+"/v1/tlog/logs", fmt.Sprintf(`{"name":"l%d","origin":"log.example/%d"}`, n, n))
		}
		if err != nil {
			return nil, fmt.Errorf("begin log %d: %w", n, err)
		}
		paths = append(paths, fmt.Sprintf("/logs/l%d/add", n))
	}
	for n := 0; len(paths) < rate; n++ { // as many adds a second as the other server gets
		paths = append(paths, paths[n])
	}
	m := &ManyLogs{Logs: logs, Rate: rate}
	before, err := p.CPU()
	if err != nil {
		return nil, err
	}
	if m.Adds, m.Behind, err = addEach(ctx, client, "http://"+addr, paths, 60*time.Second); err != nil {
		return nil, err
	}
	after, err := p.CPU()
	if err != nil {
		return nil, err
	}
	m.CPU = micros(after-before) / float64(m.Adds)
	for _, to := range []*float64{&m.RSS, &m.Idle} {
		rss, err := p.RSS()
		if err != nil {
			return nil, err
		}
		if *to = float64(rss) / (1 << 20); to == &m.RSS {
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
	return m, nil
}

// addEach adds an entry a second by each path, for so long, and returns how many, and the longest that one was late.
func addEach(ctx context.Context, client *http.Client, url string, paths []string, lasts time.Duration) (adds int, slowest float64, err error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var n atomic.Int64
	began := time.Now()
	for w := range min(manyAdders, len(paths)) {
		wg.Go(func() {
			for second := time.Duration(0); second < lasts; second += time.Second {
				for i := w; i < len(paths); i += manyAdders {
					due := began.Add(second + time.Duration(i)*time.Second/time.Duration(len(paths)))
					time.Sleep(time.Until(due))
					e := post(client, url+paths[i], fmt.Sprintf("entry of log %d: %016x%016x%016x", i, rand.Uint64(), rand.Uint64(), rand.Uint64()))
					late := micros(time.Since(due)) / 1000
					n.Add(1)
					mu.Lock()
					slowest = max(slowest, late)
					if e != nil {
						err = e
					}
					failed := err != nil || ctx.Err() != nil
					mu.Unlock()
					if failed {
						return
					}
				}
			}
		})
	}
	wg.Wait()
	return int(n.Load()), slowest, errors.Join(err, ctx.Err())
}

func post(client *http.Client, url, body string) error {
	res, err := client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s: %s", url, res.Status, strings.TrimSpace(string(b)))
	}
	return err
}
