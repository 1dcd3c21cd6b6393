package importer

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/node"
	doorkv "github.com/holdfastdb/holdfast/doors/kv"
	kvlease "github.com/holdfastdb/holdfast/doors/kv/lease"
	kvmachine "github.com/holdfastdb/holdfast/doors/kv/machine"
	"github.com/holdfastdb/holdfast/doors/kv/v2"
	"github.com/holdfastdb/holdfast/doors/kv/v2/expire"
	v2machine "github.com/holdfastdb/holdfast/doors/kv/v2/machine"
	"github.com/holdfastdb/holdfast/internal/certtest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// Both sides of these tests are Holdfast: the importer knows of neither more than the API. That an etcd serves as a source is for
// the conformance suite to show.

// serve starts a cluster of n that ends with the test and returns how to reach it.
func serve(t *testing.T, n int, secure *tls.Config) Endpoint {
	t.Helper()
	peers, held := map[string]string{}, make([]net.Listener, n)
	for i := range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		held[i] = l // until all are known: the system may give a closed one's port again
		peers[fmt.Sprintf("n%d", i+1)] = l.Addr().String()
	}
	for _, l := range held {
		l.Close()
	}
	e := Endpoint{Addresses: make([]string, n)}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			name := fmt.Sprintf("n%d", i+1)
			how := node.StartOptions{Name: name}
			if n > 1 {
				how.PeerAddr, how.Peers = peers[name], peers
			}
			e.Addresses[i] = serveMember(t, how, secure)
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return e
}

func serveMember(t *testing.T, how node.StartOptions, secure *tls.Config) (addr string) {
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
	defer cancel()
	keys, nodes := kvmachine.New(kvmachine.Options{}), v2machine.New(v2machine.Options{})
	n, err := node.Start(ctx, node.Config{Dir: t.TempDir(), Machines: []machine.Machine{keys, nodes}, Lanes: []node.LaneSpec{{Number: doorkv.Lane, Name: "kv"}},
		Logger: slog.New(slog.DiscardHandler)}, how)
	if err != nil {
		t.Errorf("start %s: %v", how.Name, err)
		return ""
	}
	var wg sync.WaitGroup
	wg.Go(kvlease.New(n, keys).Run)
	wg.Go(expire.New(n, nodes).Run)
	var d *doorkv.Door
	h := v2.New(n, nodes, v2.Options{Resume: func(c net.Conn) { d.Resume(c) }, Catalogue: func() (bool, uint64) { return d.Catalogue() },
		RootBasic: func(host, user, password string) (uint64, bool) { return d.RootBasic(host, user, password) }})
	d = doorkv.New(n, keys, nodes.Stats(), doorkv.Options{TLS: secure, V2: h.Handle, BcryptCost: 4})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Errorf("listen: %v", err)
		return ""
	}
	wg.Go(func() {
		if err := d.Serve(l); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(func() {
		h.Close()
		ctx, cancel := context.WithTimeout(context.Background(), wait.Limit(t))
		defer cancel()
		_ = d.Shutdown(ctx) // cuts what is left
		n.Stop()
		wg.Wait()
	})
	for end := time.Now().Add(wait.Limit(t)); !n.Status().Ready; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("%s is not ready after 20 s", how.Name)
			return ""
		}
	}
	return l.Addr().String()
}

func (e Endpoint) client(t *testing.T) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: e.Addresses, TLS: e.TLS, Username: e.User, Password: e.Password,
		DialTimeout: wait.Limit(t), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// withRoot switches authentication on and returns the endpoint with the name and password to use from now on.
