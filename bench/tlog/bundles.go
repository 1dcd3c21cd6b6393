package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/bench/host"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

const (
	// bundlesRead is how many full bundles are read, again and again in random order, by bundleReaders.
	bundlesRead   = 100
	bundleReaders = 8
	// bundleWriters make them.
	bundleWriters = 1024
)

// Bundles is the server's cost of reading full bundles of entries with gzip.
type Bundles struct {
	Server string         `json:"server"`
	Rounds []BundleSample `json:"rounds"`
}

// BundleSample is one round.
type BundleSample struct {
	PerSec float64 `json:"bundles_per_second"`
	CPU    float64 `json:"server_cpu_us_per_bundle"`
	Bytes  float64 `json:"bytes_per_answer"` // as they came
}

func (b *Bundles) median(of func(*BundleSample) float64) float64 {
	var x []float64
	for i := range b.Rounds {
		x = append(x, of(&b.Rounds[i]))
	}
	return host.Median(x)
}

func (b *Bundles) String() string {
	return fmt.Sprintf("full bundles with gzip, %s: %.0f/s, %.1f µs of the server's CPU, %.0f bytes each", b.Server,
		b.median(func(s *BundleSample) float64 { return s.PerSec }), b.median(func(s *BundleSample) float64 { return s.CPU }),
		b.median(func(s *BundleSample) float64 { return s.Bytes }))
}

// bundlesBeside is Holdfast's CPU a bundle as a multiple of Tessera's; NaN if either was not measured.
func (r *Report) bundlesBeside() float64 {
	at := map[string]float64{}
	for _, b := range r.Bundles {
		at[b.Server] = b.median(func(s *BundleSample) float64 { return s.CPU })
	}
	if at[posix] == 0 || at[holdfast] == 0 {
		return math.NaN()
	}
	return at[holdfast] / at[posix]
}

// bundles reads full bundles from each server in turns, as the monitors of a log do.
func (b *bench) bundles(ctx context.Context) error {
	sides := []*Bundles{{Server: posix}, {Server: holdfast}}
	for round := range b.rounds {
		for i := range sides {
			side := sides[(i+round)%len(sides)]
			s, err := b.start(side.Server, filepath.Join(b.dir, fmt.Sprintf("bundles.%d.%d", round, i)), place{})
			if err != nil {
				return err
			}
			sample, err := b.readBundles(ctx, s)
			if err := errors.Join(err, s.Kill()); err != nil {
				return fmt.Errorf("%s: %w", side.Server, err)
			}
			side.Rounds = append(side.Rounds, *sample)
		}
	}
	b.report.Bundles = sides
	for _, side := range sides {
		fmt.Println("  " + side.String())
	}
	return nil
}

func (b *bench) readBundles(ctx context.Context, s *server) (*BundleSample, error) {
	// Without compression of its own: what is counted is what the server sends.
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: bundleWriters, DisableCompression: true}, Timeout: time.Minute}
	if err := fillBundles(ctx, client, s); err != nil {
		return nil, err
	}
	if _, _, err := fetchBundles(ctx, client, s, time.Second); err != nil {
		return nil, err
	}
	before, err := s.CPU()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	n, bytes, err := fetchBundles(ctx, client, s, b.window)
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	after, err := s.CPU()
	if err != nil {
		return nil, err
	}
	return &BundleSample{PerSec: float64(n) / took.Seconds(), CPU: micros(after-before) / float64(n), Bytes: float64(bytes) / float64(n)}, nil
}

// fillBundles adds entries like the lines of a checksum database until all bundles are full, and one entry more.
func fillBundles(ctx context.Context, client *http.Client, s *server) error {
	var wg sync.WaitGroup
	errs := make(chan error, bundleWriters)
	for w := range bundleWriters {
		wg.Go(func() {
			for n := w; n <= bundlesRead*tiles.Width && ctx.Err() == nil; n += bundleWriters {
				entry := fmt.Sprintf("example.org/module%d v1.%d.%d h1:%016x%016x=\n", n%500, n/500, n%7, rand.Uint64(), rand.Uint64())
				res, err := client.Post(s.url+"/add", "", strings.NewReader(entry))
				if err == nil {
					_, err = io.Copy(io.Discard, res.Body)
					res.Body.Close()
					if err == nil && res.StatusCode != http.StatusOK {
						err = errors.New(res.Status)
					}
				}
				if err != nil {
					errs <- fmt.Errorf("add: %w", err)
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
	}
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		n, err := size(s.url)
		if err == nil && n > bundlesRead*tiles.Width {
			return nil
		}
		if ctx.Err() != nil || time.Since(began) > time.Minute {
			return fmt.Errorf("the checkpoint covers %d entries: %w", n, errors.Join(err, ctx.Err()))
		}
	}
}

// fetchBundles reads bundles for so long, and counts them and their bytes.
func fetchBundles(ctx context.Context, client *http.Client, s *server, lasts time.Duration) (n int, bytes int64, err error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	began := time.Now()
	for range bundleReaders {
		wg.Go(func() {
			for time.Since(began) < lasts && ctx.Err() == nil {
				got, e := fetchBundle(client, fmt.Sprintf("%s/tile/entries/%03d", s.url, rand.IntN(bundlesRead)))
				mu.Lock()
				n, bytes = n+1, bytes+got
				failed := e != nil
				if failed {
					err = e
				}
				mu.Unlock()
				if failed {
					return
				}
			}
		})
	}
	wg.Wait()
	return n, bytes, errors.Join(err, ctx.Err())
}

func fetchBundle(client *http.Client, url string) (int64, error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept-Encoding", "gzip")
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || n < tiles.Width) {
		err = fmt.Errorf("%s: %s, %d bytes", url, res.Status, n)
	}
	return n, err
}
