package port

import (
	"sync/atomic"
	"time"
)

// callRoomAge is how old an answer of Options.CallRoom may be: it is asked for at every call, and what is lent changes in steps of a second.
const callRoomAge = 20 * time.Millisecond

// callRoom is what Options.CallRoom said last. Any goroutine.
type callRoom struct {
	bytes atomic.Int64
	asked atomic.Int64 // nanoseconds, of the clock that time.Now has
}

// callRoom returns how many bytes of open calls there may be. Few calls are far from every limit, so nobody is asked for their sake.
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
