package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/results"
)

const crowdsHead = `# Crowds of watches

Written by ` + "`make conformance DOOR=kv`" + ` (conformance/kube -crowd 10m): one member with --memory 256MiB and nothing else said. All at once watch it:
kube-apiserver 1.37.2 with 200 custom resource definitions, each with a watch of its objects through the API server; 1,000 connections with a
watch each through the JSON gateway, as APISIX has them; one client of jetcd 0.8.5 with 500 watches. All the while objects and keys are
written that each of them must hear of once and in order. A connection counts as cut if it was there at the beginning and is not at the end,
a stream if the server has ended it. The API server ends some itself: its own watches of what it does not cache last five to ten minutes.

`

// The crowd's clients.
const (
	crowdMemory   = "256MiB"
	mostResident  = 300_000_000 // bytes: the kernel counts some pages that the budget does not
	definitions   = 200
	gateWatches   = 1000
	jetcdWatches  = 500
	keysPerSecond = 20
	forGates      = 10 // of so many keys one is behind the gateway's watches, each of which hears of it: two thousand messages a second
)

// crowd is one run. It belongs to one goroutine.
type crowd struct {
	node *proctest.Node
	kv   pb.KVClient
	api  *apiServer

	objects *customs
	gates   *gates
	jetcd   *jetcd
	put     [2]int // how many puts gates and jetcd are to hear of
}

// runCrowd keeps the crowd for so long and writes the table.
func runCrowd(bin, program, table string, lasts time.Duration) error {
	if _, err := os.Stat(program); err != nil {
		return fmt.Errorf("%w; run scripts/kube.sh", err)
	}
	dir, err := os.MkdirTemp("", "kube-crowd")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cluster, err := proctest.New(dir, proctest.Holdfast(bin, "--memory", crowdMemory), 1)
	if err != nil {
		return err
	}
	defer cluster.Close()
	if err := cluster.Run(); err != nil {
		return err
	}
	c := &crowd{node: cluster.Nodes[0]}
	cc, err := grpc.NewClient(c.node.KV, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer cc.Close()
	c.kv = pb.NewKVClient(cc)
	ctx, cancel := context.WithTimeout(context.Background(), lasts+10*time.Minute)
	defer cancel()
	if c.api, err = startAPI(ctx, program, filepath.Join(dir, "apiserver"), cluster.Endpoints()); err != nil {
		return err
	}
	defer c.api.Kill()

	r := &results.Steps{}
	c.begin(ctx, r, dir)
	if c.jetcd != nil {
		defer c.jetcd.kill()
	}
	if _, failed := r.Count(); failed == 0 {
		c.stay(ctx, r, lasts)
	}
	if table != "" {
		if err := r.Write(table, crowdsHead); err != nil {
			return err
		}
	}
	if passed, failed := r.Count(); failed > 0 {
		return fmt.Errorf("%d of %d steps failed; the server's last lines:\n%s\nthe API server's:\n%s", failed, passed+failed, c.node.LogTail(8), c.api.LogTail(8))
	}
	return nil
}

// begin has everybody watch.
func (c *crowd) begin(ctx context.Context, r *results.Steps, dir string) {
	r.Do(fmt.Sprintf("%d custom resource definitions", definitions), func() (string, error) {
		if err := c.api.createNamespace(ctx, namespace); err != nil {
			return "", err
		}
		c.objects = &customs{api: c.api}
		if err := c.objects.define(ctx, definitions); err != nil {
			return "", err
		}
		return "a watch for each, served by the API server", c.objects.watch(ctx)
	})
	r.Do(fmt.Sprintf("%d watches through the JSON gateway", gateWatches), func() (string, error) {
		revision, err := c.revision(ctx)
		if err != nil {
			return "", err
		}
		c.gates = &gates{at: c.node.KV}
		return "one connection each, from one address", c.gates.open(gateWatches, revision+1)
	})
	r.Do(fmt.Sprintf("%d watches of one client of jetcd", jetcdWatches), func() (string, error) {
		revision, err := c.revision(ctx)
		if err != nil {
			return "", err
		}
		before, err := c.metric(ctx, watchesMetric)
		if err != nil {
			return "", err
		}
		if c.jetcd, err = startJetcd(filepath.Join(dir, "jetcd.log"), c.node.KV, jetcdWatches, revision+1); err != nil {
			return "", err
		}
		for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
			now, err := c.metric(ctx, watchesMetric)
			if err != nil || now >= before+jetcdWatches {
				return "", err
			}
			if time.Since(began) > 2*time.Minute {
				return "", fmt.Errorf("%.0f of its watches have begun after %s; it wrote %s", now-before, time.Since(began).Round(time.Second), c.jetcd.said())
			}
		}
	})
}

const watchesMetric = "etcd_debugging_mvcc_watcher_total"

