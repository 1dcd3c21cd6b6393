package kv

import (
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	ekv "github.com/holdfastdb/holdfast/entry/kv"
)

func putOp(key string) ekv.Op { return ekv.Op{Put: &ekv.Put{Key: []byte(key)}} }

func delOp(key, end string) ekv.Op {
	return ekv.Op{Delete: &ekv.DeleteRange{Key: []byte(key), End: []byte(end)}}
}

func txnOp(then, otherwise []ekv.Op) ekv.Op {
	return ekv.Op{Txn: &ekv.Txn{Then: then, Else: otherwise}}
}

func repeat(op ekv.Op, n int) (out []ekv.Op) {
	for range n {
		out = append(out, op)
	}
	return out
}

func TestCheckTxn(t *testing.T) {
	get := ekv.Op{Range: &ekv.Range{Key: []byte("a")}}
	for _, c := range []struct {
		name string
		txn  ekv.Txn
		want error
	}{
		{"empty", ekv.Txn{}, nil},
		{"128 operations", ekv.Txn{Then: repeat(get, 128)}, nil},
		{"129 operations", ekv.Txn{Then: repeat(get, 129)}, rpctypes.ErrGRPCTooManyOps},
		{"129 compares", ekv.Txn{Compare: make([]ekv.Compare, 129)}, rpctypes.ErrGRPCTooManyOps},
		{"nested within what is left", ekv.Txn{Then: append(repeat(get, 99), txnOp(repeat(get, 28), nil))}, nil},
		{"nested beyond what is left", ekv.Txn{Then: append(repeat(get, 99), txnOp(repeat(get, 29), nil))}, rpctypes.ErrGRPCTooManyOps},
		{"compare without key", ekv.Txn{Compare: []ekv.Compare{{}}}, rpctypes.ErrGRPCEmptyKey},
		{"put without key", ekv.Txn{Else: []ekv.Op{putOp("")}}, rpctypes.ErrGRPCEmptyKey},
		{"operation of no kind", ekv.Txn{Then: []ekv.Op{{}}}, rpctypes.ErrGRPCKeyNotFound},
		{"sort order unknown", ekv.Txn{Then: []ekv.Op{{Range: &ekv.Range{Key: []byte("a"), Order: invalidEnum}}}}, rpctypes.ErrGRPCInvalidSortOption},
		{"compare unknown", ekv.Txn{Compare: []ekv.Compare{{Key: []byte("a"), Result: invalidEnum}}}, errBadCompare},
		{"value and ignore_value", ekv.Txn{Then: []ekv.Op{{Put: &ekv.Put{Key: []byte("a"), Value: []byte("v"), IgnoreValue: true}}}}, rpctypes.ErrGRPCValueProvided},
		{"lease and ignore_lease", ekv.Txn{Then: []ekv.Op{{Put: &ekv.Put{Key: []byte("a"), Lease: 1, IgnoreLease: true}}}}, rpctypes.ErrGRPCLeaseProvided},

		{"put twice", ekv.Txn{Then: []ekv.Op{putOp("a"), putOp("a")}}, rpctypes.ErrGRPCDuplicateKey},
		{"put in both branches", ekv.Txn{Then: []ekv.Op{putOp("a")}, Else: []ekv.Op{putOp("a")}}, nil},
		{"put and delete", ekv.Txn{Then: []ekv.Op{putOp("a"), delOp("a", "")}}, rpctypes.ErrGRPCDuplicateKey},
		{"put inside a deleted range", ekv.Txn{Then: []ekv.Op{delOp("a", "c"), putOp("b")}}, rpctypes.ErrGRPCDuplicateKey},
		{"put at the end of a deleted range", ekv.Txn{Then: []ekv.Op{delOp("a", "c"), putOp("c")}}, nil},
		{"deletes overlap", ekv.Txn{Then: []ekv.Op{delOp("a", "c"), delOp("b", "d")}}, nil},
		{"put inside overlapping deletes", ekv.Txn{Then: []ekv.Op{delOp("a", "c"), delOp("b", "d"), putOp("c")}}, rpctypes.ErrGRPCDuplicateKey},
		{"delete to the last key, as etcd", ekv.Txn{Then: []ekv.Op{delOp("a", "\x00"), putOp("b")}}, nil},
		{"delete of an inverted range", ekv.Txn{Then: []ekv.Op{delOp("c", "a"), putOp("b")}}, nil},
		{"both branches of a nested txn", ekv.Txn{Then: []ekv.Op{txnOp([]ekv.Op{putOp("a")}, []ekv.Op{putOp("a")})}}, nil},
		{"two nested txns", ekv.Txn{Then: []ekv.Op{txnOp([]ekv.Op{putOp("a")}, nil), txnOp([]ekv.Op{putOp("a")}, nil)}}, rpctypes.ErrGRPCDuplicateKey},
		{"nested and own", ekv.Txn{Then: []ekv.Op{putOp("a"), txnOp(nil, []ekv.Op{putOp("a")})}}, rpctypes.ErrGRPCDuplicateKey},
		{"nested put under own delete", ekv.Txn{Then: []ekv.Op{txnOp([]ekv.Op{putOp("b")}, nil), delOp("a", "c")}}, rpctypes.ErrGRPCDuplicateKey},
		{"own put under nested delete", ekv.Txn{Then: []ekv.Op{txnOp(nil, []ekv.Op{delOp("a", "c")}), putOp("b")}}, rpctypes.ErrGRPCDuplicateKey},
	} {
		if got := checkTxn(&c.txn, 128); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestOverlapIsNotQuadratic: a request of the greatest size must be judged in no time.
func TestOverlapIsNotQuadratic(t *testing.T) {
	var outer []ekv.Op
	for i := range 64 {
		var then, otherwise []ekv.Op
		for j := range 64 {
			then = append(then, txnOp(repeat(delOp(fmt.Sprintf("d%d-%d", i, j), ""), 1), []ekv.Op{putOp(fmt.Sprintf("p%d-%d", i, j))}))
			otherwise = append(otherwise, delOp(fmt.Sprintf("e%d-%d", i, j), fmt.Sprintf("e%d-%d!", i, j)))
		}
		outer = append(outer, txnOp(then, otherwise))
	}
	best := time.Hour // of several tries: a busy machine must not look like a slow algorithm
	for range 5 {
		start := time.Now()
		if _, _, err := checkOverlap(outer); err != nil {
			t.Fatal(err)
		}
		if best = min(best, time.Since(start)); best < time.Second {
			return
		}
	}
	t.Errorf("took %v", best)
}

func TestCheckRangeStream(t *testing.T) {
	key := []byte("a")
	if err := checkRangeStream(&ekv.Range{Key: key, Order: 1}); err != nil {
		t.Errorf("ascending by key: %v", err)
	}
	for _, r := range []ekv.Range{{Key: key, Order: 2}, {Key: key, Order: 1, Target: 3}, {Key: key, MinMod: 1}, {}} {
		if err := checkRangeStream(&r); err == nil {
			t.Errorf("%+v passed", r)
		}
	}
}

func TestPrefixEnd(t *testing.T) {
	for prefix, want := range map[string]string{"a": "b", "a/": "a0", "a\xff": "b", "\xff\xff": "\x00"} {
		if got := string(prefixEnd([]byte(prefix))); got != want {
			t.Errorf("prefix %q ends at %q, want %q", prefix, got, want)
		}
	}
}
