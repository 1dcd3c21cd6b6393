package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// importUnderLoad moves a deployment: an etcd of the tool's own version and of the cluster's size, with keys and leases, is copied
// into empty Holdfast nodes while its clients write, delete, grant, revoke, compact, and while leases run out. The import is
// killed once on the way and goes on. After the cut-over both sides are read by a client that is not the import, and must hold
// the same keys, values and leases. An etcd 3.4 has v2 keys beside them, under load too.
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

// importing runs holdfast in the background, as background does with the tool.
func (e *env) importing(args ...string) *importProcess {
	p := &importProcess{e: e, done: make(chan struct{})}
	if e.err != nil {
		close(p.done)
		return p
	}
	p.cmd = exec.Command(e.holdfast, args...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		e.failf("start the import: %w", err)
		close(p.done)
		return p
	}
	go func() {
		_ = p.cmd.Wait() // the exit status is read by wait
		close(p.done)
	}()
	return p
}

type importProcess struct {
	e    *env
	cmd  *exec.Cmd
	done chan struct{}

	mu  sync.Mutex
	out bytes.Buffer // guarded by mu
}

// Write gathers what it prints.
func (p *importProcess) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *importProcess) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

func (p *importProcess) until(text string) {
	p.e.until("the import prints "+text, time.Minute, func() bool { return strings.Contains(p.output(), text) })
	if p.e.err != nil {
		p.kill()
		p.e.err = fmt.Errorf("%w; it printed %q", p.e.err, p.output())
	}
}

func (p *importProcess) interrupt() {
	if p.e.err == nil {
		_ = p.cmd.Process.Signal(os.Interrupt) // it may have ended, which wait reports
	}
}

func (p *importProcess) kill() {
	if p.cmd != nil && p.cmd.Process != nil {
		_ = p.cmd.Process.Kill() // it may have ended already
		<-p.done
	}
}

func (p *importProcess) wait(status int) {
	if p.e.err != nil {
		p.kill()
		return
	}
	select {
	case <-p.done:
		if got := p.cmd.ProcessState.ExitCode(); got != status {
			p.e.failf("the import ended with status %d, not %d: %s", got, status, p.output())
		}
	case <-time.After(time.Minute):
		p.kill()
		p.e.failf("the import did not end: %s", p.output())
	}
}

// importLoad is the source's clients.
type importLoad struct {
	c      *clientv3.Client
	ctx    context.Context // not ended by stop: a call that was begun is finished
	ended  atomic.Bool
	wg     sync.WaitGroup
	writes atomic.Int64
}

func newImportLoad(c *clientv3.Client) *importLoad {
	return &importLoad{c: c, ctx: context.Background()}
}

// fill writes what the deployment holds before the move: keys of all sizes, and leases with and without keys.
func (l *importLoad) fill() error {
	for i := 0; i < 3000; i += 100 {
		var ops []clientv3.Op
		for j := range 100 {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("old/%05d", i+j), strings.Repeat("v", (i+j)%600)))
		}
		if _, err := l.c.Txn(l.ctx).Then(ops...).Commit(); err != nil {
			return err
		}
	}
	for i := range 20 {
		lease, err := l.c.Grant(l.ctx, int64(600+i))
		if err != nil {
			return err
		}
		for j := range i % 4 {
			if _, err := l.c.Put(l.ctx, fmt.Sprintf("old/leased/%d/%d", i, j), "x", clientv3.WithLease(lease.ID)); err != nil {
				return err
			}
		}
	}
	if _, err := l.c.Put(l.ctx, "old/large", strings.Repeat("z", 1<<20)); err != nil {
		return err
	}
	_, err := l.c.Put(l.ctx, "\x00binary\xff", "\x00\xff")
	return err
}

// each runs fn until stop, with a pause after each time, and counts those without an error.
func (l *importLoad) each(pause time.Duration, fn func(r *rand.Rand) error) {
	r := rand.New(rand.NewPCG(1, uint64(pause)))
	l.wg.Go(func() {
		for !l.ended.Load() {
			if fn(r) == nil {
				l.writes.Add(1)
			}
			time.Sleep(pause)
		}
	})
}

// start runs the clients until stop, those of the v2 API as well if the servers have it. Errors of single writes do not matter: what counts is what the source holds in the end.
func (l *importLoad) start(trees []v2Client) {
	if len(trees) > 0 {
		l.startV2(trees)
	}
	key := func(r *rand.Rand) string { return fmt.Sprintf("hot/%d", r.IntN(400)) }
	value := func(r *rand.Rand) string { return strings.Repeat("n", r.IntN(300)) + fmt.Sprint(r.Int()) }
	for i := range 4 {
		l.each(time.Duration(i+1)*time.Millisecond, func(r *rand.Rand) error {
			_, err := l.c.Put(l.ctx, key(r), value(r))
			return err
		})
	}
	l.each(6*time.Millisecond, func(r *rand.Rand) error { // several keys at one revision
		_, err := l.c.Txn(l.ctx).Then(clientv3.OpPut("pair/a", value(r)), clientv3.OpPut("pair/b", value(r)), clientv3.OpDelete(key(r))).Commit()
		return err
	})
	l.each(200*time.Millisecond, func(r *rand.Rand) error { // a revision of more changes than a Txn takes
		_, err := l.c.Delete(l.ctx, "hot/", clientv3.WithPrefix())
		return err
	})
	l.each(50*time.Millisecond, func(r *rand.Rand) error { // leases that run out by themselves while the import looks
		lease, err := l.c.Grant(l.ctx, int64(2+r.IntN(4)))
		if err == nil {
			_, err = l.c.Put(l.ctx, fmt.Sprintf("short/%d", r.IntN(100)), "x", clientv3.WithLease(lease.ID))
		}
		return err
	})
	kept, err := l.c.Grant(l.ctx, 2) // shorter than the import lasts: it lives on the target only if it is renewed there
	if err == nil {
		_, err = l.c.Put(l.ctx, "kept", "x", clientv3.WithLease(kept.ID))
	}
	if err == nil {
		l.each(500*time.Millisecond, func(*rand.Rand) error {
			_, err := l.c.KeepAliveOnce(l.ctx, kept.ID)
			return err
		})
	}
	l.each(100*time.Millisecond, func(r *rand.Rand) error { // revoked; its keys moved to another lease or to none before
		lease, err := l.c.Grant(l.ctx, 100)
		if err != nil {
			return err
		}
		for _, k := range []string{"moved/a", "moved/b", "moved/c"} {
			if _, err := l.c.Put(l.ctx, k, "x", clientv3.WithLease(lease.ID)); err != nil {
				return err
			}
		}
		if _, err := l.c.Put(l.ctx, "moved/a", "free"); err != nil {
			return err
		}
		_, err = l.c.Revoke(l.ctx, lease.ID)
		return err
	})
	l.each(300*time.Millisecond, func(*rand.Rand) error { // the revision that is being copied may go
		res, err := l.c.Get(l.ctx, "x")
		if err == nil {
			_, err = l.c.Compact(l.ctx, res.Header.Revision-20)
		}
		return err
	})
}

// stop ends the clients and says how much they wrote. It may be called twice.
func (l *importLoad) stop() int64 {
	l.ended.Store(true)
	l.wg.Wait()
	return l.writes.Load()
}

// wholeOf reads all of one side of an import, a line for each thing there is.
type wholeOf func(ctx context.Context) ([]string, error)

// same reads both sides whole until they are the same, a second apart and at most 15 times: what has a time to live, a lease or a v2
// key, lives on the target as long as on the source or a little longer. A source of fewer than least lines shows nothing.
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
