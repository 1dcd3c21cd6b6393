package node

import (
	"sync"
	"testing"
	"time"
)

// BenchmarkPutsBesideAReader is the cost of a put without a reader of the log, with one every 8 ms, and with one for every single entry. A
// shipper for waiting clients reads every 8 ms.
func BenchmarkPutsBesideAReader(b *testing.B) {
	for _, c := range []struct {
		name  string
		reads bool
		pause time.Duration
	}{{"alone", false, 0}, {"every 8 ms", true, 8 * time.Millisecond}, {"every entry", true, 0}} {
		b.Run(c.name, func(b *testing.B) {
			n := startAlone(b, b.TempDir(), nil)
			var wg sync.WaitGroup
			if c.reads {
				wg.Go(func() {
					for from := n.Status().Applied + 1; ; time.Sleep(c.pause) {
						es, err := n.Committed(b.Context(), from, 4<<20)
						if err != nil {
							return
						}
						from = es[len(es)-1].Index + 1
					}
				})
			}
			value := string(make([]byte, 64))
			b.SetParallelism(32) // 64 clients on two processors
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := n.Propose(b.Context(), LaneKV, putPart("key", value)); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.StopTimer()
			n.Stop()
			wg.Wait()
		})
	}
}
