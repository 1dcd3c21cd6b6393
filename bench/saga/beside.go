package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/holdfastdb/holdfast/bench/host"
)

const (
	goodRate = 300 // sagas a second to services that answer
	badRate  = 30  // beside them, to one that never does
	// besideRounds is the number of pairs of runs: 300 a second take little of the machine, so a difference needs many to show.
	besideRounds = 5
)

// Beside is one round: the same load without and with a service that hangs.
type Beside struct {
	Server  string  `json:"coordinator"`
	Round   int     `json:"round"`
	Alone   Latency `json:"alone"`
	Hanging Latency `json:"beside_it"`
}

// Latency is of sagas from the planned sending time to their end. A late one does not hide the wait that made it late.
type Latency struct {
	Sagas int     `json:"sagas"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Max   float64 `json:"max_ms"`
}

func latency(took []time.Duration) Latency {
	slices.Sort(took)
	return Latency{len(took), percentile(took, 50), percentile(took, 99), percentile(took, 100)}
}

// besideHanging measures sagas to good services without and with others to one that never answers, in turns.
func (b *bench) besideHanging(ctx context.Context) error {
	for round := range min(b.rounds, besideRounds) {
		for _, server := range b.servers {
			if server != dtm && server != holdfast {
				continue
			}
			r := &Beside{Server: server, Round: round}
			for turn := range 2 {
				hanging := (turn+round)%2 == 1
				l, err := b.besideRun(ctx, server, hanging)
				if err != nil {
					return fmt.Errorf("%s, beside a service that hangs: %v: %w", server, hanging, err)
				}
				if hanging {
					r.Hanging = *l
				} else {
					r.Alone = *l
				}
			}
			b.report.Beside = append(b.report.Beside, r)
			fmt.Printf("  %-10s p99 %.2f ms, beside a service that hangs %.2f ms (%.2f×); p50 %.2f and %.2f ms\n", server, r.Alone.P99, r.Hanging.P99,
				r.Hanging.P99/r.Alone.P99, r.Alone.P50, r.Hanging.P50)
		}
	}
	return nil
}

// besideRun is one run with fresh data.
func (b *bench) besideRun(ctx context.Context, server string, hanging bool) (l *Latency, err error) {
	dir, err := os.MkdirTemp(b.dir, "beside.")
	if err != nil {
		return nil, err
	}
	c, err := b.start(server, filepath.Join(dir, "coordinator"))
	if err != nil {
		return nil, err
	}
	s, err := newServices(3)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	defer func() {
		err = errors.Join(err, s.close(), c.close(), os.RemoveAll(dir))
		syscall.Sync()
	}()
	first, second, dead := s.url(0, agrees), s.url(1, agrees), s.url(2, hangs)
	var wg sync.WaitGroup
	var badErr error
	if hanging {
		wg.Go(func() {
			_, badErr = paced(ctx, badRate, 8, b.beside, func(n int) *transaction {
				return &transaction{gid: "bad-" + strconv.Itoa(n), kind: "saga", timeout: hangTimeout, steps: [][2]string{{dead, dead}}}
			})
		})
	}
	took, err := paced(ctx, goodRate, 64, b.beside, func(n int) *transaction {
		return &transaction{gid: "good-" + strconv.Itoa(n), kind: "saga", wait: true, steps: [][2]string{{first, first}, {second, second}}}
	})
	wg.Wait()
	if err := errors.Join(err, badErr, ctx.Err()); err != nil {
		return nil, err
	}
	for n := range took {
		gid := "good-" + strconv.Itoa(n)
		if _, err := s.seen(gid).judge(gid, true); err != nil {
			return nil, err
		}
	}
	if hanging && s.hanging.Load() == 0 && int(b.beside.Seconds()) < hangTimeout {
		return nil, errors.New("nobody hangs")
	}
	// The first second has connections to be made and is not what a service that hangs changes.
	counted := latency(took[min(goodRate, len(took)-1):])
	return &counted, nil
}

// paced submits so many transactions a second, each at its time, and returns how long each took from then, in their order. It waits for
// all answers.
func paced(ctx context.Context, perSecond, clients int, during time.Duration, of func(n int) *transaction) ([]time.Duration, error) {
	total := int(during.Seconds() * float64(perSecond))
	took, failed := make([]time.Duration, total), make([]error, clients)
	due := make(chan int, total) // all of them fit: a late one never keeps the next from its time
	began := time.Now()
	at := func(n int) time.Time { return began.Add(time.Duration(n) * time.Second / time.Duration(perSecond)) }
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			c := newClient()
			defer c.close()
			for n := range due {
				if failed[i] != nil {
					continue
				}
				done, err := c.submit(of(n))
				if err == nil && !done {
					err = fmt.Errorf("transaction %d was undone", n)
				}
				failed[i] = err
				took[n] = time.Since(at(n))
			}
		})
	}
	for n := range total {
		if ctx.Err() != nil {
			break
		}
		time.Sleep(time.Until(at(n)))
		due <- n
	}
	close(due)
	wg.Wait()
	return took, first(append(failed, ctx.Err()))
}

// besideRatio is the median over the rounds of how many times as long p99 is.
func (r *Report) besideRatio(server string) (ratio float64, rounds int) {
	var x []float64
	for _, one := range r.Beside {
		if one.Server == server {
			x = append(x, one.Hanging.P99/one.Alone.P99)
		}
	}
	if len(x) == 0 {
		return math.NaN(), 0
	}
	return host.Median(x), len(x)
}
