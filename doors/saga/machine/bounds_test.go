package machine

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/store"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// TestAPayloadIsStoredOnce, though action and compensation of a step both have it.
func TestAPayloadIsStoredOnce(t *testing.T) {
	const payload = 500_000
	r := newRig(t)
	r.must(fmt.Sprintf("begin g saga submitted steps=3 payload=%d", payload))
	if n := len(r.Dump()) / 2; n > 3*payload+10_000 { // it prints hex
		t.Errorf("three payloads of %d take %d bytes", payload, n)
	}
	got := r.find("g")
	for i, b := range got.Branches {
		if len(b.Payload) != payload || b.Payload[0] != byte('a'+i/2) {
			t.Errorf("branch %d has %d bytes of %q", i, len(b.Payload), b.Payload[0])
		}
	}
	// A change of it writes no payload again.
	before := r.Applier.Written()
	r.must("change g results=1:succeed")
	if n := r.Applier.Written() - before; n > 1000 {
		t.Errorf("a result wrote %d bytes", n)
	}
}

func TestATransactionHasBounds(t *testing.T) {
	r := newRig(t)
	r.must("begin g tcc prepared")
	register := func(from, n, payload int) string {
		p := &sagapart.RegisterPart{Gid: "g"}
		for i := range n {
			b := sagapart.Branch{ID: fmt.Sprint(from + i), Op: sagapart.OpCancel, Status: sagapart.Prepared}
			if payload > 0 {
				b.Payload = []byte(strings.Repeat(fmt.Sprint(i%10), payload))
			}
			p.Branches = append(p.Branches, b)
		}
		return show(r.apply(&sagapart.Part{Kind: sagapart.Register, Register: p})[0])
	}
	const good = "1 prepared → prepared"
	if got := register(0, sagapart.MaxBranches-2, 0); got != good {
		t.Fatal(got)
	}
	if got := register(2000, 3, 0); got != "707 1001 branches, more than 1000" {
		t.Errorf("one branch too many: %s", got)
	}
	if got := register(10, 900, 0); got != good {
		t.Errorf("the same ones again: %s", got)
	}
	if got := register(2000, 1, sagapart.MaxPayload); got != good {
		t.Errorf("a large one: %s", got)
	}
	if got := register(3000, 1, sagapart.MaxPayload); !strings.HasPrefix(got, "707 ") {
		t.Errorf("beyond all bytes: %s", got)
	}
	if got := register(3000, 1, 0); got != good {
		t.Errorf("the last branch: %s", got)
	}
	if n := len(r.find("g").Branches); n != sagapart.MaxBranches {
		t.Errorf("%d branches", n)
	}
	big := &sagapart.BeginPart{Status: sagapart.Submitted, Definition: sagapart.Definition{Gid: "big", Mode: sagapart.Msg}}
	for i := range 7 {
		big.Branches = append(big.Branches, sagapart.Branch{ID: fmt.Sprint(i), Op: sagapart.OpAction, Payload: []byte(strings.Repeat(fmt.Sprint(i), 1<<20))})
	}
	if got := show(r.apply(&sagapart.Part{Kind: sagapart.Begin, Begin: big})[0]); got != "2 new → submitted" {
		t.Errorf("7 MiB: %s", got)
	}
	big.Gid = "bigger"
	for i := range 10 {
		big.Branches = append(big.Branches, sagapart.Branch{ID: fmt.Sprint(i), Op: sagapart.OpCancel, Payload: []byte(strings.Repeat(fmt.Sprint(i), 60_000))})
	}
	if got := show(r.apply(&sagapart.Part{Kind: sagapart.Begin, Begin: big})[0]); !strings.HasPrefix(got, "707 ") {
		t.Errorf("beyond 7.5 MiB: %s", got)
	}
	if cap(r.m.row) > maxIdleBytes || cap(r.m.branches) > maxIdleBytes || r.m.part.Begin != nil {
		t.Errorf("%d bytes of it are kept", cap(r.m.row)+cap(r.m.branches))
	}
}

