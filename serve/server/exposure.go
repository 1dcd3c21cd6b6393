package server

import (
	"errors"
	"fmt"
	"strings"

	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// peerTLS reports whether members show each other certificates.
func (c *Config) peerTLS() bool { return c.peerTLSCA != "" || c.tlsCA != "" }

// checkExposure refuses settings that would hand data to any host on the network. An address beyond loopback needs certificates of both
// sides, the door's own authentication, or the operator's word that the network is trusted.
func (c *Config) checkExposure() error {
	if c.insecure {
		return nil
	}
	if !c.peer.Off() && !c.peer.Loopback() && !c.peerTLS() {
		return cli.Usagef("serve: --peer %s is beyond loopback and members without TLS trust everyone; "+
			"give --peer-tls-cert, --peer-tls-key and --peer-tls-ca (or these without peer-), or --insecure if the network is trusted", c.peer)
	}
	for _, l := range c.listens() {
		if c.open(l) {
			return cli.Usagef("serve: --%s %s is beyond loopback and %s; "+
				"give --tls-cert, --tls-key and --tls-ca, or --insecure if the network is trusted%s", l.Flag, l.At, l.Risk, l.Otherwise)
		}
	}
	return nil
}

// mayListen returns why this member may not listen for others at its address in the log if the start named none; nil: it may.
func (c *Config) mayListen(addr string) error {
	if c.peerOff {
		return errors.New("--peer off was given")
	}
	for _, at := range strings.Split(addr, ",") {
		var a cli.Address
		if err := cli.SetAddress(&a, at); err != nil {
			return fmt.Errorf("%s, its address in the log, cannot be listened at", at)
		}
		if !c.insecure && !a.Loopback() && !c.peerTLS() {
			return fmt.Errorf("%s, its address in the log, is beyond loopback, and members without TLS trust everyone", a)
		}
	}
	return nil
}

// listens are the addresses that clients and operators reach, the doors' first.
func (c *Config) listens() (all []serve.Listen) {
	for _, d := range c.doors {
		all = append(all, d.settings.Listens()...)
	}
	return append(all, serve.Listen{Flag: "admin", At: c.admin, Risk: "may change the cluster"})
}

// open reports whether any host on the network could use an address that is not meant for the public.
func (c *Config) open(l serve.Listen) bool {
	closed := c.tlsCert != "" && (c.tlsCA != "" || l.GuardedByTLS)
	return !l.At.Off() && !l.At.Loopback() && !l.Public && !closed
}

// exposed lists what --insecure leaves open, for the one warning line.
func (c *Config) exposed() (out []string) {
	for _, l := range c.listens() {
		if c.open(l) {
			out = append(out, l.Flag+" "+l.At.String())
		}
	}
	if !c.peer.Off() && !c.peer.Loopback() && !c.peerTLS() {
		out = append(out, "peer "+c.peer.String())
	}
	return out
}
