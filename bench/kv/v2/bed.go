package v2

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/bench/host"
	"github.com/holdfastdb/holdfast/internal/proctest"
)

// Round is one measurement of one server. Times are in the unit of their names.
type Round struct {
	Server string `json:"server"`
	Cell
	Round     int     `json:"round"`
	Count     int64   `json:"answers"`
	PerSecond float64 `json:"per_second"`
	P90       float64 `json:"p90_ms"`               // hey rounds to tenths
	CPU       float64 `json:"server_cpu_us_per_op"` // user and system time of all members
	ClientCPU float64 `json:"client_cpu_us_per_op"`
	Idle      float64 `json:"other_server_cpu"` // of one processor, used by the other cluster, which has nothing to do
	Strange   float64 `json:"strange_cpu"`      // of one processor, used by everything that is not part of the measurement
	Stolen    float64 `json:"stolen_cpu"`       // of the machine, by its neighbours
}

func (r *Round) String() string {
	return fmt.Sprintf("%-9s %s, round %d: %.0f/s, p90 %.1f ms, server cpu %.1f us, strange %.0f %%, stolen %.0f %%", r.Server, r.Cell,
		r.Round, r.PerSecond, r.P90, r.CPU, 100*r.Strange, 100*r.Stolen)
}

// bed is a fresh cluster of each server. Both run all the time, so that turns can be short; what the idle one takes from the
// other is measured with every round.
type bed struct {
	dir      string
	clusters map[string]*proctest.Cluster
}

func newBed(cfg *Config, dir string) (*bed, error) {
	dir, err := os.MkdirTemp(dir, "round")
	if err != nil {
		return nil, err
	}
	b := &bed{dir: dir, clusters: make(map[string]*proctest.Cluster)}
	kinds := map[string]proctest.Server{etcd: proctest.Etcd(cfg.Etcd, "--enable-v2"), holdfast: proctest.Holdfast(cfg.Holdfast, "--memory", cfg.Memory)}
	for _, server := range servers {
		if err := b.start(server, kinds[server]); err != nil {
			b.close()
			return nil, fmt.Errorf("start %s: %w", server, err)
		}
	}
	return b, nil
}

func (b *bed) start(server string, kind proctest.Server) error {
	dir, err := os.MkdirTemp(b.dir, "servers")
	if err != nil {
		return err
	}
	c, err := proctest.New(dir, kind, members)
	if err != nil {
		return err
	}
	b.clusters[server] = c
	if err := c.Run(); err != nil {
		return err
	}
	_, err = c.WaitLeader(30 * time.Second)
	return err
}

func (b *bed) close() {
	for _, c := range b.clusters {
		c.Close()
	}
	os.RemoveAll(b.dir)
}

// keyPath is the report's key: one for everything.
const keyPath = "/v2/keys/foo"

// measure makes the key what the cell asks for on every member, runs the load once and checks what it left.
func (b *bed) measure(ctx context.Context, cfg *Config, server string, c Cell, n int) (*Round, error) {
	cluster := b.clusters[server]
	leader, err := cluster.WaitLeader(10 * time.Second) // it may have moved since the last cell
	if err != nil {
		return nil, err
	}
	addrs := []string{leader.KV}
	if c.Target == "all" {
		addrs = cluster.Endpoints()
	}
	was, err := settle(ctx, leader.KV, cluster.Endpoints(), value(c.Size))
	if err != nil {
		return nil, err
	}

	ticks, err := host.CPUTicks()
	if err != nil {
		return nil, err
	}
	cpu, idle, err := b.cpu(server)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	l, err := cfg.load(ctx, c, addrs)
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	cpuAfter, idleAfter, err := b.cpu(server)
	if err != nil {
		return nil, err
	}
	ticksAfter, err := host.CPUTicks()
	if err != nil {
		return nil, err
	}
	if err := check(ctx, leader.KV, c, was, l); err != nil {
		return nil, err
	}
	// The kernel's work for the network is counted by processor and not all by process: some of it is always strange.
	strange := ticksAfter.BusySince(ticks) - (cpuAfter - cpu) - (idleAfter - idle) - l.cpu
	return &Round{Server: server, Cell: c, Round: n, Count: l.count, PerSecond: l.perSecond, P90: l.p90,
		CPU: micros(cpuAfter-cpu) / float64(l.count), ClientCPU: micros(l.cpu) / float64(l.count),
		Idle: (idleAfter - idle).Seconds() / took.Seconds(), Strange: max(0, strange.Seconds()/took.Seconds()),
		Stolen: ticksAfter.StolenSince(ticks)}, nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// cpu is the time used by the server's members, and by those of all others.
func (b *bed) cpu(server string) (its, others time.Duration, err error) {
	for name, c := range b.clusters {
		for _, node := range c.Nodes {
			d, err := node.CPU()
			if err != nil {
				return 0, 0, fmt.Errorf("%s %s is gone: %w; last lines:\n%s", name, node.Name, err, node.LogTail(20))
			}
			if name == server {
				its += d
			} else {
				others += d
			}
		}
	}
	return its, others, nil
}

// state is what a member answers when asked for the key.
type state struct {
	value string
	index uint64 // of the key's last change
	size  int64  // of the answer
}

// settle writes the value and waits until every member has it.
func settle(ctx context.Context, leader string, all []string, value string) (state, error) {
	form := url.Values{"value": {value}}.Encode()
	if _, err := ask(ctx, http.MethodPut, leader, "", form); err != nil {
		return state{}, fmt.Errorf("write the key: %w", err)
	}
	was, err := ask(ctx, http.MethodGet, leader, "?quorum=true", "")
	if err != nil {
		return state{}, err
	}
	for _, addr := range all {
		for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
			got, err := ask(ctx, http.MethodGet, addr, "", "")
			if err == nil && got == was && got.value == value {
				break
			}
			if time.Since(began) > 10*time.Second {
				return state{}, fmt.Errorf("%s has %+v, not %+v (%v)", addr, got, was, err)
			}
		}
	}
	return was, nil
}

// check compares the answers with the store: every write answered has happened, and no read was cut short.
func check(ctx context.Context, addr string, c Cell, was state, l *loaded) error {
	now, err := ask(ctx, http.MethodGet, addr, "?quorum=true", "")
	if err != nil {
		return err
	}
	if now.value != value(c.Size) {
		return fmt.Errorf("the key has %d bytes, not the %d that were written", len(now.value), c.Size)
	}
	if c.Op == "read" {
		if now != was {
			return fmt.Errorf("the key changed while it was only read: %+v, now %+v", was, now)
		}
		if l.size != 0 && l.size != was.size {
			return fmt.Errorf("answers have %d bytes, not %d", l.size, was.size)
		}
		return nil
	}
	// When its time is up hey may leave a request per client that it does not count.
	if n := int64(now.index - was.index); n < l.count || n > l.count+int64(c.Clients) {
		return fmt.Errorf("the index went up by %d, not by the %d writes answered", n, l.count)
	}
	return nil
}

func ask(ctx context.Context, method, addr, query, form string) (state, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+addr+keyPath+query, strings.NewReader(form))
	if err != nil {
		return state{}, err
	}
	if form != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return state{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return state{}, err
	}
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusCreated {
		return state{}, fmt.Errorf("%s %s: %s: %s", method, req.URL, res.Status, bytes.TrimSpace(body))
	}
	var a struct {
		Node struct {
			Value         string
			ModifiedIndex uint64
		}
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return state{}, fmt.Errorf("%s %s: %w", method, req.URL, err)
	}
	return state{a.Node.Value, a.Node.ModifiedIndex, int64(len(body))}, nil
}
