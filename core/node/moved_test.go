package node

import (
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

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

// An address that is in the log's end, which is not known to be committed, is dialled beside the one of the state.
func TestTheEndOfTheLogIsReadForAddresses(t *testing.T) {
	m := newManual(t, 3)
	leader := m.nodes[0]
	commit, last := leader.rep.Commit(), leader.wal.LastIndex()
	m.sending = func(parcel) bool { return true } // no member hears of it
	go leader.UpdateMember(within(t), 3, []string{"http://10.0.1.3:2380", "http://10.0.2.3:2380"})
	m.until("the change is in the leader's log", func() bool {
		time.Sleep(time.Millisecond) // the caller has a goroutine of its own
		return leader.wal.LastIndex() > last
	})
	if leader.rep.Commit() != commit {
		t.Fatal("it is committed")
	}
	if err := leader.readAhead(); err != nil {
		t.Fatal(err)
	}
	if first, also := leader.addresses.of(3, "n3", "10.0.0.3:2380", true); first != "10.0.0.3:2380" || !slices.Equal(also, []string{"10.0.1.3:2380", "10.0.2.3:2380"}) {
		t.Errorf("first %s, then %v", first, also)
	}
}

// Where a member is dialled first, and where then.
func TestTheOrderOfAddresses(t *testing.T) {
	a := &addresses{told: map[uint64]string{1: "told:1"}, ahead: map[uint64]string{1: "ahead:1"}, given: map[string]string{"n1": "given:1", "n2": "given:2"},
		override: map[uint64]override{2: {"over:2", "log:2"}, 3: {"over:3", "was:3"}}}
	for _, c := range []struct {
		id     uint64
		name   string
		addr   string
		unique bool
		want   []string
	}{
		{1, "n1", "log:1", true, []string{"log:1", "told:1", "ahead:1", "given:1"}},
		{1, "n1", "log:1", false, []string{"log:1", "told:1", "ahead:1"}}, // two members have the name
		{1, "n1", "", true, []string{"told:1", "ahead:1", "given:1"}},
		{2, "n2", "log:2", true, []string{"over:2", "given:2", "log:2"}},
		{3, "n3", "log:3", true, []string{"log:3", "over:3"}}, // the log has had a new one since the start
		{4, "n4", "", true, []string{""}},
	} {
		first, also := a.of(c.id, c.name, c.addr, c.unique)
		if got := append([]string{first}, also...); !slices.Equal(got, c.want) {
			t.Errorf("member %d: %v, want %v", c.id, got, c.want)
		}
	}
}
