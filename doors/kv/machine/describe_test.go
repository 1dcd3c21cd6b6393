package machine

import (
	"strings"
	"testing"

	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

func TestEveryRowIsDescribed(t *testing.T) {
	r := newRig(t, Options{})
	r.must(&kvpart.Part{Grant: &kvpart.LeaseGrant{ID: 0x5a, TTL: 60}})
	r.must(&kvpart.Part{Put: &kvpart.Put{Key: []byte("a"), Value: []byte("x y"), Lease: 0x5a}})
	r.must(&kvpart.Part{Put: &kvpart.Put{Key: []byte("a"), Value: []byte(strings.Repeat("z", 1000))}})
	r.must(&kvpart.Part{Put: &kvpart.Put{Key: []byte("b\x00"), Value: nil, Lease: 0x5a}})
	r.must(&kvpart.Part{Delete: &kvpart.DeleteRange{Key: []byte("a")}})
	r.must(&kvpart.Part{Put: &kvpart.Put{Key: []byte("c"), Value: []byte(strings.Repeat("z", 1000))}})
	r.must(&kvpart.Part{Alarm: &kvpart.Alarm{Member: 0xff, Type: 1, On: true}})
	it, err := r.Store.NewIter([]byte{letter}, []byte{letter + 1})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	var got []string
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, DescribeRow(it.Key(), v))
		if totals, ok, err := ReadTotals(it.Key(), v); err != nil || ok != strings.HasPrefix(got[len(got)-1], "counters") || ok && totals.Keys != 2 {
			t.Errorf("totals of %s: %+v %v", got[len(got)-1], totals, err)
		}
	}
	want := []string{
		`lease 5a holds b\x00`,
		`current b\x00 =  at=4.0 created=4 version=1 lease=5a`,
		`current c = (1000 bytes in history) at=6.0 created=6 version=1`,
		`history a deleted at=5.0`,
		`history a = ` + strings.Repeat("z", 64) + `… (1000 bytes) at=3.0 created=2 version=2`,
		`history a = x y at=2.0 created=2 version=1 lease=5a`,
		`history c = ` + strings.Repeat("z", 64) + `… (1000 bytes) at=6.0 created=6 version=1`,
		`lease 5a ttl=60s`,
		`revision 2.0 put a`,
		`revision 3.0 put a replaces=2.0`,
		`revision 4.0 put b\x00`,
		`revision 5.0 delete a replaces=3.0`,
		`revision 6.0 put c`,
		`counters revision=6 compacted=-1 keys=2`,
		`alarm member=ff type=1`,
	}
	for i := range max(len(got), len(want)) {
		g, w := "", ""
		if i < len(got) {
			g = strings.ReplaceAll(got[i], `"`, "")
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w && !(strings.HasPrefix(w, "counters") && strings.HasPrefix(g, w)) {
			t.Errorf("row %d is %s, want %s", i, g, w)
		}
	}
	for _, bad := range []string{"", "k", "kc", "kk", "kr1", "kl1", "ka", "kx", "ks", "k?", "m"} {
		if text := DescribeRow([]byte(bad), []byte{0xff}); !strings.Contains(text, errCorrupt.Error()) {
			t.Errorf("%q is described as %s", bad, text)
		}
	}
}
