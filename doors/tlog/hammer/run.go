package hammer

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// Verify says which of the acknowledged entries are looked for in the log afterwards.
type Verify string

// The kinds of Verify.
const (
	VerifyAll    Verify = "all"
	VerifySample Verify = "sample" // one in sampled
	VerifyNone   Verify = "none"
)

const (
	sampled = 64
	// MostVerified is how many entries one run can verify: more are not sent with VerifyAll, nor remembered with VerifySample.
	// An entry is remembered in 40 bytes.
	MostVerified = 1 << 22
	// mostPending is how many acknowledged entries may wait for a checkpoint; those beyond are not timed, see Report.Untimed.
	mostPending = 1 << 20
	// MinEntry and MaxEntry bound Options.Size: the part that makes every entry unique has to fit in.
	MinEntry, MaxEntry = 40, 65535
	// MaxWriters and MaxDuration bound the rest.
	MaxWriters  = 10000
	MaxDuration = 24 * time.Hour
	// lastCheckpoint is how long a run waits, when the writers are done, for a checkpoint of all they wrote.
	lastCheckpoint = 30 * time.Second
)

// Options say what to do.
type Options struct {
	URL      string          // of the log, http or https, without /add
	Key      *tiles.Verifier // of the log
	Writers  int             // how many entries are under way at most
	Rate     int             // adds a second to send, 0 for as many as the writers can
	Size     int             // bytes of an entry; no two are equal
	Count    uint64          // entries to send, 0 for as many as fit the duration
	Duration time.Duration   // when sending ends; requests under way then are waited for
	Verify   Verify
	TLS      *tls.Config // for https; nil: this machine's trusted authorities
	Token    string      // sent with every add; "" = none
	// Watch is called once a second with how things stand, from one goroutine. Optional.
	Watch func(*Report)
}

// Check returns the fault of the options, in words for the person who gave them.
func (o *Options) Check() error {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "":
		return fmt.Errorf("%s is not the address of a log; write http://host:port", o.URL)
	case o.Key == nil || !o.Key.Usable():
		return fmt.Errorf("no key to check checkpoints with; `holdfast tlog vkey` prints a log's")
	case o.Writers < 1 || o.Writers > MaxWriters:
		return fmt.Errorf("%d writers; give 1 to %d", o.Writers, MaxWriters)
	case o.Rate < 0 || o.Rate > 10_000_000:
		return fmt.Errorf("a rate of %d; give 0 for no limit, or up to 10000000", o.Rate)
	case o.Size < MinEntry || o.Size > MaxEntry:
		return fmt.Errorf("entries of %d bytes; give %d to %d", o.Size, MinEntry, MaxEntry)
	case o.Duration <= 0 || o.Duration > MaxDuration:
		return fmt.Errorf("a duration of %v; give one up to %v", o.Duration, MaxDuration)
	case o.Verify == VerifyAll && o.Count > MostVerified:
		return fmt.Errorf("%d entries to verify; %d can be remembered, give fewer or verify a sample", o.Count, MostVerified)
	}
	switch o.Verify {
	case VerifyAll, VerifySample, VerifyNone:
		return nil
	}
	return fmt.Errorf("verify %q; give all, sample or none", o.Verify)
}

// hammer is one run.
type hammer struct {
	Options
	began, end time.Time
	prefix     []byte        // begins every entry of this run and of no other
	tickets    atomic.Uint64 // how many entries writers have begun to send

	adds, pushed, failed atomic.Uint64 // acknowledged; answered "later"; ended in an error
	queue, integrate     times

	mu       sync.Mutex // guards what follows
	pending  []sent     // acknowledged, and in no checkpoint seen so far
	untimed  uint64     // were not noted there for want of room
	kept     []leaf     // to be verified
	top      uint64     // one above the highest index given
	firstErr error
	first    *tiles.Checkpoint   // that the run saw
	newest   *tiles.Checkpoint   // that the run saw
	seen     []*tiles.Checkpoint // some of those between, by size; see note
	stride   int
	skipped  int
}

// sent is an entry that was acknowledged, and when it was sent or should have been.
type sent struct {
	index uint64
	at    time.Time
}

