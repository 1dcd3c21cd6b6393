package watch

import (
	"context"
	"testing"
)

// scanned is a hub over a hundred quiet revisions with a watcher of [a, b) that the scan has, at a stream without a writer.
func scanned(t *testing.T) (*fakeEvents, *Hub, *Stream, *Watcher) {
	f := newFakeEvents(1)
	for range 100 {
		f.put("z")
	}
	h := NewHub(f, pinnedInTests)
	h.limits = limits{farBehind: 1, tryChanges: 4, sparse: 16, scanChanges: 1000}
	st := NewStream(h, newRecorder(t))
	w := watch(t, st, &Watcher{Key: []byte("a"), End: []byte("b")}, 2)
	if err := st.serve(context.Background(), st.pop()); err != nil || !w.scanned || !h.admit() {
		t.Fatalf("the scan does not have it: %v", err)
	}
	return f, h, st, w
}

// finish carries the scan on to its end.
func finish(h *Hub) {
	for h.admit() {
		h.scanPiece()
	}
}

// TestAWatcherThatComesWhileAPieceIsRead lacks some of what is in the piece, which is read without it: it waits for the next round.
func TestAWatcherThatComesWhileAPieceIsRead(t *testing.T) {
	f, h, st, w := scanned(t)
	f.put("q")
	for range 50 {
		f.put("z")
	}
	var late *Watcher
	f.during = func() {
		f.during = nil
		late = watch(t, st, &Watcher{Key: []byte("q"), End: []byte("r")}, 20)
		if err := st.serve(context.Background(), st.pop()); err != nil || !late.scanned {
			t.Errorf("the scan does not have it: %v", err)
		}
	}
	finish(h)
	if len(late.queue) != 1 || late.in != &h.live || w.in != &h.live || len(w.queue) != 0 {
		t.Errorf("%d and %d batches are queued, want 1 and 0", len(late.queue), len(w.queue))
	}
}

// TestTheHubMayBeAheadOfTheScan: while the last piece is looked for, something happens that the hub has seen when the scan's watchers are to
// join it.
func TestTheHubMayBeAheadOfTheScan(t *testing.T) {
	f, h, st, w := scanned(t)
	other := watch(t, st, &Watcher{Key: []byte("other")}, f.revision+1)
	if err := st.serve(context.Background(), st.pop()); err != nil || other.in != &h.live {
		t.Fatalf("the other watcher is not in the hub: %v", err)
	}
	for h.scan.at <= f.revision {
		h.scanPiece()
	}
	f.asked = func() {
		f.put("a1")
		h.follow()
	}
	finish(h)
	if len(w.queue) != 1 || w.in != &h.live {
		t.Errorf("%d batches are queued, want 1", len(w.queue))
	}
}
