package node

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	emember "github.com/holdfastdb/holdfast/entry/member"
	"github.com/holdfastdb/holdfast/peer"
	"github.com/holdfastdb/holdfast/wal"
)

// StartOptions say how a member comes to its cluster. They matter only while the data directory belongs to none, except
// addresses and TLS. An address of a member is host:port, or several peer URLs (http, https, unix, unixs) with commas
// between.
type StartOptions struct {
	Name string
	// PeerAddr is the address the others are told, "" = this member cannot be reached.
	PeerAddr string
	// PeerListen is where this member listens for others if that is not PeerAddr: host:port or unix:PATH.
	PeerListen []string
	// KeepPeerURLs keeps the address that the log has, as etcd does: only a membership call changes it. Without it a member
	// that is started with another PeerAddr publishes that.
	KeepPeerURLs bool
	// PeerTLS makes every connection between members mutual TLS. PeerDialTLS is for members that are told apart by side;
	// see peer.TCPOptions.
	PeerTLS, PeerDialTLS *tls.Config
	// PeerCertificates tells members' certificates from others of the same authority; nil: all are members'.
	PeerCertificates *peer.Certificates
	// PeerConns bounds the connections others have made to this member; 0 = the transport's own bound.
	PeerConns int
	// Peers bootstraps a cluster of these members (name → address) if all of them agree that there is none yet, and on
	// Token.
	Peers map[string]string
	Token string
	// Join is a member's peer address; the node joins its cluster as a learner. With several, each is asked in turn.
	Join string
	// JoinAdded joins only if a membership call has added this member's address before.
	JoinAdded bool
	// Notify is called with what the start waits for, for people; nil: nothing is called.
	Notify func(string)
	// Transport is the network; nil: TCP, at the addresses above. Start closes it with the node.
	Transport Transport
}

// Transport is the network of a member that may not belong to a cluster yet. *peer.TCP is the real one.
type Transport interface {
	peer.Network
	// Start begins to serve; Identify says as whom, once that is known.
	Start(peer.Handler)
	Identify(cluster, member uint64)
	// Ask sends a question to the process that listens on addr. A refusal wraps peer.ErrRefused.
	Ask(ctx context.Context, addr string, question []byte) ([]byte, error)
}

// Start brings up the member whose data lies in cfg.Dir, making the directory a member of a cluster first if it is
// empty. It returns when the member runs, which is not yet when it is ready (Status.Ready). A refusal names what to do.
func Start(ctx context.Context, cfg Config, opt StartOptions) (*Node, error) {
	cfg.defaults()
	if opt.Notify == nil {
		opt.Notify = func(string) {}
	}
	if err := cfg.refuseStrayLog(); err != nil {
		return nil, err
	}
	ident, err := newIdentity(cfg.FS, cfg.Dir, opt.Name, opt.PeerAddr)
	if err != nil {
		return nil, err
	}
	g := &gate{opt: opt}
	g.ident.Store(ident)
	net := opt.Transport
	if net == nil && (opt.PeerAddr != "" || len(opt.Peers) > 1 || opt.Join != "") {
		at, more := opt.PeerAddr, []string(nil)
		if len(opt.PeerListen) > 0 {
			at, more = opt.PeerListen[0], opt.PeerListen[1:]
		}
		if net, err = peer.ListenTCP(at, peer.TCPOptions{TLS: opt.PeerTLS, DialTLS: opt.PeerDialTLS,
			Members: opt.PeerCertificates, AskedAt: askedAt, Logger: cfg.Logger, MaxConns: opt.PeerConns}, more...); err != nil {
			return nil, err
		}
	}
	if net != nil {
		net.Start(g)
		cfg.Net = net
	}
	first := false // this member stands for the first election of a cluster
	n, err := func() (*Node, error) {
		if ident.Cluster == 0 {
			if err := enter(ctx, &cfg, net, ident, &opt); err != nil {
				return nil, err
			}
			first = opt.Join == "" && len(opt.Peers) > 1 && standsFirst(opt.Name, opt.Peers)
		} else if err := ident.write(cfg.FS, cfg.Dir); err != nil { // the peer address may have changed
			return nil, err
		}
		if net != nil {
			net.Identify(ident.Cluster, ident.Member)
		}
		return Open(cfg)
	}()
	if err != nil {
		if net != nil {
			net.Close()
		}
		return nil, err
	}
	g.node.Store(n)
	n.closeNet = net
	n.keepURLs = opt.KeepPeerURLs
	n.beside(n.announce)
	if first {
		n.beside(n.standFirst)
	}
	return n, nil
}

