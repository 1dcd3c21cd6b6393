package kv

import (
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// largeRequest is from what size on a request for the log is counted. Smaller ones are bounded by their number.
const largeRequest = 64 << 10

// flight bounds the bytes of large requests between their arrival and their answer. The node bounds what is queued for
// the log too, but by then a request has been copied twice; here it is refused before that.
type flight struct {
	limit int64
	used  atomic.Int64
}

// take counts a request of n bytes and reports whether there is room for it. If not, c is refused.
func (f *flight) take(c *call, n int) bool {
	if n <= largeRequest {
		return true
	}
	if f.used.Add(int64(n)) > f.limit {
		f.used.Add(-int64(n))
		c.refusal = rpctypes.ErrGRPCRequestTooManyRequests
		return false
	}
	c.held = n
	return true
}

// give ends the flight of a request that held n bytes.
func (f *flight) give(n int) {
	if n > 0 {
		f.used.Add(-int64(n))
	}
}
