package port

import (
	"testing"
	"time"
)

// Where there is no room and nobody to close for it, the answer comes at once: who waits does not read, and a client with many
// requests on one connection would be kept from all of them. Also the second to ask within a moment does not wait.
func TestNoRoomIsSaidAtOnce(t *testing.T) {
	p := start(t, nil, Options{BudgetBytes: 1 << 20}).Port
	all := p.budget.Load()
	defer p.budget.Store(all)
	for p.budget.Load() > 0 {
		if !p.tryDraw(64<<10, 0, true) {
			t.Fatal("no room to begin with")
		}
	}
	began := time.Now()
	for range 20 {
		if p.draw(nil, 64<<10, 0, true) {
			t.Fatal("room where there is none")
		}
	}
	if took := time.Since(began); took > 10*evictPatience {
		t.Errorf("20 refusals took %s", took)
	}
}
