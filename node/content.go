package node

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/holdfastdb/holdfast/internal/wire"
	"github.com/holdfastdb/holdfast/store"
)

// Content is what a state holds, whichever member has it: all members have the same at one index, and so has who replays the log to it
// (docs/formats/store.md). The rolling state hash vouches for how a state came about, this one for what it is.
type Content struct {
	Index uint64 // the applied index
	Hash  [sha256.Size]byte
	// Rows and Bytes, of keys and values, are those that were hashed.
	Rows, Bytes uint64
}

// Content reads the whole state of this member as of some applied index after the call began, beside all other work. Errors: ErrStopped,
// ctx's, or a failed read. Safe for concurrent use.
func (n *Node) Content(ctx context.Context) (Content, error) {
	v, _, err := n.SnapshotView(ctx)
	if err != nil {
		return Content{}, err
	}
	defer v.Close()
	return ContentOf(ctx, n.cfg, v)
}

// ContentOf reads all rows of v. Of cfg only Machines count: rows of a machine that is not among them are an error, because nobody here
// knows whose they are.
func ContentOf(ctx context.Context, cfg Config, v store.View) (Content, error) {
	c, err := contentOf(ctx, cfg, v)
	if err != nil {
		return Content{}, fmt.Errorf("hash the state: %w", err)
	}
	return c, nil
}

func contentOf(ctx context.Context, cfg Config, v store.View) (c Content, err error) {
	specs, sum := cfg.specs(), sha256.New()
	it, err := v.NewIter(nil, nil)
	if err != nil {
		return c, err
	}
	defer it.Close() // nothing is written through it
	var row []byte
	for ok := it.First(); ok; ok = it.Next() {
		if c.Rows%1024 == 0 && ctx.Err() != nil {
			return c, ctx.Err()
		}
		k := it.Key()
		if string(k) == string(installKey) { // how this member came to its state, which is no part of it
			continue
		}
		if err := specs.Known(k); err != nil {
			return c, err
		}
		val, err := it.Value()
		if err != nil {
			return c, err
		}
		if string(k) == string(store.AppliedKey) && len(val) == 8 {
			c.Index = binary.BigEndian.Uint64(val)
		}
		row = wire.AppendBytes(wire.AppendBytes(row[:0], k), val)
		sum.Write(row)
		c.Rows++
		c.Bytes += uint64(len(k) + len(val))
	}
	sum.Sum(c.Hash[:0])
	return c, it.Error()
}
