package node

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/peer"
)

// muted is a way to a member that can be made to carry nothing, as a cable does that was pulled: no connection ends.
type muted struct {
	mu   sync.Mutex
	cond *sync.Cond
	cut  bool // guarded by mu
}

func newMuted(t testing.TB, from, to string) *muted {
	t.Helper()
	m := &muted{}
	m.cond = sync.NewCond(&m.mu)
	l, err := net.Listen("tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); m.set(false) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				o, err := net.Dial("tcp", to)
				if err != nil {
					c.Close()
					return
				}
				t.Cleanup(func() { c.Close(); o.Close() })
				go m.copy(o, c)
				m.copy(c, o)
			}()
		}
	}()
	return m
}

func (m *muted) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		m.mu.Lock()
		for m.cut {
			m.cond.Wait()
		}
		m.mu.Unlock()
		if err != nil {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

func (m *muted) set(cut bool) {
	m.mu.Lock()
	m.cut = cut
	m.mu.Unlock()
	m.cond.Broadcast()
}

// lines collects a log.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) has(words ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		found := true
		for _, w := range words {
			found = found && strings.Contains(line, w)
		}
		if found {
			return true
		}
	}
	return false
}

// Nothing reaches one member any more, and no connection breaks. All say so, by a line and by what they answer, and say when it is over.
// There are no writes meanwhile.
func TestAMemberThatIsCutOffIsNoticed(t *testing.T) {
	t.Parallel()
	c := unstarted(t, "n1", "n2", "n3")
	logs := map[string]*lines{}
	ways := map[string]*muted{}
	listen := map[string]string{}
	for name := range c.peers {
		listen[name], logs[name] = freeAddr(t), &lines{}
		ways[name] = newMuted(t, c.peers[name], listen[name])
	}
	c.listen = listen
	c.logger = func(name string) *slog.Logger { return slog.New(slog.NewTextHandler(logs[name], nil)) }
	c.begin("n1", "n2", "n3")
	lost, ln := c.follower()
	id := ln.id
	ways[lost].set(true)
	for name, n := range c.nodes {
		if name == lost {
			continue
		}
		await(t, name+" misses it", func() bool {
			for _, o := range n.Contacts() {
				if o.ID == id && o.Lost > 0 {
					return true
				}
			}
			return false
		})
		await(t, "etcd's metrics say so too", func() bool {
			for _, p := range n.Peers() {
				if p.ID == id {
					return !p.Connected
				}
			}
			return false
		})
		await(t, name+" says so", func() bool {
			return logs[name].has("WARN", "member unreachable", c.peers[lost], "what is sent to it does not arrive")
		})
	}
	_, l := c.leader()
	await(t, "the leader says so of its followers", func() bool {
		for _, f := range l.Followers() {
			if f.ID == id && !f.Active && f.Lost > 0 && f.Why != "" {
				return true
			}
		}
		return false
	})
	await(t, "the member says that there is no leader", func() bool { return logs[lost].has("WARN", "there is no leader", "of 3 voters answer") })
	await(t, "it says why, of each of the others", func() bool {
		text := ln.WaitsFor()
		return strings.HasPrefix(text, "waiting for a leader; 1 of 3 voters answer, and a majority must run: ") &&
			strings.Count(text, "nothing comes on its own connection to this member") == 2
	})
	ways[lost].set(false)
	for name := range c.nodes {
		if name != lost {
			await(t, name+" says that it is over", func() bool { return logs[name].has("member reachable again") })
		}
	}
	awaitReady(t, c.nodes[lost])
	await(t, "it says that there is a leader again", func() bool { return logs[lost].has("there is a leader again") })
}

// The cases that count as lost, and the words for them.
func TestWhatIsWrongWithTheWay(t *testing.T) {
	const silent, now = peer.SilentAfter, time.Hour
	refused := errors.New("dial tcp 10.0.0.2:2380: connect: connection refused")
	for _, c := range []struct {
		contact peer.Contact
		resumed time.Duration
		lost    time.Duration
		why     string
	}{
		{peer.Contact{Heard: time.Second, Ever: true, Addr: "10.0.0.2:2380"}, now, 0, ""},
		{peer.Contact{Heard: silent, Ever: true, Addr: "10.0.0.2:2380"}, now, silent, "10.0.0.2:2380: it is connected and says nothing"},
		{peer.Contact{Ever: true, Unanswered: 3 * silent, Addr: "10.0.0.2:2380"}, now, 3 * silent, "what is sent to it does not arrive"},
		{peer.Contact{Ever: true, Down: 2 * silent, Addr: "10.0.0.2:2380", Err: refused}, now, 2 * silent, "10.0.0.2:2380: connection refused"},
		{peer.Contact{Heard: now, Ever: true}, silent / 2, 0, ""}, // it is this member that did nothing
		{peer.Contact{Heard: now, Down: time.Minute}, now, now, "it was not dialled yet"},
	} {
		got := Contact{Contact: c.contact, Lost: c.contact.Lost(c.resumed)}
		if got.Lost != c.lost || got.Lost > 0 && !strings.Contains(got.Why(), c.why) {
			t.Errorf("%+v: lost for %v, %q; want %v, %q", c.contact, got.Lost, got.Why(), c.lost, c.why)
		}
	}
}

// A disk is slow when every sync of ten seconds was, and not when one was, or when nothing is written.
func TestASlowDiskIsNoticed(t *testing.T) {
	var w writer
	sync := func(at, took time.Duration) {
		w.began.Store(int64(at))
		w.synced(took)
	}
	check := func(now time.Duration, want bool) {
		t.Helper()
		from, _ := w.slow(now)
		if got := from != 0 && now-from >= slowFor; got != want {
			t.Errorf("at %v: slow since %v", now, from)
		}
	}
	at := time.Minute
	for range 40 {
		sync(at, 200*time.Millisecond)
		at += 250 * time.Millisecond
	}
	check(at, true)
	sync(at, time.Millisecond)
	check(at, false)
	sync(at, 200*time.Millisecond)
	check(at+slowFor-time.Second, false)
	check(at+2*slowFor, false) // nothing was written since
	sync(at+3*slowFor, 200*time.Millisecond)
	check(at+3*slowFor+time.Second, false)
	w.began.Store(int64(at + 5*slowFor)) // one that does not end
	check(at+5*slowFor+time.Second, false)
	check(at+6*slowFor, true)
}

// A member whose process was stopped says so, and does not blame the others for what it has not heard.
func TestAPauseIsThePausedMembersOwn(t *testing.T) {
	log := &lines{}
	m := newManualWith(t, 1, func(_ uint64, cfg *Config) { cfg.Logger = slog.New(slog.NewTextHandler(log, nil)) })
	n := m.nodes[0]
	now := n.lookedAt
	for range 5 {
		now += lookInterval + 300*time.Millisecond
		n.lookAround(now)
	}
	if log.has("did nothing for a while") {
		t.Error("a look that is a little late is no pause")
	}
	n.lookAround(now + 30*time.Second)
	if !log.has("WARN", "this member did nothing for a while", "for=29.5s") || time.Duration(n.resumed.Load()) != now+30*time.Second {
		t.Errorf("resumed at %v\n%s", time.Duration(n.resumed.Load()), log.b.String())
	}
}
