package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/internal/bucket"
	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// gone is a cluster that ships to a bucket, writers on every door, and what they were told. Their sessions are of two kinds: those
// answered at commit, and those answered when the bucket has it.
type gone struct {
	c     *proctest.Cluster
	conns []*grpc.ClientConn
	http  *http.Client
	steps string // the URL of every saga's only step
	value string // of v3 keys, behind their names

	mu      sync.Mutex
	rev     map[string]int64  // guarded by mu: v3 keys that were acknowledged, and their revisions
	index   map[string]uint64 // guarded by mu: v2 keys and their indexes
	entries map[uint64]string // guarded by mu: of the transparency log
	gids    map[string]bool   // guarded by mu
	stored  map[string]bool   // guarded by mu: of all of these, by name, what was said to be in the bucket
	late    map[string]int    // guarded by mu: answers by their text that say written, and not archived
	faults  []string          // guarded by mu
}

// newGone returns writers of a cluster, without connections to its v3 doors.
func newGone(t *testing.T, c *proctest.Cluster) *gone {
	return &gone{c: c, steps: serveSteps(t).URL, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}, rev: map[string]int64{},
		index: map[string]uint64{}, entries: map[uint64]string{}, gids: map[string]bool{}, stored: map[string]bool{}, late: map[string]int{}}
}

// session is the kind of one writer's: every third is answered at commit.
func session(writer int) string {
	if writer%3 == 2 {
		return "commit"
	}
	return "archive"
}

