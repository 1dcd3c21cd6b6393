package machine

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/holdfastdb/holdfast/core/machine/machinetest"
	"github.com/holdfastdb/holdfast/core/store"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// TestMoreLogs: builds that know nothing of more than MaxLogs refuse a log beyond it, so their part is refused here too. The later kind is
// not, and is of a later level.
func TestMoreLogs(t *testing.T) {
	r := newRig(t)
	begin := func(kind tlogpart.Kind, i int) bool {
		name := fmt.Sprint(i)
		key, err := tiles.NewSigner("log.example/"+name, bytes.Repeat([]byte{1}, 32))
		if err != nil {
			t.Fatal(err)
		}
		return r.apply(&tlogpart.Part{Kind: kind, Spec: tlogpart.LogSpec{Name: name, Key: *key.Verifier()}})[0].Rejection == nil
	}
	for i := range tlogpart.MaxLogs {
		if !begin([]tlogpart.Kind{tlogpart.Create, tlogpart.CreateMore}[i%2], i) {
			t.Fatalf("log %d was refused", i)
		}
	}
	if begin(tlogpart.Create, tlogpart.MaxLogs) {
		t.Error("a log that builds before this one refuse")
	}
	if !begin(tlogpart.CreateMore, tlogpart.MaxLogs) {
		t.Error("one more was refused")
	}
	r.reopen()
	if n := len(r.m.Logs()); n != tlogpart.MaxLogs+1 {
		t.Errorf("%d logs after a restart", n)
	}
	of := func(kind tlogpart.Kind) uint16 {
		return Spec.PartLevel(tlogpart.AppendPart(nil, &tlogpart.Part{Kind: kind}))
	}
	if of(tlogpart.Create) != 0 || of(tlogpart.CreateMore) != tlogpart.MoreLevel || Spec.LastLevel < tlogpart.MoreLevel {
		t.Error("the new kind is proposed where older builds are")
	}
}

// TestEdgesKeepToTheirRoom: a machine without room for right edges gives the same answers for every log as one that keeps all of it. The
// counted bytes are the kept ones.
func TestEdgesKeepToTheirRoom(t *testing.T) {
	const logs, room = 20, 10_000
	full := newRig(t)
	small := openWithin(t, store.NewMem(), room)
	for i := range logs {
		full.create(fmt.Sprint(i), false, false)
		small.create(fmt.Sprint(i), false, false)
	}
	kept := func() (bytes, counted int64) {
		for _, l := range small.m.logs {
			bytes += int64(cap(l.w.edge))
		}
		return bytes, small.m.used.Load()
	}
	for round := range 12 {
		for i := range logs {
			n := 10 + (i*7+round*13)%50
			es := texts(round*100, n)
			full.add(full.m.logs[i], es...)
			small.add(small.m.logs[i], es...)
			a, b := full.m.logs[i].View(), small.m.logs[i].View()
			if a.Size != b.Size || a.Root != b.Root {
				t.Fatalf("log %d: %d %s, with little room %d %s", i, a.Size, a.Root, b.Size, b.Root)
			}
			if a.Size > 0 {
				n := (a.Size - 1) / tiles.Width
				width := int(a.Size - n*tiles.Width)
				x, err := full.m.logs[i].Bundle(n, width)
				y, err2 := small.m.logs[i].Bundle(n, width)
				if err != nil || err2 != nil || !bytes.Equal(x, y) {
					t.Fatalf("log %d, bundle %d of %d entries: %v, %v", i, n, width, err, err2)
				}
			}
		}
		if bytes, counted := kept(); bytes != counted || bytes > 2*room { // a slice has up to twice the room of what is in it
			t.Fatalf("%d bytes are kept, %d counted", bytes, counted)
		}
		if round == 6 {
			small = openWithin(t, small.Store, room)
			if bytes, counted := kept(); bytes != counted || bytes > 2*room {
				t.Fatalf("after a restart %d bytes are kept, %d counted", bytes, counted)
			}
		}
	}
}

func openWithin(t *testing.T, st store.Store, room int64) *rig {
	m := NewWithin(room)
	return &rig{machinetest.Open(t, st, m), m}
}