func TestATopicHasBounds(t *testing.T) {
	r := newRig(t)
	for i := range sagapart.MaxSubscribers {
		r.must(fmt.Sprintf("subscribe t http://%d", i))
	}
	if got := r.say("subscribe t http://more"); got != "707 1000 subscribers of t" {
		t.Error(got)
	}
	if got, err := r.m.Topic("t"); err != nil || len(got.Subscribers) != sagapart.MaxSubscribers {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := r.m.Topic("none"); got != nil || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestAListReadsABoundedPiece: one that finds nothing does not walk through millions of transactions in one call.
func TestAListReadsABoundedPiece(t *testing.T) {
	r := newRig(t)
	const more = 5
	for n := 0; n < mostRows+more; n += 500 {
		var parts []*sagapart.Part
		for i := range min(500, mostRows+more-n) {
			parts = append(parts, &sagapart.Part{Kind: sagapart.Begin, Begin: &sagapart.BeginPart{Status: sagapart.Submitted,
				Definition: sagapart.Definition{Gid: fmt.Sprint(n + i), Mode: sagapart.Msg}}})
		}
		r.Tick++
		r.apply(parts...)
	}
	f := Filter{Status: sagapart.Failed}
	all, next, err := r.list(0, 10, f)
	if len(all) != 0 || next != more+1 || err != nil {
		t.Errorf("%d found, next is %d, %v", len(all), next, err)
	}
	if all, next, err = r.list(next, 10, f); len(all) != 0 || next != 0 || err != nil {
		t.Errorf("then %d found, next is %d, %v", len(all), next, err)
	}
	from, to := int64(machinetest.Epoch+1003*1e6), int64(machinetest.Epoch+1004*1e6)
	if all, _, err = r.list(0, 1<<20, Filter{From: from, To: to}); err != nil || len(all) != 1000 || all[0].Created != to || all[999].Created != from {
		t.Errorf("of two milliseconds: %d, %v", len(all), err)
	}
	// Large ones are counted by their bytes.
	for i := range 10 {
		r.apply(&sagapart.Part{Kind: sagapart.Begin, Begin: &sagapart.BeginPart{Status: sagapart.Submitted,
			Definition: sagapart.Definition{Gid: fmt.Sprint("large", i), Mode: sagapart.Msg, CustomData: strings.Repeat("x", sagapart.MaxCustomBytes)}}})
	}
	if all, next, err = r.list(0, 100, Filter{}); len(all) != 8 || next == 0 || err != nil {
		t.Errorf("of the large ones %d, next is %d, %v", len(all), next, err)
	}
}

// TestAListKeepsToItsRoom: beyond it there are numbers alone, and what they are of is found by them.
func TestAListKeepsToItsRoom(t *testing.T) {
	r := newRig(t)
	for i := range 5 {
		r.apply(&sagapart.Part{Kind: sagapart.Begin, Begin: &sagapart.BeginPart{Status: sagapart.Submitted, Branches: steps(1, 100_000),
			Definition: sagapart.Definition{Gid: fmt.Sprint(i), Mode: sagapart.Msg, CustomData: strings.Repeat("x", 1000)}}})
	}
	all, _, err := r.m.List(0, 10, 2500, &Reads{Rows: mostRows, Bytes: mostBytes}, Filter{})
	if err != nil || len(all) != 5 {
		t.Fatal(all, err)
	}
	for i, one := range all {
		brief, err := r.m.BriefNumber(one.Number)
		if err != nil || brief.Gid != fmt.Sprint(4-i) || brief.BranchBytes < 100_000 || brief.Branches != nil || (one.Transaction != nil) != (i < 2) {
			t.Errorf("%d: listed as %+v, found as %+v, %v", i, one, brief, err)
		}
		if again, err := r.m.Brief(brief.Gid); err != nil || again.Number != one.Number {
			t.Errorf("%s is %+v, %v", brief.Gid, again, err)
		}
	}
	if none, err := r.m.Brief("none"); none != nil || err != nil {
		t.Error(none, err)
	}
}

// TestWhatAnotherBuildWroteStopsTheNode, and other damage of a part is a rejection.
func TestWhatAnotherBuildWroteStopsTheNode(t *testing.T) {
	r := newRig(t)
	foreign := [][]byte{{99}, {byte(sagapart.Begin), 0x80, 1, 0, 0, 0, 1, 1, 'g', 0, 0, 0, 0, 0}}
	for _, body := range foreign {
		if err := r.m.Readable(body); !sagapart.Foreign(err) {
			t.Errorf("%x may be proposed: %v", body, err)
		}
		if _, err := r.Try(machinetest.Command(sagapart.Machine, body)); !sagapart.Foreign(err) {
			t.Errorf("%x was applied: %v", body, err)
		}
		r = newRig(t)
	}
	for _, body := range [][]byte{nil, {byte(sagapart.Drop), 0}, {byte(sagapart.Resume), 1}, {byte(sagapart.Change)}} {
		if err := r.m.Readable(body); err != nil {
			t.Errorf("%x is refused before the log: %v", body, err)
		}
		res := r.Apply(machinetest.Command(sagapart.Machine, body))[0]
		if res.Rejection == nil || res.Rejection.Code != sagapart.Malformed {
			t.Errorf("%x: %+v", body, res)
		}
	}
}

// TestDamagedRowsAreErrors and never a transaction with something missing.
func TestDamagedRowsAreErrors(t *testing.T) {
	for _, c := range []struct {
		what string
		do   func(b store.Batch)
	}{
		{"no definition", func(b store.Batch) { b.Delete(appendDefinitionKey(nil, 1)) }},
		{"half a definition", func(b store.Batch) { b.Set(appendDefinitionKey(nil, 1), []byte{3, 1}) }},
		{"half a head", func(b store.Batch) { b.Set(appendHeadKey(nil, 1), []byte{2, 0}) }},
		{"no branches", func(b store.Batch) { b.Delete(appendBranchesKey(nil, 1, 1)) }},
		{"fewer branches", func(b store.Batch) {
			b.Set(appendBranchesKey(nil, 1, 1), sagapart.AppendBranches(nil, nil))
		}},
		{"half a branch", func(b store.Batch) { b.Set(appendBranchesKey(nil, 1, 1), []byte{1, 1}) }},
		{"no number", func(b store.Batch) { b.Set(appendGidKey(nil, "g"), []byte{0}) }},
	} {
		r := newRig(t)
		r.must("begin g tcc prepared steps=1", "register g branch=1,cancel,u", "register g branch=2,cancel,u")
		b := r.Store.NewBatch()
		c.do(b)
		if err := r.Store.Commit(b, r.Index); err != nil {
			t.Fatal(err)
		}
		if got, err := r.m.Find("g"); !errors.Is(err, errCorrupt) {
			t.Errorf("%s: %v, %v", c.what, got, err)
		}
		r.m.cache.reset(1)
		if _, err := r.Try(command(parse(t, "register g branch=3,cancel,u"))); !errors.Is(err, errCorrupt) {
			t.Errorf("%s, in Apply: %v", c.what, err)
		}
	}
}
