package outcall

import (
	"fmt"
	"slices"
	"strings"
)

// Owed names resources that calls have taken and not given back, "" if none: places, room for payloads, turns, and the right to be a trial.
// It is "" when every call has ended, which tests check. Safe for concurrent use.
func (n *Net) Owed() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []string
	owed := func(of string, v int64) {
		if v != 0 {
			all = append(all, fmt.Sprintf("%d %s", v, of))
		}
	}
	owed("calls", int64(len(n.calls)))
	owed("places of calls under way", int64(n.running))
	owed("places of calls that wait", int64(n.waiting))
	owed("bytes of payloads", n.bytes)
	owed("turns", int64(n.turns.Len()))
	owed("running by the meter", n.meter.Running.Load())
	owed("waiting by the meter", n.meter.Waiting.Load())
	idle, open := 0, 0
	for _, ep := range n.endpoints {
		if ep.running != 0 || ep.breaker.trying {
			all = append(all, fmt.Sprintf("%s: %d under way, is being tried %t", ep.key, ep.running, ep.breaker.trying))
		}
		for _, r := range ep.routes {
			if r.running != 0 || r.calls.Len() != 0 || r.waiting.Len() != 0 || r.turn != nil || r.breaker.trying {
				all = append(all, fmt.Sprintf("%s: %d under way, %d wait, has a turn %t, is being tried %t", r.name(), r.running, r.waiting.Len(), r.turn != nil,
					r.breaker.trying))
			}
			if r.breaker.open {
				open++
			}
		}
		idle += len(ep.idle)
		if ep.breaker.open {
			open++
		}
	}
	owed("kept connections that no endpoint has", int64(n.idle-idle))
	owed("open breakers that no endpoint has", n.meter.Open.Load()-int64(open))
	slices.Sort(all)
	return strings.Join(all, ", ")
}
