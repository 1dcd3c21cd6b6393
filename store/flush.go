package store

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// When the store flushes by itself. Bytes and age bound what must be replayed from the log after a crash; overwritten
// bytes bound what an iterator walks over, because it steps through every version still in a memtable.
const (
	defaultFlushBytes     = 32 << 20
	defaultOverwriteBytes = 2 << 20
	defaultFlushAge       = 5 * time.Minute
)

// flusher makes what was committed durable in the background. An idle store is never flushed, so it makes no fsync.
type flusher struct {
	s              *db
	flushBytes     int64
	overwriteBytes int64
	age            time.Duration

	dirty       atomic.Int64 // batch bytes committed since the last flush began; 0 = clean
	overwritten atomic.Int64 // superseded bytes since a memtable was last flushed, by whomever

	flushing sync.Mutex    // one flush at a time
	kick     chan struct{} // the store became dirty, or dirty enough; capacity 1
	quit     chan struct{}
	stopOnce sync.Once
	done     chan struct{}
}

func (f *flusher) start(s *db) {
	f.s = s
	f.flushBytes, f.overwriteBytes, f.age = s.opts.flushBytes, s.opts.overwriteBytes, s.opts.flushAge
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
	over := f.overwritten.Add(overwrote)
	if dirty == bytes || dirty >= f.flushBytes || over >= f.overwriteBytes {
		select {
		case f.kick <- struct{}{}:
		default:
		}
	}
}

func (f *flusher) run() {
	defer close(f.done)
	timer := time.NewTimer(f.age)
	timer.Stop()
	defer timer.Stop()
	armed := false
	for {
		due := false
		select {
		case <-f.quit:
			return
		case <-timer.C:
			armed, due = false, true
		case <-f.kick:
		}
		if due || f.dirty.Load() >= f.flushBytes || f.overwritten.Load() >= f.overwriteBytes {
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
	f.overwritten.Store(0)
	if err := g.flush(); err != nil {
		f.dirty.Add(dirty)
		return fmt.Errorf("flush store: %w", err)
	}
	return nil
}
