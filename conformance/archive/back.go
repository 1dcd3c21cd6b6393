package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// How much is written: by so many writers, so often each.
const (
	writers = 16
	each    = 100
)

// comesBack has a server acknowledge writes when the store has them, kills it and removes its directory, restores, and reads.
func (r *run) comesBack(ctx context.Context, p *place) (note string, err error) {
	dir, err := os.MkdirTemp(r.dir, "server.")
	if err != nil {
		return "", err
	}
	serve := func(name string, flags ...string) (*proctest.Cluster, error) {
		c, err := proctest.New(filepath.Join(dir, name), proctest.Holdfast(r.bin, append([]string{"--tlog", "{tlog}", "--saga", "{saga}"}, flags...)...), 1)
		if err != nil {
			return nil, err
		}
		c.Nodes[0].Setenv(p.env...)
		return c, nil
	}
	first, err := serve("first", "--archive", p.url, "--ack", "archive")
	if err == nil {
		err = first.Run()
	}
	if err != nil {
		return "", err
	}
	defer first.Close()
	wrote, err := writeAll(ctx, first.Nodes[0])
	if err != nil {
		return "", err
	}
	if err := first.Nodes[0].Kill(); err != nil {
		return "", err
	}
	if err := os.RemoveAll(first.Nodes[0].Dir); err != nil {
		return "", err
	}
	if _, err := r.tool(ctx, p, "verify", "--from", p.url); err != nil {
		return "", err
	}
	second, err := serve("second")
	if err != nil {
		return "", err
	}
	began := time.Now()
	if _, err := r.tool(ctx, p, "restore", "--from", p.url, "--data", second.Nodes[0].Dir); err != nil {
		return "", err
	}
	took := time.Since(began)
	if err := second.Run(); err != nil {
		return "", err
	}
	defer second.Close()
	return fmt.Sprintf("%d writes on four doors acknowledged in %.1f s, verified, restored in %.1f s, all there", wrote.n, wrote.took.Seconds(), took.Seconds()),
		r.readAll(ctx, second.Nodes[0])
}

// tool runs one of the server's own commands.
func (r *run) tool(ctx context.Context, p *place, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, r.bin, args...)
	cmd.Env = append(os.Environ(), p.env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", args[0], err, out)
	}
	return string(out), nil
}

// wrote is what was acknowledged.
type wrote struct {
	n    int
	took time.Duration
}

// writeAll writes the same names on every door.
func writeAll(ctx context.Context, n *proctest.Node) (w wrote, err error) {
	cc, err := grpc.NewClient("passthrough:///"+n.KV, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return w, err
	}
	defer cc.Close()
	// A new cluster takes transactions when it has come to its level, a moment after it is ready.
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		err := submit(ctx, n, "first")
		if err == nil {
			break
		}
		if time.Since(began) > 20*time.Second {
			return w, err
		}
	}
	kv, began := pb.NewKVClient(cc), time.Now()
	var mu sync.Mutex
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			for j := range each {
				name := fmt.Sprintf("%02d-%03d", i, j)
				_, bad := kv.Put(ctx, &pb.PutRequest{Key: []byte("archive/" + name), Value: []byte(name)})
				bad = errors.Join(bad,
					send(ctx, http.MethodPut, "http://"+n.KV+"/v2/keys/archive/"+name, "application/x-www-form-urlencoded", "value="+name),
					send(ctx, http.MethodPost, "http://"+n.Addr("tlog")+"/add", "application/octet-stream", name))
				if j%10 == 0 {
					bad = errors.Join(bad, submit(ctx, n, name))
				}
				mu.Lock()
				err = cmp.Or(err, bad)
				w.n += 3 + one(j%10 == 0)
				mu.Unlock()
				if bad != nil {
					return
				}
			}
		})
	}
	group.Wait()
	w.took = time.Since(began)
	return w, err
}

// submit begins a transaction whose only step is never answered.
func submit(ctx context.Context, n *proctest.Node, gid string) error {
	return send(ctx, http.MethodPost, "http://"+n.Addr("saga")+"/api/dtmsvr/submit", "application/json",
		fmt.Sprintf(`{"gid":%q,"trans_type":"msg","steps":[{"action":"http://127.0.0.1:1/never"}],"payloads":["{}"]}`, gid))
}

// readAll reads every name on every door.
func (r *run) readAll(ctx context.Context, n *proctest.Node) error {
	out, err := exec.CommandContext(ctx, r.etcdctl, "--endpoints", n.KV, "get", "--prefix", "archive/").Output()
	if err != nil {
		return fmt.Errorf("etcdctl get: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	held := map[string]string{}
	for i := 0; i+1 < len(lines); i += 2 {
		held[lines[i]] = lines[i+1]
	}
	body, err := get(ctx, "http://"+n.KV+"/v2/keys/archive")
	if err != nil {
		return err
	}
	var tree struct {
		Node struct{ Nodes []struct{ Key, Value string } }
	}
	if err := json.Unmarshal([]byte(body), &tree); err != nil {
		return err
	}
	held2 := map[string]string{}
	for _, k := range tree.Node.Nodes {
		held2[k.Key] = k.Value
	}
	for i := range writers {
		for j := range each {
			name := fmt.Sprintf("%02d-%03d", i, j)
			if held["archive/"+name] != name || held2["/archive/"+name] != name {
				return fmt.Errorf("%s was acknowledged; v3 has %q, v2 %q", name, held["archive/"+name], held2["/archive/"+name])
			}
			if j%10 != 0 {
				continue
			}
			body, err := get(ctx, "http://"+n.Addr("saga")+"/api/dtmsvr/query?gid="+name)
			if err != nil {
				return err
			}
			if !strings.Contains(body, `"gid":"`+name+`"`) {
				return fmt.Errorf("saga %s was acknowledged, and is not known: %s", name, body)
			}
		}
	}
	// The log's entries in bundles of 256: every name is in one of them.
	seen := map[string]bool{}
	for k := range writers * each / 256 {
		body, err := get(ctx, fmt.Sprintf("http://%s/tile/entries/%03d", n.Addr("tlog"), k))
		if err != nil {
			return err
		}
		for at := 0; at+2 <= len(body); {
			size := int(body[at])<<8 | int(body[at+1])
			seen[body[at+2:at+2+size]] = true
			at += 2 + size
		}
	}
	if want := writers * each / 256 * 256; len(seen) != want {
		return fmt.Errorf("the log has %d different entries in its full bundles, want %d", len(seen), want)
	}
	return nil
}

func send(ctx context.Context, method, url, kind, body string) error {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", kind)
	_, err = answer(req)
	return err
}

func get(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	return answer(req)
}

func answer(req *http.Request) (string, error) {
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s %s", req.Method, req.URL, res.Status, b)
	}
	return string(b), err
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
