package program

import "sync/atomic"

// room is the memory that the packets of all clients hold together. It implements wire.Room. Any goroutine.
type room struct{ left atomic.Int64 }

func newRoom(bytes int64) *room {
	r := &room{}
	r.left.Store(bytes)
	return r
}

// Draw takes n bytes, or none where fewer are left.
func (r *room) Draw(n int64) bool {
	if r.left.Add(-n) < 0 {
		r.left.Add(n)
		return false
	}
	return true
}

// Return gives n bytes back.
func (r *room) Return(n int64) { r.left.Add(n) }
