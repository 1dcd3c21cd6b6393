package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// register is one key that several clients write and read. acked is the highest revision (of v2: index) of a write of it
// that was acknowledged.
type register struct {
	key   string
	v2    bool
	acked atomic.Int64
}

// raise keeps the greatest value seen.
func raise(to *atomic.Int64, v int64) {
	for now := to.Load(); v > now && !to.CompareAndSwap(now, v); now = to.Load() {
	}
}

// registers is clients that write few keys through any member, v3 and v2, and read them with quorum. A read that began after a write of its
// key was acknowledged shows that write or a later one. Anything before it is a stale read. Writes are ordered by their revision, so a
// write without an answer that takes effect late makes no read look stale.
type registers struct {
	keys  []*register
	top   [2]atomic.Int64 // highest acknowledged revision, highest acknowledged index
	reads atomic.Int64    // with an answer
	stale atomic.Int64    // of them
	acked atomic.Int64    // acknowledged writes

	placesMu sync.RWMutex
	voters   []*place // guarded by placesMu, as the next
	others   []*place // learners, and members that were removed and do not know it yet

	mu     sync.Mutex
	acks   [2][]ack       // of v3 and v2; guarded by mu, as the rest
	failed map[string]int // requests without an answer, by error text
	wrong  []string       // the first stale reads and revisions that went back, in words

	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// startRegisters starts n clients that know the given members; move says who else there is.
func startRegisters(n int, voters []*place) *registers {
	ctx, cancel := context.WithCancel(context.Background())
	g := &registers{voters: slices.Clone(voters), failed: map[string]int{}, cancel: cancel}
	for i := range 16 {
		g.keys = append(g.keys, &register{key: fmt.Sprintf("r/%d", i/2), v2: i%2 == 1})
	}
	for i := range n {
		own := rand.New(rand.NewPCG(uint64(seed), uint64(1000+i)))
		g.wg.Go(func() { g.run(ctx, i, own) })
	}
	return g
}

// stop ends the clients and waits for their last answers.
func (g *registers) stop() {
	g.cancel()
	g.wg.Wait()
}

// move puts a member among the voters or the others, or takes it away.
func (g *registers) move(p *place, votes, there bool) {
	g.placesMu.Lock()
	defer g.placesMu.Unlock()
	is := func(o *place) bool { return o == p }
	g.voters, g.others = slices.DeleteFunc(g.voters, is), slices.DeleteFunc(g.others, is)
	switch {
	case there && votes:
		g.voters = append(g.voters, p)
	case there:
		g.others = append(g.others, p)
	}
}

// draw is where a request goes: one in chance, where there is such a member, to one that does not vote, else to a voter.
func (g *registers) draw(r *rand.Rand, chance float64) *place {
	g.placesMu.RLock()
	defer g.placesMu.RUnlock()
	if len(g.others) > 0 && r.Float64() < chance {
		return g.others[r.IntN(len(g.others))]
	}
	return g.voters[r.IntN(len(g.voters))]
}

// run is one client until ctx ends. One in five speaks v3, two speak v2. Each write goes preferably through a learner and is read at a
// voter at once. Then another key is read. The others only write, so that voters have something to apply.
func (g *registers) run(ctx context.Context, id int, r *rand.Rand) {
	mine := func() *register { return g.keys[2*r.IntN(len(g.keys)/2)+min(id%5, 1)] }
	for seq := 0; ctx.Err() == nil; seq++ {
		value := fmt.Sprintf("%d.%d", id, seq)
		if id%5 >= 3 {
			g.write(&register{key: fmt.Sprintf("b/%d", r.IntN(1000)), v2: true}, value, g.draw(r, 0))
			continue
		}
		k := mine()
		if k.v2 && seq%4 == 3 { // of v2 only the newest value of a key can be read later: this one stays
			g.write(&register{key: "w/" + value, v2: true}, value, g.draw(r, 0.8))
			continue
		}
		g.write(k, value, g.draw(r, 0.8))
		g.read(k, g.draw(r, 0.02))
		g.read(mine(), g.draw(r, 0.02))
	}
}

// write writes a unique value.
func (g *registers) write(k *register, value string, at *place) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	api, sent := 0, value
	if k.v2 {
		api = 1
		if k.key[0] != 'w' {
			sent += strings.Repeat(" ", 2000) // takes longer to apply than to acknowledge
		}
	}
	floor, rev, err := g.top[api].Load(), int64(0), error(nil)
	if k.v2 {
		rev, err = at.v2(ctx, http.MethodPut, k.key, "", url.Values{"value": {sent}})
	} else {
		var res *pb.PutResponse
		if res, err = pb.NewKVClient(at.cc).Put(ctx, &pb.PutRequest{Key: []byte(k.key), Value: []byte(sent)}); err == nil {
			rev = res.Header.Revision
		}
	}
	if err != nil {
		g.unanswered(ctx, "write", err)
		return
	}
	raise(&k.acked, rev)
	raise(&g.top[api], rev)
	g.acked.Add(1)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.acks[api] = append(g.acks[api], ack{k.key, value, rev})
	if rev <= floor {
		g.wrong = append(g.wrong, fmt.Sprintf("a write at %s got revision %d after %d was acknowledged", at.node.Name, rev, floor))
	}
}

