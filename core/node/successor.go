package node

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// A leader whose process has ended is missed by raft after a second or two. The kernel says so at once: it closes the connections and refuses
// new ones (peer.Handler.Refused). Then this member forgets the leader, and the voters stand for election by turns, in an order that all of
// them know. PreVote and CheckQuorum stay as they are, and raft's own timeouts go on beside it: nothing is weakened. A member that has not
// noticed yet answers no pre-vote, so one that stands does so again.
//
// Rejected: a random pause instead of turns. Of three members two stood at the same time in 3 of 100 deaths, which cost a round more.
const (
	goneFirst  = 5 * time.Millisecond   // for the others to notice
	goneTurn   = 25 * time.Millisecond  // between two turns
	goneAgain  = 100 * time.Millisecond // before standing again: more than a vote takes that has to be synced
	goneRounds = 6
)

// departed is how a member takes the place of a leader that is gone. standing is the loop's.
type departed struct {
	standing    bool
	leadersGone atomic.Int64
}

// Refused implements peer.Handler: the process of a member has ended.
func (n *Node) Refused(to uint64) {
	n.later(func() error {
		leader, term, asked := n.rep.Election()
		if leader != to || to == n.id {
			return nil
		}
		n.rep.ForgetLeader()
		n.leadersGone.Add(1)
		n.log.Info("the leader's process is gone", "leader", fmt.Sprintf("%x", to), "term", term)
		turn := turnOf(n.rep.Conf().Voters, n.id, to)
		if turn < 0 || n.standing {
			return nil
		}
		n.standing = true
		n.tasks.Go(func() {
			n.standInTurn(turn, term, asked)
			n.later(func() error { n.standing = false; return nil })
		})
		return nil
	})
}

// turnOf is the place of a voter among those that are left, -1 if it is none.
func turnOf(voters []uint64, id, gone uint64) int {
	left := slices.DeleteFunc(slices.Sorted(slices.Values(voters)), func(v uint64) bool { return v == gone })
	return slices.Index(left, id)
}

// standInTurn stands for election when it is this member's turn, unless there is a leader by then. A member that was
// asked for its vote meanwhile lets its turn pass: another member stands already.
func (n *Node) standInTurn(turn int, term uint64, asked int) {
	wait, again := goneFirst+time.Duration(turn)*goneTurn, goneAgain+time.Duration(turn)*goneTurn
	for round := 0; round < goneRounds; round++ {
		if n.tasks.Wait(wait, n.dead, n.stop) >= 0 {
			return
		}
		over := false
		ctx, cancel := n.tasks.Timeout(again)
		err := n.onLoop(ctx, func() {
			leader, nowTerm, nowAsked := n.rep.Election()
			switch {
			case leader != 0:
				over = true
			case nowTerm == term && nowAsked == asked:
				n.rep.Campaign()
				_, term, asked = n.rep.Election()
			default:
				term, asked = nowTerm, nowAsked
			}
		})
		cancel()
		if errors.Is(err, ErrStopped) || err == nil && over {
			return
		}
		wait = again
		if round >= 2 {
			again *= 2
		}
	}
}