// write writes through one door of random members until ctx ends. Every name is written once.
func (g *gone) write(ctx context.Context, door string, writer int, r *rand.Rand) {
	for n := 0; ctx.Err() == nil; n++ {
		name, to, ack := fmt.Sprintf("%s-%d-%d", door, writer, n), r.IntN(len(g.c.Nodes)), session(writer)
		bound, cancel := context.WithTimeout(ctx, 3*time.Second)
		acked := g.doors()[door](bound, to, name, ack)
		cancel()
		switch {
		case acked && ack == "archive":
			g.mu.Lock()
			g.stored[name] = true
			g.mu.Unlock()
		case !acked:
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// doors write one name through a member, and report whether it was acknowledged.
func (g *gone) doors() map[string]func(ctx context.Context, to int, name, ack string) bool {
	return map[string]func(ctx context.Context, to int, name, ack string) bool{"kv": g.put, "v2": g.set, "tlog": g.add, "saga": g.submit}
}

func (g *gone) put(ctx context.Context, to int, name, ack string) bool {
	res, err := pb.NewKVClient(g.conns[to]).Put(metadata.AppendToOutgoingContext(ctx, "holdfast-ack", ack), &pb.PutRequest{Key: []byte("w/" + name), Value: []byte(name + g.value)})
	if err != nil {
		g.said(err.Error())
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rev[name] = res.Header.Revision
	return true
}

func (g *gone) set(ctx context.Context, to int, name, ack string) bool {
	form := url.Values{"value": {name}}.Encode()
	code, body, head := g.send(ctx, http.MethodPut, "http://"+g.c.Nodes[to].KV+"/v2/keys/gone/"+name, "application/x-www-form-urlencoded", form, ack)
	if code != http.StatusCreated {
		return false
	}
	index, err := strconv.ParseUint(head.Get("X-Etcd-Index"), 10, 64)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.faults = append(g.faults, fmt.Sprintf("v2 answers %q with index %q", body, head.Get("X-Etcd-Index")))
	}
	g.index[name] = index
	return true
}

func (g *gone) add(ctx context.Context, to int, name, ack string) bool {
	code, body, _ := g.send(ctx, http.MethodPost, "http://"+g.c.Nodes[to].Addr("tlog")+"/add", "application/octet-stream", name, ack)
	index, err := strconv.ParseUint(body, 10, 64)
	if code != http.StatusOK {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.faults = append(g.faults, fmt.Sprintf("add answers %q", body))
	}
	g.entries[index] = name
	return true
}

func (g *gone) submit(ctx context.Context, to int, name, ack string) bool {
	body := fmt.Sprintf(`{"gid":%q,"trans_type":"msg","steps":[{"action":%q}],"payloads":["{}"]}`, name, g.steps)
	code, _, _ := g.send(ctx, http.MethodPost, "http://"+g.c.Nodes[to].Addr("saga")+"/api/dtmsvr/submit", "application/json", body, ack)
	if code != http.StatusOK {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gids[name] = true
	return true
}

// send sends once; code is 0 if there was no whole answer.
func (g *gone) send(ctx context.Context, method, to, kind, body, ack string) (code int, answer string, head http.Header) {
	req, err := http.NewRequestWithContext(ctx, method, to, strings.NewReader(body))
	if err != nil {
		return 0, "", nil
	}
	req.GetBody = nil // else net/http sends it again by itself where a kept connection has broken
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Holdfast-Ack", ack)
	res, err := g.http.Do(req)
	if err != nil {
		return 0, "", nil
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, "", nil
	}
	if res.StatusCode >= 300 {
		g.said(string(b))
	}
	return res.StatusCode, string(b), res.Header
}

// said counts an answer that says that something was written and is not in the bucket.
func (g *gone) said(text string) {
	if strings.Contains(text, "not archived") {
		g.mu.Lock()
		g.late["written, not archived"]++
		g.mu.Unlock()
	}
}

// TestTheDiskIsGone: all members are killed under load, and their disks with them. The restore from the bucket has every write that was
// acknowledged as archived, on every door. Of the writes answered at commit it has all up to its last one.
func TestTheDiskIsGone(t *testing.T) {
	processTest(t, false)
	beside(t)
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			r := rng(t)
			rounds := count("DISKS", 1, 50)
			total := map[string]int{}
			for round := range rounds {
				for what, n := range diskGone(t, r, nodes, round) { // any order: sums
					total[what] += n
				}
				if t.Failed() {
					break
				}
			}
			summary(t, "%d rounds of %d nodes: %s said to be in the bucket (%s v3, %s v2, %s log entries, %s sagas), %s at commit only: %s of the former missing, %s of the latter behind the end of the archive; %s answered as written and not archived",
				rounds, nodes, grouped(total["stored"]), grouped(total["kv"]), grouped(total["v2"]), grouped(total["tlog"]), grouped(total["saga"]),
				grouped(total["commit"]), grouped(total["missing"]), grouped(total["behind"]), grouped(total["late"]))
		})
	}
}

// storeModes is how a bucket may behave while the disk goes.
var storeModes = []struct {
	name string
	set  func(b *bucket.Bucket)
}{
	{"quick", func(b *bucket.Bucket) { b.Slow(5 * time.Millisecond) }},
	{"slow", func(b *bucket.Bucket) { b.Slow(80 * time.Millisecond) }},
	{"failing", func(b *bucket.Bucket) {
		b.Slow(10 * time.Millisecond)
		b.FailAtRandom(0.3, bucket.Refused, bucket.Failed, bucket.Lost, bucket.Twice, bucket.Cut)
	}},
	{"down at the end", func(b *bucket.Bucket) { b.Slow(5 * time.Millisecond) }},
}

// diskGone is one round.
func diskGone(t *testing.T, r *rand.Rand, nodes, round int) (sums map[string]int) {
	t.Helper()
	b, err := bucket.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys") // where an operator keeps them: not on the disk that goes
	signer, err := tiles.NewSigner("log.example/gone", bytes.Repeat([]byte{9}, 32))
	if err == nil {
		err = os.Mkdir(keys, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(keys, "default.key"), []byte(signer.Private()), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	mode := storeModes[(round+r.IntN(2))%len(storeModes)]
	mode.set(b)
	flags := []string{"--tlog", "{tlog}", "--tlog-keys", keys, "--saga", "{saga}", "--archive", b.URL("gone")}
	c := describe(t, nodes, flags...)
	for _, n := range c.Nodes {
		n.Setenv(b.Env()...)
	}
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	g := newGone(t, c)
	for _, n := range c.Nodes {
		cc, err := grpc.NewClient(n.KV, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer cc.Close()
		g.conns = append(g.conns, cc)
	}
	if !eventually(t, func() bool { return levelOf(t, c.Nodes[0]) == newest }) {
		t.Fatalf("%s stays at level %d", c.Nodes[0].Name, levelOf(t, c.Nodes[0]))
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var writers sync.WaitGroup
	for door := range g.doors() { // any order
		for i := range 6 {
			own := rand.New(rand.NewPCG(uint64(seed), uint64(round*100+i)))
			writers.Go(func() { g.write(ctx, door, i, own) })
		}
	}
	time.Sleep(between(r, 500*time.Millisecond, 3*time.Second))
	if !eventually(t, g.someStored) { // a busy machine may have archived nothing yet
		t.Errorf("nothing was said to be in the bucket (%s)", mode.name)
	}
	if r.IntN(2) == 0 { // the shipper goes first, and comes back or leaves it to another
		victim := c.Nodes[0]
		if lead, err := c.WaitLeader(wait.Limit(t)); err == nil {
			victim = lead
		}
		kill(t, victim)
		if err := c.Restart(victim); err != nil {
			t.Fatal(err)
		}
		time.Sleep(between(r, 200*time.Millisecond, 2*time.Second))
	}
	if mode.name == "down at the end" {
		b.Fail(func(*http.Request) bucket.Fault { return bucket.Failed })
		time.Sleep(between(r, 100*time.Millisecond, time.Second))
	}
	for _, n := range c.Nodes {
		kill(t, n)
	}
	stop()
	writers.Wait()
	for _, n := range c.Nodes {
		if err := os.RemoveAll(n.Dir); err != nil {
			t.Fatal(err)
		}
	}
	b.Fail(nil)
	b.Slow(0)
	return g.restored(t, b, keys, mode.name)
}

// someStored reports whether anything was said to be in the bucket.
func (g *gone) someStored() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.stored) > 0
}

// restored brings it back, starts a server on it, and counts.
func (g *gone) restored(t *testing.T, b *bucket.Bucket, keys, mode string) map[string]int {
	t.Helper()
	bin, err := proctest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range g.faults {
		t.Error(f)
	}
	c := describe(t, 1, "--tlog", "{tlog}", "--tlog-keys", keys, "--saga", "{saga}")
	cmd := exec.Command(bin, "restore", "--from", b.URL("gone"), "--data", c.Nodes[0].Dir)
	cmd.Env = append(os.Environ(), b.Env()...)
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("restore: %v\n%s", err, said)
	}
	// The last signed checkpoint may cover entries that are not in the archive. Such a log cannot continue, and its entries beyond its own
	// last checkpoint are not shown. To see those entries, the signature's note is removed.
	if highest := filepath.Join(keys, "default.highest"); len(g.entries) > 0 {
		if err := os.Remove(highest); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	if err := c.Run(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	defer c.Close()
	n := c.Nodes[0]
	sums := map[string]int{"stored": len(g.stored), "late": g.late["written, not archived"]}
	lost := func(name string, what string, args ...any) {
		if g.stored[name] {
			sums["missing"]++
			if sums["missing"] < 10 {
				t.Errorf("%s was said to be in the bucket (%s), and is not: %s", name, mode, fmt.Sprintf(what, args...))
			}
			return
		}
		sums["behind"]++
	}

	// The v3 door: of what was acknowledged at commit everything is there up to the newest that is.
	cli := dial(t, n.KV)
	held := map[string]int64{}
	newestRev := int64(0)
	for key, at := range stored(t, cli) { // any order: the greatest counts
		if name, ok := strings.CutPrefix(key, "w/"); ok {
			held[name] = at.rev
			newestRev = max(newestRev, at.rev)
		}
	}
	for name, rev := range g.rev { // any order
		sums["kv"] += one(g.stored[name])
		sums["commit"] += one(!g.stored[name])
		switch got, ok := held[name]; {
		case !ok && rev <= newestRev:
			t.Errorf("%s was acknowledged at revision %d, and is missing below %d", name, rev, newestRev)
		case !ok:
			lost(name, "revision %d of %d", rev, newestRev)
		case got != rev:
			t.Errorf("%s was acknowledged at revision %d, and has %d", name, rev, got)
		}
	}

	// The v2 door.
	code, body, _ := g.send(t.Context(), http.MethodGet, "http://"+n.KV+"/v2/keys/gone?recursive=true", "", "", "commit")
	var tree struct {
		Node struct{ Nodes []struct{ Key, Value string } }
	}
	if code == http.StatusOK {
		if err := json.Unmarshal([]byte(body), &tree); err != nil {
			t.Fatal(err)
		}
	} else if code != http.StatusNotFound {
		t.Fatalf("v2 answers %d %s", code, body)
	}
	nodes := map[string]bool{}
	for _, k := range tree.Node.Nodes {
		nodes[strings.TrimPrefix(k.Key, "/gone/")] = k.Value == strings.TrimPrefix(k.Key, "/gone/")
	}
	for name, index := range g.index { // any order
		sums["v2"] += one(g.stored[name])
		sums["commit"] += one(!g.stored[name])
		if !nodes[name] {
			lost(name, "index %d", index)
		}
	}

	// The log is held, and shows what its checkpoint covers: that lets it go on.
	if len(g.entries) > 0 {
		g.resume(t, n, bin, keys)
	}
	for index, name := range g.entries { // any order
		sums["tlog"] += one(g.stored[name])
		sums["commit"] += one(!g.stored[name])
		if got, why := g.entryAt(n.Addr("tlog"), index); got != name {
			lost(name, "index %d holds %q, %s", index, got, why)
		}
	}

	// Sagas are held, and known.
	sagas := newSagaClient()
	for gid := range g.gids { // any order
		sums["saga"] += one(g.stored[gid])
		sums["commit"] += one(!g.stored[gid])
		if status, err := sagas.status(n, gid); err != nil || status == "" {
			lost(gid, "status %q, %v", status, err)
		}
	}
	return sums
}

// resume lets the log go on, and waits until its checkpoint covers what is in it.
func (g *gone) resume(t *testing.T, n *proctest.Node, bin, keys string) {
	t.Helper()
	checkpoint := filepath.Join(keys, "last.checkpoint")
	note, err := g.get("http://" + n.Addr("tlog") + "/checkpoint")
	if err == nil {
		err = os.WriteFile(checkpoint, note, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(bin, "resume", "--tlog", "default", "--checkpoint", checkpoint, "--admin", n.Admin).CombinedOutput(); err != nil {
		t.Fatalf("resume: %v\n%s", err, out)
	}
	code, body, _ := g.send(t.Context(), http.MethodPost, "http://"+n.Addr("tlog")+"/add", "application/octet-stream", "after the restore", "commit")
	last, err := strconv.ParseUint(body, 10, 64)
	if code != http.StatusOK || err != nil {
		t.Fatalf("the restored log does not go on: add answers %d %s", code, body)
	}
	if !eventually(t, func() bool { got, _ := g.entryAt(n.Addr("tlog"), last); return got == "after the restore" }) {
		t.Fatalf("the restored log is not signed:\n%s", n.LogTail(8))
	}
}

// entryAt reads an entry of a log out of the bundle that ends with it.
func (g *gone) entryAt(host string, index uint64) (entry, why string) {
	ref := tiles.Ref{Level: tiles.EntryLevel, N: index / tiles.Width, Width: int(index%tiles.Width) + 1}
	b, err := g.get("http://" + host + "/" + ref.Path())
	if err != nil {
		return "", err.Error()
	}
	var last []byte
	for len(b) > 0 {
		if last, b, err = tiles.NextEntry(b); err != nil {
			return "", err.Error()
		}
	}
	return string(last), ""
}

// get reads the body of an answer.
func (g *gone) get(from string) ([]byte, error) {
	res, err := g.http.Get(from)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, b)
	}
	return b, err
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