// enter makes the member part of a cluster: it begins one or joins one, as the options say.
func enter(ctx context.Context, cfg *Config, net Transport, ident *Identity, opt *StartOptions) error {
	// Nobody else may work on the directory meanwhile.
	lock, err := cfg.FS.Lock(filepath.Join(cfg.Dir, "LOCK"))
	if err != nil {
		return fmt.Errorf("open %s: in use by another process: %w", cfg.Dir, err)
	}
	defer lock.Unlock()
	switch {
	case opt.Join != "":
		return join(ctx, cfg, net, ident, opt)
	case len(opt.Peers) > 1:
		return bootstrap(ctx, cfg, net, ident, opt)
	}
	return alone(cfg, ident)
}

// announce makes this member's name and addresses known to the log as soon as it can.
func (n *Node) announce() {
	for {
		changed := n.pubChange.wait()
		if n.pub.Load().ready {
			ctx, cancel := n.tasks.Timeout(5 * time.Second)
			err := n.Announce(ctx)
			cancel()
			if err == nil && n.Announced() {
				return
			}
		}
		switch n.tasks.Wait(500*time.Millisecond, n.dead, n.stop, changed) {
		case 0, 1:
			return
		}
	}
}

// alone makes a cluster of one.
func alone(cfg *Config, ident *Identity) error {
	m := emember.Member{ID: ident.Member, Name: ident.Name, Nonce: ident.Nonce}
	m.PeerURLs = peerURLs(ident.PeerAddr)
	return initialise(cfg, ident, randomID(), []emember.Member{m})
}

// firstTerm is the term of the first state, which had no leader.
const firstTerm = 1

// initialise writes the first state of a cluster: all its first members write the same one, as the snapshot at index 1 of
// term 1. Until the identity names the cluster (the commit point) the directory belongs to none and all is done again.
func initialise(cfg *Config, ident *Identity, cluster uint64, members []emember.Member) error {
	storeDir, walDir := filepath.Join(cfg.Dir, "store"), cfg.walDir()
	for _, d := range []string{storeDir, walDir} {
		if err := cfg.FS.RemoveAll(d); err != nil {
			return fmt.Errorf("initialise %s: %w", cfg.Dir, err)
		}
	}
	st, err := cfg.openStore(nil)
	if err != nil {
		return err
	}
	w, err := wal.Open(cfg.FS, walDir, wal.Options{Manual: true, SegmentBytes: cfg.SegmentBytes})
	if err != nil {
		st.Close()
		return err
	}
	if len(members) > 0 {
		b := st.NewBatch()
		FirstRows(b, members...)
		if err = st.Commit(b, 1); err == nil {
			err = st.Flush()
		}
		if err == nil {
			err = w.Reset(1, 1, wal.HardState{Term: firstTerm, Commit: 1})
		}
	}
	if e := st.Close(); err == nil && e != nil {
		err = e
	}
	if e := w.Close(); err == nil && e != nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("initialise %s: %w", cfg.Dir, err)
	}
	ident.Cluster = cluster
	return ident.write(cfg.FS, cfg.Dir)
}

// question is sent to a peer address by a process that is no member yet.
type question struct {
	Kind     string `json:"kind"` // hello, join
	Name     string `json:"name"`
	PeerAddr string `json:"peer_addr"`
	Nonce    uint64 `json:"nonce,string"`
	Added    bool   `json:"added,omitempty"` // StartOptions.JoinAdded
	Level    uint16 `json:"level,omitempty"` // the highest that the asker knows; builds before levels leave it out
}

