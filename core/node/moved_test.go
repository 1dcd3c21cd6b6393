package node

import (
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/holdfastdb/holdfast/internal/certtest"
)

// both runs a test of members' addresses in cleartext and with TLS.
func both(t *testing.T, run func(t *testing.T, c *cluster)) {
	for _, encrypted := range []bool{false, true} {
		t.Run(map[bool]string{false: "cleartext", true: "TLS"}[encrypted], func(t *testing.T) {
			t.Parallel()
			c := unstarted(t, "n1", "n2", "n3")
			if encrypted {
				ca := certtest.NewAuthority("members")
				c.tls = ca.Config(ca.Issue("member"))
				c.tls.ClientAuth = tls.RequireAndVerifyClientCert
			}
			c.begin("n1", "n2", "n3")
			run(t, c)
		})
	}
}

// serve proposes on every member and reads on every member what the others wrote.
func (c *cluster) serve(what string) {
	c.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		mustPropose(c.t, c.nodes[name], name, what)
	}
	for _, n := range c.nodes {
		if err := n.Linearize(within(c.t)); err != nil {
			c.t.Fatal(err)
		}
		for name := range c.nodes {
			if v, _ := read(c.t, n, name); v != what {
				c.t.Fatalf("%s reads %q of %s", n.identity.Name, v, name)
			}
		}
	}
}

// An operator gives a member another address in the log and starts it there. The others dial that address at once, one move after another.
func TestMembersThatMoveOneByOneAreReached(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, c *cluster) {
		for _, name := range []string{"n3", "n1", "n2"} {
			_, l := c.leader()
			c.peers[name] = freeAddr(t)
			if err := l.UpdateMember(within(t), idOf(t, l, name), []string{"http://" + c.peers[name]}); err != nil {
				t.Fatal(err)
			}
			c.stop(name)
			n, err := c.start(name, StartOptions{KeepPeerURLs: true})
			if err != nil {
				t.Fatal(err)
			}
			c.nodes[name] = n
			awaitReady(t, n)
			c.serve("moved " + name)
		}
	})
}

// All members are stopped after the log has their new addresses. None has a store that has them: it is the log's end that does.
func TestMembersThatMoveAtOnceGoByTheLog(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, c *cluster) {
		_, l := c.leader()
		for name := range c.nodes {
			c.peers[name] = freeAddr(t)
			if err := l.UpdateMember(within(t), idOf(t, l, name), []string{"http://" + c.peers[name]}); err != nil {
				t.Fatal(err)
			}
		}
		c.moveAll(StartOptions{KeepPeerURLs: true})
		c.serve("moved")
	})
}

// moveAll stops all members and starts them where peers says.
func (c *cluster) moveAll(opt StartOptions) {
	c.t.Helper()
	names := slices.Sorted(maps.Keys(c.nodes))
	for _, name := range names {
		c.stop(name)
	}
	for _, name := range names {
		n, err := c.start(name, opt)
		if err != nil {
			c.t.Fatal(err)
		}
		c.nodes[name] = n
	}
	for _, n := range c.nodes {
		awaitReady(c.t, n)
	}
}

// known waits until every member has the present addresses of all in its log.
func (c *cluster) known() {
	c.t.Helper()
	for _, n := range c.nodes {
		await(c.t, "the log has the new addresses", func() bool {
			return !slices.ContainsFunc(n.Members(), func(m Member) bool { return dialable(m.PeerURLs) != c.peers[m.Name] })
		})
	}
}

// A member that is started elsewhere, without a word to the log before, tells the others where it is and then changes the log.
func TestAMemberThatMovesByItselfIsReached(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, c *cluster) {
		for i := range 3 {
			name := fmt.Sprintf("n%d", i+1)
			c.stop(name)
			c.peers[name] = freeAddr(t)
			c.restart(name)
			c.known()
		}
		c.serve("moved")
	})
}
