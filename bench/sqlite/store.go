package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/objstore"
)

// delay is how long uploads take: always the same, or spread lognormally around a median.
type delay struct {
	Median time.Duration
	Sigma  float64
}

func (d delay) String() string {
	if d.Sigma == 0 {
		return fmt.Sprintf("%g ms", ms(d.Median))
	}
	return fmt.Sprintf("%g ms, sigma %g", ms(d.Median), d.Sigma)
}

// next is the time of one upload.
func (d delay) next() time.Duration {
	return time.Duration(float64(d.Median) * math.Exp(d.Sigma*rand.NormFloat64()))
}

const (
	bareUploads = 100
	bareAtOnce  = 4
	bareBytes   = 4 << 10
)

// bare times single uploads by the client that Holdfast has, with nothing else going on.
func (b *bench) bare(ctx context.Context) (p50, p95 float64, err error) {
	prefix := fmt.Sprintf("bare-%d", time.Now().UnixNano())
	s, err := objstore.Open(b.store.URL(prefix))
	if err != nil {
		return 0, 0, err
	}
	var mu sync.Mutex
	var took []float64
	var wg sync.WaitGroup
	for w := range bareAtOnce {
		wg.Go(func() {
			for i := range bareUploads / bareAtOnce {
				began := time.Now()
				put := s.PutIfAbsent(ctx, objstore.Object{Name: fmt.Sprintf("%d-%d", w, i), Data: make([]byte, bareBytes)})
				mu.Lock()
				if took = append(took, ms(time.Since(began))); put != nil {
					err = put
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err != nil {
		return 0, 0, err
	}
	return quantile(took, 0.5), quantile(took, 0.95), b.forget(prefix)
}

// has reports whether there is anything below a prefix.
func (b *bench) has(ctx context.Context, prefix string) bool {
	s, err := objstore.Open(b.store.URL(""))
	if err != nil {
		return false
	}
	for _, err := range s.List(ctx, prefix, "") {
		return err == nil
	}
	return false
}

// forget removes what lies below a prefix: the store is in memory.
func (b *bench) forget(prefix string) error {
	s, err := objstore.Open(b.store.URL(""))
	if err != nil {
		return err
	}
	return s.DeleteAll(context.Background(), prefix)
}