// stay writes for so long and judges what became of everybody.
func (c *crowd) stay(ctx context.Context, r *results.Steps, lasts time.Duration) {
	var before, after map[string]bool
	var ended [2]float64 // streams, and those of them that clients have ended
	r.Do(fmt.Sprintf("%s of writes", lasts), func() (string, error) {
		time.Sleep(5 * time.Second) // the API server opens what it opens when it has started
		var err error
		if before, err = connections(c.node.KV); err != nil {
			return "", err
		}
		if ended[0], err = c.metric(ctx, endedWatches); err != nil {
			return "", err
		}
		if ended[1], err = c.metric(ctx, endedWatches, "OK", "Canceled"); err != nil {
			return "", err
		}
		if err := c.write(ctx, lasts); err != nil {
			return "", err
		}
		return fmt.Sprintf("%d of custom objects, %d of keys behind the gateway's watches, %d of jetcd's", c.objects.written, c.put[0], c.put[1]), nil
	})
	r.Do("connections", func() (string, error) {
		var err error
		if after, err = connections(c.node.KV); err != nil {
			return "", err
		}
		lost := 0
		for one := range before { // any order: they are counted
			if !after[one] {
				lost++
			}
		}
		if lost > 0 {
			return "", fmt.Errorf("%d of %d were cut", lost, len(before))
		}
		return fmt.Sprintf("none of %d cut, %d opened since", len(before), len(after)-len(before)), nil
	})
	r.Do("streams of watches", func() (string, error) {
		now, err := c.metric(ctx, endedWatches)
		if err != nil {
			return "", err
		}
		byClients, err := c.metric(ctx, endedWatches, "OK", "Canceled")
		if err != nil {
			return "", err
		}
		cut := now - ended[0] - (byClients - ended[1])
		if cut != 0 {
			return "", fmt.Errorf("%.0f were ended by the server", cut)
		}
		n, err := c.metric(ctx, watchesMetric)
		return fmt.Sprintf("none ended by the server, %.0f by clients; %.0f watches are open", byClients-ended[1], n), err
	})
	r.Do("custom objects", func() (string, error) { return c.objects.finish() })
	r.Do("the gateway's watches", func() (string, error) { return c.gates.finish(c.put[0]) })
	r.Do("jetcd's watches", func() (string, error) { return c.jetcd.finish(c.put[1]) })
	r.Do("the server", func() (string, error) {
		peak, err := c.node.PeakRSS()
		if err != nil {
			return "", err
		}
		cpu, err := c.node.CPU()
		if err != nil {
			return "", err
		}
		note := fmt.Sprintf("%d MB at most, %.0f s of CPU", peak/1e6, cpu.Seconds())
		if peak > mostResident {
			return "", errors.New(note)
		}
		return note, nil
	})
}

// endedWatches counts the streams of watches that have ended, in any way.
const endedWatches = `grpc_server_handled_total{*grpc_method="Watch"`

// write puts keys by turns and has custom objects written, a second at a time.
func (c *crowd) write(ctx context.Context, lasts time.Duration) error {
	done := make(chan error, 1)
	end := time.Now().Add(lasts)
	go func() { done <- c.objects.write(ctx, end) }()
	every := time.NewTicker(time.Second / keysPerSecond)
	defer every.Stop()
	for n := 0; time.Now().Before(end); n++ {
		key, value, of := jetcdKey(c.put[1]%jetcdWatches), c.put[1]/jetcdWatches, 1
		if n%forGates == 0 {
			key, value, of = gateKey, c.put[0], 0
		}
		if _, err := c.kv.Put(ctx, &pb.PutRequest{Key: []byte(key), Value: strconv.AppendInt(nil, int64(value), 10)}); err != nil {
			return err
		}
		c.put[of]++
		<-every.C
	}
	return <-done
}

func (c *crowd) revision(ctx context.Context) (int64, error) {
	res, err := c.kv.Range(ctx, &pb.RangeRequest{Key: []byte("none")})
	if err != nil {
		return 0, err
	}
	return res.Header.Revision, nil
}

// metric sums the values of the kv door's metrics that begin with a name. The text before a * is the name, the text after it must be in the
// line. Where codes are given, only lines with one of them count.
func (c *crowd) metric(ctx context.Context, name string, codes ...string) (sum float64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.node.KV+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	return sumOf(string(text), name, codes)
}

func sumOf(text, name string, codes []string) (sum float64, err error) {
	begins, has, _ := strings.Cut(name, "*")
	found := false
	for line := range strings.Lines(text) {
		at := strings.LastIndexByte(line, ' ')
		if !strings.HasPrefix(line, begins) || !strings.Contains(line, has) || at < 0 ||
			len(codes) > 0 && !slices.ContainsFunc(codes, func(code string) bool { return strings.Contains(line, `grpc_code="`+code+`"`) }) {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64)
		if err != nil {
			return 0, err
		}
		found = true
		sum += v
	}
	if !found {
		return 0, fmt.Errorf("no metric %s", name)
	}
	return sum, nil
}