// askedAt is the address that a question gives as its asker's own.
func askedAt(b []byte) string {
	var q question
	if json.Unmarshal(b, &q) != nil {
		return ""
	}
	return dialable(peerURLs(q.PeerAddr))
}

type helloAnswer struct {
	Name    string            `json:"name"`
	Member  uint64            `json:"member,string"`
	Cluster uint64            `json:"cluster,string"` // 0: not initialised
	Members []emember.Member  `json:"members,omitempty"`
	Peers   map[string]string `json:"peers,omitempty"` // what it was told to bootstrap
	Token   string            `json:"token,omitempty"` // and under which token
}

func ask[T any](ctx context.Context, net Transport, addr string, q *question) (*T, error) {
	b, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	if b, err = net.Ask(ctx, addr, b); err != nil {
		return nil, err
	}
	var a T
	if err := json.Unmarshal(b, &a); err != nil {
		return nil, fmt.Errorf("answer of %s: %w", addr, err)
	}
	return &a, nil
}

// askAny asks at each of the addresses until one answers. A refusal is an answer, unless it may be transient: a member that was
// removed and does not know it yet answers for ever that there is no leader, while the next one could have answered.
func askAny[T any](ctx context.Context, net Transport, addrs string, q *question) (a *T, err error) {
	for _, url := range peerURLs(addrs) {
		a, err = ask[T](ctx, net, HostPort(url), q)
		if err == nil || errors.Is(err, peer.ErrRefused) && !passes(err) || ctx.Err() != nil {
			return a, err
		}
	}
	return nil, err
}

// sharesURL reports whether one of a member's URLs leads to the same place as one of addr's.
func sharesURL(urls []string, addr string) bool {
	return slices.ContainsFunc(peerURLs(addr), func(u string) bool {
		return slices.ContainsFunc(urls, func(o string) bool { return HostPort(o) == HostPort(u) })
	})
}

// bootstrap agrees with all listed members on the first state. Ids are made and stored before they are told to anybody, and the
// cluster id is a hash of them, so members that decide separately decide the same; one that was late finds itself in the answer
// of one that has decided. A member that lost its disk in between has another id, and is refused.
func bootstrap(ctx context.Context, cfg *Config, net Transport, ident *Identity, opt *StartOptions) error {
	if opt.Peers[opt.Name] == "" {
		return fmt.Errorf("--peers does not name this member %q: it lists %s", opt.Name, strings.Join(slices.Sorted(maps.Keys(opt.Peers)), ", "))
	}
	known := map[string]*helloAnswer{opt.Name: {Name: opt.Name, Member: ident.Member}}
	told := time.Duration(0)
	for {
		var missing []string
		for _, name := range slices.Sorted(maps.Keys(opt.Peers)) { // a simulated run must repeat
			addr := opt.Peers[name]
			if name == opt.Name {
				continue
			}
			a, err := askAny[helloAnswer](ctx, net, addr, &question{Kind: "hello", Name: opt.Name, PeerAddr: ident.PeerAddr})
			if err != nil {
				missing = append(missing, fmt.Sprintf("%s (%s)", name, addr))
				continue
			}
			if a.Name != name {
				return fmt.Errorf("%s calls itself %q, but --peers calls it %q", addr, a.Name, name)
			}
			if a.Cluster != 0 {
				if slices.ContainsFunc(a.Members, func(m emember.Member) bool { return m.ID == ident.Member }) {
					return late(cfg, ident, a)
				}
				return wasMember(a, opt, ident, addr)
			}
			if !maps.Equal(a.Peers, opt.Peers) {
				return fmt.Errorf("member %s was started with another --peers list than this one", name)
			}
			if a.Token != opt.Token {
				return fmt.Errorf("member %s was started with another cluster token than this one", name)
			}
			known[name] = a
		}
		if len(known) == len(opt.Peers) && len(missing) == 0 {
			var members []emember.Member
			for name, a := range known {
				members = append(members, emember.Member{ID: a.Member, Name: name, PeerURLs: peerURLs(opt.Peers[name])})
			}
			slices.SortFunc(members, func(a, b emember.Member) int { return strings.Compare(a.Name, b.Name) })
			return initialise(cfg, ident, clusterID(members), members)
		}
		if now := cfg.Clock.Mono(); told == 0 || now-told > 5*time.Second {
			told = max(now, 1)
			slices.Sort(missing)
			opt.Notify("waiting for " + strings.Join(missing, ", ") + " to bootstrap the cluster")
		}
		if cfg.Tasks.Wait(askAgain, ctx.Done()) == 0 {
			return ctx.Err()
		}
	}
}

