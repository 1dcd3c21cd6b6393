package node

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// Three members that begin a cluster have a leader long before an election timeout is over, which takes 20 s at least here. A message that was lost
// on a busy machine costs that timeout once: then another cluster is begun.
func TestNewClusterElectsAtOnce(t *testing.T) {
	t.Parallel()
	wait.Quickly(t, "the first leader of a cluster", 10*time.Second, func() {
		began := time.Now()
		c := unstarted(t, "n2", "n1", "n3")
		c.tick = 2 * time.Second
		c.begin("n2", "n1", "n3")
		if name, _ := c.leader(); name != "n1" && time.Since(began) < 10*time.Second {
			t.Errorf("%s leads; n1 is the one to stand first", name)
		}
	})
}

// The member that is to stand first dies as soon as the others have the cluster it made: they can elect a leader without it.
func TestNewClusterWithoutItsFirstMember(t *testing.T) {
	t.Parallel()
	c := unstarted(t, "n1", "n2", "n3")
	var wg, others sync.WaitGroup
	others.Add(2)
	for name := range c.peers {
		wg.Go(func() {
			if name != "n1" {
				defer others.Done()
			}
			n, err := c.start(name, StartOptions{Peers: c.peers})
			if err != nil {
				t.Error(err)
				return
			}
			if name == "n1" {
				others.Wait() // before that, only this member knows the cluster's id
				n.Stop()
				return
			}
			c.mu.Lock()
			c.nodes[name] = n
			c.mu.Unlock()
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for _, n := range c.nodes {
		awaitReady(t, n)
	}
}
