package mysql

import (
	"bytes"
	"context"
	"maps"
	"sync"
)

// Memory is Tables in memory, for tests.
type Memory struct {
	turn chan struct{} // holds one token, which a transaction takes

	mu   sync.Mutex
	held Rows             // guarded by mu
	fail func(Step) error // guarded by mu
}

// Rows are the contents of tables. Keys of Tiles are level and number.
type Rows struct {
	State   State
	Bundles map[uint64]Bundle
	Tiles   map[[2]uint64][]byte
}

// Bundle is one row of TiledLeaves.
type Bundle struct {
	Width   int
	Entries []byte
}

// Step is a moment at which Memory can be made to fail.
type Step int

// The steps of a transaction. Fail at Committed is a commit that happened and was not confirmed.
const (
	Beginning Step = iota
	Putting
	Committing
	Committed
)

// NewMemory returns empty tables.
func NewMemory() *Memory {
	m := &Memory{turn: make(chan struct{}, 1), held: Rows{Bundles: map[uint64]Bundle{}, Tiles: map[[2]uint64][]byte{}}}
	m.turn <- struct{}{}
	return m
}

// Fail makes every later step return what fail returns for it; nil ends that. A failed step rolls its transaction back, as a
// server does when a connection breaks.
func (m *Memory) Fail(fail func(Step) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = fail
}

func (m *Memory) failing(s Step) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail == nil {
		return nil
	}
	return m.fail(s)
}

// Rows returns a copy of everything.
func (m *Memory) Rows() Rows {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held.clone()
}

// clone copies the maps; the bytes in them are never changed.
func (r Rows) clone() Rows {
	return Rows{State: r.State, Bundles: maps.Clone(r.Bundles), Tiles: maps.Clone(r.Tiles)}
}

// State implements Tables.
func (m *Memory) State(context.Context) (State, error) {
	if err := m.failing(Beginning); err != nil {
		return State{}, err
	}
	return m.Rows().State, nil
}

// Bundle implements Tables.
func (m *Memory) Bundle(_ context.Context, n uint64) ([]byte, int, error) {
	b := m.Rows().Bundles[n]
	return b.Entries, b.Width, m.failing(Beginning)
}

// Tile implements Tables.
func (m *Memory) Tile(_ context.Context, level int, n uint64) ([]byte, error) {
	return m.Rows().Tiles[[2]uint64{uint64(level), n}], m.failing(Beginning)
}

// Begin implements Tables.
func (m *Memory) Begin(ctx context.Context) (Tx, error) {
	if err := m.failing(Beginning); err != nil {
		return nil, err
	}
	select {
	case <-m.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return &memoryTx{m: m, now: m.Rows(), began: m.Rows().State}, nil
}

// memoryTx is a Tx of Memory; it belongs to one goroutine.
type memoryTx struct {
	m     *Memory
	now   Rows
	began State
	ended bool
}

// State implements Tx.
func (t *memoryTx) State() State { return t.began }

// PutBundle implements Tx.
func (t *memoryTx) PutBundle(_ context.Context, n uint64, width int, entries []byte) error {
	t.now.Bundles[n] = Bundle{width, bytes.Clone(entries)}
	return t.m.failing(Putting)
}

// PutTile implements Tx.
func (t *memoryTx) PutTile(_ context.Context, level int, n uint64, hashes []byte) error {
	t.now.Tiles[[2]uint64{uint64(level), n}] = bytes.Clone(hashes)
	return t.m.failing(Putting)
}

// Commit implements Tx.
func (t *memoryTx) Commit(_ context.Context, size uint64, root, note []byte) error {
	if err := t.m.failing(Committing); err != nil {
		return err
	}
	t.now.State.Size, t.now.State.Root = size, bytes.Clone(root)
	if note != nil {
		t.now.State.Note = bytes.Clone(note)
	}
	t.m.mu.Lock()
	t.m.held = t.now
	t.m.mu.Unlock()
	t.Rollback()
	return t.m.failing(Committed)
}

// Rollback implements Tx.
func (t *memoryTx) Rollback() {
	if !t.ended {
		t.ended = true
		t.m.turn <- struct{}{}
	}
}
