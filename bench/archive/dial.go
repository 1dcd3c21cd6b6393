package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfastdb/holdfast/internal/bucket"
	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/objstore"
)

const (
	smallValue, largeValue = 100, 10_000
	// bareUploads is how many are timed beside a round, of about what a span has.
	bareUploads, bareBytes = 100, 16 << 10
	// below is where all prefixes are.
	below = "bench"
)

// dial measures all modes over every store, taking turns.
func (b *bench) dial(ctx context.Context) error {
	for _, delay := range b.delays {
		if err := b.turns(ctx, modes, smallValue, delay); err != nil {
			return err
		}
	}
	return nil
}

// large measures what shipping costs where there is much to ship.
func (b *bench) large(ctx context.Context) error {
	return b.turns(ctx, modes[:2], largeValue, b.delays[0])
}

// turns measures some modes under one load, in rounds; the first one has the colder machine.
func (b *bench) turns(ctx context.Context, modes []string, size int, delay time.Duration) error {
	for round := range b.rounds {
		for i := range modes {
			mode := modes[(i+round)%len(modes)]
			s, err := b.measure(ctx, mode, size, delay)
			if err != nil {
				return fmt.Errorf("%s, upload %v: %w", mode, delay, err)
			}
			f := b.report.find(mode, b.clients, size, delay)
			f.Rounds = append(f.Rounds, *s)
			fmt.Printf("  upload %v, %s, %d bytes: %.0f puts/s, p50 %.1f ms, p95 %.1f ms, CPU %.0f µs a put, %.1f uploads/s\n", delay, mode, size, s.PerSecond,
				s.P50, s.P95, s.CPU, s.Uploads)
		}
	}
	return nil
}

// flags of a server in that mode, and the prefix it ships to.
func flags(store *bucket.Bucket, mode, prefix string) []string {
	switch mode {
	case ackCommit:
		return []string{"--archive", store.URL(below + "/" + prefix)}
	case ackStored:
		return []string{"--archive", store.URL(below + "/" + prefix), "--ack", "archive"}
	}
	return nil
}

// serve starts one server in a new directory. end kills it and removes everything.
func (b *bench) serve(mode, prefix string) (n *proctest.Node, end func() error, err error) {
	dir, err := os.MkdirTemp(b.dir, "server.")
	if err != nil {
		return nil, nil, err
	}
	c, err := proctest.New(dir, proctest.Holdfast(b.bin, append(flags(b.store, mode, prefix), "--memory", proctest.Memory)...), 1)
	if err == nil {
		err = c.Run()
	}
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return c.Nodes[0], func() error {
		c.Close()
		return os.RemoveAll(dir)
	}, nil
}

// measure is one round.
func (b *bench) measure(ctx context.Context, mode string, size int, delay time.Duration) (s *Sample, err error) {
	b.store.Slow(delay)
	s = &Sample{}
	if s.BareP50, s.BareP95, err = b.bare(ctx); err != nil {
		return nil, err
	}
	prefix := filepath.Base(b.dir) + fmt.Sprintf("-%d", time.Now().UnixNano())
	n, end, err := b.serve(mode, prefix)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end(), b.forget(prefix)) }()
	var used time.Duration
	var asked bucket.Counts
	l := &load{addr: n.KV, clients: b.clients, size: size, keys: 10_000,
		begins: func() (err error) {
			asked = b.store.Counts()
			used, err = n.CPU()
			return err
		},
		ends: func() error {
			asked = b.store.Counts().Minus(asked)
			now, err := n.CPU()
			used = now - used
			return err
		}}
	took, seconds, err := l.run(ctx, b.window)
	if err != nil {
		return nil, err
	}
	if s.RSS, err = n.RSS(); err != nil {
		return nil, err
	}
	s.Seconds, s.PerSecond = seconds, float64(len(took))/seconds
	s.P50, s.P95, s.P99 = quantile(took, 0.5), quantile(took, 0.95), quantile(took, 0.99)
	s.CPU = used.Seconds() * 1e6 / float64(len(took))
	s.Uploads, s.PerThou = float64(asked.Puts)/seconds, 1000*float64(asked.Puts)/float64(len(took))
	s.Shipped = asked.PutBytes
	return s, nil
}

// bare times single uploads by the client that the server has.
func (b *bench) bare(ctx context.Context) (p50, p95 float64, err error) {
	prefix := fmt.Sprintf("bare-%d", time.Now().UnixNano())
	s, err := objstore.Open(b.store.URL(below + "/" + prefix))
	if err != nil {
		return 0, 0, err
	}
	var took []time.Duration
	for i := range bareUploads {
		began := time.Now()
		if err := s.PutIfAbsent(ctx, objstore.Object{Name: fmt.Sprint(i), Data: make([]byte, bareBytes)}); err != nil {
			return 0, 0, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return quantile(took, 0.5), quantile(took, 0.95), b.forget(prefix)
}

// forget removes what lies below a prefix: the store is in memory.
func (b *bench) forget(prefix string) error {
	s, err := objstore.Open(b.store.URL(below))
	if err != nil {
		return err
	}
	return s.DeleteAll(context.Background(), prefix)
}
