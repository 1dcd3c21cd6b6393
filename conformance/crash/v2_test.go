package crash

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// v2Answer is what the v2 API says of a key.
type v2Answer struct {
	Action string `json:"action"`
	Code   int    `json:"errorCode"`
	Node   struct {
		Key      string `json:"key"`
		Value    string `json:"value"`
		Modified uint64 `json:"modifiedIndex"`
	} `json:"node"`
}

// v2Op is one operation on one key: a read with quorum, a write, or a write if the key holds prev.
type v2Op struct {
	key, kind, value, prev string
}

// v2Result is its outcome; open: the outcome is not known.
type v2Result struct {
	value string // of a read
	ok    bool   // of a compare-and-swap
	open  bool
}

// v2Model is a register per key. There are no operations of open outcome in it: see settle.
var v2Model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		by := map[string][]porcupine.Operation{}
		for _, o := range history {
			k := o.Input.(v2Op).key
			by[k] = append(by[k], o)
		}
		var all [][]porcupine.Operation
		for _, ops := range by {
			all = append(all, ops)
		}
		return all
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		now, in, out := state.(string), input.(v2Op), output.(v2Result)
		switch {
		case in.kind == "get":
			return out.value == now, now
		case in.kind == "cas" && out.ok != (now == in.prev):
			return false, now
		case in.kind == "cas" && !out.ok:
			return true, now
		}
		return true, in.value
	},
}

// v2Load is clients that read and write few keys and note what they see.
type v2Load struct {
	client *http.Client
	hosts  []string
	began  time.Time
	// patience is how long a client waits for an answer, pause the longest rest before it asks again. The long poll must keep up, since the
	// tree's history is 1,000 events. sticky clients ask mostly the same member.
	patience, pause time.Duration
	sticky          bool

	mu      sync.Mutex
	history []porcupine.Operation // guarded by mu
	acked   atomic.Int64
	// epoch counts the faults. Each has keys of its own, so that no key's history is long.
	epoch atomic.Int64
}

// settle finds the outcome of writes that their clients never learned. Values are unique and a watch without gaps has seen all that took
// effect. So a write it did not see never did, and one it saw had taken effect by then. Left open, such a write could stand at any place of
// the rest of its key's history, and a checker would try all of them.
func (l *v2Load) settle(seen map[string]time.Duration) (settled []porcupine.Operation, open, took int) {
	for _, o := range l.history {
		if !o.Output.(v2Result).open {
			settled = append(settled, o)
			continue
		}
		open++
		if at, ok := seen[o.Input.(v2Op).value]; ok {
			took++
			o.Output, o.Return = v2Result{ok: true}, max(at.Nanoseconds(), o.Call)
			settled = append(settled, o)
		}
	}
	return settled, open, took
}

