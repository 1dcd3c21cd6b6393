package machine

import (
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// A part that is limited to some keys may affect only leases without other keys. Their keys at Apply count, earlier commands of the same
// entry included.
func TestWithinJudgesLeasesWhereTheyAreApplied(t *testing.T) {
	r := newRig(t, Options{})
	leased := func(key string, lease int64) *kvpart.Part {
		return &kvpart.Part{Put: &kvpart.Put{Key: []byte(key), Lease: lease}}
	}
	limited := func(p *kvpart.Part) *kvpart.Part {
		c := *p
		c.Within = &kvpart.Within{Spans: []kvpart.Span{{From: []byte("a"), To: []byte("b")}, {From: []byte("x")}}}
		return &c
	}
	revoke := func(ids ...int64) *kvpart.Part { return &kvpart.Part{Revoke: &kvpart.LeaseRevoke{IDs: ids}} }
	txn := func(branch string, p *kvpart.Part) *kvpart.Part {
		inner := []kvpart.Op{{Txn: &kvpart.Txn{Then: []kvpart.Op{{Put: p.Put}}}}}
		if branch == "then" {
			return &kvpart.Part{Txn: &kvpart.Txn{Then: inner}}
		}
		return &kvpart.Part{Txn: &kvpart.Txn{Else: inner}}
	}
	for id := int64(1); id <= 3; id++ {
		r.must(&kvpart.Part{Grant: &kvpart.LeaseGrant{ID: id, TTL: 60}})
	}
	r.must(leased("a1", 1))
	r.must(leased("zz", 1)) // the second span has no end
	r.must(leased("c1", 2))
	code := func(p *kvpart.Part) entry.Code {
		if rej := r.apply(p)[0].Rejection; rej != nil {
			return rej.Code
		}
		return 0
	}
	for _, c := range []struct {
		name string
		part *kvpart.Part
		want entry.Code
	}{
		{"a put with a lease of such keys", limited(leased("a2", 1)), 0},
		{"a put with a lease of others", limited(leased("a2", 2)), kvpart.LeaseDenied},
		{"the same without limits", leased("a3", 2), 0},
		{"a put without a lease", limited(leased("a2", 0)), 0},
		{"a put with a lease there is not", limited(leased("a2", 9)), kvpart.LeaseNotFound},
		{"a nested put", limited(txn("then", leased("a2", 2))), kvpart.LeaseDenied},
		{"in a branch that is not taken", limited(txn("else", leased("a2", 2))), kvpart.LeaseDenied},
		{"a nested put with a lease of such keys", limited(txn("then", leased("a2", 1))), 0},
		{"the end of a lease of others", limited(revoke(2)), kvpart.LeaseDenied},
		{"the end of both", limited(revoke(1, 2)), kvpart.LeaseDenied},
	} {
		if got := code(c.part); got != c.want {
			t.Errorf("%s: code %d, want %d", c.name, got, c.want)
		}
	}
	// In one entry: another key comes to the lease, the limited part is refused; the key leaves it again, and it goes through.
	res := r.apply(leased("c2", 3), limited(revoke(3)), leased("c2", 0), limited(revoke(3)), limited(revoke(1)))
	for i, want := range []entry.Code{0, kvpart.LeaseDenied, 0, 0, 0} {
		var got entry.Code
		if res[i].Rejection != nil {
			got = res[i].Rejection.Code
		}
		if got != want {
			t.Errorf("command %d of the entry: code %d, want %d", i, got, want)
		}
	}
}
