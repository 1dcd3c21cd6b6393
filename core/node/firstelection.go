package node

import (
	"maps"
	"slices"
	"time"
)

// A new cluster has no leader. By raft's rules a member would wait a whole election timeout, a second or two, because it
// cannot know that there is none. Those that have just agreed to begin the cluster do know it. So the member whose name
// comes first stands for election as soon as it reaches a majority.
//
// Nothing is weakened: it is an election like any other, with PreVote, and if this member fails, the timeouts of all are
// still running.

// firstPause is the time given to an election before the next attempt. It doubles each time, so as not to add to the load
// of a slow machine.
const firstPause = 200 * time.Millisecond

// standsFirst returns which of the listed members stands first. It must be the same on every member, or they would split the
// votes.
func standsFirst(name string, peers map[string]string) bool {
	return slices.Min(slices.Collect(maps.Keys(peers))) == name
}

// standFirst runs on that member until there is a leader, or for as long as raft's own timeouts need at least.
func (n *Node) standFirst() {
	pause := firstPause
	over := n.clock.Mono() + time.Duration(n.cfg.ElectionTicks)*n.cfg.TickInterval
	for n.clock.Mono() < over {
		wait := 5 * time.Millisecond
		switch {
		case n.pub.Load().leader != 0:
			return
		case n.reachesMajority():
			wait, pause = pause, 2*pause
			n.later(func() error {
				if n.rep.Leader() == 0 && n.rep.Term() == firstTerm {
					n.rep.Campaign()
				}
				return nil
			})
		}
		if n.tasks.Wait(wait, n.dead, n.stop) >= 0 {
			return
		}
	}
}

// reachesMajority reports whether this member and those it has connections with in both directions are a majority.
func (n *Node) reachesMajority() bool {
	voters := n.pub.Load().conf.Voters
	up := 0
	for _, id := range voters {
		if id == n.id || n.net.ConnectedFor(id) > 0 {
			up++
		}
	}
	return up > len(voters)/2
}
