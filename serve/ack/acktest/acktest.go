// Package acktest is the archive in tests of doors: the test is the shipper, and sees that answers wait for it.
package acktest

import (
	"context"
	"sync"
	"testing"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// Archive is a member's interface for a test that is its shipper. *node.Node is one.
type Archive interface {
	SetArchived(index uint64)
	ArchiveWanted() (index uint64, more <-chan struct{})
	ReadIndex() uint64
}

// Held runs call, which shows an earlier command or applies its own. It checks that the call waits at the gate until that is archived, and
// ends then.
func Held(t testing.TB, a Archive, what string, call func() error) {
	t.Helper()
	done := Begin(t, a, what, call)
	index, _ := a.ArchiveWanted()
	a.SetArchived(index - 1)
	if wanted, _ := a.ArchiveWanted(); wanted != index {
		t.Fatalf("%s: %d is waited for, then %d", what, index, wanted)
	}
	select {
	case err := <-done:
		t.Fatalf("%s: answered before it was archived (%v)", what, err)
	default:
	}
	a.SetArchived(index)
	if err := wait.For(t, what+" is answered", done); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Begin runs call beside the test, and returns once it waits at the gate.
func Begin(t testing.TB, a Archive, what string, call func() error) <-chan error {
	t.Helper()
	done, before := make(chan error, 1), a.ReadIndex()
	go func() { done <- call() }()
	wait.Until(t, what+" waits at the gate", func() bool {
		select {
		case err := <-done:
			t.Fatalf("%s: answered before it was archived (%v)", what, err)
		default:
		}
		index, _ := a.ArchiveWanted()
		return index >= before && index != 0
	})
	return done
}

// Fake is the archive of a member without a log. The zero Fake holds nothing. Any goroutine.
type Fake struct {
	mu       sync.Mutex
	archived uint64        // guarded by mu
	wanted   uint64        // guarded by mu
	moved    chan struct{} // guarded by mu: closed when archived moves; nil without waiting callers
}

// Archived is node.Node's.
func (f *Fake) Archived(ctx context.Context, index uint64) error {
	for {
		f.mu.Lock()
		if f.archived >= index {
			f.mu.Unlock()
			return nil
		}
		f.wanted = max(f.wanted, index)
		if f.moved == nil {
			f.moved = make(chan struct{})
		}
		moved := f.moved
		f.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// SetArchived is node.Node's.
func (f *Fake) SetArchived(index uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.archived = max(f.archived, index)
	if f.moved != nil {
		close(f.moved)
		f.moved = nil
	}
}

// ArchivedIndex is node.Node's.
func (f *Fake) ArchivedIndex() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.archived
}

// ArchiveWanted is node.Node's, without news.
func (f *Fake) ArchiveWanted() (index uint64, more <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wanted <= f.archived {
		return 0, nil
	}
	return f.wanted, nil
}
