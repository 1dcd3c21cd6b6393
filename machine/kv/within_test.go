package kv

import (
	"testing"

	"github.com/holdfastdb/holdfast/entry"
	ekv "github.com/holdfastdb/holdfast/entry/kv"
)

// A part that is limited to some keys has to do only with leases that have no others, by what they have when it is applied,
// earlier commands of the same entry included.
func TestWithinJudgesLeasesWhereTheyAreApplied(t *testing.T) {
	r := newRig(t, Options{})
	leased := func(key string, lease int64) *ekv.Part {
		return &ekv.Part{Put: &ekv.Put{Key: []byte(key), Lease: lease}}
	}
	limited := func(p *ekv.Part) *ekv.Part {
		c := *p
		c.Within = &ekv.Within{Spans: []ekv.Span{{From: []byte("a"), To: []byte("b")}, {From: []byte("x")}}}
		return &c
	}
	revoke := func(ids ...int64) *ekv.Part { return &ekv.Part{Revoke: &ekv.LeaseRevoke{IDs: ids}} }
	txn := func(branch string, p *ekv.Part) *ekv.Part {
		inner := []ekv.Op{{Txn: &ekv.Txn{Then: []ekv.Op{{Put: p.Put}}}}}
		if branch == "then" {
			return &ekv.Part{Txn: &ekv.Txn{Then: inner}}
		}
		return &ekv.Part{Txn: &ekv.Txn{Else: inner}}
	}
	for id := int64(1); id <= 3; id++ {
		r.must(&ekv.Part{Grant: &ekv.LeaseGrant{ID: id, TTL: 60}})
	}
	r.must(leased("a1", 1))
	r.must(leased("zz", 1)) // the second span has no end
	r.must(leased("c1", 2))
	code := func(p *ekv.Part) entry.Code {
		if rej := r.apply(p)[0].Rejection; rej != nil {
			return rej.Code
		}
		return 0
	}
	for _, c := range []struct {
		name string
		part *ekv.Part
		want entry.Code
	}{
		{"a put with a lease of such keys", limited(leased("a2", 1)), 0},
		{"a put with a lease of others", limited(leased("a2", 2)), ekv.LeaseDenied},
		{"the same without limits", leased("a3", 2), 0},
		{"a put without a lease", limited(leased("a2", 0)), 0},
		{"a put with a lease there is not", limited(leased("a2", 9)), ekv.LeaseNotFound},
		{"a nested put", limited(txn("then", leased("a2", 2))), ekv.LeaseDenied},
		{"in a branch that is not taken", limited(txn("else", leased("a2", 2))), ekv.LeaseDenied},
		{"a nested put with a lease of such keys", limited(txn("then", leased("a2", 1))), 0},
		{"the end of a lease of others", limited(revoke(2)), ekv.LeaseDenied},
		{"the end of both", limited(revoke(1, 2)), ekv.LeaseDenied},
	} {
		if got := code(c.part); got != c.want {
			t.Errorf("%s: code %d, want %d", c.name, got, c.want)
		}
	}
	// In one entry: another key comes to the lease, the limited part is refused; the key leaves it again, and it goes through.
	res := r.apply(leased("c2", 3), limited(revoke(3)), leased("c2", 0), limited(revoke(3)), limited(revoke(1)))
	for i, want := range []entry.Code{0, ekv.LeaseDenied, 0, 0, 0} {
		var got entry.Code
		if res[i].Rejection != nil {
			got = res[i].Rejection.Code
		}
		if got != want {
			t.Errorf("command %d of the entry: code %d, want %d", i, got, want)
		}
	}
}
