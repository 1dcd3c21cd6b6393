package node

import (
	"testing"
	"time"
)

// TestAFollowerGoesByItsLeadersClock: one that is ahead waits for the leader, and reports nothing smaller than before. Its own earlier
// stamps, and an earlier leader's, take no time back.
func TestAFollowerGoesByItsLeadersClock(t *testing.T) {
	const ms = time.Millisecond
	var k ticking
	k.tick.Store(&tickPoint{base: 1000})
	wants := func(what string, now time.Duration, want int64) {
		t.Helper()
		if got := k.tickAt(now); got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	k.heard(1200, 100*ms, true, false)
	wants("the leader is ahead", 150*ms, 1250)
	k.heard(1160, 200*ms, true, false)
	wants("at once", 200*ms, 1300)
	wants("it waits", 300*ms, 1300)
	wants("the leader has come to it", 345*ms, 1305)
	k.heard(1310, 400*ms, false, false)
	wants("its own entry, or an earlier leader's", 400*ms, 1360)
	k.heard(1340, 400*ms, true, false)
	wants("before it leads", 401*ms, 1360)
	k.leads(401*ms, 0)
	wants("once it leads", 401*ms, 1341)
}

// TestTheTickDoesNotJumpAtAChangeOfLeader: a follower whose clock has run ahead by a minute goes on from its leader's tick when it leads.
func TestTheTickDoesNotJumpAtAChangeOfLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	name, leader := c.leader()
	for other, n := range c.nodes { // any order: all are followers
		if other != name {
			n.tick.Store(&tickPoint{base: n.Tick() + 60_000, mono: n.Mono()})
		}
	}
	mustPropose(t, leader, "k", "v")
	for _, n := range c.nodes {
		await(t, "it has applied what the leader stamped", func() bool { return n.tick.Load().at(n.Mono()) < leader.Tick()+1000 })
	}
	// A follower lags by what the leader's last stamp took to reach it, which is no jump.
	at, most := time.Now(), leader.Tick()
	least := most
	for other, n := range c.nodes { // any order: the least and the most of all
		if other != name {
			its := n.tick.Load().at(n.Mono())
			least, most = min(least, its), max(most, its)
		}
	}
	c.stop(name)
	_, next := c.leader()
	mustPropose(t, next, "k", "w")
	passed := time.Since(at).Milliseconds()
	if now := next.Tick(); now < least || now > most+passed+1 {
		t.Errorf("the ticks were %d to %d, and the new leader's is %d after %d ms", least, most, now, passed)
	}
}
