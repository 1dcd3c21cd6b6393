package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// incomingTableBytes is where a table is finished and the next begun. Memory while receiving is one block and one index.
const incomingTableBytes = 32 << 20

// incomingBytesPerSync is how much of a table may wait in the system's cache before it is on its way to the disk.
const incomingBytesPerSync = 512 << 10

// incoming builds the next generation. Keys come sorted, so they are written straight into tables for the lowest level. Memtables would
// write everything twice and compete with the store in use for the disk. Owned by one goroutine until Install.
type incoming struct {
	s          *db
	g          *generation
	opts       *pebble.Options
	tableBytes uint64
	w          *sstable.Writer // nil between tables
	paths      []string
	last       []byte
	finished   bool
	dropped    bool // guarded by s.mu
}

// Incoming implements Store. One at a time: a second call drops the earlier Incoming.
func (s *db) Incoming() (Incoming, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cur := s.cur.Load()
	if cur == nil {
		return nil, ErrClosed
	}
	if s.incoming != nil {
		if err := s.incoming.drop(); err != nil {
			return nil, fmt.Errorf("receive store: %w", err)
		}
	}
	number := cur.number + 1
	dir := s.fs.PathJoin(s.dir, generationName(number))
	if err := s.fs.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("receive store: %w", err)
	}
	g, err := s.openGeneration(number, true)
	if err != nil {
		return nil, fmt.Errorf("receive store: %w", err)
	}
	g.quiet.Store(true)
	s.incoming = &incoming{s: s, g: g, opts: s.pebbleOptions(g, true), tableBytes: incomingTableBytes}
	s.incoming.opts.EnsureDefaults()
	return s.incoming, nil
}

// Set implements Incoming.
func (in *incoming) Set(key, value []byte) error {
	if err := checkIncomingKey(in.last, key); err != nil {
		return err
	}
	in.last = append(in.last[:0], key...)
	if in.w == nil {
		if err := in.openTable(); err != nil {
			return fmt.Errorf("receive store: %w", err)
		}
	}
	if err := in.w.Set(key, value); err != nil {
		return fmt.Errorf("receive store: %w", err)
	}
	if in.w.Raw().EstimatedSize() >= in.tableBytes {
		return in.closeTable()
	}
	return nil
}

func (in *incoming) openTable() error {
	path := in.s.fs.PathJoin(in.g.dir, fmt.Sprintf("incoming-%06d.sst", len(in.paths)))
	f, err := in.s.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	// Written out as it grows: one sync of a whole table at its end would hold up every log on the same disk.
	f = vfs.NewSyncingFile(f, vfs.SyncingFileOptions{BytesPerSync: incomingBytesPerSync})
	const lowest = 6
	in.w = sstable.NewWriter(objstorageprovider.NewFileWritable(f), in.opts.MakeWriterOptions(lowest, in.g.pdb.TableFormat()))
	in.paths = append(in.paths, path)
	return nil
}

func (in *incoming) closeTable() error {
	w := in.w
	in.w = nil
	if err := w.Close(); err != nil { // syncs
		return fmt.Errorf("receive store: %w", err)
	}
	return nil
}

// Finish implements Incoming.
func (in *incoming) Finish(applied uint64) error {
	if in.w != nil {
		if err := in.closeTable(); err != nil {
			return err
		}
	}
	if len(in.paths) > 0 {
		if err := in.g.pdb.Ingest(context.Background(), in.paths); err != nil {
			return fmt.Errorf("receive store: %w", err)
		}
	}
	var v [8]byte
	binary.BigEndian.PutUint64(v[:], applied)
	if err := in.g.pdb.Set(AppliedKey, v[:], pebble.NoSync); err != nil {
		return fmt.Errorf("receive store: %w", err)
	}
	if err := in.g.flush(); err != nil {
		return fmt.Errorf("receive store: %w", err)
	}
	if got, err := readApplied(in.g.pdb, true); err != nil || got != applied {
		return fmt.Errorf("receive store: applied index %d is not durable after a flush: %d, %w", applied, got, err)
	}
	in.finished = true
	return nil
}

// Abort implements Incoming. After Install it does nothing.
func (in *incoming) Abort() error {
	in.s.mu.Lock()
	defer in.s.mu.Unlock()
	return in.drop()
}

// drop closes and deletes what was received; the caller holds s.mu.
func (in *incoming) drop() error {
	if in.s.incoming != in || in.dropped {
		return nil
	}
	in.s.incoming, in.dropped = nil, true
	if in.w != nil {
		_ = in.closeTable()
	}
	in.g.replaced.Store(true) // so that release deletes it
	in.g.release()
	return nil
}

// Install implements Store.
func (s *db) Install(i Incoming) error {
	in := i.(*incoming)
	// A flush of the old generation must not count the new one's bytes.
	s.flusher.flushing.Lock()
	defer s.flusher.flushing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.cur.Load()
	switch {
	case old == nil:
		return ErrClosed
	case in != s.incoming || in.dropped:
		return errors.New("install store: incoming was dropped")
	case !in.finished:
		return errors.New("install store: incoming is not finished")
	}
	applied, err := readApplied(in.g.pdb, true)
	if err != nil {
		return fmt.Errorf("install store: %w", err)
	}
	if err := writeCurrent(s.fs, s.dir, in.g.number); err != nil {
		return fmt.Errorf("install store: %w", err)
	}
	// COMMIT POINT: a restart now finds the new generation.
	s.incoming = nil
	in.g.quiet.Store(false)
	s.applied.Store(applied)
	s.flusher.dirty.Store(0)
	s.cur.Store(in.g)
	old.replaced.Store(true)
	old.release() // deletes it now, or when its last View is closed
	return nil
}
