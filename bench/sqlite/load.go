package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// users is what k6 says of one run; times in milliseconds.
type users struct {
	Requests, Failed                int
	PerSecond                       float64
	Med, Avg, P90, P95, Least, Most float64
}

// k6 posts for a while by so many users.
func (b *bench) k6(ctx context.Context, url, dir string, vus int, window time.Duration) (*users, error) {
	out := filepath.Join(dir, "k6.json")
	cmd := exec.CommandContext(ctx, b.k6bin, "run", "--quiet", "--no-usage-report", "--address", "", b.loadScript)
	cmd.Env = append(os.Environ(), fmt.Sprintf("USERS=%d", vus), "DURATION="+window.String(), "URL="+url+"/count_up", "OUT="+out)
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("k6: %w\n%s", err, text)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	return parseK6(text)
}

// parseK6 reads the metrics that counter.js leaves.
func parseK6(text []byte) (*users, error) {
	var m struct {
		Took struct {
			Values map[string]float64 `json:"values"`
		} `json:"http_req_duration"`
		Done struct {
			Values struct{ Count, Rate float64 } `json:"values"`
		} `json:"iterations"`
		Checks struct {
			Values struct{ Passes, Fails int } `json:"values"`
		} `json:"checks"`
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("read k6's summary: %w", err)
	}
	u := &users{Requests: m.Checks.Values.Passes, Failed: m.Checks.Values.Fails, PerSecond: m.Done.Values.Rate}
	for name, v := range map[string]*float64{"med": &u.Med, "avg": &u.Avg, "p(90)": &u.P90, "p(95)": &u.P95, "min": &u.Least, "max": &u.Most} { // any order
		value, ok := m.Took.Values[name]
		if !ok {
			return nil, fmt.Errorf("read k6's summary: there is no %s", name)
		}
		*v = value
	}
	if u.Requests == 0 {
		return nil, errors.New("k6 has counted nothing")
	}
	return u, nil
}

// ask makes one request and returns the count in its answer.
func ask(ctx context.Context, method, url string) (int64, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return 0, err
	}
	res, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	text, err := io.ReadAll(res.Body)
	err = errors.Join(err, res.Body.Close())
	if err != nil || res.StatusCode != http.StatusOK {
		return 0, errors.Join(fmt.Errorf("%s %s: %s: %s", method, url, res.Status, text), err)
	}
	var answer struct{ Count int64 }
	return answer.Count, json.Unmarshal(text, &answer)
}

// client has a connection for each of the counting users, and none to an app that has gone.
var client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}

// counting is a load that remembers the largest count that was answered 200.
type counting struct {
	answered atomic.Int64 // the largest
	requests atomic.Int64
	stop     context.CancelFunc
	wg       sync.WaitGroup
}

// count posts by so many users until stop is called or the app has gone.
func count(ctx context.Context, url string, vus int) *counting {
	c := &counting{}
	ctx, c.stop = context.WithCancel(ctx)
	for range vus {
		c.wg.Go(func() {
			for ctx.Err() == nil {
				n, err := ask(ctx, "POST", url+"/count_up")
				if err != nil {
					return
				}
				c.requests.Add(1)
				for old := c.answered.Load(); n > old && !c.answered.CompareAndSwap(old, n); old = c.answered.Load() {
				}
			}
		})
	}
	return c
}

// end stops the load and returns the largest count that was answered.
func (c *counting) end() int64 {
	c.stop()
	c.wg.Wait()
	return c.answered.Load()
}

// freePort is one of loopback's that was free a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// output is what a command prints on its standard output.
func (b *bench) output(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	text, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", args[0], args[1], err)
	}
	return string(text), nil
}
