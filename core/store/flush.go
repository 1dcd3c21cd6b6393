package store

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// When the store flushes by itself. Bytes and age bound what must be replayed from the log after a crash. The others bound the rows that an
// iterator steps over, because it visits every version in a memtable. A flush at a number of overwritten bytes keeps that finite. Once
// iterators have spent as long on such steps as a flush takes, an earlier flush pays. A bound on overwritten bytes alone would have to be
// so low that a store without scans would flush all the time.
const (
	defaultFlushBytes     = 32 << 20
	defaultOverwriteBytes = 2 << 20
	defaultWastedSteps    = 64 << 10 // about 7 ms of iterators' time
	defaultFlushAge       = 5 * time.Minute

	// minOverwriteBytes is the least amount overwritten for wasted steps to count. Below it a flush changes little, and the steps may be
	// due to rows that only a compaction removes.
	minOverwriteBytes = 128 << 10
)

// flusher makes what was committed durable in the background. An idle store is never flushed, so it makes no fsync.
type flusher struct {
	s              *db
	flushBytes     int64
	overwriteBytes int64
	wastedSteps    int64
	age            time.Duration

	dirty       atomic.Int64 // batch bytes committed since the last flush began; 0 = clean
	overwritten atomic.Int64 // superseded bytes since a memtable was last flushed, by any goroutine
	wasted      atomic.Int64 // iterators' steps over versions they could not show, since then

	flushing sync.Mutex    // one flush at a time
	kick     chan struct{} // the store became dirty, or dirty enough; capacity 1
	quit     chan struct{}
	stopOnce sync.Once
	done     chan struct{}
}

func (f *flusher) start(s *db) {
	f.s = s
	f.flushBytes, f.overwriteBytes, f.age = s.opts.flushBytes, s.opts.overwriteBytes, s.opts.flushAge
	f.wastedSteps = s.opts.wastedSteps
	if f.wastedSteps == 0 {
		f.wastedSteps = defaultWastedSteps
	}
	if f.flushBytes == 0 {
		f.flushBytes = defaultFlushBytes
	}
	if f.overwriteBytes == 0 {
		f.overwriteBytes = defaultOverwriteBytes
	}
	if f.age == 0 {
		f.age = defaultFlushAge
	}
	f.kick, f.quit, f.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go f.run()
}

func (f *flusher) stop() {
	f.stopOnce.Do(func() { close(f.quit) })
	<-f.done
}

// wrote counts a committed batch. Called by the committing goroutine.
func (f *flusher) wrote(bytes, overwrote int64) {
	dirty := f.dirty.Add(bytes)
	f.overwritten.Add(overwrote)
	if dirty == bytes || f.due() {
		f.wake()
	}
}

// walked counts an iterator's wasted steps. Called by any reader.
func (f *flusher) walked(steps int64) {
	f.wasted.Add(steps)
	if f.due() {
		f.wake()
	}
}

// due reports whether the store should be flushed at any age.
func (f *flusher) due() bool {
	over := f.overwritten.Load()
	return f.dirty.Load() >= f.flushBytes || over >= f.overwriteBytes ||
		over >= minOverwriteBytes && f.wasted.Load() >= f.wastedSteps
}

func (f *flusher) wake() {
	select {
	case f.kick <- struct{}{}:
	default:
	}
}

// begun resets the counts that a flush of memtables makes obsolete.
func (f *flusher) begun() {
	f.overwritten.Store(0)
	f.wasted.Store(0)
}

func (f *flusher) run() {
	defer close(f.done)
	timer := time.NewTimer(f.age)
	timer.Stop()
	defer timer.Stop()
	armed := false
	for {
		aged := false
		select {
		case <-f.quit:
			return
		case <-timer.C:
			armed, aged = false, true
		case <-f.kick:
		}
		if aged || f.due() {
			if err := f.s.Flush(); err != nil && err != ErrClosed {
				f.s.fail(err)
				return
			}
			timer.Stop()
			armed = false
		}
		if !armed && f.dirty.Load() > 0 {
			timer.Reset(f.age)
			armed = true
		}
	}
}

// Flush implements Store. A store with nothing new is left alone.
func (s *db) Flush() error {
	f := &s.flusher
	f.flushing.Lock()
	defer f.flushing.Unlock()
	if err := s.fatal.Load(); err != nil {
		return *err
	}
	g, err := s.acquire()
	if err != nil {
		return err
	}
	defer g.release()
	// Taken before the flush: a batch committed while it runs counts for the next one.
	dirty := f.dirty.Swap(0)
	if dirty == 0 {
		return nil
	}
	f.begun()
	if err := g.flush(); err != nil {
		f.dirty.Add(dirty)
		return fmt.Errorf("flush store: %w", err)
	}
	return nil
}
