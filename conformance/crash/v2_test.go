package crash

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
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

// v2Result is what came of it; open: nobody knows.
type v2Result struct {
	value string // of a read
	ok    bool   // of a compare-and-swap
	open  bool
}

// v2Model is a register per key. An operation whose outcome is open may have taken effect at any time later, or never: it
// returns at the end of time, and a write may then as well not have happened, which the model allows by two next states.
var v2Model = (&porcupine.NondeterministicModel{
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
	Init: func() []any { return []any{""} },
	Step: func(state, input, output any) []any {
		now, in, out := state.(string), input.(v2Op), output.(v2Result)
		switch in.kind {
		case "get":
			if out.value == now {
				return []any{now}
			}
			return nil
		case "put":
			if out.open {
				return []any{now, in.value}
			}
			return []any{in.value}
		}
		switch hit := now == in.prev; {
		case out.open && hit:
			return []any{now, in.value}
		case out.open:
			return []any{now}
		case out.ok && hit:
			return []any{in.value}
		case !out.ok && !hit:
			return []any{now}
		}
		return nil
	},
}).ToModel()

// v2Load is clients that read and write few keys and note what they see.
type v2Load struct {
	client  *http.Client
	hosts   []string
	began   time.Time
	mu      sync.Mutex
	history []porcupine.Operation // guarded by mu
	acked   atomic.Int64
	// epoch counts the kills. Each has keys of its own: an operation that a kill left open stays open for ever, and the checker
	// tries it at every place of the rest of its key's history.
	epoch atomic.Int64
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
		ret = int64(1) << 62
	} else {
		l.acked.Add(1)
	}
	l.mu.Lock()
	l.history = append(l.history, porcupine.Operation{ClientId: id, Input: op, Call: call, Output: out, Return: ret})
	l.mu.Unlock()
}

// run works until ctx ends. A client with an open operation goes on under a new name: it is not over, so it may not have a
// next one. Each key has few writers at a time, or the checker would drown in orders.
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
		short, cancel := context.WithTimeout(ctx, 3*time.Second)
		l.do(short, id*1_000_000+n, l.hosts[r.IntN(len(l.hosts))], op)
		cancel()
		if op.kind != "get" {
			last[op.key] = op.value
		}
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond) // the long poll must keep up: history is 1,000 events
	}
}

// v2Watch follows the directory over kills: from the index after the last event it has seen. The index grows by one with
// every change of the tree, and nobody changes anything else: so the events must be numbered without a gap.
type v2Watch struct {
	first, last uint64
	events      int
	reopened    int
	faults      []string
}

func (w *v2Watch) run(ctx context.Context, hosts []string, stream bool, r *rand.Rand) {
	client := &http.Client{Transport: &http.Transport{ResponseHeaderTimeout: 3 * time.Second}}
	w.last = w.first - 1
	for ctx.Err() == nil {
		to := fmt.Sprintf("http://%s/v2/keys/v2?wait=true&recursive=true&stream=%v&waitIndex=%d", hosts[r.IntN(len(hosts))], stream, w.last+1)
		// A member that is stopped for good would keep the connection; none is here, but a host may be gone.
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
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
				}
				break
			}
			if a.Node.Modified != w.last+1 {
				w.faults = append(w.faults, fmt.Sprintf("event %d after %d", a.Node.Modified, w.last))
			}
			w.last = a.Node.Modified
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
	t.Run("one", func(t *testing.T) { v2Kill9(t, 1, count("V2_KILLS_ONE", 4, 60)) })
	t.Run("three", func(t *testing.T) { v2Kill9(t, 3, count("V2_KILLS_THREE", 5, 90)) })
}

func v2Kill9(t *testing.T, nodes, kills int) {
	r := rng(t)
	c := start(t, nodes)
	l := &v2Load{began: time.Now(), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	for _, n := range c.Nodes {
		l.hosts = append(l.hosts, n.KV)
	}
	res, err := http.Get("http://" + l.hosts[0] + "/v2/keys")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	var index uint64
	fmt.Sscan(res.Header.Get("X-Etcd-Index"), &index)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	watchCtx, stopWatches := context.WithCancel(t.Context())
	defer stopWatches()
	var load, watching sync.WaitGroup
	for id := range 8 {
		own := rand.New(rand.NewPCG(uint64(seed), uint64(id)))
		load.Go(func() { l.run(ctx, id, own) })
	}
	watches := []*v2Watch{{first: index + 1}, {first: index + 1}}
	for i, w := range watches {
		own := rand.New(rand.NewPCG(uint64(seed), uint64(100+i)))
		watching.Go(func() { w.run(watchCtx, l.hosts, i == 0, own) })
	}
	done, leaders := 0, 0
	for done < kills {
		time.Sleep(between(r, 200*time.Millisecond, 900*time.Millisecond))
		victims := choose(t, r, c)
		for _, v := range victims {
			if st, err := v.Status(t.Context()); err == nil && st.Leader == st.Header.MemberId {
				leaders++
			}
		}
		before := l.acked.Load()
		for _, v := range victims {
			kill(t, v)
			done++
		}
		time.Sleep(between(r, 1, 300*time.Millisecond))
		for _, v := range victims {
			if err := v.Start(); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.WaitReady(); err != nil {
			t.Fatal(err)
		}
		if !eventually(20*time.Second, func() bool { return l.acked.Load() > before+20 }) {
			t.Fatalf("nothing was acknowledged in 20 s after kill %d, though all members are ready", done)
		}
		l.epoch.Add(1)
	}
	stop()
	load.Wait()
	end := v2Index(t, c)
	if !eventually(20*time.Second, func() bool { return v2Index(t, c) == end }) {
		t.Error("members do not come to the same index")
	}
	time.Sleep(500 * time.Millisecond) // the last events are on their way
	stopWatches()
	watching.Wait()
	faults := 0
	for i, w := range watches {
		if w.last != end {
			w.faults = append(w.faults, fmt.Sprintf("it ends at %d, the tree at %d", w.last, end))
		}
		for _, f := range w.faults {
			t.Errorf("watch %d: %s", i, f)
		}
		faults += len(w.faults)
	}
	result := porcupine.CheckOperationsTimeout(v2Model, l.history, 2*time.Minute)
	if result == porcupine.Illegal {
		t.Error("the history is not linearizable")
	}
	summary(t, "v2 kill9: %d kills (%d of the leader), %d nodes, %s operations answered, history of %s: %v, %d and %d events over %d and %d watches, "+
		"%d faults", done, leaders, nodes, grouped(int(l.acked.Load())), grouped(len(l.history)), result, watches[0].events, watches[1].events,
		watches[0].reopened, watches[1].reopened, faults)
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
