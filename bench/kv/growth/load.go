package growth

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// do is one operation of a worker.
type do func(ctx context.Context, worker int, r *rand.Rand) error

// load has workers operate for as long as a load of the bed lasts, and measures. Each worker sends its next operation as soon as the last
// was answered. The first half second is not counted.
func (b *bed) load(ctx context.Context, row string, workers int, f do) (Figure, error) {
	if _, err := b.drive(ctx, workers, 500*time.Millisecond, 0, f); err != nil {
		return Figure{}, fmt.Errorf("%s: %w", row, err)
	}
	return b.measure(ctx, row, workers, 0, f)
}

// paced is load at a rate of all workers together.
func (b *bed) paced(ctx context.Context, row string, workers, perSecond int, f do) (Figure, error) {
	return b.measure(ctx, row, workers, perSecond, f)
}

func (b *bed) measure(ctx context.Context, row string, workers, perSecond int, f do) (Figure, error) {
	before, err := b.cpu()
	if err != nil {
		return Figure{}, err
	}
	began := time.Now()
	took, err := b.drive(ctx, workers, b.lasts, perSecond, f)
	if err != nil {
		return Figure{}, fmt.Errorf("%s: %w", row, err)
	}
	passed := time.Since(began)
	after, err := b.cpu()
	if err != nil {
		return Figure{}, err
	}
	rss, err := b.rss()
	n := float64(len(took))
	return Figure{Row: row, CPU: micros(after-before) / n, Rate: n / passed.Seconds(), P50: millis(at(took, 0.5)), P99: millis(at(took, 0.99)),
		Worst: millis(took[len(took)-1]), RSS: rss}, err
}

// drive returns how long each operation took, in order of that. Without a rate each worker goes on at once; with one an operation that begins late
// counts from when it was due.
func (b *bed) drive(ctx context.Context, workers int, lasts time.Duration, perSecond int, f do) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, lasts+time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	all, errs := make([][]time.Duration, workers), make([]error, workers)
	var failed atomic.Bool
	began := time.Now()
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(b.seed, uint64(w)))
			for n := 0; time.Since(began) < lasts && !failed.Load(); n++ {
				due := time.Now()
				if perSecond > 0 {
					due = began.Add(time.Duration(n*workers+w) * time.Second / time.Duration(perSecond))
					time.Sleep(time.Until(due))
				}
				if errs[w] = f(ctx, w, r); errs[w] != nil {
					failed.Store(true)
					return
				}
				all[w] = append(all[w], time.Since(due))
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	took := slices.Concat(all...)
	if len(took) == 0 {
		return nil, fmt.Errorf("not one operation in %s", lasts)
	}
	slices.Sort(took)
	return took, nil
}

// at is a quantile of sorted durations.
func at(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