// leaf is the expected entry at an index.
type leaf struct {
	index uint64
	hash  tiles.Hash
}

// Run puts load on a log until the options or ctx end it, and then looks whether the log holds what it promised. The error is that of a run
// that could not begin; later errors are in the report, see Report.Err.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if o.Verify == VerifyAll && o.Count == 0 {
		o.Count = MostVerified
	}
	h := &hammer{Options: o, prefix: fmt.Appendf(nil, "%s ", rand.Text()[:16]), stride: 1}
	reader := newClient(&o)
	defer reader.close()
	if err := h.look(reader); err != nil {
		return nil, err
	}
	h.began = time.Now()
	h.end = h.began.Add(o.Duration)
	observing, stop := context.WithCancel(context.Background())
	defer stop()
	sending, cancel := context.WithDeadline(ctx, h.end)
	defer cancel()

	var observer, writers sync.WaitGroup
	observer.Go(func() { h.observe(observing, reader, cancel) })
	for range o.Writers {
		writers.Go(func() { h.write(sending) })
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	w := newWindow(h.began, h.size())
	h.watch(done, w)
	took := time.Since(h.began)
	grown := w.add(time.Now(), h.size())

	patience := time.Now().Add(lastCheckpoint)
	for !h.covered() && time.Now().Before(patience) && h.broken() == nil {
		time.Sleep(observeEvery)
	}
	stop()
	observer.Wait()
	r := h.report(took, grown)
	if o.Verify != VerifyNone && h.broken() == nil {
		r.Verified, r.Wrong, r.Fault = h.verify(reader)
	}
	return r, nil
}

// watch calls Options.Watch with the figures until done.
func (h *hammer) watch(done <-chan struct{}, w *window) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case now := <-tick.C:
			grown := w.add(now, h.size())
			if h.Watch != nil {
				h.Watch(h.report(now.Sub(h.began), grown))
			}
		}
	}
}

// write sends entries over one connection until there are no more to send.
func (h *hammer) write(ctx context.Context) {
	c := newClient(&h.Options)
	defer c.close()
	e := h.newEntry()
	for {
		n := h.tickets.Add(1) - 1
		if h.Count > 0 && n >= h.Count {
			return
		}
		due := time.Now()
		if h.Rate > 0 {
			// A writer that comes late is timed from when it should have come: a slow answer must not hide the waiting of
			// those behind it.
			due = h.began.Add(time.Duration(float64(n) / float64(h.Rate) * float64(time.Second)))
			sleep(ctx, time.Until(due))
		}
		if ctx.Err() != nil {
			return
		}
		entry := e.numbered(n)
		for again := true; again; {
			again = h.one(ctx, c, n, entry, due)
		}
	}
}

// one sends an entry once and reports whether it is to be sent again.
func (h *hammer) one(ctx context.Context, c *client, n uint64, entry []byte, due time.Time) bool {
	index, after, err := c.add(entry)
	switch {
	case err != nil:
		h.failed.Add(1)
		h.fault(err)
		sleep(ctx, 100*time.Millisecond) // so that a server that is gone is not asked in a busy loop
		return false
	case after > 0:
		h.pushed.Add(1)
		sleep(ctx, after)
		return ctx.Err() == nil
	}
	h.queue.add(time.Since(due))
	h.adds.Add(1)
	keep := h.Verify == VerifyAll || h.Verify == VerifySample && n%sampled == 0
	var hash tiles.Hash
	if keep {
		hash = tiles.LeafHash(entry)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.top = max(h.top, index+1)
	if len(h.pending) < mostPending {
		h.pending = append(h.pending, sent{index, due})
	} else {
		h.untimed++
	}
	if keep && len(h.kept) < MostVerified {
		h.kept = append(h.kept, leaf{index, hash})
	}
	return false
}

// fault remembers the first error, or the first that makes all others pointless.
func (h *hammer) fault(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.firstErr == nil || errors.Is(err, errBroken) && !errors.Is(h.firstErr, errBroken) {
		h.firstErr = err
	}
}

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
