package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"time"

	"github.com/holdfastdb/holdfast/core/peer"
)

// StartOptions say how a member comes to its cluster. They matter only while the data directory belongs to none, except
// addresses and TLS. An address of a member is host:port, or several peer URLs (http, https, unix, unixs) with commas
// between.
type StartOptions struct {
	Name string
	// NameGiven: the operator has named this member. A data directory of another name gets a log line, and one of another member is
	// refused.
	NameGiven bool
	// MayListen is asked whether this member, as one of several and without PeerAddr, may listen at its address in the log. An error
	// refuses the start. nil: it may.
	MayListen func(addr string) error
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
	// PeerRoots returns the authorities of the moment for members that are dialled; nil: those of PeerTLS.
	PeerRoots func() *x509.CertPool
	// PeerWatch is told of each connection that is dialled to a member; nil: no call.
	PeerWatch peer.Watch
	// PeerCertificates tells members' certificates from others of the same authority; nil: all are members'.
	PeerCertificates *peer.Certificates
	// PeerConns bounds the connections others have made to this member; 0 = the transport's own bound.
	PeerConns int
	// Peers bootstraps a cluster of these members (name → address) if all of them agree that there is none yet, and on
	// Token. Later it says where else than the log has it a member of that name may be.
	Peers map[string]string
	// PeerOverride has addresses that are dialled in place of the log's, by member id, until the log has other ones than at the start.
	PeerOverride map[uint64]string
	Token        string
	// Join is a member's peer address; the node joins its cluster as a learner. With several, each is asked in turn.
	Join string
	// JoinAdded joins only if a membership call has added this member's address before.
	JoinAdded bool
	// Notify is called with the condition that the start waits for, as text for people; nil: no call.
	Notify func(string)
	// Transport is the network; nil: TCP, at the addresses above. Start closes it with the node.
	Transport Transport
}

// tcp is how the real network is set up.
func (opt *StartOptions) tcp(log *slog.Logger) peer.TCPOptions {
	return peer.TCPOptions{TLS: opt.PeerTLS, DialTLS: opt.PeerDialTLS, Members: opt.PeerCertificates, Roots: opt.PeerRoots, Watch: opt.PeerWatch, AskedAt: askedAt, Logger: log, MaxConns: opt.PeerConns}
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
	cfg.peers, cfg.override, cfg.encrypted = opt.Peers, opt.PeerOverride, opt.PeerTLS != nil
	ident, err := cfg.newIdentity(opt.Name, opt.PeerAddr)
	if err != nil {
		return nil, err
	}
	g := &earlyHandler{opt: opt}
	g.ident.Store(ident)
	net := opt.Transport
	if net == nil && (opt.PeerAddr != "" || len(opt.Peers) > 1 || opt.Join != "") {
		at, more := opt.PeerAddr, []string(nil)
		if len(opt.PeerListen) > 0 {
			at, more = opt.PeerListen[0], opt.PeerListen[1:]
		}
		if net, err = peer.ListenTCP(at, opt.tcp(cfg.Logger), more...); err != nil {
			return nil, err
		}
	}
	var deaf *peer.TCP
	if net == nil && ident.Cluster != 0 { // it may be one of several all the same
		if deaf, err = peer.ListenTCP("", opt.tcp(cfg.Logger)); err != nil {
			return nil, err
		}
		net = deaf
	}
	if err := refuseCopy(ctx, net, ident, &opt); err != nil {
		net.Close()
		return nil, err
	}
	cfg.loaded = func(n *Node) error {
		if err := n.refuseSwapped(&opt); err != nil || deaf == nil {
			return err
		}
		return n.listenAnyway(deaf, &opt)
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
