package program

import "sync"

// preparedStep is how much is asked of the ledger at a time, in bytes.
const preparedStep = 64 << 10

// preparedRoom is the memory that the statements have which clients have prepared. It borrows as the claim may. It implements wire.Room. Any goroutine.
type preparedRoom struct {
	most func() int64 // that the claim may have now

	mu      sync.Mutex
	held    int64 // guarded by mu
	granted int64 // that need not be asked for; guarded by mu
}

// Draw takes n bytes, or none where fewer are left.
func (r *preparedRoom) Draw(n int64) bool {
	r.mu.Lock()
	want, ok := r.held+n, r.held+n <= r.granted
	r.mu.Unlock()
	if !ok { // the ledger asks how much is held
		most := r.most()
		if want > most {
			return false
		}
		want = min(want+preparedStep, most)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held += n
	r.granted = max(r.granted, want)
	return true
}

// Return gives n bytes back.
func (r *preparedRoom) Return(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held -= n
	r.granted = min(r.granted, r.held+preparedStep)
}

// Held is how many bytes are taken.
func (r *preparedRoom) Held() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held
}