// read reads with quorum and judges what it gets.
func (g *registers) read(k *register, at *place) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	floor, rev, err := k.acked.Load(), int64(0), error(nil)
	if k.v2 {
		rev, err = at.v2(ctx, http.MethodGet, k.key, "?quorum=true", nil)
	} else {
		var res *pb.RangeResponse
		if res, err = pb.NewKVClient(at.cc).Range(ctx, &pb.RangeRequest{Key: []byte(k.key)}); err == nil && len(res.Kvs) > 0 {
			rev = res.Kvs[0].ModRevision
		}
	}
	if err != nil {
		g.unanswered(ctx, "read", err)
		return
	}
	g.reads.Add(1)
	if rev >= floor {
		return
	}
	g.stale.Add(1)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wrong = append(g.wrong, fmt.Sprintf("stale: %s (v2 %v) at %s is of revision %d, though %d was acknowledged before the read began",
		k.key, k.v2, at.node.Name, rev, floor))
}

func (g *registers) unanswered(ctx context.Context, what string, err error) {
	g.mu.Lock()
	g.failed[what+": "+shorten(err)]++
	g.mu.Unlock()
	if ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
}

// verify looks for every acknowledged write at one member. A write of v3 is in the history of all registers. One of v2 is under its key,
// unless a later write stands there. It fails the test for what is missing and returns how many that is.
func (g *registers) verify(t *testing.T, n *proctest.Node) (missing int) {
	t.Helper()
	miss := func(a ack, held string) {
		if missing++; missing <= 5 {
			t.Errorf("acknowledged %s = %q at revision %d; %s has %s", a.key, a.value, a.rev, n.Name, held)
		}
	}
	events := map[int64]ack{}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit(t))
	defer cancel()
	for res := range dial(t, n.KV).Watch(ctx, "r/", clientv3.WithPrefix(), clientv3.WithRev(1)) {
		if err := res.Err(); err != nil {
			t.Errorf("watch the history at %s: %v", n.Name, err)
		}
		for _, e := range res.Events {
			events[e.Kv.ModRevision] = ack{string(e.Kv.Key), string(e.Kv.Value), e.Kv.ModRevision}
		}
		if events[g.top[0].Load()].rev != 0 {
			break
		}
	}
	for _, a := range g.acks[0] {
		if events[a.rev] != a {
			miss(a, fmt.Sprintf("%+v", events[a.rev]))
		}
	}
	tree := map[string]ack{}
	for _, dir := range []string{"b", "r", "w"} {
		for _, c := range v2Children(t, n, dir) {
			key := strings.TrimPrefix(c.Key, "/")
			tree[key] = ack{key, strings.TrimSpace(c.Value), int64(c.Modified)}
		}
	}
	for _, a := range g.acks[1] {
		if held := tree[a.key]; held != a && (held.rev <= a.rev || strings.HasPrefix(a.key, "w/")) {
			miss(a, fmt.Sprintf("%+v", held))
		}
	}
	return missing
}

// report logs what had no answer and fails the test for what was wrong.
func (g *registers) report(t *testing.T) {
	t.Helper()
	for text, n := range g.failed {
		t.Logf("%6d without an answer: %s", n, text)
	}
	for i, w := range g.wrong {
		if i == 5 {
			t.Errorf("and %d more", len(g.wrong)-i)
			break
		}
		t.Error(w)
	}
}
