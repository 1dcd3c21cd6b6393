package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

const writers = 8

// meta is what identifies one object and its state.
type meta struct {
	Name     string `json:"name"`
	UID      string `json:"uid"`
	Revision string `json:"resourceVersion"`
}

type object struct {
	Meta meta `json:"metadata"`
}

// creation is the writers and the answers they got.
type creation struct {
	api  *apiServer
	want int

	next  atomic.Int64 // number of the next object
	acked atomic.Int64

	mu      sync.Mutex
	made    map[string]map[string]meta // by kind and name; guarded by mu
	again   int                        // requests without an answer that were sent again; guarded by mu
	already int                        // of them, those that had taken effect; guarded by mu
	failed  error                      // what no retry helps against; guarded by mu
}

// run creates everything, kills the leader at even distances and starts it again a moment later.
func (c *creation) run(ctx context.Context, cluster *proctest.Cluster, kills int) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	c.made = map[string]map[string]meta{}
	for _, k := range kinds {
		c.made[k] = map[string]meta{}
	}
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() { c.write(ctx) })
	}
	wrong := ""
	for i := range kills {
		for c.acked.Load() < int64(c.want*(i+1)/(kills+1)) && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		if err := killLeader(cluster); err != nil {
			wrong = err.Error()
			break
		}
	}
	wg.Wait()
	if c.failed != nil {
		wrong = c.failed.Error()
	}
	note := fmt.Sprintf("%d created, %d kills, %d requests sent again, of which %d had taken effect", c.acked.Load(), kills, c.again, c.already)
	if wrong != "" || c.acked.Load() != int64(c.want) {
		return "", fmt.Errorf("%s; %s", note, wrong)
	}
	return note, nil
}

// killLeader kills the member that leads and starts it again once another one leads.
func killLeader(cluster *proctest.Cluster) error {
	leader, err := cluster.WaitLeader(30 * time.Second)
	if err != nil {
		return err
	}
	if err := leader.Kill(); err != nil {
		return err
	}
	if _, err := cluster.WaitLeader(30 * time.Second); err != nil {
		return fmt.Errorf("after %s was killed: %w", leader.Name, err)
	}
	return cluster.Restart(leader)
}

// write creates objects until there are enough. A request without an answer is sent again, and may find what it was for.
func (c *creation) write(ctx context.Context) {
	for i := c.next.Add(1) - 1; i < int64(c.want); i = c.next.Add(1) - 1 {
		kind, name := kinds[i%int64(len(kinds))], fmt.Sprintf("o-%05d", i)
		var got object
		for try := 0; ; try++ {
			in := map[string]any{"metadata": map[string]any{"name": name}, "data": map[string]string{"k": "dmFsdWU="}}
			status, err := c.api.do(ctx, http.MethodPost, path(kind), in, &got)
			if try > 0 && status == http.StatusConflict {
				c.count(&c.already)
				_, err = c.api.do(ctx, http.MethodGet, path(kind)+"/"+name, nil, &got)
			}
			if err == nil {
				break
			}
			if ctx.Err() != nil || status != 0 && status < 500 && status != http.StatusTooManyRequests && status != http.StatusConflict ||
				try == 0 && status == http.StatusConflict {
				c.mu.Lock()
				c.failed = err
				c.mu.Unlock()
				return
			}
			c.count(&c.again)
			time.Sleep(50 * time.Millisecond)
		}
		c.mu.Lock()
		c.made[kind][name] = got.Meta
		c.mu.Unlock()
		c.acked.Add(1)
	}
}

func (c *creation) count(n *int) {
	c.mu.Lock()
	*n++
	c.mu.Unlock()
}

// of is what was created of a kind, by name. The caller does not change it.
func (c *creation) of(kind string) map[string]meta { return c.made[kind] }

// listed reads a kind by pages and compares. All pages must be of one revision: the API server lists the later ones as of the first.
func (c *creation) listed(ctx context.Context, kind string) (string, error) {
	found, revision, pages := map[string]meta{}, "", 0
	for more := ""; ; {
		var page struct {
			Meta struct {
				Revision string `json:"resourceVersion"`
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []object `json:"items"`
		}
		query := url.Values{"limit": {"100"}, "continue": {more}}
		if _, err := c.api.do(ctx, http.MethodGet, path(kind)+"?"+query.Encode(), nil, &page); err != nil {
			return "", err
		}
		if pages++; revision != "" && page.Meta.Revision != revision {
			return "", fmt.Errorf("page %d is of revision %s, the first was of %s", pages, page.Meta.Revision, revision)
		}
		revision = page.Meta.Revision
		for _, o := range page.Items {
			if _, twice := found[o.Meta.Name]; twice {
				return "", fmt.Errorf("%s is listed twice", o.Meta.Name)
			}
			found[o.Meta.Name] = o.Meta
		}
		if more = page.Meta.Continue; more == "" {
			break
		}
	}
	if lost, other := compare(c.of(kind), found); lost+other > 0 {
		return "", fmt.Errorf("%d of %d created objects are not listed as they were created, %d are that nobody created", lost, len(c.of(kind)), other)
	}
	return fmt.Sprintf("%d in %d pages, none lost", len(found), pages), nil
}

// compare counts objects that found lacks or has otherwise, and its surplus ones.
func compare(want, found map[string]meta) (lost, other int) {
	for name, m := range want {
		if found[name] != m {
			lost++
		}
	}
	for name := range found {
		if _, ok := want[name]; !ok {
			other++
		}
	}
	return lost, other
}

// onEach counts the objects each member has by itself, once it has caught up.
func (c *creation) onEach(ctx context.Context, cluster *proctest.Cluster) (string, error) {
	for _, n := range cluster.Nodes {
		cc, err := grpc.NewClient(n.KV, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return "", err
		}
		defer cc.Close()
		for _, k := range kinds {
			prefix := "/registry/" + k + "/" + namespace + "/"
			req := &pb.RangeRequest{Key: []byte(prefix), RangeEnd: []byte(prefix[:len(prefix)-1] + "0"), CountOnly: true, Serializable: true}
			var count int64
			for began := time.Now(); time.Since(began) < 20*time.Second && count != int64(len(c.of(k))); time.Sleep(50 * time.Millisecond) {
				res, err := pb.NewKVClient(cc).Range(ctx, req)
				if err != nil {
					return "", fmt.Errorf("%s: %w", n.Name, err)
				}
				count = res.Count
			}
			if count != int64(len(c.of(k))) {
				return "", fmt.Errorf("%s has %d of %d %s", n.Name, count, len(c.of(k)), k)
			}
		}
	}
	return fmt.Sprintf("all of them on each of %d", len(cluster.Nodes)), nil
}
