package kv

import (
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/internal/wait"
)

func putOp(key string) kvpart.Op { return kvpart.Op{Put: &kvpart.Put{Key: []byte(key)}} }

func delOp(key, end string) kvpart.Op {
	return kvpart.Op{Delete: &kvpart.DeleteRange{Key: []byte(key), End: []byte(end)}}
}

func txnOp(then, otherwise []kvpart.Op) kvpart.Op {
	return kvpart.Op{Txn: &kvpart.Txn{Then: then, Else: otherwise}}
}

func repeat(op kvpart.Op, n int) (out []kvpart.Op) {
	for range n {
		out = append(out, op)
	}
	return out
}

func TestCheckTxn(t *testing.T) {
	get := kvpart.Op{Range: &kvpart.Range{Key: []byte("a")}}
	for _, c := range []struct {
		name string
		txn  kvpart.Txn
		want error
	}{
		{"empty", kvpart.Txn{}, nil},
		{"128 operations", kvpart.Txn{Then: repeat(get, 128)}, nil},
		{"129 operations", kvpart.Txn{Then: repeat(get, 129)}, rpctypes.ErrGRPCTooManyOps},
		{"129 compares", kvpart.Txn{Compare: make([]kvpart.Compare, 129)}, rpctypes.ErrGRPCTooManyOps},
		{"nested within what is left", kvpart.Txn{Then: append(repeat(get, 99), txnOp(repeat(get, 28), nil))}, nil},
		{"nested beyond what is left", kvpart.Txn{Then: append(repeat(get, 99), txnOp(repeat(get, 29), nil))}, rpctypes.ErrGRPCTooManyOps},
		{"compare without key", kvpart.Txn{Compare: []kvpart.Compare{{}}}, rpctypes.ErrGRPCEmptyKey},
		{"put without key", kvpart.Txn{Else: []kvpart.Op{putOp("")}}, rpctypes.ErrGRPCEmptyKey},
		{"operation of no kind", kvpart.Txn{Then: []kvpart.Op{{}}}, rpctypes.ErrGRPCKeyNotFound},
		{"sort order unknown", kvpart.Txn{Then: []kvpart.Op{{Range: &kvpart.Range{Key: []byte("a"), Order: invalidEnum}}}}, rpctypes.ErrGRPCInvalidSortOption},
		{"compare unknown", kvpart.Txn{Compare: []kvpart.Compare{{Key: []byte("a"), Result: invalidEnum}}}, errBadCompare},
		{"value and ignore_value", kvpart.Txn{Then: []kvpart.Op{{Put: &kvpart.Put{Key: []byte("a"), Value: []byte("v"), IgnoreValue: true}}}}, rpctypes.ErrGRPCValueProvided},
		{"lease and ignore_lease", kvpart.Txn{Then: []kvpart.Op{{Put: &kvpart.Put{Key: []byte("a"), Lease: 1, IgnoreLease: true}}}}, rpctypes.ErrGRPCLeaseProvided},

		{"put twice", kvpart.Txn{Then: []kvpart.Op{putOp("a"), putOp("a")}}, rpctypes.ErrGRPCDuplicateKey},
		{"put in both branches", kvpart.Txn{Then: []kvpart.Op{putOp("a")}, Else: []kvpart.Op{putOp("a")}}, nil},
		{"put and delete", kvpart.Txn{Then: []kvpart.Op{putOp("a"), delOp("a", "")}}, rpctypes.ErrGRPCDuplicateKey},
		{"put inside a deleted range", kvpart.Txn{Then: []kvpart.Op{delOp("a", "c"), putOp("b")}}, rpctypes.ErrGRPCDuplicateKey},
		{"put at the end of a deleted range", kvpart.Txn{Then: []kvpart.Op{delOp("a", "c"), putOp("c")}}, nil},
		{"deletes overlap", kvpart.Txn{Then: []kvpart.Op{delOp("a", "c"), delOp("b", "d")}}, nil},
		{"put inside overlapping deletes", kvpart.Txn{Then: []kvpart.Op{delOp("a", "c"), delOp("b", "d"), putOp("c")}}, rpctypes.ErrGRPCDuplicateKey},
		{"delete to the last key, as etcd", kvpart.Txn{Then: []kvpart.Op{delOp("a", "\x00"), putOp("b")}}, nil},
		{"delete of an inverted range", kvpart.Txn{Then: []kvpart.Op{delOp("c", "a"), putOp("b")}}, nil},
		{"both branches of a nested txn", kvpart.Txn{Then: []kvpart.Op{txnOp([]kvpart.Op{putOp("a")}, []kvpart.Op{putOp("a")})}}, nil},
		{"two nested txns", kvpart.Txn{Then: []kvpart.Op{txnOp([]kvpart.Op{putOp("a")}, nil), txnOp([]kvpart.Op{putOp("a")}, nil)}}, rpctypes.ErrGRPCDuplicateKey},
		{"nested and own", kvpart.Txn{Then: []kvpart.Op{putOp("a"), txnOp(nil, []kvpart.Op{putOp("a")})}}, rpctypes.ErrGRPCDuplicateKey},
		{"nested put under own delete", kvpart.Txn{Then: []kvpart.Op{txnOp([]kvpart.Op{putOp("b")}, nil), delOp("a", "c")}}, rpctypes.ErrGRPCDuplicateKey},
		{"own put under nested delete", kvpart.Txn{Then: []kvpart.Op{txnOp(nil, []kvpart.Op{delOp("a", "c")}), putOp("b")}}, rpctypes.ErrGRPCDuplicateKey},
	} {
		if got := checkTxn(&c.txn, 128); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestOverlapIsNotQuadratic: a request of the greatest size must be judged in no time.
func TestOverlapIsNotQuadratic(t *testing.T) {
	var outer []kvpart.Op
	for i := range 64 {
		var then, otherwise []kvpart.Op
		for j := range 64 {
			then = append(then, txnOp(repeat(delOp(fmt.Sprintf("d%d-%d", i, j), ""), 1), []kvpart.Op{putOp(fmt.Sprintf("p%d-%d", i, j))}))
			otherwise = append(otherwise, delOp(fmt.Sprintf("e%d-%d", i, j), fmt.Sprintf("e%d-%d!", i, j)))
		}
		outer = append(outer, txnOp(then, otherwise))
	}
	wait.Quickly(t, "the check", time.Second, func() {
		if _, _, err := checkOverlap(outer); err != nil {
			t.Fatal(err)
		}
	})
}

func TestCheckRangeStream(t *testing.T) {
	key := []byte("a")
	if err := checkRangeStream(&kvpart.Range{Key: key, Order: 1}); err != nil {
		t.Errorf("ascending by key: %v", err)
	}
	for _, r := range []kvpart.Range{{Key: key, Order: 2}, {Key: key, Order: 1, Target: 3}, {Key: key, MinMod: 1}, {}} {
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
