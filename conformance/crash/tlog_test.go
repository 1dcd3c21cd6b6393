package crash

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// tlogLoad is writers that add entries of their own and pollers that collect every checkpoint any member shows.
type tlogLoad struct {
	client *http.Client
	hosts  []string
	key    *tiles.Verifier
	acked  atomic.Int64

	mu     sync.Mutex
	given  map[uint64]string            // guarded by mu: what was acknowledged at an index
	twice  []string                     // guarded by mu: indexes that were given twice
	open   map[string]bool              // guarded by mu: entries of which an attempt had no answer
	seen   map[string]*tiles.Checkpoint // guarded by mu: by note
	faults []string                     // guarded by mu
	again  int                          // guarded by mu: adds sent again after a 503
}

// write adds entries until ctx ends, each until it is acknowledged or its outcome is open. As Tessera's tools do, it sends an
// entry again after a 503.
func (l *tlogLoad) write(ctx context.Context, id int, r *rand.Rand) {
	for n := 0; ctx.Err() == nil; n++ {
		entry := fmt.Sprintf("entry %d of writer %d", n, id)
		for ctx.Err() == nil {
			code, body, err := l.post(ctx, l.hosts[r.IntN(len(l.hosts))], entry)
			l.mu.Lock()
			switch index, err2 := strconv.ParseUint(body, 10, 64); {
			case err != nil && strings.Contains(err.Error(), "refused"): // no listener
				l.mu.Unlock()
				time.Sleep(20 * time.Millisecond)
				continue
			case err != nil || code == 500:
				l.open[entry] = true
			case code == 503:
				l.again++
				l.mu.Unlock()
				time.Sleep(50 * time.Millisecond)
				continue
			case code == 200 && err2 == nil:
				if was, taken := l.given[index]; taken {
					l.twice = append(l.twice, fmt.Sprintf("%d: %s and %s", index, was, entry))
				}
				l.given[index] = entry
				l.acked.Add(1)
			default:
				l.faults = append(l.faults, fmt.Sprintf("add answers %d %q", code, body))
			}
			l.mu.Unlock()
			break
		}
	}
}

func (l *tlogLoad) post(ctx context.Context, host, entry string) (int, string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+host+"/add", strings.NewReader(entry))
	req.GetBody = nil // the client must not send it again by itself
	res, err := l.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

// poll collects a member's checkpoints until ctx ends.
func (l *tlogLoad) poll(ctx context.Context, host string) {
	for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		note, err := l.get(host, "checkpoint")
		if err != nil {
			continue
		}
		l.mu.Lock()
		if l.seen[string(note)] == nil {
			c, _, err := tiles.OpenCheckpoint(note, l.key)
			if err != nil {
				l.faults = append(l.faults, fmt.Sprintf("checkpoint of %s: %v in %q", host, err, note))
			} else {
				l.seen[string(note)] = c
			}
		}
		l.mu.Unlock()
	}
}

func (l *tlogLoad) get(host, path string) ([]byte, error) {
	res, err := l.client.Get("http://" + host + "/" + path)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", path, res.Status)
	}
	return io.ReadAll(res.Body)
}

// TestTlogKill9 kills members under adds. Every acknowledged index holds exactly its entry and was given once, and a refused entry is not
// in the log. Every checkpoint that any client got is of the tree the log ends as.
func TestTlogKill9(t *testing.T) {
	processTest(t, false)
	beside(t)
	t.Run("one", func(t *testing.T) { tlogKill9(t, 1, count("TLOG_KILLS_ONE", 3, 50)) })
	t.Run("three", func(t *testing.T) { tlogKill9(t, 3, count("TLOG_KILLS_THREE", 3, 50)) })
}