// late starts one of the first members after its cluster has begun without it. The answer has the cluster's present members. If
// they are still the first ones, which the cluster's id shows, this member writes the same first state as the others did. If
// not, its first state would differ from theirs, with other voters: so it begins empty and gets the state from them.
func late(cfg *Config, ident *Identity, a *helloAnswer) error {
	var first []emember.Member
	peers := map[uint64]string{}
	for _, m := range a.Members {
		first = append(first, emember.Member{ID: m.ID, Name: m.Name, PeerURLs: m.PeerURLs})
		if m.ID != ident.Member && len(m.PeerURLs) > 0 {
			peers[m.ID] = dialable(m.PeerURLs)
		}
	}
	slices.SortFunc(first, func(a, b emember.Member) int { return strings.Compare(a.Name, b.Name) })
	if clusterID(first) != a.Cluster {
		ident.Peers, first = peers, nil
	}
	return initialise(cfg, ident, a.Cluster, first)
}

// askAgain is the time between two rounds of questions to those that begin a cluster together. They are started one after the
// other, by a person or a script.
const askAgain = 50 * time.Millisecond

func clusterID(members []emember.Member) uint64 {
	h := sha256.New()
	for _, m := range members {
		fmt.Fprintf(h, "%s %d %s\n", m.Name, m.ID, strings.Join(m.PeerURLs, ","))
	}
	return binary.LittleEndian.Uint64(h.Sum(nil))>>2 | 1
}

// wasMember says what to do with an empty directory whose cluster exists already.
func wasMember(a *helloAnswer, opt *StartOptions, ident *Identity, asked string) error {
	for _, m := range a.Members {
		if m.Name == opt.Name || sharesURL(m.PeerURLs, ident.PeerAddr) {
			return fmt.Errorf("the cluster %x exists and knows %s as member %x, but this data directory is empty: a member that lost its "+
				"disk may not come back under its old id; run `holdfast member remove %x` against the others, then start this one with --join %s",
				a.Cluster, opt.Name, m.ID, m.ID, firstAddr(a.Members, m.ID))
		}
	}
	return fmt.Errorf("the cluster %x was bootstrapped without %s: start it with --join %s instead of --peers", a.Cluster, opt.Name, HostPort(peerURLs(asked)[0]))
}

func firstAddr(ms []emember.Member, not uint64) string {
	for _, m := range ms {
		if m.ID != not && len(m.PeerURLs) > 0 {
			return HostPort(m.PeerURLs[0])
		}
	}
	return "HOST:PORT"
}

type joinAnswer struct {
	Cluster uint64            `json:"cluster,string"`
	Member  uint64            `json:"member,string"`
	Peers   map[uint64]string `json:"peers"`
}

// join asks a member to take this one in. The nonce in the identity makes asking again harmless.
func join(ctx context.Context, cfg *Config, net Transport, ident *Identity, opt *StartOptions) error {
	if ident.PeerAddr == "" {
		return errors.New("--join needs --peer HOST:PORT, the address at which the other members reach this one")
	}
	deadline := cfg.Clock.Mono() + time.Minute
	for {
		a, err := askAny[joinAnswer](ctx, net, opt.Join, &question{Kind: "join", Name: opt.Name, PeerAddr: ident.PeerAddr, Nonce: ident.Nonce,
			Added: opt.JoinAdded, Level: cfg.knownLevel()})
		if err == nil {
			ident.Member, ident.Peers = a.Member, a.Peers
			return initialise(cfg, ident, a.Cluster, nil)
		}
		if errors.Is(err, peer.ErrRefused) && !passes(err) || cfg.Clock.Mono() > deadline {
			return fmt.Errorf("join through %s: %w", opt.Join, err)
		}
		opt.Notify(fmt.Sprintf("cannot join through %s yet: %v", opt.Join, err))
		if cfg.Tasks.Wait(time.Second, ctx.Done()) == 0 {
			return ctx.Err()
		}
	}
}