func (e Endpoint) withRoot(t *testing.T, password string) Endpoint {
	t.Helper()
	c, ctx := e.client(t), context.Background()
	_, err := c.UserAdd(ctx, "root", password)
	if err == nil {
		_, err = c.UserGrantRole(ctx, "root", "root")
	}
	if err == nil {
		_, err = c.AuthEnable(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	e.User, e.Password = "root", password
	return e
}

// tree is the v2 API of a cluster, as the importer's own client of it.
func (e Endpoint) tree(t *testing.T) *treeSide {
	s := newTreeSide(&side{name: "test"}, e)
	t.Cleanup(s.close)
	return s
}

func (t *treeSide) mustPut(tt *testing.T, nodes ...treeNode) {
	tt.Helper()
	for _, n := range nodes {
		if err := t.put(context.Background(), n); err != nil {
			tt.Fatalf("put %s: %v", n.Key, err)
		}
	}
}

// want waits until a side shows exactly these nodes at and below root: a key with its value, a directory with a slash.
func (t *treeSide) want(tt *testing.T, root string, want ...string) {
	tt.Helper()
	var got []string
	for end := time.Now().Add(wait.Limit(tt)); ; time.Sleep(10 * time.Millisecond) {
		all := map[string]treeNode{}
		if _, err := t.list(context.Background(), root, all); err != nil {
			tt.Fatal(err)
		}
		got = got[:0]
		for _, w := range want {
			key, value, _ := strings.Cut(w, "=")
			dir := strings.HasSuffix(key, "/")
			if n, ok := all[strings.TrimSuffix(key, "/")]; ok && n.Dir == dir && n.Value == value {
				got = append(got, w)
			}
		}
		if len(got) == len(want) && len(all) == len(want) {
			return
		}
		if time.Now().After(end) {
			tt.Fatalf("of %q there are %q, and %d nodes in all", want, got, len(all))
		}
	}
}

// importing runs an import; end cuts over and returns its report.
func importing(t *testing.T, o Options) (end func() *Report) {
	t.Helper()
	out := new(lines)
	o.Progress = NewProgress(out, false)
	stop := make(chan struct{})
	type result struct {
		r   *Report
		err error
	}
	done := make(chan result, 1)
	go func() {
		r, err := Run(context.Background(), stop, o)
		done <- result{r, err}
	}()
	return func() *Report {
		t.Helper()
		close(stop)
		select {
		case res := <-done:
			if res.err != nil {
				t.Fatalf("import: %v; it said\n%s", res.err, out)
			}
			return res.r
		case <-time.After(wait.Limit(t)):
			t.Fatalf("the import does not end; it said\n%s", out)
		}
		return nil
	}
}

// lines is a buffer for several goroutines.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) { l.mu.Lock(); defer l.mu.Unlock(); return l.b.Write(p) }
func (l *lines) String() string              { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

func TestASecuredDeploymentMovesIntoASecuredClusterOfThree(t *testing.T) {
	oldCA, newCA := certtest.NewAuthority("old"), certtest.NewAuthority("new")
	from, to := serve(t, 1, oldCA.Server()), serve(t, 3, newCA.Server())
	from.TLS, to.TLS = oldCA.Config(oldCA.Issue("client")), newCA.Config(newCA.Issue("client"))
	old := from.client(t)
	ctx := context.Background()
	held, err := old.Grant(ctx, 300)
	if err != nil {
		t.Fatal(err)
	}
	for key, id := range map[string]clientv3.LeaseID{"a": 0, "b": 0, "leased": held.ID} {
		if _, err := old.Put(ctx, key, "value of "+key, clientv3.WithLease(id)); err != nil {
			t.Fatal(err)
		}
	}
	from, to = from.withRoot(t, "old"), to.withRoot(t, "new")
	tree := from.tree(t)
	tree.mustPut(t, treeNode{Key: "/d/k", Value: "v2"}, treeNode{Key: "/ends", Value: "soon", TTL: 200})

	wrong := from
	wrong.Password = "wrong"
	if _, err := Run(ctx, nil, Options{From: wrong, To: to, Progress: NewProgress(io.Discard, false)}); err == nil {
		t.Fatal("a wrong password of the source goes through")
	}
	end := importing(t, Options{From: from, To: to})
	ours := to.tree(t)
	ours.want(t, "/", "/d/", "/d/k=v2", "/ends=soon")
	from.client(t).Put(ctx, "c", "followed")
	tree.mustPut(t, treeNode{Key: "/d/l", Value: "followed"})
	ours.want(t, "/", "/d/", "/d/k=v2", "/d/l=followed", "/ends=soon")
	r := end()
	if r.Difference.Count != 0 || r.Keys != 4 || r.Leases != 1 || r.Nodes != 4 || !r.Tree {
		t.Errorf("the report: %+v", r)
	}
	got, err := to.client(t).Get(ctx, "", clientv3.WithPrefix())
	if err != nil || len(got.Kvs) != 4 {
		t.Errorf("%v, %v on the target; want four keys", got, err)
	}
}

// At the cut-over a lease may have ended at the source. The target learns of its end only from a later revision, when another lease with a
// key has ended too. One without keys has to go: no later change could take it away, and it would stay for its whole granted time. One that
// held a key at the cut-over has ended since.
func TestALeaseThatEndedBeforeTheCutOverDoesNotStay(t *testing.T) {
	from, to := serve(t, 1, nil), serve(t, 1, nil)
	ctx := context.Background()
	dialed := func(name string, e Endpoint) *side {
		s, err := dial(ctx, name, e)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	source, target := dialed("source", from), dialed("target", to)
	i := &run{source: source, target: target, leases: newLeases(source, target), count: new(counters)}
	i.writer = &writer{target: target, leases: i.leases, count: i.count}
	grant := func(on *side) clientv3.LeaseID {
		l, err := on.Grant(ctx, 300)
		if err != nil {
			t.Fatal(err)
		}
		return l.ID
	}
	bare, holding := grant(source), grant(source)
	if _, err := source.Put(ctx, "held", "x", clientv3.WithLease(holding)); err != nil {
		t.Fatal(err)
	}
	at, err := i.pass(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := func(ids ...clientv3.LeaseID) {
		t.Helper()
		got, _, err := target.list(ctx)
		if err != nil || len(got) != len(ids) {
			t.Fatalf("leases %x, %v on the target, want %x", got, err, ids)
		}
		for _, id := range ids {
			if !slices.Contains(got, int64(id)) {
				t.Fatalf("leases %x on the target, want %x", got, ids)
			}
		}
	}
	want(bare, holding)

	for _, id := range []clientv3.LeaseID{bare, holding} { // the second makes a revision, which is the one the lists are read at
		if _, err := source.Revoke(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	if err := i.leases.compareLists(ctx); err != nil {
		t.Fatal(err)
	}
	if err := i.leases.settle(ctx, at); err != nil {
		t.Fatal(err)
	}
	want(holding)
	var d Difference
	if _, err := i.compareLeases(ctx, at, &d); err != nil || d.Count != 0 {
		t.Errorf("%+v, %v: what ended after the cut-over is no difference", d, err)
	}
	// One that the source listed when another pass began, and that had ended when it was asked for. The target has it from the earlier
	// pass.
	passed := grant(source)
	if err := i.leases.begin(ctx); err != nil {
		t.Fatal(err)
	}
	want(passed)
	if _, err := source.Revoke(ctx, passed); err != nil {
		t.Fatal(err)
	}
	i.leases.mu.Lock()
	clear(i.leases.known) // as the second pass does
	i.leases.mu.Unlock()
	if there, err := i.leases.ensure(ctx, int64(passed)); there || err != nil {
		t.Fatal(there, err)
	}
	if err := i.leases.settle(ctx, at); err != nil {
		t.Fatal(err)
	}
	want()
	late := grant(target) // by another client
	if _, err := i.compareLeases(ctx, at, &d); err != nil || d.Count != 1 {
		t.Errorf("%+v, %v: a lease without keys, %x, is only on the target", d, err, late)
	}
}

// A tree that changes in every way the API knows is the same in the end, with the time its nodes have left.
func TestTreesAreFollowed(t *testing.T) {
	from, to := serve(t, 1, nil), serve(t, 1, nil)
	theirs, ours := from.tree(t), to.tree(t)
	ctx := context.Background()
	theirs.mustPut(t, treeNode{Key: "/a", Value: "1"}, treeNode{Key: "/d/x", Value: "2"}, treeNode{Key: "/empty", Dir: true},
		treeNode{Key: "/mortal", Dir: true, TTL: 100}, treeNode{Key: "/mortal/k", Value: "3"}, treeNode{Key: "/e", Value: "4", TTL: 100},
		treeNode{Key: "/_hidden/named", Value: "5"}, treeNode{Key: "/d/_hidden", Value: "nobody named it"}, treeNode{Key: "/odd ?&%/ü", Value: "=&\n"})
	end := importing(t, Options{From: from, To: to, Hidden: []string{"/_hidden"}})
	ours.want(t, "/", "/a=1", "/d/", "/d/x=2", "/empty/", "/mortal/", "/mortal/k=3", "/e=4", "/odd ?&%/", "/odd ?&%/ü==&\n")
	ours.want(t, "/_hidden", "/_hidden/", "/_hidden/named=5")

	for _, key := range []string{"/a", "/d", "/empty"} {
		if err := theirs.remove(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	theirs.mustPut(t, treeNode{Key: "/a/now/a/directory", Value: "6"}, treeNode{Key: "/d", Value: "now a key"}, treeNode{Key: "/short", Value: "x", TTL: 1},
		treeNode{Key: "/_hidden/too", Value: "7"})
	if err := theirs.retime(ctx, treeNode{Key: "/e", TTL: 300}); err != nil { // a refresh: no event
		t.Fatal(err)
	}
	for i := range 300 {
		theirs.mustPut(t, treeNode{Key: fmt.Sprintf("/many/%d", i%5), Value: fmt.Sprint(i)})
	}
	rest := []string{"/a/", "/a/now/", "/a/now/a/", "/a/now/a/directory=6", "/d=now a key", "/mortal/", "/mortal/k=3", "/e=4", "/odd ?&%/", "/odd ?&%/ü==&\n",
		"/many/", "/many/0=295", "/many/1=296", "/many/2=297", "/many/3=298", "/many/4=299"}
	ours.want(t, "/", rest...) // /short has ended there, and so here, long before its own time
	ours.want(t, "/_hidden", "/_hidden/", "/_hidden/named=5", "/_hidden/too=7")

	if r := end(); r.Difference.Count != 0 || r.Nodes != len(rest)+3 || r.TreeAhead != 0 {
		t.Errorf("the report: %+v", r)
	}
	left := map[string]treeNode{}
	if _, err := ours.list(ctx, "/", left); err != nil {
		t.Fatal(err)
	}
	for key, ttl := range map[string]int64{"/e": 300, "/mortal": 100, "/d": 0} {
		if got := left[key].TTL; got > ttl || got < ttl-30 {
			t.Errorf("%s has %d s left on the target, granted were %d", key, got, ttl)
		}
	}
}

// TestTheSourcesHistoryIsShorterThanAPause: a follower that is too late for an event lists again.
func TestTheSourcesHistoryIsShorterThanAPause(t *testing.T) {
	from, to := serve(t, 1, nil), serve(t, 1, nil)
	theirs, ours := from.tree(t), to.tree(t)
	theirs.mustPut(t, treeNode{Key: "/a", Value: "1"}, treeNode{Key: "/gone", Value: "1"})
	var late, polls atomic.Int32
	there := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: from.Addresses[0]})
	}}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("wait") == "true" && polls.Add(1) == 1 { // the importer sleeps for more than a thousand events
			if err := theirs.remove(r.Context(), "/gone"); err != nil {
				t.Error(err)
			}
			if err := eachNode(r.Context(), make([]treeNode, 1100), func(ctx context.Context, _ treeNode) error {
				return theirs.put(ctx, treeNode{Key: "/busy", Value: fmt.Sprint(late.Add(1))})
			}); err != nil {
				t.Error(err)
			}
			theirs.mustPut(t, treeNode{Key: "/busy", Value: "last"})
		}
		there.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	source := newTreeSide(&side{name: "source"}, Endpoint{Addresses: []string{front.URL}})
	defer source.close()
	tree, err := newTree(context.Background(), source, ours, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	tree.count, tree.note = new(counters), func(string, ...any) {}
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- tree.follow(context.Background(), "/", stop) }()
	ours.want(t, "/", "/a=1", "/busy=last")
	theirs.mustPut(t, treeNode{Key: "/after", Value: "2"})
	ours.want(t, "/", "/a=1", "/busy=last", "/after=2")
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestTreesThatCannotBeCopied(t *testing.T) {
	from, to := serve(t, 1, nil), serve(t, 1, nil)
	from.tree(t).mustPut(t, treeNode{Key: "/a", Value: "1"})
	to.tree(t).mustPut(t, treeNode{Key: "/b", Value: "1"})
	ctx, quiet := context.Background(), NewProgress(io.Discard, false)
	if _, err := Run(ctx, nil, Options{From: from, To: to, Progress: quiet}); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("a target with v2 keys: %v", err)
	}
	if _, err := Run(ctx, nil, Options{From: from, To: to, Resume: true, Hidden: []string{"/a"}, Progress: quiet}); err == nil {
		t.Error("a node that is not hidden was taken for one")
	}
	none := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(none.Close)
	without := newTreeSide(&side{name: "target"}, Endpoint{Addresses: []string{none.URL}})
	if _, err := newTree(ctx, from.tree(t), without, nil, false); !errors.Is(err, errNoTree) {
		t.Errorf("keys for a target without the API: %v", err)
	}
	if tree, err := newTree(ctx, without, from.tree(t), nil, false); tree != nil || err != nil {
		t.Errorf("a source without the API: %v, %v", tree, err)
	}
	end := importing(t, Options{From: from, To: to, Resume: true})
	to.tree(t).want(t, "/", "/a=1")
	if r := end(); r.Difference.Count != 0 || r.Nodes != 1 {
		t.Errorf("the report: %+v", r)
	}
}
