package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// holder is a client in a session of --ack archive. It trusts its writes and reads only when they are archived. Its writes stay: each key
// is written once.
type holder struct {
	b     *archiveBook
	id    int
	count int
	pause time.Duration // mean time between two calls
}

// wait is one awaited answer.
type wait struct {
	h     *host
	gen   int
	index uint64
	ended bool
}

// heldDir is where holders write.
const heldDir = "held/"

func (c *holder) next() {
	b := c.b
	w, r := b.w, b.r
	if b.done {
		return
	}
	h := w.hosts[r.IntN(len(w.hosts))]
	if h.n == nil {
		w.after(Between(r, time.Millisecond, 30*time.Millisecond), c.next)
		return
	}
	c.count++
	patience := Between(r, 500*time.Millisecond, 8*time.Second)
	if r.IntN(3) == 0 {
		patience = time.Hour // it waits for as long as its member lives
	}
	w.after(min(patience, Around(r, c.pause)), c.next) // a server has many clients
	n, key, read := h.n, fmt.Sprintf("%s%d.%d", heldDir, c.id, c.count), r.IntN(3) == 0
	h.tasks.Go(func() {
		ctx, cancel := h.tasks.Timeout(patience)
		defer cancel()
		if read {
			c.read(ctx, h, n, r)
		} else {
			c.write(ctx, h, n, key)
		}
	})
}

func (c *holder) write(ctx context.Context, h *host, n *node.Node, key string) {
	w := c.b.w
	for {
		put := &kvpart.Put{Key: []byte(key), Value: []byte(key)}
		parts, _ := h.permit(entry.Part{Machine: entry.MachineKV, Body: kvpart.Append(nil, &kvpart.Part{Put: put})})
		res, err := n.Propose(ctx, laneKV, parts...)
		switch {
		case err == nil && w.users.outdated(res.Rejection):
			continue
		case errors.Is(err, node.ErrUnknown), errors.Is(err, node.ErrOverloaded), errors.Is(err, node.ErrNoLeader):
		case err != nil:
			w.fail(WrongOutcome, "a put of %s through %s ended with %v", key, h.name, err)
		case res.Rejection != nil:
			w.fail(WrongOutcome, "a put of %s through %s: %v", key, h.name, res.Rejection)
		default:
			c.await(ctx, h, n, res.Pos.Index, key)
		}
		return
	}
}

// read looks at what all holders have written, at one of them at a time.
func (c *holder) read(ctx context.Context, h *host, n *node.Node, r *rand.Rand) {
	w, m := c.b.w, h.kv // of the process that was asked
	switch err := n.Linearize(ctx); {
	case ctx.Err() != nil:
		return
	case err != nil:
		w.fail(WrongOutcome, "read through %s ended with %v", h.name, err)
	}
	res, _, err := m.Range(&kvpart.Range{Key: fmt.Appendf(nil, "%s%d.", heldDir, r.IntN(3)), End: []byte(heldDir + "~"), Limit: 100}, 0)
	if err != nil {
		w.fail(Stopped, "%s range: %v", h.name, err)
	}
	var keys []string
	for _, kv := range res.KVs {
		keys = append(keys, string(kv.Key))
	}
	c.await(ctx, h, n, n.ReadIndex(), keys...)
}

// await waits until an index is archived, and then takes the keys for held.
func (c *holder) await(ctx context.Context, h *host, n *node.Node, index uint64, keys ...string) {
	b, w := c.b, c.b.w
	at := &wait{h: h, gen: h.gen, index: index}
	b.waits = append(b.waits, at)
	err := n.Archived(ctx, index)
	at.ended = true
	switch {
	case err == nil:
	case ctx.Err() != nil, errors.Is(err, node.ErrStopped):
		w.rep.Unheld++
		return
	default:
		w.fail(WrongOutcome, "%s waits for entry %d to be archived, and hears %v", h.name, index, err)
	}
	if !b.bucket.covers(index) {
		w.fail(NotArchived, "%s was told that entry %d is archived, and the archive has entries up to %d", h.name, index, b.bucket.reach)
	}
	w.rep.Held++
	b.upTo = max(b.upTo, index)
	for _, key := range keys {
		b.held[key] = true
	}
}

// unheld returns the reason why the archive is not at rest, "" if it is. A client waits at this member, or it leads and has entries that
// are not archived.
func (b *archiveBook) unheld(h *host) string {
	left := b.waits[:0]
	for _, at := range b.waits {
		if !at.ended && at.h.gen == at.gen {
			left = append(left, at)
		}
	}
	b.waits = left
	for _, at := range left {
		if at.h == h {
			return fmt.Sprintf("somebody waits at %s until entry %d is archived; it has heard of %d", h.name, at.index, h.n.ArchivedIndex())
		}
	}
	if applied, at := h.n.Status().Applied, h.n.ArchivedIndex(); h.Leads() != 0 && at < applied {
		return fmt.Sprintf("%s leads, has applied %d entries and archived %d", h.name, applied, at)
	}
	return ""
}
