package store

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// generation is one Pebble database between two Installs. Its readers are counted: the last one to release it closes and deletes the
// database, because Pebble does not survive a read after Close.
type generation struct {
	s        *db
	pdb      *pebble.DB
	number   int
	dir      string
	refs     atomic.Int64 // readers, plus one while it is s.cur
	replaced atomic.Bool  // new calls answer ErrReplaced
	opened   atomic.Bool
	quiet    atomic.Bool // closing, or not yet installed: a failed background job does not stop the node

	failOnce sync.Once
	failed   chan struct{} // closed by the first failed background job; Pebble retries such a job for ever
	failure  error         // read after failed is closed
}

// acquire takes a reference unless the generation is already gone.
func (g *generation) acquire() bool {
	for {
		n := g.refs.Load()
		if n == 0 {
			return false
		}
		if g.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (g *generation) release() {
	if g.refs.Add(-1) == 0 {
		g.quiet.Store(true)
		_ = g.pdb.Close() // the data is obsolete or already durable as far as it ever will be: nothing can be lost here
		if g.replaced.Load() {
			_ = g.s.fs.RemoveAll(g.dir) // if this fails the next Open removes it
		}
	}
}

// openGeneration opens one Pebble directory; only a fresh store may find it missing.
func (s *db) openGeneration(number int, fresh bool) (*generation, error) {
	g := &generation{s: s, number: number, dir: s.fs.PathJoin(s.dir, generationName(number)), failed: make(chan struct{})}
	g.refs.Store(1)
	if err := g.open(s.pebbleOptions(g, fresh)); err != nil {
		return nil, err
	}
	g.opened.Store(true)
	return g, nil
}

// open turns Pebble's panic over a directory that cannot be synced into an error, see fatalFS.
func (g *generation) open(o *pebble.Options) (err error) {
	defer func() {
		if p := recover(); p != nil {
			perr, ok := p.(error)
			if _, bug := p.(runtime.Error); bug || !ok {
				panic(p) // not an error of the file system
			}
			err = perr
		}
	}()
	g.pdb, err = pebble.Open(g.dir, o)
	return err
}

func (s *db) pebbleOptions(g *generation, fresh bool) *pebble.Options {
	o := &pebble.Options{
		FS:                          fatalFS{s.fs, g},
		Cache:                       s.cache,
		DisableWAL:                  true, // the commit log is the WAL
		ErrorIfNotExists:            !fresh,
		FormatMajorVersion:          s.format(),
		MemTableSize:                uint64(s.opts.MemtableBytes),
		MemTableStopWritesThreshold: noMemtableStop,
		L0CompactionThreshold:       l0CompactionStartAt,
		L0StopWritesThreshold:       l0StopWrites,
		// A second compaction may start when the first falls behind. Small flushes pile up over hot rows, and every read of them then
		// merges all the piles.
		CompactionConcurrencyRange: func() (int, int) { return 1, 2 },
		MaxOpenFiles:               maxOpenFiles,
		Logger:                     logger{g},
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) { g.fail("store background work", err) },
			DataCorruption: func(i pebble.DataCorruptionInfo) { // the details say "block OFFSET/LENGTH"
				g.fail("store data", fmt.Errorf("file %s: %w", s.fs.PathBase(i.Path), i.Details))
			},
			FlushBegin:    func(pebble.FlushInfo) { s.flusher.begun(); s.backlog.began() },
			FlushEnd:      func(pebble.FlushInfo) { s.flushes.Add(1); s.backlog.ended() },
			CompactionEnd: func(pebble.CompactionInfo) { s.compactions.Add(1) },
		},
	}
	o.Experimental.ValueSeparationPolicy = s.separation
	o.Experimental.CompactionScheduler = newScheduler()
	o.TargetFileSizes[0], o.TargetFileSizes[1] = flushedFileBytes, compactedFileBytes
	if s.opts.Bulk {
		o.L0CompactionThreshold = l0CompactionBulk
	}
	for i := range o.Levels {
		// Point reads of absent keys are what certification and compare do most.
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(bloomBitsPerKey)
		o.Levels[i].BlockSize = blockBytes
	}
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings {
		c := pebble.DBCompressionFastest
		none := pebble.DBCompressionNone
		for i := 0; i <= lastUncompressed; i++ {
			c.Levels[i] = none.Levels[i]
		}
		return c
	})
	return o
}

// fail notes a failed background job, and ends in Options.OnFatal unless the data is of no use yet or any more.
func (g *generation) fail(what string, err error) {
	err = fmt.Errorf("%s in %s: %w", what, g.dir, err)
	g.failOnce.Do(func() {
		g.failure = err
		close(g.failed)
	})
	if !g.quiet.Load() && !g.replaced.Load() {
		g.s.fail(err)
	}
}

// damaged stops the node if a read failed because of damage on the disk. Pebble tells DataCorruption of tables, and not of the files of
// separated values.
func (g *generation) damaged(err error) {
	if pebble.IsCorruptionError(err) {
		g.fail("store data", err)
	}
}

// flush waits until everything committed is in tables, or until a background job fails.
func (g *generation) flush() error {
	done, err := g.pdb.AsyncFlush()
	if err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-g.failed:
		return g.failure
	}
}

// logger takes Pebble's log lines and its fatal errors. Informational lines are dropped: Metrics says what people need.
type logger struct{ g *generation }

func (logger) Infof(string, ...any) {}

func (logger) Errorf(string, ...any) {}

// Fatalf may not return, since Pebble would continue as if the process had ended. It may not exit, since the node has a message to print.
// So it parks the goroutine, with any mutexes it holds, and the node stops the process.
func (l logger) Fatalf(format string, args ...any) {
	l.g.s.fail(fmt.Errorf("store %s: %w", l.g.dir, fmt.Errorf(format, args...)))
	select {}
}
