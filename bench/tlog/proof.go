package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/tiles"
)

// proofRate is how many adds a second proofs are timed at, proofClients how many clients share them.
const (
	proofRate    = 1000
	proofClients = 64
)

// proofs measures the time from sending an entry until the proof in the answer has been verified, at a steady rate. An add is
// timed from when it should have been sent: a late one does not hide the wait that made it late.
func proofs(dir, bin string, window time.Duration) error {
	addr, err := freeAddress()
	if err != nil {
		return err
	}
	keys := filepath.Join(dir, "keys")
	text, err := exec.Command(bin, "tlog", "keygen", "default", "--origin", "log.example/bench", "--tlog-keys", keys).Output()
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	key, err := tiles.ParseVerifier(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	p := proctest.NewProcess(filepath.Join(dir, "log"), bin, "serve", "--data", filepath.Join(dir, "data"), "--tlog", addr, "--admin", "off",
		"--tlog-keys", keys)
	if err := p.Start(); err != nil {
		return err
	}
	defer p.Kill()
	url := "http://" + addr
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if _, err := size(url); err == nil {
			break
		} else if time.Since(began) > 20*time.Second {
			return err
		}
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
				err := proved(client, url, fmt.Sprintf("entry %d of client %d", n, id), key)
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
	cpu, err := p.CPU()
	if err != nil {
		return err
	}
	for n := time.Duration(0); n*time.Second/proofRate < window; n++ {
		at := began.Add(n * time.Second / proofRate)
		time.Sleep(time.Until(at))
		due <- at
	}
	close(due)
	wg.Wait()
	if failed != nil {
		return failed
	}
	after, err := p.CPU()
	if err != nil {
		return err
	}
	slices.Sort(took)
	at := func(share float64) time.Duration {
		return took[min(int(share*float64(len(took))), len(took)-1)].Round(10 * time.Microsecond)
	}
	fmt.Fprintf(os.Stdout, "add to verified proof at %d adds/s, %d adds: p50 %v, p90 %v, p99 %v, most %v; server %.1f µs CPU an add\n", proofRate, len(took),
		at(0.5), at(0.9), at(0.99), at(1), float64((after-cpu).Microseconds())/float64(len(took)))
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
