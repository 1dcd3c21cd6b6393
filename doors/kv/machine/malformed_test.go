package machine

import (
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// TestAPartThatMakesNoSenseIsRejected: wherever a part breaks off, it changes nothing, and stops no member.
func TestAPartThatMakesNoSenseIsRejected(t *testing.T) {
	r := newRig(t, Options{})
	whole := kvpart.Append(nil, putPart("k", "v"))
	for n := 1; n < len(whole); n++ {
		data := entry.AppendPacked(entry.AppendHeader(nil, entry.Header{}), entry.AppendCommand(nil, &entry.Command{Origin: 1, Term: 1,
			Parts: []entry.Part{{Machine: entry.MachineKV, Body: whole[:n]}}}))
		if res := r.ApplyData(data, true)[0]; res.Rejection == nil || res.Rejection.Code != kvpart.Malformed {
			t.Errorf("%d of %d bytes: %+v", n, len(whole), res)
		}
	}
	if rev, _ := r.m.Revision(); rev != 1 {
		t.Errorf("revision %d", rev)
	}
}
