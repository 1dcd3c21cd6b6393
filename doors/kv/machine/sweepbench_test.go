package machine

import (
	"fmt"
	"testing"

	"github.com/holdfastdb/holdfast/core/store"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// BenchmarkSweep is one command that deletes 100,000 keys with values of 100 bytes, by range and key by key.
func BenchmarkSweep(b *testing.B) {
	for _, byRange := range []bool{true, false} {
		b.Run(fmt.Sprintf("byRange=%v", byRange), func(b *testing.B) {
			const keys, clients = 100_000, 100
			st, err := store.Open(b.TempDir(), store.Options{CacheBytes: 64 << 20, MemtableBytes: 8 << 20})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = st.Close() })
			r := openRig(b, st, Options{CacheBytes: 26 << 20})
			value := string(make([]byte, 100))
			for b.Loop() {
				b.StopTimer()
				for i := 0; i < keys; i += clients {
					var parts []*kvpart.Part
					for w := range clients {
						parts = append(parts, putPart(fmt.Sprintf("gone/%06d", w*(keys/clients)+i/clients), value))
					}
					r.Index++
					if err := r.Applier.Apply(r.Index, 1, pack(parts...), nil, nil); err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
				r.Index++
				if err := r.Applier.Apply(r.Index, 1, pack(&kvpart.Part{Delete: &kvpart.DeleteRange{Key: []byte("gone/"), End: []byte("gone0"), ByRange: byRange}}), nil, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
