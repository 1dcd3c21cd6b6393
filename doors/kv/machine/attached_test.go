package machine

import (
	"testing"

	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// TestAttachedKeysEndInTheirOrder: the keys of a lease go in their own order, as in etcd. Some are in the store already, the rest was put
// in any order.
func TestAttachedKeysEndInTheirOrder(t *testing.T) {
	r := newRig(t, Options{})
	r.must(&kvpart.Part{Grant: &kvpart.LeaseGrant{ID: 7, TTL: 60}})
	put := func(key string) *kvpart.Part {
		return &kvpart.Part{Put: &kvpart.Put{Key: []byte(key), Value: []byte("v"), Lease: 7}}
	}
	r.must(put("c"))
	r.apply(put("d"), put("a"), put("b"), &kvpart.Part{Revoke: &kvpart.LeaseRevoke{IDs: []int64{7}}})
	rev, _ := r.m.Revision()
	evs, _, err := r.m.History([]byte{0}, []byte{0}, rev, rev, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, ev := range evs {
		got += string(ev.KV.Key)
	}
	if got != "abcd" {
		t.Errorf("they went as %q", got)
	}
}

// TestAKeyThatWasDetachedStays: one entry puts a key anew, without its lease or with another, and ends the lease.
func TestAKeyThatWasDetachedStays(t *testing.T) {
	r := newRig(t, Options{})
	r.must(&kvpart.Part{Grant: &kvpart.LeaseGrant{ID: 7, TTL: 60}})
	r.must(&kvpart.Part{Grant: &kvpart.LeaseGrant{ID: 8, TTL: 60}})
	put := func(key string, lease int64) *kvpart.Part {
		return &kvpart.Part{Put: &kvpart.Put{Key: []byte(key), Value: []byte("v"), Lease: lease}}
	}
	for _, key := range []string{"a", "b", "c"} {
		r.must(put(key, 7))
	}
	r.apply(put("a", 0), put("b", 8), &kvpart.Part{Revoke: &kvpart.LeaseRevoke{IDs: []int64{7}}})
	rev, _ := r.m.Revision()
	evs, _, err := r.m.History([]byte{0}, []byte{0}, rev, rev, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if len(evs) != 1 || string(evs[0].KV.Key) != "c" {
		t.Errorf("%d keys went with the lease: %v", len(evs), evs)
	}
}
