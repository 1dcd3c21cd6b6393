package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	doorkv "github.com/holdfastdb/holdfast/door/kv"
	"github.com/holdfastdb/holdfast/door/port"
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/node"
	"github.com/holdfastdb/holdfast/worker/compact"
)

// setup is a server's configuration, whether it came from `holdfast serve` or from etcd's flags.
type setup struct {
	node node.Config       // start adds Logger, Steps and OnFatal
	join node.StartOptions // start adds Notify
	// adopt is a data directory of etcd's that this server takes over before it starts; "": none.
	adopt string
	// kv is where the kv door listens, none: it is off. peers is where node will listen: tried, not bound.
	kv, peers []place
	door      doorkv.Options // start adds Steps
	admin     *place         // nil: off
	tlog      tlogSetup
	// metrics is where only /metrics, /health and the like are answered, for networks of monitoring systems.
	metrics []place
	// compaction is the policy by which the leader forgets old revisions.
	compaction compact.Policy
	// holdLevel keeps the cluster's level down.
	holdLevel bool
	// advise adds to an error of the start what to do about it, in the words the operator used.
	advise func(error) error
}

// place is somewhere to listen.
type place struct {
	network string // tcp or unix
	addr    string // host:port, or the path of a socket file
	flag    string // the flag that named it, with its dashes
	// TLS nil is cleartext. The other two leave out a part of the kv door.
	port.Protocols
}

// listen binds the place or says in one line why not.
func (p place) listen() (net.Listener, error) {
	if p.network == "unix" { // it may be left from a killed process; it cannot be told from one in use
		if err := os.Remove(p.addr); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("listen on %s %s: %s; give a file this user can make", p.flag, p.addr, reason(err))
		}
	}
	l, err := net.Listen(p.network, p.addr)
	if err == nil {
		return l, nil
	}
	why, next := err.Error(), "give another "+p.flag
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		why, next = "the port is in use", fmt.Sprintf("stop what listens there or give another %s", p.flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		why, next = "this machine has no such address", fmt.Sprintf("give %s an address of this machine", p.flag)
	case errors.Is(err, syscall.EACCES):
		why, next = "ports below 1024 need a privilege", fmt.Sprintf("give %s a higher port", p.flag)
	}
	return nil, fmt.Errorf("listen on %s %s: %s; %s", p.flag, p.addr, why, next)
}

// setup turns the configuration of `holdfast serve` into what start takes. It reads the certificates.
func (c *config) setup(log *slog.Logger) (*setup, error) {
	certs, err := loadCertificates(c, log)
	if err != nil {
		return nil, err
	}
	share, err := budget.For(c.memory, c.doors())
	if err != nil {
		return nil, usagef("serve: --memory %s: %s", sizeString(c.memory), err)
	}
	su := &setup{
		node: node.Config{Dir: c.data, ClientURLs: clientURLs(c, certs.forClients != nil), MemoryBytes: c.memory, Shares: &share},
		join: node.StartOptions{Name: c.name, PeerTLS: certs.members(), PeerCertificates: certs.membership(), Join: c.join},
		door: doorkv.Options{QuotaBytes: quota(c.kvQuota),
			MaxResultBytes: share.Answer, MaxFlightBytes: share.Flight, MaxCallBytes: share.Calls, MaxLeaseBytes: share.Leases, MaxIdentBytes: share.Idents / 2,
			AuthToken: c.kvAuthToken, AuthTokenTTL: c.kvAuthTokenTTL, BcryptCost: c.kvBcryptCost, ReadFile: os.ReadFile,
			ClientCertAuth: c.tlsCA != "", CORS: c.cors},
		holdLevel: c.holdLevel,
		advise:    func(err error) error { return advise(err, "--data", c.data) },
	}
	if su.join.Name == "" {
		su.join.Name = hostName()
	}
	if !c.kv.off() {
		su.kv = []place{{"tcp", c.kv.String(), "--kv", port.Protocols{TLS: certs.clients()}}}
	}
	su.tlog = tlogSetup{keys: c.tlogKeys, origin: c.tlogOrigin, publish: c.tlogPublish, published: c.tlogCheckpoints == "published",
		calm: c.tlogCalm, least: c.tlogLeast, tokens: c.tlogTokens}
	if su.tlog.keys == "" {
		su.tlog.keys = filepath.Join(c.data, "tlog-keys")
	}
	if !c.tlog.off() {
		su.tlog.at = &place{"tcp", c.tlog.String(), "--tlog", port.Protocols{TLS: certs.clients()}}
	}
	if !c.tlogRead.off() {
		su.tlog.read = &place{"tcp", c.tlogRead.String(), "--tlog-read", port.Protocols{TLS: certs.readers()}}
	}
	if !c.admin.off() {
		su.admin = &place{network: "tcp", addr: c.admin.String(), flag: "--admin"}
		if certs.forClients != nil && !c.admin.loopback() {
			su.admin.TLS = certs.clients()
		}
	}
	if !c.peer.off() {
		su.join.PeerAddr = c.peer.String()
		if !c.advertise.off() {
			su.join.PeerAddr, su.join.PeerListen = c.advertise.String(), []string{c.peer.String()}
		}
		su.peers = []place{{network: "tcp", addr: c.peer.String(), flag: "--peer"}}
		if certs.clientsPassForMembers() {
			log.Warn(passForMembers)
			su.door.RefuseAuthEnable = passForMembers
		}
	}
	for _, p := range c.peers {
		if su.join.Peers == nil {
			su.join.Peers = map[string]string{}
		}
		su.join.Peers[p.name] = p.address.String()
	}
	return su, nil
}

// advise adds what to do to an error of the start, where the node's own sentence does not say it.
func advise(err error, flag, dir string) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case strings.Contains(err.Error(), "in use by another process"):
		return fmt.Errorf("open %s %s: another process uses it; stop that one or give another %s", flag, dir, flag)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("open %s %s: %s; give a directory this user can write", flag, dir, reason(err))
	}
	return fmt.Errorf("open %s %s: %w", flag, dir, err)
}

// quota turns the flag's 0 = no limit into the door's convention.
func quota(n int64) int64 {
	if n == 0 {
		return -1
	}
	return n
}

// clientURLs is where the member list sends clients.
func clientURLs(cfg *config, secure bool) []string {
	if cfg.kv.off() {
		return nil
	}
	a := cfg.kv
	if a.wildcard() { // it listens on all addresses; the one members use is the best guess for clients
		switch self, ok := findPeer(cfg.peers, cfg.name); {
		case !cfg.advertise.off():
			a.host = cfg.advertise.host
		case ok:
			a.host = self.host
		case !cfg.peer.off():
			a.host = cfg.peer.host
		default:
			a.host = hostName()
		}
	}
	if secure {
		return []string{"https://" + a.String()}
	}
	return []string{"http://" + a.String()}
}

func hostName() string {
	if h, err := os.Hostname(); err == nil && h != "" {
		return h
	}
	return "holdfast"
}
