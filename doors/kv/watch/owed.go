package watch

import (
	"fmt"
	"strings"
)

// Owed names the resources that streams have not given back, "" if none: open streams and watchers, and the events on their queues. When
// every stream has been closed it is "". Any goroutine.
func (h *Hub) Owed() string {
	var all []string
	owed := func(what string, n int64) {
		if n != 0 {
			all = append(all, fmt.Sprintf("%d %s", n, what))
		}
	}
	owed("streams", h.Counts.Streams.Load())
	owed("watchers", h.Counts.Watchers.Load())
	owed("events on queues", h.Counts.Pending.Load())
	owed("bytes of events", h.pinned.Load())
	h.mu.Lock()
	owed("watchers in the hub", int64(h.live.members))
	owed("streams to be woken", int64(len(h.waiting)))
	h.mu.Unlock()
	return strings.Join(all, ", ")
}
