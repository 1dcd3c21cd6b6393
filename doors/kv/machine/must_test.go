package machine

import (
	"errors"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// TestMustHoldsOrNothingIsWritten: a Txn that must hold is refused where a compare is false, for any other branch, and a refused command
// leaves nothing behind. The compares of a Txn inside it are that Txn's own.
func TestMustHoldsOrNothingIsWritten(t *testing.T) {
	r := newRig(t, Options{})
	r.must(putPart("there", "1"))
	is := func(value string) kvpart.Compare {
		return kvpart.Compare{Key: []byte("there"), Target: kvpart.CompareValue, Value: []byte(value)}
	}
	put := func(key string) kvpart.Op { return kvpart.Op{Put: &kvpart.Put{Key: []byte(key), Value: []byte("x")}} }
	must := func(txn *kvpart.Txn) *kvpart.Part { return &kvpart.Part{Must: true, Txn: txn} }
	before, _ := r.m.Revision()
	for name, p := range map[string]*kvpart.Part{
		"one compare":        must(&kvpart.Txn{Compare: []kvpart.Compare{is("2")}, Then: []kvpart.Op{put("then")}, Else: []kvpart.Op{put("else")}}),
		"the second compare": must(&kvpart.Txn{Compare: []kvpart.Compare{is("1"), is("2")}, Then: []kvpart.Op{put("then")}}),
	} {
		rej := r.apply(p)[0].Rejection
		if rej == nil || rej.Code != kvpart.CompareFailed || rej.Machine != entry.MachineKV {
			t.Errorf("%s: %v", name, rej)
		}
	}
	if now, _ := r.m.Revision(); now != before {
		t.Errorf("revision %d after refusals at %d", now, before)
	}
	inner := &kvpart.Txn{Compare: []kvpart.Compare{is("2")}, Then: []kvpart.Op{put("no")}, Else: []kvpart.Op{put("inner")}}
	for i, p := range []*kvpart.Part{
		must(&kvpart.Txn{Then: []kvpart.Op{put("none to hold")}}),
		must(&kvpart.Txn{Compare: []kvpart.Compare{is("1")}, Then: []kvpart.Op{put("holds"), {Txn: inner}}}),
	} {
		res, ok := r.must(p).(*kvpart.TxnResult)
		if !ok || !res.Succeeded || res.Revision != before+int64(i)+1 {
			t.Errorf("%s: %+v", p, res)
		}
	}
	// In one entry: an earlier command's writes count.
	res := r.apply(putPart("there", "2"), must(&kvpart.Txn{Compare: []kvpart.Compare{is("1")}}), must(&kvpart.Txn{Compare: []kvpart.Compare{is("2")}, Then: []kvpart.Op{put("two")}}))
	if res[1].Rejection == nil || res[2].Rejection != nil {
		t.Errorf("in one entry: %v, %v", res[1].Rejection, res[2].Rejection)
	}
}

// TestADeleteByRangeWaitsForTheLevel: likewise.
func TestADeleteByRangeWaitsForTheLevel(t *testing.T) {
	part := func(byRange bool) []byte {
		return kvpart.Append(nil, &kvpart.Part{Delete: &kvpart.DeleteRange{Key: []byte("a"), End: []byte("b"), ByRange: byRange}})
	}
	if Spec.PartLevel(part(true)) != kvpart.ByRangeLevel || Spec.LastLevel < kvpart.ByRangeLevel || Spec.PartLevel(part(false)) != 0 {
		t.Error("a delete may be proposed at another level than its own")
	}
	txn := kvpart.Append(nil, &kvpart.Part{Txn: &kvpart.Txn{Then: []kvpart.Op{{Delete: &kvpart.DeleteRange{Key: []byte("a"), End: []byte("b"), ByRange: true}}}}})
	if _, err := kvpart.Decode(txn); !errors.Is(err, kvpart.ErrKind) { // its level would not be seen
		t.Errorf("in a Txn: %v", err)
	}
}

// TestMustWaitsForTheLevel: a build of the level before would stop at such a part.
func TestMustWaitsForTheLevel(t *testing.T) {
	if Spec.PartLevel == nil || Spec.PartLevel(kvpart.Append(nil, &kvpart.Part{Must: true, Txn: &kvpart.Txn{}})) != kvpart.MustLevel ||
		Spec.PartLevel(kvpart.Append(nil, &kvpart.Part{Txn: &kvpart.Txn{}})) != 0 {
		t.Error("a part may be proposed at another level than its own")
	}
}
