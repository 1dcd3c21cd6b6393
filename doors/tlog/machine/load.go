package machine

import (
	"encoding/binary"
	"fmt"

	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/store"
	tlogpart "github.com/holdfastdb/holdfast/doors/tlog/part"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// Load implements machine.Machine. It reads the right edge of every log, never whole logs. Logs that were known before keep
// their Log: doors and waiters hold on to it over the install of a snapshot.
func (m *Machine) Load(st store.Store, _ *machine.Gate) error {
	m.st = st
	known := *m.pub.Load()
	m.logs, m.touched, m.created = nil, nil, 0
	m.used.Store(0)
	err := scan(st, []byte{letter, spaceLog}, func(key, value []byte) error {
		if len(key) != 4 || uint64(binary.BigEndian.Uint32(key)) != uint64(len(m.logs)+1) {
			return fmt.Errorf("log after the %d-th: %w", len(m.logs), errCorrupt)
		}
		held, spec, err := decodeLogRow(value)
		if err != nil {
			return fmt.Errorf("log %d: %w", len(m.logs)+1, err)
		}
		l := newLog(m, uint64(len(m.logs)+1), spec)
		l.w.held = held
		m.logs = append(m.logs, l)
		return nil
	})
	if err != nil {
		return err
	}
	for i, fresh := range m.logs {
		if err := fresh.load(st); err != nil {
			return fmt.Errorf("load log %s: %w", fresh.Spec.Name, err)
		}
		if i < len(known) {
			known[i].replace(fresh)
			m.logs[i] = known[i]
		}
	}
	logs := append([]*Log(nil), m.logs...)
	m.pub.Store(&logs)
	m.mu.Lock()
	if m.demand != nil {
		close(m.demand)
		m.demand = nil
	}
	m.mu.Unlock()
	return nil
}

// load reads the log's rows and publishes them.
func (l *Log) load(st store.Store) error {
	w := &l.w
	row, ok, err := st.Get(nil, l.key(spaceFrontier))
	if err != nil {
		return err
	}
	if ok {
		if err := w.f.Decode(row); err != nil {
			return err
		}
	}
	size := w.f.Size()
	entries, rows, err := l.readPieces(st, nil)
	if err != nil {
		return err
	}
	hashes, n, err := tiles.LeafHashes(nil, entries)
	if err != nil || uint64(n) != size%tiles.Width {
		return fmt.Errorf("%d entries after the last bundle of %d: %w", n, size, errCorrupt)
	}
	w.pieces = rows
	if n > 0 {
		w.levels[0] = hashes
	}
	if w.kept = len(entries) <= edgeBytes && l.m.used.Load()+int64(len(entries)) <= l.m.room; w.kept {
		w.edge = entries
		l.m.used.Add(int64(cap(entries)))
	}
	for level := 1; level < levels; level++ {
		have := size >> (tiles.Height * level)
		hashes, err := l.readNodes(st, level, have/tiles.Width*tiles.Width)
		if err != nil {
			return err
		}
		if uint64(len(hashes)) != have%tiles.Width*tiles.HashSize {
			return fmt.Errorf("%d bytes of hashes after the last tile of level %d: %w", len(hashes), level, errCorrupt)
		}
		if len(hashes) > 0 {
			w.levels[level] = hashes
		}
	}
	w.base = size
	l.view.Store(&View{Size: size, Root: w.f.Root(), levels: w.levels, edge: w.edge, kept: w.kept})
	l.held.Store(w.held)
	if row, ok, err = st.Get(nil, l.key(spaceCheckpoint)); err != nil || !ok {
		return err
	}
	c, err := tlogpart.DecodeSigned(row)
	if err != nil {
		return err
	}
	l.newest.Store(&Checkpoint{Size: c.Size, Root: c.Root, Note: c.Note})
	return nil
}

// replace gives l the contents of fresh; readers may hold l itself. Apply goroutine only.
func (l *Log) replace(fresh *Log) {
	l.w = fresh.w
	l.view.Store(fresh.view.Load())
	l.newest.Store(fresh.newest.Load())
	l.held.Store(fresh.held.Load())
	l.damage.Store(nil) // it was of the rows that are gone
	l.mu.Lock()
	if l.signed != nil {
		close(l.signed)
		l.signed = nil
	}
	l.mu.Unlock()
}
