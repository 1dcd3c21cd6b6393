package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// round is one measurement of one server. Times are in the unit of their names.
type round struct {
	Server string `json:"server"`
	cell
	Round     int     `json:"round,omitempty"`
	Total     int     `json:"total"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
	P50       float64 `json:"p50_ms"`
	P90       float64 `json:"p90_ms"`
	P99       float64 `json:"p99_ms"`
	CPU       float64 `json:"server_cpu_us_per_op"` // user and system time of all server processes
	ClientCPU float64 `json:"client_cpu_us_per_op"`
	RSS       int64   `json:"server_rss_bytes"` // the largest server process, at the end
}

func (r *round) String() string {
	return fmt.Sprintf("%-9s %s, round %d: %.0f/s, p99 %.2f ms, server cpu %.1f us", r.Server, r.cell, r.Round, r.PerSecond, r.P99, r.CPU)
}

// probeOps is how many operations find the rate of a server that was not measured yet.
func probeOps(clients int) int {
	switch {
	case clients == 1:
		return 1000
	case clients <= 64:
		return 10000
	}
	return 20000
}

// measure starts the server fresh, warms it with a probe that also finds the rate, and measures once.
func (cfg *config) measure(ctx context.Context, server string, c cell, n int, rates map[string]float64) (*round, error) {
	dir, err := os.MkdirTemp(cfg.dir, server)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	kind, err := cfg.kind(server)
	if err != nil {
		return nil, err
	}
	cluster, err := proctest.New(dir, kind, c.Nodes)
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	if err := cluster.Run(); err != nil {
		return nil, err
	}
	if c.Nodes > 1 {
		if _, err := cluster.WaitLeader(30 * time.Second); err != nil {
			return nil, err
		}
	}
	if err := put(ctx, cluster.Endpoints()[0], rangeKey); err != nil {
		return nil, fmt.Errorf("put the key to read: %w", err)
	}

	probe, err := cfg.load1(ctx, c, cluster.Endpoints(), probeOps(c.Clients), 60*time.Second)
	if err != nil {
		return nil, fmt.Errorf("probe: %w", err)
	}
	key := server + "/" + c.String()
	rate := max(probe.perSecond, rates[key])
	// 15 % more than the rate asks for: the run must not end before its time because the server got faster.
	total := int(rate * float64(cfg.seconds) * 1.15)

	cpu, err := cpuTime(cluster)
	if err != nil {
		return nil, err
	}
	rev, err := revision(ctx, cluster.Endpoints()[0])
	if err != nil {
		return nil, err
	}
	load, err := cfg.load1(ctx, c, cluster.Endpoints(), total, time.Duration(cfg.seconds)*10*time.Second)
	if err != nil {
		return nil, err
	}
	cpuAfter, err := cpuTime(cluster)
	if err != nil {
		return nil, err
	}
	revAfter, err := revision(ctx, cluster.Endpoints()[0])
	if err != nil {
		return nil, err
	}
	if want := map[string]int64{"put": int64(total)}[c.Op]; revAfter-rev != want {
		return nil, fmt.Errorf("the revision went up by %d, not by the %d writes sent", revAfter-rev, want)
	}
	rates[key] = load.perSecond
	got := &round{Server: server, cell: c, Round: n + 1, Total: total, Seconds: load.seconds, PerSecond: load.perSecond,
		P50: load.percentile["50"], P90: load.percentile["90"], P99: load.percentile["99"],
		CPU: micros(cpuAfter-cpu) / float64(total), ClientCPU: micros(load.cpu) / float64(total)}
	for _, node := range cluster.Nodes {
		rss, err := node.RSS()
		if err != nil {
			return nil, err
		}
		got.RSS = max(got.RSS, rss)
	}
	return got, nil
}

func (cfg *config) kind(server string) (proctest.Server, error) {
	bin := cfg.bins[server]
	switch server {
	case "etcd":
		return proctest.Etcd(bin), nil
	case "holdfast":
		return proctest.Holdfast(bin, "--memory", cfg.memory), nil
	case "floor":
		return proctest.Floor(bin), nil
	}
	return proctest.Server{}, fmt.Errorf("no server %q", server)
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func cpuTime(c *proctest.Cluster) (sum time.Duration, err error) {
	for _, node := range c.Nodes {
		d, err := node.CPU()
		if err != nil {
			return 0, fmt.Errorf("%s is gone: %w; last lines:\n%s", node.Name, err, node.LogTail(20))
		}
		sum += d
	}
	return sum, nil
}

// loaded is what the load tool reported.
type loaded struct {
	seconds, perSecond float64
	percentile         map[string]float64 // "99" → milliseconds
	cpu                time.Duration      // of the tool itself
}

const rangeKey = "the-key-that-is-read"

// load1 runs etcd's load tool once. Any error it reports fails the run.
func (cfg *config) load1(ctx context.Context, c cell, endpoints []string, total int, limit time.Duration) (*loaded, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	args := []string{"--endpoints", strings.Join(endpoints, ","), "--conns", "8", "--clients", strconv.Itoa(c.Clients), "--precise", c.Op}
	if c.Op == "put" {
		args = append(args, "--key-size=8", "--val-size=64", "--sequential-keys", "--key-space-size=100000")
	} else {
		args = append(args, rangeKey, "--consistency=l")
	}
	cmd := exec.CommandContext(ctx, cfg.load, append(args, "--total", strconv.Itoa(total))...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs // the progress bar goes to stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("load tool: %w\n%s", err, tail(out.String()+errs.String(), 15))
	}
	l, err := parseLoad(out.String())
	if err != nil {
		return nil, err
	}
	l.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return l, nil
}

// parseLoad reads the summary that the load tool prints.
func parseLoad(out string) (*loaded, error) {
	if i := strings.Index(out, "Error distribution:"); i >= 0 {
		return nil, fmt.Errorf("the load tool counted errors:\n%s", tail(out[i:], 15))
	}
	l := &loaded{percentile: make(map[string]float64)}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		value := f[1]
		if len(f) >= 3 && f[1] == "in" {
			value = f[2]
		}
		x, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue // a line of the histogram
		}
		switch {
		case f[0] == "Total:":
			l.seconds = x
		case f[0] == "Requests/sec:":
			l.perSecond = x
		case f[1] == "in":
			l.percentile[strings.TrimSuffix(f[0], "%")] = x * 1000
		}
	}
	if l.seconds <= 0 || l.perSecond <= 0 || l.percentile["99"] <= 0 {
		return nil, fmt.Errorf("the load tool printed no summary:\n%s", tail(out, 15))
	}
	return l, nil
}

func tail(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func put(ctx context.Context, endpoint, key string) error {
	return call(ctx, endpoint, func(ctx context.Context, kv pb.KVClient) error {
		_, err := kv.Put(ctx, &pb.PutRequest{Key: []byte(key), Value: bytes.Repeat([]byte("v"), 64)})
		return err
	})
}

// revision reads the header of a linearizable read.
func revision(ctx context.Context, endpoint string) (rev int64, err error) {
	err = call(ctx, endpoint, func(ctx context.Context, kv pb.KVClient) error {
		res, err := kv.Range(ctx, &pb.RangeRequest{Key: []byte(rangeKey)})
		if err != nil {
			return err
		}
		if len(res.Kvs) != 1 {
			return fmt.Errorf("the key %s is gone", rangeKey)
		}
		rev = res.Header.Revision
		return nil
	})
	return rev, err
}

func call(ctx context.Context, endpoint string, f func(context.Context, pb.KVClient) error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	return f(ctx, pb.NewKVClient(conn))
}
