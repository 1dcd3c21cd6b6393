package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// importUnderLoad moves a deployment. An etcd of the tool's own version and of the cluster's size, with keys and leases, is copied into
// empty Holdfast nodes. Its clients write, delete, grant, revoke and compact meanwhile, and leases expire. The import is killed once on the
// way and goes on. After the cut-over both sides are read by a client that is not the import, and must hold the same keys, values and
// leases. An etcd 3.4 has v2 keys beside them, under load too.
func importUnderLoad(e *env) {
	if e.holdfast == "" {
		return // the original has no such command: nothing to check about the case itself
	}
	source := e.extra("source", proctest.Etcd(e.etcd(), e.v2Flags()...), nil)
	defer source.Close()
	target := e.extra("target", proctest.Holdfast(e.holdfast), nil)
	defer target.Close()
	e.move(source, target)
}

// etcd is the server of the tool's own version.
func (e *env) etcd() string { return filepath.Join(filepath.Dir(e.tool.path), "etcd") }

// hasV2 reports whether that server can have the v2 API.
func (e *env) hasV2() bool { return e.tool.name == "etcdctl-3.4" }

func (e *env) v2Flags() []string {
	if e.hasV2() {
		return []string{"--enable-v2"}
	}
	return nil
}

// move is the import of one deployment into another under load, with all its checks.
func (e *env) move(source, target *deployment) {
	from, to := e.client(source), e.client(target)
	if e.err != nil {
		return
	}
	defer from.Close()
	defer to.Close()

	load := newImportLoad(from)
	if err := load.fill(); err != nil {
		e.failf("fill the source: %w", err)
		return
	}
	var trees []v2Client
	if e.hasV2() {
		trees = []v2Client{newV2Client(source, 0), newV2Client(source, 1)}
		if err := fillV2(trees[0]); err != nil {
			e.failf("fill the source's v2 keys: %w", err)
			return
		}
	}
	load.start(trees)
	defer load.stop()
	if source.access != nil {
		load.churnUsers()
	}

	args := []string{"import", "--from", list(source.urls()), "--to", list(target.Endpoints())}
	if a := source.access; a != nil {
		args = append(args, "--cacert", a.ca, "--cert", a.cert, "--key", a.key, "--user", "root:"+a.password)
	}
	if a := target.access; a != nil {
		args = append(args, "--to-cacert", a.ca, "--to-cert", a.cert, "--to-key", a.key, "--to-user", "root", "--to-password", a.password)
	}
	if e.hasV2() {
		args = append(args, "--v2-hidden", "/_hidden")
	}
	first := e.importing(args...)
	first.until("following")
	time.Sleep(time.Second)
	first.kill()
	refused := e.importing(args...) // the target is not empty now
	refused.until("--resume")
	refused.wait(1)
	second := e.importing(append(args, "--resume")...)
	second.until("following")
	if source.access != nil && !e.hasV2() {
		e.restartAll(source)
	}
	time.Sleep(4 * time.Second)
	writes := load.stop() // the cut-over: no client writes to the source any more
	if source.access != nil && e.hasV2() {
		// An etcd 3.4 has forgotten all tokens then, which the client library of the load never gets over; the import must.
		e.restartAll(source)
		from = e.client(source)
		if e.err != nil {
			return
		}
		defer from.Close()
	}
	second.interrupt()
	second.wait(0)
	out := second.output()
	e.want("verdict of the import", out, "the same on both sides")
	if strings.Contains(out, "the source has made") {
		// A lease may have run out after the cut-over; what its end deleted ends on the target too.
		fmt.Fprintf(&e.text, "%s", out)
	}
	if e.err == nil && writes < 500 {
		e.failf("only %d writes under the import: no load", writes)
	}
	if e.err == nil {
		if err := sameState(from, to); err != nil {
			e.failf("after the import said\n%s%w", out, err)
		}
	}
	if e.hasV2() && e.err == nil {
		e.want("verdict of the import", out, "v2 nodes")
		if err := sameV2(trees[0], newV2Client(target, len(target.Nodes)-1)); err != nil {
			e.failf("after the import said\n%s%w", out, err)
		}
	}
}

