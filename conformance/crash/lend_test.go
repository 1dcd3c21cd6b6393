package crash

import (
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// claims is what a member says of its memory.
type claims struct {
	Total    int64 `json:"total_bytes"`
	Resident int64 `json:"resident_bytes"`
	Lent     int64 `json:"lent_bytes"`
	Claims   []struct {
		Claim string `json:"claim"`
		Share int64  `json:"share_bytes"`
		May   int64  `json:"may_bytes"`
		Held  *int64 `json:"held_bytes"`
	} `json:"claims"`
}

func claimsOf(t *testing.T, node *proctest.Node) (c claims) {
	t.Helper()
	res, err := http.Get("http://" + node.Admin + "/v1/status")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer := struct {
		Memory *claims `json:"memory"`
	}{&c}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return c
}

// of returns what a claim has and may have.
func (c claims) of(t *testing.T, name string) (held, may, share int64) {
	t.Helper()
	for _, e := range c.Claims {
		if e.Claim == name {
			if e.Held == nil {
				return -1, e.May, e.Share
			}
			return *e.Held, e.May, e.Share
		}
	}
	t.Fatalf("no claim %s", name)
	return 0, 0, 0
}

// grantAll grants n leases by 64 clients at once.
func grantAll(t *testing.T, node *proctest.Node, n int, ttl int64) {
	t.Helper()
	lease := pb.NewLeaseClient(conn(t, node.KV))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for next.Add(1) <= int64(n) && !t.Failed() {
				if _, err := lease.LeaseGrant(wait.Context(t), &pb.LeaseGrantRequest{TTL: ttl}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// TestLeasesBorrowFromCaches grants many times as many leases as their share of 256 MiB has room for, beside keys that fill the caches.
// None is refused, the process stays within its memory, and an operator sees the loans.
func TestLeasesBorrowFromCaches(t *testing.T) {
	processTest(t, false)
	leases, keys := count("LEASES", 60_000, 100_000), count("LEASE_KEYS", 60_000, 200_000)
	c := start(t, 1, "--memory", "256MiB")
	node := c.Nodes[0]
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var peak int64
	wg.Go(func() { peak = peakRSS(t, c, stop) })
	loadKeys(t, dial(t, node.KV), keys)
	before := claimsOf(t, node)
	_, room, share := before.of(t, "leases")
	if room <= share || before.Lent != 0 {
		t.Errorf("leases may have %d bytes, their share is %d, and %d are lent already", room, share, before.Lent)
	}
	began := time.Now()
	grantAll(t, node, leases, 600)
	took := time.Since(began)
	loadKeys(t, dial(t, node.KV), 1000) // what was lent goes with the next entries
	lends := func() bool {
		now := claimsOf(t, node)
		held, _, share := now.of(t, "leases")
		cache, mayCache, _ := now.of(t, "keys")
		return now.Lent > 0 && now.Lent >= held-share && held >= share && cache <= mayCache
	}
	if !eventually(t, lends) {
		t.Errorf("caches do not lend: %+v", claimsOf(t, node))
	}
	after := claimsOf(t, node)
	close(stop)
	wg.Wait()
	if peak > 256<<20 {
		t.Errorf("RSS %d MB with --memory 256MiB", peak>>20)
	}
	all, err := pb.NewLeaseClient(conn(t, node.KV)).LeaseLeases(wait.Context(t), &pb.LeaseLeasesRequest{})
	if err != nil || len(all.Leases) != leases {
		t.Fatalf("%d leases of %d, %v", len(all.GetLeases()), leases, err)
	}
	kill(t, node)
	if err := c.Restart(node); err != nil {
		t.Fatal(err)
	}
	if again, err := pb.NewLeaseClient(conn(t, node.KV)).LeaseLeases(wait.Context(t), &pb.LeaseLeasesRequest{}); err != nil || len(again.Leases) != leases {
		t.Errorf("after a crash %d leases of %d, %v", len(again.GetLeases()), leases, err)
	}
	summary(t, "leases: %s granted in %s by 64 clients at once beside %s keys, room for %s, caches lent %d MB, peak RSS %d MB with --memory 256MiB", grouped(leases),
		tenth(took), grouped(keys), grouped(int(room/128)), after.Lent>>20, peak>>20)
}

// TestTheSmallestMemberBoundsLeases: of three members one has less memory. The other two take no more leases, users and logs than that one has room for.
func TestTheSmallestMemberBoundsLeases(t *testing.T) {
	processTest(t, false)
	beside(t)
	kept := []string{"leases", "idents", "logs"}
	mays := func(node *proctest.Node) (all []int64) {
		now := claimsOf(t, node)
		for _, claim := range kept {
			_, may, _ := now.of(t, claim)
			all = append(all, may)
		}
		return all
	}
	c := start(t, 1, "--memory", "1GiB")
	large := c.Nodes[0]
	alone := mays(large)
	small, err := c.Join("--memory", "128MiB")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Restart(small); err != nil {
		t.Fatal(err)
	}
	var bound, less []int64
	if !eventually(t, func() bool {
		bound, less = mays(large), mays(small)
		for i := range kept {
			if bound[i] != less[i] || bound[i] >= alone[i] {
				return false
			}
		}
		return true
	}) {
		t.Errorf("of %v the large member has room for %d bytes, %d alone, the small one for %d", kept, bound, alone, less)
	}
}
