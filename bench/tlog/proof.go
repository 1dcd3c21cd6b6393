package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// proofRate is how many adds a second proofs are timed at, proofClients how many clients share them.
const (
	proofRate    = 1000
	proofClients = 64
)

// Proofs says how long adds took until their proofs were verified.
type Proofs struct {
	Rate int     `json:"adds_per_second_asked"`
	Got  float64 `json:"adds_per_second"`
	Adds int     `json:"adds"`
	P50  float64 `json:"p50_ms"`
	P90  float64 `json:"p90_ms"`
	P99  float64 `json:"p99_ms"`
	Max  float64 `json:"max_ms"`
	CPU  float64 `json:"server_cpu_us_per_add"`
}

func (p *Proofs) String() string {
	return fmt.Sprintf("add to verified proof at %d adds/s: %d adds, %.0f/s, p50 %.2f ms, p90 %.2f ms, p99 %.2f ms, most %.2f ms; server %.1f µs CPU an add",
		p.Rate, p.Adds, p.Got, p.P50, p.P90, p.P99, p.Max, p.CPU)
}

// proofs measures the time from sending an entry until the proof in the answer has been verified, at a steady rate. An add is
// timed from when it should have been sent: a late one does not hide the wait that made it late.
func (b *bench) proofs(ctx context.Context) error {
	s, err := b.start(holdfast, filepath.Join(b.dir, "proofs"), place{})
	if err != nil {
		return err
	}
	defer s.Kill()
	key, err := tiles.ParseVerifier(s.key)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: proofClients}, Timeout: 30 * time.Second}
	due := make(chan time.Time, proofRate)
	var mu sync.Mutex
	var took []time.Duration
	var failed error
	var wg sync.WaitGroup
	for id := range proofClients {
		wg.Go(func() {
			for n := 0; ; n++ {
				at, more := <-due
				if !more {
					return
				}
				err := proved(client, s.url, fmt.Sprintf("entry %d of client %d", n, id), key)
				mu.Lock()
				took = append(took, time.Since(at))
				if err != nil {
					failed = err
				}
				mu.Unlock()
			}
		})
	}
	began := time.Now()
	cpu, err := s.CPU()
	if err != nil {
		return err
	}
	for n := time.Duration(0); n*time.Second/proofRate < b.window && ctx.Err() == nil; n++ {
		at := began.Add(n * time.Second / proofRate)
		time.Sleep(time.Until(at))
		due <- at
	}
	close(due)
	wg.Wait()
	if failed != nil || ctx.Err() != nil {
		return errors.Join(failed, ctx.Err())
	}
	seconds := time.Since(began).Seconds()
	after, err := s.CPU()
	if err != nil {
		return err
	}
	slices.Sort(took)
	at := func(share float64) float64 {
		return micros(took[min(int(share*float64(len(took))), len(took)-1)]) / 1000
	}
	b.report.Proofs = &Proofs{Rate: proofRate, Got: float64(len(took)) / seconds, Adds: len(took), P50: at(0.5), P90: at(0.9), P99: at(0.99),
		Max: at(1), CPU: micros(after-cpu) / float64(len(took))}
	fmt.Println("  " + b.report.Proofs.String())
	return nil
}

// proved adds an entry and verifies the proof it gets.
func proved(client *http.Client, url, entry string, key *tiles.Verifier) error {
	res, err := client.Post(url+"/add?proof=1", "", strings.NewReader(entry))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	proof, err := tiles.ParseTlogProof(b)
	if err != nil {
		return fmt.Errorf("%s %q: %w", res.Status, b, err)
	}
	_, err = proof.Verify([]byte(entry), key)
	return err
}
