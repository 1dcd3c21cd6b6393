package hammer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

const (
	// observeEvery is how often the checkpoint is asked for. An entry is seen in the tree up to that much late.
	observeEvery = 20 * time.Millisecond
	// mostSeen is how many checkpoints are remembered, to be compared with the last one.
	mostSeen = 64
)

// errBroken: two of the log's checkpoints contradict each other, or one cannot be read.
var errBroken = errors.New("the log is broken")

// observe looks at the checkpoint until ctx ends. Once the log is broken it calls giveUp and looks no more.
func (h *hammer) observe(ctx context.Context, c *client, giveUp func()) {
	tick := time.NewTicker(observeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := h.look(c); err != nil {
				h.fault(err)
				if errors.Is(err, errBroken) {
					giveUp()
					return
				}
				sleep(ctx, time.Second) // a server that does not answer is asked less often
			}
		}
	}
}

// look fetches the checkpoint and times the entries that it is the first to cover.
func (h *hammer) look(c *client) error {
	b, err := c.get("checkpoint")
	if err != nil {
		return err
	}
	cp, _, err := tiles.OpenCheckpoint(b, h.Key)
	if err != nil {
		return fmt.Errorf("checkpoint: %w: %w", errBroken, err)
	}
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.newest != nil {
		switch {
		case cp.Size < h.newest.Size:
			return fmt.Errorf("checkpoint: %w: size %d after %d", errBroken, cp.Size, h.newest.Size)
		case cp.Size == h.newest.Size && cp.Root != h.newest.Root:
			return fmt.Errorf("checkpoint: %w: size %d with root %s and with %s", errBroken, cp.Size, cp.Root, h.newest.Root)
		case cp.Size == h.newest.Size:
			return nil
		}
	} else {
		h.first = cp
	}
	h.newest = cp
	h.note(cp)
	waiting := h.pending[:0]
	for _, s := range h.pending {
		if s.index >= cp.Size {
			waiting = append(waiting, s)
			continue
		}
		h.integrate.add(now.Sub(s.at))
	}
	h.pending = waiting
	return nil
}

// note remembers a checkpoint. When there are too many, every other one goes and fewer come: they stay spread over the run.
// The caller holds mu.
func (h *hammer) note(cp *tiles.Checkpoint) {
	if h.skipped++; h.skipped < h.stride {
		return
	}
	h.skipped = 0
	h.seen = append(h.seen, cp)
	if len(h.seen) < mostSeen {
		return
	}
	kept := h.seen[:0]
	for i := 0; i < len(h.seen); i += 2 {
		kept = append(kept, h.seen[i])
	}
	h.seen, h.stride = kept, h.stride*2
}

// size is that of the newest checkpoint.
func (h *hammer) size() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.newest.Size
}

// covered reports whether the newest checkpoint has every entry that was acknowledged.
func (h *hammer) covered() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.newest.Size >= h.top
}

// broken is the first error if it is one that makes all else pointless.
func (h *hammer) broken() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if errors.Is(h.firstErr, errBroken) {
		return h.firstErr
	}
	return nil
}

// window knows how the tree grew in the last windowSeconds. It belongs to one goroutine.
type window struct{ marks []mark }

type mark struct {
	at   time.Time
	size uint64
}

const windowSeconds = 30

func newWindow(at time.Time, size uint64) *window { return &window{[]mark{{at, size}}} }

// growth is how many entries a second came in how many seconds.
type growth struct{ rate, seconds float64 }

// add notes the size at a time and forgets what is too old.
func (w *window) add(at time.Time, size uint64) growth {
	w.marks = append(w.marks, mark{at, size})
	for len(w.marks) > 2 && at.Sub(w.marks[1].at) >= windowSeconds*time.Second {
		w.marks = w.marks[1:]
	}
	from := w.marks[0]
	seconds := at.Sub(from.at).Seconds()
	if seconds <= 0 {
		return growth{}
	}
	return growth{float64(size-from.size) / seconds, seconds}
}