// deployment is one side of an import: a cluster of its own and how clients get in, nil if all may.
type deployment struct {
	*proctest.Cluster
	access *access
}

// urls are those of all members.
func (d *deployment) urls() []string {
	scheme := "http://"
	if d.access != nil {
		scheme = "https://"
	}
	var out []string
	for _, a := range d.Endpoints() {
		out = append(out, scheme+a)
	}
	return out
}

// list is a flag's value.
func list(of []string) string { return strings.Join(of, ",") }

// Close ends the deployment, if there is one.
func (d *deployment) Close() {
	if d != nil {
		d.Cluster.Close()
	}
}

// extra starts a deployment of the cluster's size for a case; nil after a failure.
func (e *env) extra(name string, kind proctest.Server, a *access) *deployment {
	if e.err != nil {
		return nil
	}
	dir := filepath.Join(e.dir, name)
	err := os.MkdirAll(dir, 0o755)
	var c *proctest.Cluster
	if err == nil {
		c, err = proctest.New(dir, kind, len(e.cluster.Nodes))
	}
	if err == nil {
		err = c.Run()
	}
	if err == nil {
		_, err = c.WaitLeader(30 * time.Second)
	}
	if err != nil {
		e.failf("start the %s: %w", name, err)
		return nil
	}
	return &deployment{c, a}
}

func (e *env) client(d *deployment) *clientv3.Client {
	if e.err != nil {
		return nil
	}
	conf := clientv3.Config{Endpoints: d.Endpoints(), DialTimeout: 10 * time.Second, Logger: zap.NewNop()}
	if a := d.access; a != nil {
		conf.TLS = a.client
		if a.password != "" {
			conf.Username, conf.Password = "root", a.password
		}
	}
	cl, err := clientv3.New(conf)
	if err != nil {
		e.failf("connect to %v: %w", d.Endpoints(), err)
	}
	return cl
}

// wholeOf reads all of one side of an import, a line for each thing there is.
type wholeOf func(ctx context.Context) ([]string, error)

// same reads both sides whole until they are the same, a second apart and at most 15 times. A lease or a v2 key with a TTL lives on the
// target as long as on the source or a little longer. A source of fewer than least lines shows nothing.
func same(source, target wholeOf, least int) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var last error
	for range 15 {
		a, err := source(ctx)
		if err != nil {
			return err
		}
		b, err := target(ctx)
		if err != nil {
			return err
		}
		if len(a) < least {
			return fmt.Errorf("the source holds %d lines only", len(a))
		}
		if last = compare(strings.Join(b, "\n"), strings.Join(a, "\n")); last == nil {
			return nil
		}
		time.Sleep(time.Second)
	}
	return last
}

// sameState compares what two servers hold by the v3 API.
func sameState(source, target *clientv3.Client) error {
	of := func(c *clientv3.Client) wholeOf {
		return func(ctx context.Context) ([]string, error) { return stateOf(ctx, c) }
	}
	return same(of(source), of(target), 3000)
}

// stateOf lists keys with values and leases, and leases with granted time and keys.
func stateOf(ctx context.Context, c *clientv3.Client) ([]string, error) {
	var out []string
	keys, err := c.Get(ctx, "\x00", clientv3.WithRange("\x00"))
	if err != nil {
		return nil, err
	}
	for _, kv := range keys.Kvs {
		out = append(out, fmt.Sprintf("%q = %q lease %x", kv.Key, kv.Value, kv.Lease))
	}
	leases, err := c.Leases(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range leases.Leases {
		ttl, err := c.TimeToLive(ctx, l.ID, clientv3.WithAttachedKeys())
		if err != nil {
			return nil, err
		}
		if ttl.TTL < 0 {
			continue
		}
		slices.SortFunc(ttl.Keys, bytes.Compare)
		out = append(out, fmt.Sprintf("lease %x of %d s: %q", l.ID, ttl.GrantedTTL, ttl.Keys))
	}
	slices.Sort(out)
	return out, nil
}
