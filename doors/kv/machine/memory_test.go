package machine

import (
	"fmt"
	"testing"

	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/internal/budget"
)

// TestCachesLend: a machine's leases hold more than their share. With its next entries it keeps less of keys, of rows for readers and of
// recent events, without losing data. When the leases are gone it keeps as much as before.
func TestCachesLend(t *testing.T) {
	share := budget.Of(256*mib, Claims(true)...)
	m := Within(share)
	r := &rig{Rig: machinetest.Open(t, store.NewMem(), m), m: m}
	const keys = 60_000
	key := func(i int) string { return fmt.Sprintf("key%06d%0200d", i, 0) }
	put := func(from, to int) {
		for i := from; i < to; i += 500 {
			var parts []*kvpart.Part
			for j := i; j < min(i+500, to); j++ {
				parts = append(parts, putPart(key(j), "v"))
			}
			r.ApplyData(pack(parts...), false)
		}
	}
	held := func(claim string) (held, may int64) {
		all, _ := share.Ledger.Entries()
		for _, e := range all {
			if e.Claim == claim {
				return e.Held, e.May
			}
		}
		t.Fatal("no claim", claim)
		return 0, 0
	}
	put(0, keys)
	before := map[string]int64{}
	caches := []string{"keys", "recent"}
	for _, claim := range caches {
		h, may := held(claim)
		if h < may/3 || h > may {
			t.Fatalf("%s: %d bytes of %d before anything is lent", claim, h, may)
		}
		before[claim] = h
	}

	most := share.Ledger.Room(LeaseClaim) / LeaseBytes
	grant := func(id int64) *kvpart.Part { return &kvpart.Part{Grant: &kvpart.LeaseGrant{ID: id, TTL: 60}} }
	for id := int64(1); id <= most; id += 1000 {
		var parts []*kvpart.Part
		for j := id; j < id+1000; j++ {
			parts = append(parts, grant(j))
		}
		r.ApplyData(pack(parts...), false)
	}
	share.Ledger.Balance()
	put(0, 1000)
	for _, claim := range caches {
		if h, may := held(claim); may > 2*mib+1024 || h > may {
			t.Errorf("%s: %d bytes of %d while all is lent, %d before", claim, h, may, before[claim])
		}
	}
	if n := int64(m.LeaseCount()); n < most {
		t.Errorf("%d leases of %d", n, most)
	}
	res, _, err := m.Range(&kvpart.Range{Key: []byte(key(keys - 1))}, 0)
	if err != nil || res.Count != 1 {
		t.Errorf("a key that was dropped from the cache: %v, %v", res, err)
	}
	r.ApplyData(pack(&kvpart.Part{Put: &kvpart.Put{Key: []byte(key(keys - 1)), Value: []byte("w")}}), false)
	if res, _, err := m.Range(&kvpart.Range{Key: []byte(key(keys - 1))}, 0); err != nil || len(res.KVs) != 1 || res.KVs[0].Version != 2 {
		t.Errorf("written again: %v, %v", res, err)
	}
}