// passes reports whether a refusal may be transient.
func passes(err error) bool {
	for _, e := range []error{ErrUnhealthy, ErrTooManyLearners, ErrNoLeader, ErrNotLeader, ErrSuperseded, ErrUnknown, errNotReady} {
		if strings.Contains(err.Error(), e.Error()) {
			return true
		}
	}
	return false
}

var errNotReady = errors.New("this member is starting; ask again")

// handleJoin runs on the leader.
func (n *Node) handleJoin(ctx context.Context, req []byte) ([]byte, error) {
	var q question
	if err := json.Unmarshal(req, &q); err != nil {
		return nil, err
	}
	if err := n.refuseLower(&q); err != nil {
		return nil, err
	}
	var me *emember.Member
	for _, m := range n.members.List() {
		switch {
		case m.Nonce == q.Nonce && q.Nonce != 0:
			me = &m
		case sharesURL(m.PeerURLs, q.PeerAddr):
			if m.Name != "" || m.Nonce != 0 {
				return nil, fmt.Errorf("member %x at %s has been started before; if it lost its disk run `holdfast member remove %x` first", m.ID, q.PeerAddr, m.ID)
			}
			c := emember.Part{Claim: &emember.Claim{ID: m.ID, Nonce: q.Nonce, Name: q.Name}}
			if err := n.memberCommand(ctx, &c); err != nil {
				return nil, err
			}
			me = &m
		}
		if me != nil {
			break
		}
	}
	if me == nil && q.Added {
		return nil, fmt.Errorf("no member with the address %s was added to cluster %x; add it first, with `etcdctl member add`", q.PeerAddr, n.ident.Cluster)
	}
	if me == nil {
		m, err := n.addMember(ctx, emember.Member{PeerURLs: peerURLs(q.PeerAddr), Learner: true, Nonce: q.Nonce, AutoPromote: true})
		if err != nil {
			// The same question, sent twice, has added it meanwhile.
			i := slices.IndexFunc(n.members.List(), func(o emember.Member) bool { return o.Nonce == q.Nonce && q.Nonce != 0 })
			if i < 0 {
				return nil, err
			}
			m = n.members.List()[i]
		}
		me = &m
	}
	if err := n.refuseLower(&q); err != nil { // the level may have gone up meanwhile
		return nil, err
	}
	return n.answerJoin(me.ID)
}

// refuseLower refuses a build that could not apply what this cluster logs.
func (n *Node) refuseLower(q *question) error {
	if at := n.members.Level(); q.Level < at {
		return fmt.Errorf("the cluster is at level %d and the build that asks knows levels up to %d: start it with the build of the other members, or a later one", at, q.Level)
	}
	return nil
}

// awaited returns the voter that was added for the asking process but has not started: without its vote there may be no
// majority, so no leader to log its claim. Nil if there is none. For an added learner there never is: the others have a
// majority without it.
func (n *Node) awaited(q *question) *emember.Member {
	for _, m := range n.members.List() {
		if sharesURL(m.PeerURLs, q.PeerAddr) && m.Name == "" && (m.Nonce == 0 || m.Nonce == q.Nonce) && !m.Learner {
			return &m
		}
	}
	return nil
}

// hand gives an added member's id to a process before the log can record the claim: to one process only, while this one runs.
// Once that has started it publishes its name, which settles the claim in the log.
func (n *Node) hand(id, nonce uint64) bool {
	n.handedMu.Lock()
	defer n.handedMu.Unlock()
	if n.handed == nil {
		n.handed = map[uint64]uint64{}
	}
	if _, given := n.handed[id]; !given {
		n.handed[id] = nonce
	}
	return n.handed[id] == nonce
}

