package machine

import (
	"maps"
	"math/rand/v2"
	"testing"

	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// TestChangesOfLeasesAreToldInOrder: a follower of the changes has the machine's leases at each version, however seldom it asks, over
// restarts too. The cost of a change does not depend on the number of leases.
func TestChangesOfLeasesAreToldInOrder(t *testing.T) {
	r := newRig(t, Options{})
	rnd := rand.New(rand.NewPCG(1, 2))
	has := map[int64]Lease{}
	version, far := uint64(0), false
	follow := func() (told int) {
		changes, v, whole, _ := r.m.LeaseChanges(version)
		if whole != (version == 0 || far) {
			t.Fatalf("after version %d of %d all leases were told: %v", version, v, whole)
		}
		if whole {
			clear(has)
		}
		for _, c := range changes {
			if was := has[c.ID]; c.Gone && was == c.Lease {
				delete(has, c.ID)
			} else if !c.Gone && was.Grant < c.Grant {
				has[c.ID] = c.Lease
			} else {
				t.Fatalf("%+v after %+v", c, was)
			}
		}
		version = v
		want := map[int64]Lease{}
		for _, l := range r.m.Leases() {
			want[l.ID] = l
		}
		if !maps.Equal(has, want) {
			t.Fatalf("%d leases at version %d, want %d", len(has), v, len(want))
		}
		return len(changes)
	}
	grant := func(id int64) *kvpart.Part {
		return &kvpart.Part{Grant: &kvpart.LeaseGrant{ID: id, TTL: 1 + rnd.Int64N(100)}}
	}
	for range 2000 {
		var parts []*kvpart.Part
		for range 1 + rnd.IntN(4) {
			if id := 1 + rnd.Int64N(50); rnd.IntN(2) == 0 {
				parts = append(parts, grant(id))
			} else {
				parts = append(parts, &kvpart.Part{Revoke: &kvpart.LeaseRevoke{IDs: []int64{id}, Expired: true}})
			}
		}
		r.apply(parts...)
		if rnd.IntN(300) == 0 {
			r.reopen(Options{})
			version = 0 // another process
		}
		if rnd.IntN(10) == 0 {
			follow()
		}
	}
	follow()
	for id := int64(100); id < 20_100; {
		var parts []*kvpart.Part
		for range 1000 {
			parts = append(parts, grant(id))
			id++
		}
		r.apply(parts...)
	}
	far = true
	follow()
	far = false
	r.must(grant(50_000))
	if told := follow(); told != 1 {
		t.Errorf("a grant beside %d leases is told by %d", len(has), told)
	}
}