// do carries out one operation. A status of 500 or a broken connection leaves the outcome open.
func (l *v2Load) do(ctx context.Context, id int, host string, op v2Op) {
	form, method, query := url.Values{}, http.MethodPut, ""
	switch op.kind {
	case "get":
		method, query = http.MethodGet, "?quorum=true"
	case "cas":
		form.Set("prevValue", op.prev)
		fallthrough
	default:
		form.Set("value", op.value)
	}
	call := time.Since(l.began).Nanoseconds()
	req, _ := http.NewRequestWithContext(ctx, method, "http://"+host+"/v2/keys/v2/"+op.key+query, strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	out := v2Result{open: true}
	if res, err := l.client.Do(req); err == nil {
		var a v2Answer
		err := json.NewDecoder(res.Body).Decode(&a)
		res.Body.Close()
		switch {
		case err != nil || res.StatusCode >= 500:
		case op.kind == "cas" && (a.Code == 101 || a.Code == 100):
			out = v2Result{}
		case op.kind == "get" && (a.Code == 100 || a.Code == 0):
			out = v2Result{value: a.Node.Value}
		case a.Code == 0:
			out = v2Result{ok: true}
		}
	}
	ret := time.Since(l.began).Nanoseconds()
	if out.open {
		if op.kind == "get" {
			return // says nothing
		}
		ret = math.MaxInt64
	} else {
		l.acked.Add(1)
	}
	l.mu.Lock()
	l.history = append(l.history, porcupine.Operation{ClientId: id, Input: op, Call: call, Output: out, Return: ret})
	l.mu.Unlock()
}

// run works until ctx ends. A client with an open operation goes on under a new name: it is not over, so it may not have a next
// one. Each key has few writers at a time, or the checker would have too many orders to try.
func (l *v2Load) run(ctx context.Context, id int, r *rand.Rand) {
	last := map[string]string{}
	for n := 0; ctx.Err() == nil; n++ {
		op := v2Op{key: fmt.Sprintf("%d.%d", l.epoch.Load(), r.IntN(12)), value: fmt.Sprintf("%d.%d", id, n)}
		switch k := r.IntN(10); {
		case k < 4:
			op.kind = "get"
		case k < 8 || last[op.key] == "":
			op.kind = "put"
		default:
			op.kind, op.prev = "cas", last[op.key]
		}
		host := r.IntN(len(l.hosts))
		if l.sticky && r.IntN(10) > 0 {
			host = id % len(l.hosts)
		}
		short, cancel := context.WithTimeout(ctx, l.patience)
		l.do(short, id*1_000_000+n, l.hosts[host], op)
		cancel()
		if op.kind != "get" {
			last[op.key] = op.value
		}
		time.Sleep(between(r, 0, l.pause))
	}
}

// v2Watch follows the directory over kills: from the index after the last event it has seen. The index grows by one with every change of
// the tree, and no other client changes anything. So the events must be numbered without a gap.
type v2Watch struct {
	first, last uint64
	patience    time.Duration // after which it asks another member
	events      int
	reopened    int
	faults      []string
	at          atomic.Uint64 // last, for the test's goroutine
	began       time.Time
	seen        map[string]time.Duration // values, and when they came
}

func newV2Watch(l *v2Load, first uint64, patience time.Duration) *v2Watch {
	return &v2Watch{first: first, patience: patience, began: l.began, seen: map[string]time.Duration{}}
}

func (w *v2Watch) run(ctx context.Context, hosts []string, stream bool, r *rand.Rand) {
	client := &http.Client{Transport: &http.Transport{ResponseHeaderTimeout: 3 * time.Second}}
	w.last = w.first - 1
	host := r.IntN(len(hosts))
	for before := uint64(0); ctx.Err() == nil; before = w.last {
		if before == w.last || r.IntN(50) == 0 { // this one said nothing; in turn, because others have only 1,000 events to wait with
			host = (host + 1) % len(hosts)
		}
		to := fmt.Sprintf("http://%s/v2/keys/v2?wait=true&recursive=true&stream=%v&waitIndex=%d", hosts[host], stream, w.last+1)
		// A member that is cut off from the others keeps the connection and has nothing to say.
		short, cancel := context.WithTimeout(ctx, w.patience)
		req, _ := http.NewRequestWithContext(short, http.MethodGet, to, nil)
		res, err := client.Do(req)
		if err != nil {
			cancel()
			time.Sleep(20 * time.Millisecond)
			continue
		}
		w.reopened++
		in := bufio.NewReader(res.Body)
		for {
			line, err := in.ReadString('\n')
			if err != nil { // what it has read by then is half an event of a member that was killed: it comes again
				break
			}
			var a v2Answer
			if json.Unmarshal([]byte(line), &a) != nil || a.Code != 0 {
				if a.Code != 300 { // stopping
					w.faults = append(w.faults, "answer "+line)
					cancel()
					return
				}
				break
			}
			if a.Node.Modified != w.last+1 {
				w.faults = append(w.faults, fmt.Sprintf("event %d after %d", a.Node.Modified, w.last))
			}
			w.last = a.Node.Modified
			w.at.Store(w.last)
			w.seen[a.Node.Value] = time.Since(w.began)
			w.events++
		}
		res.Body.Close()
		cancel()
	}
}

// TestV2Kill9 kills members under v2 load. Writes and quorum reads are linearizable; a streaming and a long-polling watch
// see every change once, in order.
func TestV2Kill9(t *testing.T) {
	processTest(t, false)
	beside(t)
	t.Run("one", func(t *testing.T) { v2Kill9(t, 1, count("V2_KILLS_ONE", 4, 60)) })
	t.Run("three", func(t *testing.T) { v2Kill9(t, 3, count("V2_KILLS_THREE", 5, 90)) })
}

func v2Kill9(t *testing.T, nodes, kills int) {
	r := rng(t)
	c := start(t, nodes)
	h := beginV2(t, c, &v2Load{patience: 3 * time.Second, pause: 20 * time.Millisecond}, 5*time.Second)
	k := &killer{r: r, c: c}
	for k.kills < kills {
		time.Sleep(between(r, 200*time.Millisecond, 900*time.Millisecond))
		k.revive(t, k.strike(t))
		h.goesOn(t, fmt.Sprintf("kill %d", k.kills))
	}
	summary(t, "v2 kill9: %d kills (%d of the leader), %d nodes, %s", k.kills, k.leaders, nodes, h.end(t))
}

// v2History is a load and two watches beside it, one that streams and one that polls, while a test makes members fail.
type v2History struct {
	c       *proctest.Cluster
	load    *v2Load
	watches []*v2Watch
	ends    [2]context.CancelFunc // of load and watches
	running [2]sync.WaitGroup
}

// beginV2 starts 8 clients and the watches, which look for another member when one says nothing for patience.
func beginV2(t *testing.T, c *proctest.Cluster, l *v2Load, patience time.Duration) *v2History {
	t.Helper()
	l.began, l.client = time.Now(), &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	for _, n := range c.Nodes {
		l.hosts = append(l.hosts, n.KV)
	}
	first := v2Index(t, c) + 1
	h := &v2History{c: c, load: l, watches: []*v2Watch{newV2Watch(l, first, patience), newV2Watch(l, first, patience)}}
	var ctxs [2]context.Context
	for i := range ctxs {
		ctxs[i], h.ends[i] = context.WithCancel(t.Context())
		t.Cleanup(h.ends[i])
	}
	for id := range 8 {
		own := rand.New(rand.NewPCG(uint64(seed), uint64(id)))
		h.running[0].Go(func() { l.run(ctxs[0], id, own) })
	}
	for i, w := range h.watches {
		own := rand.New(rand.NewPCG(uint64(seed), uint64(100+i)))
		h.running[1].Go(func() { w.run(ctxs[1], l.hosts, i == 0, own) })
	}
	return h
}

// goesOn waits until all members are ready and operations are answered again, and then begins new keys.
func (h *v2History) goesOn(t *testing.T, after string) {
	t.Helper()
	before := h.load.acked.Load()
	if err := h.c.WaitReady(); err != nil {
		t.Fatal(err)
	}
	if !eventually(t, func() bool { return h.load.acked.Load() > before+20 }) {
		t.Fatalf("nothing was acknowledged in 20 s after %s, though all members are ready", after)
	}
	h.load.epoch.Add(1)
}

// end stops everything, judges it and says what was seen.
func (h *v2History) end(t *testing.T) string {
	t.Helper()
	l := h.load
	h.ends[0]()
	h.running[0].Wait()
	end := v2Index(t, h.c)
	if !eventually(t, func() bool { // what the clients have left under way arrives
		was := end
		time.Sleep(300 * time.Millisecond)
		end = v2Index(t, h.c)
		return end == was
	}) {
		t.Error("the tree does not come to rest")
	}
	tree := v2Tree(t, h.c.Nodes[0])
	for _, n := range h.c.Nodes[1:] {
		if v2Tree(t, n) != tree {
			t.Errorf("%s has another tree than %s", n.Name, h.c.Nodes[0].Name)
		}
	}
	for _, w := range h.watches { // the last events are on their way
		eventually(t, func() bool { return w.at.Load() == end })
	}
	h.ends[1]()
	h.running[1].Wait()
	faults := 0
	for i, w := range h.watches {
		if w.last != end {
			w.faults = append(w.faults, fmt.Sprintf("it ends at %d, the tree at %d", w.last, end))
		}
		for _, f := range w.faults {
			t.Errorf("watch %d: %s", i, f)
		}
		faults += len(w.faults)
	}
	settled, open, took := l.settle(h.watches[0].seen)
	result := porcupine.CheckOperationsTimeout(v2Model, settled, time.Minute)
	if result != porcupine.Ok {
		t.Errorf("whether the history is linearizable: %v", result)
	}
	return fmt.Sprintf("%s operations answered, %d open (%d took effect), history of %s: %v, %d and %d events over %d and %d watches, %d faults",
		grouped(int(l.acked.Load())), open, took, grouped(len(settled)), result, h.watches[0].events, h.watches[1].events,
		h.watches[0].reopened, h.watches[1].reopened, faults)
}

// v2Index is the greatest index any member shows after a quorum read, once no writes are under way.
func v2Index(t *testing.T, c *proctest.Cluster) (index uint64) {
	t.Helper()
	for _, n := range c.Nodes {
		res, err := http.Get("http://" + n.KV + "/v2/keys/v2?quorum=true")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		var at uint64
		fmt.Sscan(res.Header.Get("X-Etcd-Index"), &at)
		index = max(index, at)
	}
	return index
}

// v2Tree is a member's whole tree, sorted.
func v2Tree(t *testing.T, n *proctest.Node) string {
	t.Helper()
	res, err := http.Get("http://" + n.KV + "/v2/keys/v2?quorum=true&recursive=true&sorted=true")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("tree of %s: %s, %v", n.Name, res.Status, err)
	}
	return string(body)
}