func tlogKill9(t *testing.T, nodes, kills int) {
	r := rng(t)
	keys := t.TempDir()
	signer, err := tiles.NewSigner("log.example/crash", bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(keys, "default.key"), []byte(signer.Private()), 0o600); err != nil {
		t.Fatal(err)
	}
	c := start(t, nodes, "--tlog", "{tlog}", "--tlog-keys", keys)
	l := &tlogLoad{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: wait.Limit(t)}, key: signer.Verifier(),
		given: map[uint64]string{}, open: map[string]bool{}, seen: map[string]*tiles.Checkpoint{}}
	for _, n := range c.Nodes {
		l.hosts = append(l.hosts, n.Addr("tlog"))
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	pollCtx, stopPolls := context.WithCancel(t.Context())
	defer stopPolls()
	var load, polls sync.WaitGroup
	for id := range 16 {
		own := rand.New(rand.NewPCG(uint64(seed), uint64(id)))
		load.Go(func() { l.write(ctx, id, own) })
	}
	for _, h := range l.hosts {
		polls.Go(func() { l.poll(pollCtx, h) })
	}
	k := &killer{r: r, c: c}
	for k.kills < kills {
		time.Sleep(between(r, 200*time.Millisecond, 700*time.Millisecond))
		victims := k.strike(t)
		before := l.acked.Load()
		k.revive(t, victims)
		if err := c.WaitReady(); err != nil {
			t.Fatal(err)
		}
		if !eventually(t, func() bool { return l.acked.Load() > before+20 }) {
			t.Fatalf("nothing was acknowledged in 20 s after kill %d, though all members are ready", k.kills)
		}
	}
	stop()
	load.Wait()

	time.Sleep(50 * time.Millisecond)
	stopPolls()
	polls.Wait()

	// All members come to one checkpoint that covers the acknowledged entries and every checkpoint that any client got. Adds whose callers
	// have gone may still come to the log.
	var last *tiles.Checkpoint
	var note []byte
	most := uint64(0)
	for index := range l.given {
		most = max(most, index+1)
	}
	for _, c := range l.seen { // any order: the largest counts
		most = max(most, c.Size)
	}
	if !eventually(t, func() bool {
		var err error
		if note, err = l.get(l.hosts[0], "checkpoint"); err != nil {
			return false
		}
		if last, _, err = tiles.OpenCheckpoint(note, l.key); err != nil || last.Size < most {
			return false
		}
		for _, h := range l.hosts[1:] {
			if other, err := l.get(h, "checkpoint"); err != nil || !bytes.Equal(other, note) {
				return false
			}
		}
		return true
	}) {
		t.Fatalf("the members do not come to one checkpoint of at least %d: %s", most, note)
	}
	var f tiles.Frontier
	roots := map[uint64]tiles.Hash{0: tiles.EmptyRoot()}
	places := map[string]int{}
	for n := uint64(0); n*tiles.Width < last.Size; n++ {
		ref := tiles.Ref{Level: tiles.EntryLevel, N: n, Width: int(min(last.Size-n*tiles.Width, tiles.Width))}
		b, err := l.get(l.hosts[int(n)%len(l.hosts)], ref.Path())
		if err != nil {
			t.Fatal(err)
		}
		for len(b) > 0 {
			var e []byte
			if e, b, err = tiles.NextEntry(b); err != nil {
				t.Fatal(err)
			}
			index := f.Size()
			if want, acked := l.given[index]; acked && want != string(e) {
				t.Errorf("index %d was given to %q and holds %q", index, want, e)
			}
			places[string(e)]++
			var done tiles.Completed
			f.Append(tiles.LeafHash(e), &done)
			roots[f.Size()] = f.Root()
		}
	}
	if f.Size() != last.Size {
		t.Errorf("%d entries under a checkpoint of %d", f.Size(), last.Size)
	}
	repeated := 0
	for e, n := range places {
		if n > 1 {
			repeated++
			if !l.open[e] { // sent again although it was in the log
				t.Errorf("%q is in the log %d times", e, n)
			}
		}
	}
	for _, c := range l.seen {
		if root, ok := roots[c.Size]; !ok || root != c.Root {
			t.Errorf("somebody got a checkpoint of size %d with root %s, which the log never had (%s)", c.Size, c.Root, root)
		}
	}
	for _, s := range append(l.twice, l.faults...) {
		t.Error(s)
	}
	summary(t, "tlog kill9: %d kills, %d nodes, %s adds acknowledged, %s entries, %s distinct checkpoints, %d adds refused and sent again, %d open, "+
		"%d in the log twice, %d indexes given twice", k.kills, nodes, grouped(int(l.acked.Load())), grouped(int(last.Size)), grouped(len(l.seen)), l.again,
		len(l.open), repeated, len(l.twice))
}
