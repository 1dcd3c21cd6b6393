package crash

import (
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestV2Partition cuts members off from each other, in both directions or in one, silently or with resets. This happens under v2 load,
// while leadership moves and members are killed. Writes and quorum reads are linearizable; a streaming and a long-polling watch see every
// change once, in order; all members end with the same tree.
func TestV2Partition(t *testing.T) {
	processTest(t, false)
	beside(t)
	rounds := count("V2_PARTITIONS", 4, 80)
	r := rng(t)
	c, w := startWired(t)
	// A client on the wrong side waits for an answer that does not come; the others must go on meanwhile.
	h := beginV2(t, c, &v2Load{patience: time.Second, pause: 40 * time.Millisecond, sticky: true}, time.Second)
	began, term := time.Now(), v2Term(t, c)
	kills, moved, oneWay, leaders := 0, 0, 0, 0
	for round := range rounds {
		leader, err := c.WaitLeader(wait.Limit(t))
		if err != nil {
			t.Fatal(err)
		}
		cut := w.draw(r, leader, round)
		if cut.oneWay {
			oneWay++
		}
		if cut.leader {
			leaders++
		}
		if r.IntN(3) == 0 && moveLeader(t, r, c, leader) { // the cut comes while it moves
			moved++
		}
		w.cut(cut.kind, cut.links...)
		time.Sleep(between(r, 200*time.Millisecond, 1200*time.Millisecond))
		var victim *proctest.Node
		if r.IntN(3) == 0 {
			victim = c.Nodes[r.IntN(3)]
			kill(t, victim)
			kills++
		}
		if now, err := c.Leader(t.Context()); err == nil && r.IntN(3) == 0 && moveLeader(t, r, c, now) { // with whom it reaches
			moved++
		}
		time.Sleep(between(r, 100*time.Millisecond, 1200*time.Millisecond))
		if victim != nil && r.IntN(2) == 0 { // it starts while it is cut off
			if err := victim.Start(); err != nil {
				t.Fatal(err)
			}
			victim = nil
			time.Sleep(between(r, 100*time.Millisecond, 500*time.Millisecond))
		}
		w.heal()
		if victim != nil {
			if err := victim.Start(); err != nil {
				t.Fatal(err)
			}
		}
		h.goesOn(t, "partition: "+cut.String())
	}
	took := time.Since(began)
	summary(t, "v2 partition: %d partitions (%d of the leader, %d in one direction) in %s, %d kills, leadership handed over %d times, %d terms, 3 nodes, %s",
		rounds, leaders, oneWay, tenth(took), kills, moved, v2Term(t, c)-term, h.end(t))
}

// partition is one way to part three members.
type partition struct {
	kind           cutKind
	links          [][2]int
	text           string
	oneWay, leader bool
}

func (p partition) String() string {
	if p.kind == loud {
		return p.text + ", with resets"
	}
	return p.text
}

// draw takes the kinds in turn, so that a run of any length has most of them; who and how is drawn.
func (w *wires) draw(r *rand.Rand, leader *proctest.Node, round int) partition {
	l := w.index(leader)
	f := w.index(other(r, w.c, leader))
	p := partition{kind: silent}
	if r.IntN(3) == 0 {
		p.kind = loud
	}
	switch round % 9 {
	case 0:
		p.text, p.links, p.leader = "the leader alone", w.links("both", l), true
	case 1:
		p.text, p.links, p.leader, p.oneWay = "nobody hears the leader", w.links("sends", l), true, true
	case 2:
		p.text, p.links = "a follower alone", w.links("both", f)
	case 3:
		p.text, p.links, p.leader, p.oneWay = "the leader hears nobody", w.links("hears", l), true, true
	case 4:
		p.text, p.links, p.oneWay = "nobody hears a follower", w.links("sends", f), true
	case 5:
		p.text, p.links, p.leader = "leader and one follower apart", [][2]int{{l, f}, {f, l}}, true
	case 6:
		p.text, p.links, p.oneWay = "a follower hears nobody", w.links("hears", f), true
	case 7:
		p.text, p.links, p.leader, p.oneWay = "one follower does not hear the leader", [][2]int{{l, f}}, true, true
	default:
		p.text, p.links, p.leader = "everybody alone", append(w.links("both", l), w.links("both", f)...), true
	}
	return p
}

// moveLeader asks a leader to hand over, and reports whether it did.
func moveLeader(t *testing.T, r *rand.Rand, c *proctest.Cluster, leader *proctest.Node) bool {
	t.Helper()
	to, err := other(r, c, leader).Status(t.Context())
	if err != nil {
		return false // killed
	}
	_, err = pb.NewMaintenanceClient(conn(t, leader.KV)).MoveLeader(within(t, time.Second), &pb.MoveLeaderRequest{TargetID: to.Header.MemberId})
	return err == nil
}

// v2Term is the greatest term any member shows.
func v2Term(t *testing.T, c *proctest.Cluster) (term uint64) {
	t.Helper()
	for _, n := range c.Nodes {
		if st, err := n.Status(t.Context()); err == nil {
			term = max(term, st.RaftTerm)
		}
	}
	return term
}

// TestAuthEnabledBehindAMembersBack: a member that others hear, but that hears none of them, still takes authentication for off, and its
// commands reach the leader. The log refuses them.
func TestAuthEnabledBehindAMembersBack(t *testing.T) {
	processTest(t, false)
	beside(t)
	rounds := count("BEHIND_BACKS", 1, 10)
	r := rng(t)
	for range rounds {
		c, w := startWired(t)
		leader, err := c.WaitLeader(wait.Limit(t))
		if err != nil {
			t.Fatal(err)
		}
		deaf := other(r, c, leader)
		cli := dial(t, leader.KV)
		must := func(_ any, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(cli.UserAdd(t.Context(), "root", "rootpw"))
		must(cli.UserGrantRole(t.Context(), "root", "root"))
		ask := func(method, key string, user *url.Userinfo) (status int) {
			t.Helper()
			u := url.URL{Scheme: "http", Host: deaf.KV, Path: "/v2/keys/" + key, RawQuery: "quorum=true", User: user}
			req, _ := http.NewRequestWithContext(within(t, 2*time.Second), method, u.String(), strings.NewReader("value=v"))
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				return 0
			}
			res.Body.Close()
			return res.StatusCode
		}
		wait.Until(t, "a put before anything", func() bool { s := ask("PUT", "before", nil); return s == http.StatusCreated || s == http.StatusOK })
		w.cut(silent, w.links("hears", w.index(deaf))...)
		must(cli.AuthEnable(t.Context()))
		if s := ask("PUT", "nobody", nil); s == http.StatusCreated {
			t.Errorf("the deaf member took a write: %d", s)
		}
		w.heal()
		if err := c.WaitReady(); err != nil {
			t.Fatal(err)
		}
		root := url.UserPassword("root", "rootpw")
		for _, q := range []struct {
			method, key string
			user        *url.Userinfo
			want        int
		}{{"GET", "nobody", root, 404}, {"PUT", "root", root, 201}, {"PUT", "nobody", nil, 401}, {"GET", "before", nil, 401}, {"GET", "before", root, 200}} {
			got := 0 // a busy machine may take longer than a request waits
			wait.Until(t, "an answer", func() bool { got = ask(q.method, q.key, q.user); return got != 0 })
			again := q.want == http.StatusCreated && got == http.StatusOK // the request before has taken effect
			if got != q.want && !again {
				t.Errorf("afterwards %s %s as %v: %d, want %d", q.method, q.key, q.user, got, q.want)
			}
		}
	}
	summary(t, "auth enabled behind a member's back: %d rounds", rounds)
}
