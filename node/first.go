package node

import (
	"maps"
	"slices"
	"time"
)

// A new cluster has no leader, and by raft's rules would wait for a whole election timeout, a second or two, before anybody
// stands for election: nobody can know that there is no leader to hear from. Those who have just agreed to begin the cluster do
// know it. So the member whose name comes first stands as soon as it reaches a majority.
//
// Nothing is weakened: it is an election like any other, asked about before it is held (PreVote), and if this member fails at
// it the timeouts of all are running as ever.

// firstPause is how long an election is given before it is tried again; twice as long each time, because a machine on which
// it takes longer has enough to do.
const firstPause = 200 * time.Millisecond

// standsFirst says who of the listed stands first. It must be the same on every member, or they would divide the votes.
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
