package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	defaultMemtable   = 8 << 20 // a bigger one would make iterators over hot keys slower
	defaultCacheBytes = 8 << 20
	maxOpenFiles      = 500
	bloomBitsPerKey   = 10
	// blockBytes is the part of a table that is read, checked and cached at a time. A list of 1 KB values reads block after block. Each
	// block has a fixed cost (a system call, a cache entry that the garbage collector marks) above that of its bytes. With Pebble's 4 KiB a
	// list of 100 took twice the CPU. A single row read from the disk costs no more than before, since there are fewer places to look at.
	// With the cache's own header it fits into Go's class of 32 KiB. A larger block would take 40 KiB, from the heap's own lock.
	blockBytes = 31 << 10
	// maxKeptBatch is the largest batch whose memory is used again: as many as apply entries at a time have one, that is one. A full
	// entry of large values comes to a little more than a mebibyte.
	maxKeptBatch        = 2 << 20
	lastUncompressed    = 4 // levels 0 to 4 are rewritten soon; only the two lowest are worth compressing
	l0StopWrites        = 40
	l0CompactionStartAt = 8
	l0CompactionBulk    = 16
)

// Options of Open. The zero value works; OnFatal should be set.
type Options struct {
	// CacheBytes bounds the block cache and the memtables, which are taken out of it as far as it goes. Without cgo both lie
	// on the Go heap. 0 = 8 MiB.
	CacheBytes int64
	// MemtableBytes is the size of one memtable; there are two, and a third while both are written out. 0 = 8 MiB. Batches of
	// half a memtable or more have memory and flushes of their own, so it should be more than twice the common large one.
	MemtableBytes int64
	// OnFatal is called at most once, on a goroutine of its own, when the store can no longer keep its data. The cause is a failed flush or
	// compaction, or a broken invariant of Pebble's. The caller stops the process; Close then answers at once with the error, because
	// Pebble's goroutines may be stuck for good.
	OnFatal func(error)
	// OnAhead is called when rows begin to be read ahead (NewAhead): two goroutines have work from then on. nil: nothing.
	OnAhead func()
	// Bulk: the store is being filled and not scanned meanwhile. It flushes only when a memtable is full and by Flush, not for iterators or
	// a short replay. It compacts in larger steps.
	Bulk bool

	// For tests: the flush policy, see flusher. 0 = default.
	flushBytes, overwriteBytes, wastedSteps int64
	flushAge                                time.Duration
	// For tests: when values are kept apart, see values.go. 0 = default.
	separateBytes int
	separateRest  time.Duration
}

// db is the Store on Pebble.
type db struct {
	dir   string
	fs    vfs.FS
	opts  Options
	cache *pebble.Cache // shared by all generations, so that installing a snapshot does not double it

	cur        atomic.Pointer[generation] // nil once closed
	applied    atomic.Uint64
	views      atomic.Int64 // that are open
	superseded atomic.Uint64
	fatal      atomic.Pointer[error]
	once       sync.Once // guards the call of OnFatal
	flusher    flusher
	backlog    backlog
	// separate: SeparateValues was called.
	separate atomic.Bool

	mu          sync.Mutex // guards Install, Incoming and Close against each other
	incoming    *incoming  // the one being built, nil if none
	flushes     atomic.Int64
	compactions atomic.Int64
	iters       sync.Pool

	lending sync.Mutex
	lent    func() // guarded by lending: gives back what BoundCache has reserved; nil: nothing
	closed  bool   // guarded by lending: the cache may be gone
}

// Open opens or creates a store in dir, which it has to itself. An error wraps what went wrong with dir's name; nothing
// is repaired silently.
func Open(dir string, opts Options) (Store, error) {
	s, err := open(vfs.Default, dir, opts)
	if err != nil {
		return nil, oneLine{err} // a nil *db in a Store would not be nil
	}
	return s, nil
}

// oneLine is an error in one line: Pebble begins another for each damaged file.
type oneLine struct{ error }

func (e oneLine) Error() string { return strings.ReplaceAll(e.error.Error(), "\n", "; ") }
func (e oneLine) Unwrap() error { return e.error }

