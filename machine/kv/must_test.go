package kv

import (
	"errors"
	"testing"

	"github.com/holdfastdb/holdfast/entry"
	ekv "github.com/holdfastdb/holdfast/entry/kv"
)

// TestMustHoldsOrNothingIsWritten: a Txn that must hold is refused where a compare is false, whatever its other branch would do, and a
// command that is refused leaves nothing behind; the compares of a Txn inside it are that Txn's own.
func TestMustHoldsOrNothingIsWritten(t *testing.T) {
	r := newRig(t, Options{})
	r.must(putPart("there", "1"))
	is := func(value string) ekv.Compare {
		return ekv.Compare{Key: []byte("there"), Target: ekv.CompareValue, Value: []byte(value)}
	}
	put := func(key string) ekv.Op { return ekv.Op{Put: &ekv.Put{Key: []byte(key), Value: []byte("x")}} }
	must := func(txn *ekv.Txn) *ekv.Part { return &ekv.Part{Must: true, Txn: txn} }
	before, _ := r.m.Revision()
	for name, p := range map[string]*ekv.Part{
		"one compare":        must(&ekv.Txn{Compare: []ekv.Compare{is("2")}, Then: []ekv.Op{put("then")}, Else: []ekv.Op{put("else")}}),
		"the second compare": must(&ekv.Txn{Compare: []ekv.Compare{is("1"), is("2")}, Then: []ekv.Op{put("then")}}),
	} {
		rej := r.apply(p)[0].Rejection
		if rej == nil || rej.Code != ekv.CompareFailed || rej.Machine != entry.MachineKV {
			t.Errorf("%s: %v", name, rej)
		}
	}
	if now, _ := r.m.Revision(); now != before {
		t.Errorf("revision %d after refusals at %d", now, before)
	}
	inner := &ekv.Txn{Compare: []ekv.Compare{is("2")}, Then: []ekv.Op{put("no")}, Else: []ekv.Op{put("inner")}}
	for i, p := range []*ekv.Part{
		must(&ekv.Txn{Then: []ekv.Op{put("none to hold")}}),
		must(&ekv.Txn{Compare: []ekv.Compare{is("1")}, Then: []ekv.Op{put("holds"), {Txn: inner}}}),
	} {
		res, ok := r.must(p).(*ekv.TxnResult)
		if !ok || !res.Succeeded || res.Revision != before+int64(i)+1 {
			t.Errorf("%s: %+v", p, res)
		}
	}
	// In one entry: what a command before has written counts.
	res := r.apply(putPart("there", "2"), must(&ekv.Txn{Compare: []ekv.Compare{is("1")}}), must(&ekv.Txn{Compare: []ekv.Compare{is("2")}, Then: []ekv.Op{put("two")}}))
	if res[1].Rejection == nil || res[2].Rejection != nil {
		t.Errorf("in one entry: %v, %v", res[1].Rejection, res[2].Rejection)
	}
}

// TestADeleteByRangeWaitsForTheLevel: likewise.
func TestADeleteByRangeWaitsForTheLevel(t *testing.T) {
	part := func(byRange bool) []byte {
		return ekv.Append(nil, &ekv.Part{Delete: &ekv.DeleteRange{Key: []byte("a"), End: []byte("b"), ByRange: byRange}})
	}
	if Spec.PartLevel(part(true)) != ekv.ByRangeLevel || Spec.LastLevel < ekv.ByRangeLevel || Spec.PartLevel(part(false)) != 0 {
		t.Error("a delete may be proposed at another level than its own")
	}
	txn := ekv.Append(nil, &ekv.Part{Txn: &ekv.Txn{Then: []ekv.Op{{Delete: &ekv.DeleteRange{Key: []byte("a"), End: []byte("b"), ByRange: true}}}}})
	if _, err := ekv.Decode(txn); !errors.Is(err, ekv.ErrKind) { // its level would not be seen
		t.Errorf("in a Txn: %v", err)
	}
}

// TestMustWaitsForTheLevel: a build of the level before would stop at such a part.
func TestMustWaitsForTheLevel(t *testing.T) {
	if Spec.PartLevel == nil || Spec.PartLevel(ekv.Append(nil, &ekv.Part{Must: true, Txn: &ekv.Txn{}})) != ekv.MustLevel ||
		Spec.PartLevel(ekv.Append(nil, &ekv.Part{Txn: &ekv.Txn{}})) != 0 {
		t.Error("a part may be proposed at another level than its own")
	}
}