// answerJoin tells a new member who it is and where the others are.
func (n *Node) answerJoin(id uint64) ([]byte, error) {
	a := joinAnswer{Cluster: n.ident.Cluster, Member: id, Peers: map[uint64]string{}}
	for _, m := range n.members.List() {
		if m.ID != id && len(m.PeerURLs) > 0 {
			a.Peers[m.ID] = dialable(m.PeerURLs)
		}
	}
	if len(a.Peers) == 0 {
		return nil, errors.New("the members of this cluster have no peer address: start them with --peer first")
	}
	return json.Marshal(a)
}

// hello says who this member is. The process that asks need not have authenticated, so a stranger hears only that there is a
// cluster: neither this member's id, with which it could open a connection, nor the other members.
func (n *Node) hello(q *question) helloAnswer {
	a, all := helloAnswer{Name: n.ident.Name, Cluster: n.ident.Cluster}, n.members.List()
	if slices.ContainsFunc(all, func(m emember.Member) bool { return q.PeerAddr != "" && sharesURL(m.PeerURLs, q.PeerAddr) }) {
		a.Member, a.Members = n.id, all
	}
	return a
}

// HandleAsk implements peer.Handler for a running node.
func (n *Node) HandleAsk(b []byte) ([]byte, error) {
	var q question
	if err := json.Unmarshal(b, &q); err != nil {
		return nil, err
	}
	switch q.Kind {
	case "hello":
		return json.Marshal(n.hello(&q))
	case "join":
		wait := 10 * time.Second
		if n.awaited(&q) != nil {
			wait = 3 * time.Second // there may be no leader until this member has started; an election takes two seconds
		}
		ctx, cancel := n.tasks.Timeout(wait)
		defer cancel()
		answer, err := n.Call(ctx, "member.join", b)
		if err != nil && n.pub.Load().leader == 0 {
			if m := n.awaited(&q); m != nil && n.refuseLower(&q) == nil && n.hand(m.ID, q.Nonce) {
				return n.answerJoin(m.ID)
			}
		}
		return answer, err
	}
	return nil, fmt.Errorf("unknown question %q", q.Kind)
}

// gate is the network's handler while there may be no node yet.
type gate struct {
	node  atomic.Pointer[Node]
	ident atomic.Pointer[Identity]
	opt   StartOptions
}

func (g *gate) HandleFrame(from uint64, lane peer.Lane, frame []byte) {
	if n := g.node.Load(); n != nil {
		n.HandleFrame(from, lane, frame)
	}
}

func (g *gate) HandleStream(from uint64, r io.Reader) error {
	if n := g.node.Load(); n != nil {
		return n.HandleStream(from, r)
	}
	return errNotReady
}

func (g *gate) Reconnected(to uint64, lane peer.Lane) {
	if n := g.node.Load(); n != nil {
		n.Reconnected(to, lane)
	}
}

func (g *gate) HandleAsk(b []byte) ([]byte, error) {
	if n := g.node.Load(); n != nil {
		return n.HandleAsk(b)
	}
	var q question
	if err := json.Unmarshal(b, &q); err != nil {
		return nil, err
	}
	// The identity file is on disk before it is shown here, and names no cluster until the first state is complete.
	id := g.ident.Load()
	if q.Kind != "hello" || len(g.opt.Peers) == 0 {
		return nil, errNotReady
	}
	if g.opt.Peers[q.Name] == "" { // it was started with another list, which it learns from the empty list here; or it is a stranger
		return json.Marshal(helloAnswer{Name: id.Name})
	}
	return json.Marshal(helloAnswer{Name: id.Name, Member: id.Member, Peers: g.opt.Peers, Token: g.opt.Token})
}

// nobody is the network of a node without other members.
type nobody struct{}

func (nobody) SetPeer(uint64, string)              {}
func (nobody) RemovePeer(uint64)                   {}
func (nobody) Send(uint64, peer.Lane, []byte) bool { return false }
func (nobody) SendStream(_ uint64, _ func(io.Writer) error, done func(error)) {
	go done(errors.New("no network"))
}
func (nobody) ConnectedFor(uint64) int64    { return 0 }
func (nobody) Traffic(uint64) *peer.Traffic { return nil }
func (nobody) Close() error                 { return nil }