func open(fs vfs.FS, dir string, opts Options) (*db, error) {
	if opts.MemtableBytes <= 0 {
		opts.MemtableBytes = defaultMemtable
	}
	if opts.CacheBytes <= 0 {
		opts.CacheBytes = defaultCacheBytes
	}
	if opts.separateBytes <= 0 {
		opts.separateBytes = separateBytes
	}
	if opts.separateRest <= 0 {
		opts.separateRest = separateRest
	}
	if opts.Bulk {
		opts.flushBytes, opts.overwriteBytes, opts.wastedSteps = math.MaxInt64, math.MaxInt64, math.MaxInt64
	}
	if opts.OnFatal == nil {
		opts.OnFatal = func(error) {}
	}
	number, fresh, err := prepareDir(fs, dir)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	s := &db{dir: dir, fs: fs, opts: opts, cache: pebble.NewCache(opts.CacheBytes)}
	s.iters.New = func() any { return new(iter) }
	g, err := s.openGeneration(number, fresh)
	if err != nil {
		s.cache.Unref()
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	applied, err := readApplied(g.pdb, false)
	if err != nil {
		g.release()
		s.cache.Unref()
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	s.applied.Store(applied)
	s.cur.Store(g)
	s.flusher.start(s)
	return s, nil
}

func (s *db) fail(err error) {
	s.once.Do(func() {
		s.fatal.Store(&err)
		// Pebble reports with its own mutexes held, and OnFatal must not run under them.
		go s.opts.OnFatal(err)
	})
}

// acquire returns the current generation with a reference taken.
func (s *db) acquire() (*generation, error) {
	for {
		g := s.cur.Load()
		if g == nil {
			return nil, ErrClosed
		}
		if g.acquire() {
			return g, nil
		}
		// Install has replaced and released this generation since the Load: the next one finds the new generation.
	}
}

// Get implements Reader.
func (s *db) Get(dst, key []byte) ([]byte, bool, error) {
	g, err := s.acquire()
	if err != nil {
		return dst, false, err
	}
	defer g.release()
	return g.get(g.pdb, dst, key)
}

func (g *generation) get(r pebble.Reader, dst, key []byte) ([]byte, bool, error) {
	v, closer, err := r.Get(key)
	if err == pebble.ErrNotFound {
		return dst, false, nil
	}
	if err != nil {
		g.damaged(err)
		return dst, false, fmt.Errorf("get store key %q: %w", key, err)
	}
	dst = append(dst, v...)
	if err := closer.Close(); err != nil { // says too that a separated value could not be read
		g.damaged(err)
		return dst, false, fmt.Errorf("get store key %q: %w", key, err)
	}
	return dst, true, nil
}

// NewIter implements Reader.
func (s *db) NewIter(lower, upper []byte) (Iter, error) {
	g, err := s.acquire()
	if err != nil {
		return nil, err
	}
	return s.newIter(g, g.pdb, lower, upper)
}

// NewView implements Store. On a closed store the View answers ErrClosed.
func (s *db) NewView() View {
	g, err := s.acquire()
	if err != nil {
		return deadView{err}
	}
	s.views.Add(1)
	return &view{g: g, snap: g.pdb.NewSnapshot()}
}

// Commit implements Store.
func (s *db) Commit(b Batch, applied uint64) error {
	pb := b.(*batch)
	if err := s.fatal.Load(); err != nil {
		return *err
	}
	if now := s.applied.Load(); applied < now {
		return fmt.Errorf("commit batch: applied index goes back from %d to %d", now, applied)
	}
	g, err := s.acquire()
	if err != nil {
		return err
	}
	defer g.release()
	if pb.g != g {
		return ErrReplaced
	}
	binary.BigEndian.PutUint64(pb.applied[:], applied)
	if err := pb.b.Set(AppliedKey, pb.applied[:], nil); err != nil {
		return fmt.Errorf("commit batch: %w", err)
	}
	size := pb.b.Len()
	if err := s.backlog.admit(g, pb.b.Repr()); err != nil {
		return fmt.Errorf("commit batch: %w", err)
	}
	if int64(size) >= s.opts.MemtableBytes/2 {
		arrange(pb.Repr())
	}
	s.superseded.Add(uint64(pb.overwrote) + s.inRanges(g, pb.deleted))
	if err := g.pdb.Apply(pb.b, pebble.NoSync); err != nil {
		return fmt.Errorf("commit batch: %w", err)
	}
	s.applied.Store(applied)
	s.flusher.wrote(int64(size), int64(pb.overwrote))
	pb.recycle()
	return nil
}

// Superseded implements Store.
func (s *db) Superseded() uint64 { return s.superseded.Load() }

// inRanges is about how many bytes files have in ranges that are about to be deleted. Only Views ask.
func (s *db) inRanges(g *generation, deleted []span) (n uint64) {
	if s.views.Load() == 0 {
		return 0
	}
	for _, d := range deleted {
		in, err := g.pdb.EstimateDiskUsage(d.lower, d.upper)
		if err == nil { // it is an estimate, and a reader of the file finds any damage
			n += in
		}
	}
	return n
}

// Applied implements Store.
func (s *db) Applied() uint64 { return s.applied.Load() }

// DurableApplied implements Store. It reads only tables. Pebble flushes memtables in the order of commits, so the value found is also the
// index up to which all other rows are durable.
func (s *db) DurableApplied() (uint64, error) {
	g, err := s.acquire()
	if err != nil {
		return 0, err
	}
	defer g.release()
	return readApplied(g.pdb, true)
}

func readApplied(pdb *pebble.DB, durable bool) (uint64, error) {
	it, err := pdb.NewIter(&pebble.IterOptions{
		LowerBound:                AppliedKey,
		UpperBound:                append(AppliedKey[:len(AppliedKey):len(AppliedKey)], 0),
		OnlyReadGuaranteedDurable: durable,
	})
	if err != nil {
		return 0, fmt.Errorf("read applied index: %w", err)
	}
	var applied uint64
	if it.First() {
		v, verr := it.ValueAndErr()
		if verr == nil && len(v) != 8 {
			verr = fmt.Errorf("%d bytes instead of 8", len(v))
		}
		if verr != nil {
			err = verr
		} else {
			applied = binary.BigEndian.Uint64(v)
		}
	}
	if err = errors.Join(err, it.Close()); err != nil {
		return 0, fmt.Errorf("read applied index: %w", err)
	}
	return applied, nil
}

// Metrics implements Store.
func (s *db) Metrics() Metrics {
	g, err := s.acquire()
	if err != nil {
		return Metrics{}
	}
	defer g.release()
	m := g.pdb.Metrics()
	return Metrics{
		DiskBytes:     int64(m.DiskSpaceUsage()),
		MemtableBytes: int64(m.MemTable.Size),
		CacheBytes:    m.BlockCache.Size,
		Flushes:       s.flushes.Load(),
		Compactions:   s.compactions.Load(),
		Views:         int64(m.Snapshots.Count),
	}
}

// Rest implements Store. A reservation in a cache is taken from its blocks; Pebble has no other call that drops them.
func (s *db) Rest() { s.cache.Reserve(int(s.cache.MaxSize()))() }

// BoundCache implements Store. The lent bytes are reserved in the cache.
func (s *db) BoundCache(bytes int64) {
	s.lending.Lock()
	defer s.lending.Unlock()
	if s.closed {
		return
	}
	before := s.lent
	if s.lent = nil; bytes < s.opts.CacheBytes {
		s.lent = s.cache.Reserve(int(s.opts.CacheBytes - max(bytes, 0)))
	}
	if before != nil {
		before()
	}
}

// lendNothing ends BoundCache before the cache goes.
func (s *db) lendNothing() {
	s.BoundCache(s.opts.CacheBytes)
	s.lending.Lock()
	defer s.lending.Unlock()
	s.closed = true
}

// Close implements Store. It does not flush: unflushed data is replayed from the log, as after a crash. The node flushes first when it has
// the time. Views and iterators that are still open keep their data readable until closed.
func (s *db) Close() error {
	if err := s.fatal.Load(); err != nil {
		return *err
	}
	s.flusher.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.cur.Swap(nil)
	if g == nil {
		return nil
	}
	if s.incoming != nil {
		_ = s.incoming.drop() // half a snapshot: the next Open would remove it anyway
	}
	g.quiet.Store(true)
	g.release()
	s.lendNothing()
	s.cache.Unref()
	return nil
}
