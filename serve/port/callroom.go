package port

import (
	"sync/atomic"
	"time"
)

// callRoomAge bounds the age of a cached answer of Options.CallRoom. Every call needs it, and the lent room changes in steps of a second.
const callRoomAge = 20 * time.Millisecond

// callRoom is what Options.CallRoom said last. Any goroutine.
type callRoom struct {
	bytes atomic.Int64
	asked atomic.Int64 // nanoseconds, of the clock that time.Now has
}

// callRoom returns how many bytes of open calls there may be. A small number of calls is far from every limit, so CallRoom is not asked
// then.
func (p *Port) callRoom() int64 {
	if p.opts.CallRoom == nil || p.calls.Load() <= p.opts.CallBytes/8 {
		return p.opts.CallBytes
	}
	now, last := time.Now().UnixNano(), p.lent.asked.Load()
	if now-last > int64(callRoomAge) && p.lent.asked.CompareAndSwap(last, now) {
		p.lent.bytes.Store(p.opts.CallRoom())
	}
	return max(p.lent.bytes.Load(), p.opts.CallBytes)
}
