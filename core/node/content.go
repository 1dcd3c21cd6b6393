package node

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"

	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/store"
	"github.com/holdfastdb/holdfast/internal/wire"
)

// Content is the content of a state. All members have the same at one index, and so has a replay of the log to that index
// (docs/formats/store.md). The rolling state hash vouches for the history of a state, this one for the state itself.
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

// ContentOf reads all rows of v. Of cfg only Machines count: rows of a machine that is not listed there are an error,
// because their owner is unknown.
func ContentOf(ctx context.Context, cfg Config, v store.View) (Content, error) {
	c, err := contentOf(ctx, cfg, v)
	if err != nil {
		return Content{}, fmt.Errorf("hash the state: %w", err)
	}
	return c, nil
}

func contentOf(ctx context.Context, cfg Config, v store.View) (Content, error) {
	sum := newContentSum(&cfg)
	it, err := v.NewIter(nil, nil)
	if err != nil {
		return Content{}, err
	}
	defer it.Close() // nothing is written through it
	for ok := it.First(); ok; ok = it.Next() {
		if sum.c.Rows%1024 == 0 && ctx.Err() != nil {
			return Content{}, ctx.Err()
		}
		val, err := it.Value()
		if err == nil {
			err = sum.add(it.Key(), val)
		}
		if err != nil {
			return Content{}, err
		}
	}
	return sum.end(), it.Error()
}

// ContentOfSnapshot reads a snapshot to its end and returns the content of the state in it. Of cfg only Machines count.
func ContentOfSnapshot(cfg Config, r io.Reader) (Content, *SnapshotInfo, error) {
	sum := newContentSum(&cfg)
	info, err := ReadSnapshot(r, nil, sum.add)
	if err != nil {
		return Content{}, nil, err
	}
	return sum.end(), info, nil
}

// contentSum makes a Content of rows that come in order.
type contentSum struct {
	specs machine.Specs
	sum   hash.Hash
	row   []byte
	c     Content
}

func newContentSum(cfg *Config) *contentSum {
	return &contentSum{specs: cfg.specs(), sum: sha256.New()}
}

func (s *contentSum) add(k, v []byte) error {
	if string(k) == string(installKey) { // how this member came to its state, which is no part of it
		return nil
	}
	if err := s.specs.Known(k); err != nil {
		return err
	}
	if string(k) == string(store.AppliedKey) && len(v) == 8 {
		s.c.Index = binary.BigEndian.Uint64(v)
	}
	s.row = wire.AppendBytes(wire.AppendBytes(s.row[:0], k), v)
	s.sum.Write(s.row)
	s.c.Rows++
	s.c.Bytes += uint64(len(k) + len(v))
	return nil
}

func (s *contentSum) end() Content {
	s.sum.Sum(s.c.Hash[:0])
	return s.c
}
