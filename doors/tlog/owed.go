package tlog

import (
	"fmt"
	"strings"
)

// Owed names the resources that requests have not given back, "" if none (port.Port.Owed): entries that wait are in it too. After Shutdown it
// is "" once the last command has ended. Any goroutine.
func (d *Door) Owed() string {
	all := d.port.Owed()
	d.mu.Lock()
	defer d.mu.Unlock()
	for log, q := range d.queues { // any order: there is one, or the sum is what matters
		q.mu.Lock()
		if q.flying || len(q.waiting) > 0 || q.bytes != 0 {
			all += fmt.Sprintf(", log %s: a command under way %t, %d wait with %d bytes", log.Spec.Name, q.flying, len(q.waiting), q.bytes)
		}
		q.mu.Unlock()
	}
	return strings.TrimPrefix(all, ", ")
}
