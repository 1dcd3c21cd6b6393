package lease

import (
	"slices"
	"testing"
)

// leading is a worker that believes it leads in term 1, with one lease of a second.
func leading(t *testing.T) (*leased, *Worker) {
	t.Helper()
	m := newLeased()
	m.Lead(1)
	m.grant(7, 1)
	w := newWorker(m, m)
	w.term, w.lessor = 1, NewLessor()
	w.hear()
	m.SetTick(1000)
	return m, w
}

// TestWhatRanOutIsRevokedInTheTermItRanOutIn: leadership may change between finding that a lease has run out and saying so. The
// next leader has given it its time again by then, so the revocation must be of the old term, and dead.
func TestWhatRanOutIsRevokedInTheTermItRanOutIn(t *testing.T) {
	m, w := leading(t)
	m.Lead(2)
	w.revokeDue(1)
	if gone := m.gone(); len(gone) != 0 {
		t.Errorf("revoked under the next leader: %v", gone)
	}
}

// TestARevocationThatFailedIsTriedAgain, after a while.
func TestARevocationThatFailedIsTriedAgain(t *testing.T) {
	m, w := leading(t)
	m.Depose(true) // no command gets through
	w.revokeDue(1)
	m.Depose(false)
	w.revokeDue(1)
	if gone := m.gone(); len(gone) != 0 {
		t.Errorf("revoked again at once: %v", gone)
	}
	m.SetTick(m.Tick() + retryAfterMs)
	w.revokeDue(1)
	if gone := m.gone(); !slices.Equal(gone, []int64{7}) {
		t.Errorf("revoked in the end: %v", gone)
	}
	if w.Expired() != 1 {
		t.Errorf("counted %d", w.Expired())
	}
}
