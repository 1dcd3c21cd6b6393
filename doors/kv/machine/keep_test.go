package machine

import (
	"bytes"
	"fmt"
	"testing"
	"unsafe"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// TestEventsHoldAnEntryOnlyIfItIsTheirs: the values of events lie in the entry's data if that may be kept and is values for the most part.
func TestEventsHoldAnEntryOnlyIfItIsTheirs(t *testing.T) {
	for i, c := range []struct {
		own    bool
		beside int // bytes of the entry that are no value
		want   bool
	}{{true, 10, true}, {true, 900, true}, {true, 1200, false}, {false, 10, false}, {true, 10, true}} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			m := New(Options{})
			st := store.NewMem()
			a := machine.NewApplier(st, m)
			if err := a.Load(); err != nil {
				t.Fatal(err)
			}
			value := bytes.Repeat([]byte("v"), 1000)
			data := entry.AppendHeader(nil, entry.Header{})
			put := func(value []byte, failing bool) {
				p := &kvpart.Part{Put: &kvpart.Put{Key: []byte("k"), Value: value, IgnoreLease: failing}}
				if failing { // rejected: there is no such key
					p.Put.Key = []byte("absent")
				}
				data = entry.AppendPackedCommand(data, &entry.Command{Origin: 1, Seq: 1, Term: 1, Parts: []entry.Part{{Machine: entry.MachineKV, Body: kvpart.Append(nil, p)}}})
			}
			put(value, false)
			if c.beside > 10 {
				put(make([]byte, c.beside), true)
			}
			a.Own(c.own)
			if err := a.Apply(1, 1, data, nil, nil); err != nil {
				t.Fatal(err)
			}
			evs, _, _, _ := m.Recent(1)
			if len(evs) != 1 || !bytes.Equal(evs[0].KV.Value, value) || cap(evs[0].KV.Value) != len(value) {
				t.Fatalf("%d events", len(evs))
			}
			at, from := uintptr(unsafe.Pointer(&evs[0].KV.Value[0])), uintptr(unsafe.Pointer(&data[0]))
			if held := at >= from && at < from+uintptr(len(data)); held != c.want {
				t.Errorf("%d bytes beside a value of %d: the event holds the entry: %v", c.beside, len(value), held)
			}
			// The next entry may not be kept unless it is said again.
			if m.entry.data != 0 {
				t.Error("an entry's data counts for the next one")
			}
		})
	}
}
