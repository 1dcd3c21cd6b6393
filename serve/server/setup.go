package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/ack"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// Setup is a server's configuration, whether it came from `holdfast serve` or from the flags of a program that it takes the place of.
type Setup struct {
	// Doors are all doors of this build, Services what the server runs of each, in the same order; one that is off is there too.
	Doors    serve.List
	Services []*serve.Service

	// MemoryWhy says why Node.MemoryBytes is so much (Memory.Why).
	MemoryWhy string

	Node node.Config       // Start adds Logger, Steps, OnFatal and the doors' contributions
	Join node.StartOptions // Start adds Notify
	// Adopt makes the data directory before the node opens it, out of what else lies there; nil: nothing does.
	Adopt func(log *slog.Logger) error
	// Peers is where the node will listen: tried, not bound.
	Peers []serve.Place
	// Admin is where operators are answered; nil: nowhere.
	Admin *serve.Place
	// Certificates are this server's, for clients and for members.
	Certificates []*KeyPair
	// Authorities are those that this server believes, nil left out.
	Authorities []*Authorities
	// NotifySocket is where systemd is told of the server's progress; "": no messages.
	NotifySocket string
	// Archive is where the log is shipped to; nil: nowhere.
	Archive *Archive
	// Ack is the durability dial; Node.Archive goes with it.
	Ack ack.Dial
	// HoldLevel keeps the cluster's level down.
	HoldLevel bool
	// Advise adds to an error of the start what to do about it, in the words the operator used.
	Advise func(error) error
}

// Setup turns the configuration of `holdfast serve` into what Start takes. It reads the certificates.
func (c *Config) Setup(log *slog.Logger) (*Setup, error) {
	certs, err := loadCertificates(c, log)
	if err != nil {
		return nil, err
	}
	c.yieldPorts()
	for _, text := range c.yielded {
		log.Warn(text)
	}
	share, err := budget.For(c.memory, c.claims()...)
	if err != nil {
		return nil, cli.Usagef("serve: --memory %s: %s", cli.SizeString(c.memory), err)
	}
	su := &Setup{
		Node: node.Config{Dir: c.data, Shares: &share, ClientURLs: clientURLs(c, certs.forClients != nil), MemoryBytes: c.memory,
			LogRetention: c.logRetention, Archive: c.dial().Archiving},
		Join:      node.StartOptions{Name: c.name, PeerTLS: certs.members(), PeerCertificates: certs.membership(), PeerRoots: certs.memberCAs.Pool, PeerWatch: certs.memberCAs.Watch, Join: c.join},
		Archive:   c.archiveSetup(&share),
		Ack:       c.dial(),
		MemoryWhy: c.memoryWhy,
		HoldLevel: c.holdLevel,
		Advise:    func(err error) error { return Advise(err, "--data", c.data) },
	}
	for _, pair := range []*KeyPair{certs.forClients, certs.forMembers} {
		if pair != nil && !slices.Contains(su.Certificates, pair) {
			su.Certificates = append(su.Certificates, pair)
		}
	}
	for _, a := range []*Authorities{certs.clientCAs, certs.memberCAs} {
		if a != nil && !slices.Contains(su.Authorities, a) {
			su.Authorities = append(su.Authorities, a)
		}
	}
	if su.Join.Name == "" {
		su.Join.Name = cli.HostName()
	}
	if !c.admin.Off() {
		su.Admin = &serve.Place{Network: "tcp", Addr: c.admin.String(), Flag: "--admin"}
		if certs.forClients != nil && !c.admin.Loopback() {
			su.Admin.TLS = certs.clients()
		}
	}
	common := &serve.Common{Dir: c.data, Shares: share, Clients: certs.clients, Readers: certs.readers,
		ClientCertificates: c.tlsCA != "", Origins: c.cors, Log: log}
	if !c.peer.Off() {
		su.Join.PeerAddr = c.peer.String()
		if !c.advertise.Off() {
			su.Join.PeerAddr, su.Join.PeerListen = c.advertise.String(), []string{c.peer.String()}
		}
		su.Peers = []serve.Place{{Network: "tcp", Addr: c.peer.String(), Flag: "--peer"}}
		if certs.clientsPassForMembers() {
			log.Warn(passForMembers)
			common.ClientsPassForMembers = passForMembers
		}
	}
	su.Join.NameGiven, su.Join.MayListen, su.Join.PeerOverride = c.nameGiven, c.mayListen, c.peerOverride
	for _, p := range c.peers {
		if su.Join.Peers == nil {
			su.Join.Peers = map[string]string{}
		}
		su.Join.Peers[p.name] = p.Address.String()
	}
	for _, d := range c.doors {
		service, err := d.settings.Service(common)
		if err != nil {
			return nil, err
		}
		su.Doors, su.Services = append(su.Doors, d.door), append(su.Services, service)
	}
	return su, nil
}

// Advise adds what to do to an error of the start, where the node's own sentence does not say it.
func Advise(err error, flag, dir string) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case strings.Contains(err.Error(), "in use by another process"):
		return fmt.Errorf("open %s %s: another process uses it; stop that one or give another %s", flag, dir, flag)
	case strings.Contains(err.Error(), ";"):
		return fmt.Errorf("open %s %s: %w", flag, dir, err) // it says what to do
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("open %s %s: %s; give a directory this user can write", flag, dir, cli.Reason(err))
	}
	return fmt.Errorf("open %s %s: %w", flag, dir, err)
}

// clientURLs is where the member list sends clients.
func clientURLs(cfg *Config, secure bool) (urls []string) {
	for _, l := range cfg.listens() {
		if l.Clients && !l.At.Off() {
			urls = append(urls, clientURL(cfg, l.At, secure))
		}
	}
	return urls
}

func clientURL(cfg *Config, a cli.Address, secure bool) string {
	if a.Wildcard() { // it listens on all addresses; the one members use is the best guess for clients
		switch self, ok := findPeer(cfg.peers, cfg.name); {
		case !cfg.advertise.Off():
			a.Host = cfg.advertise.Host
		case ok:
			a.Host = self.Host
		case !cfg.peer.Off():
			a.Host = cfg.peer.Host
		default:
			a.Host = cli.HostName()
		}
	}
	if secure {
		return "https://" + a.String()
	}
	return "http://" + a.String()
}

// OnlyDoor makes the named door's service the one of a server where nothing listens for the clients of the others.
func (su *Setup) OnlyDoor(all serve.List, name string, service *serve.Service, c *serve.Common) error {
	for _, d := range all {
		of := service
		if d.Name != name {
			settings := d.Settings()
			for _, o := range settings.Options() {
				if o.Default != "" && !o.Door {
					if err := o.Set(o.Default); err != nil {
						return err
					}
				}
			}
			var err error
			if of, err = settings.Service(c); err != nil {
				return err
			}
		}
		su.Doors, su.Services = append(su.Doors, d), append(su.Services, of)
	}
	return nil
}
