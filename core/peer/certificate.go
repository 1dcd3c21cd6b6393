package peer

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// Certificates tells which certificates are members', of those that the right authority has signed. Read only.
type Certificates struct {
	// Names are hosts, addresses or common names; a certificate with any one of them is a member's.
	Names []string
	// NamesOnly refuses every certificate without one of Names. It is for an authority that signs for clients too: a client may
	// have a certificate for a host on which a member runs. Without NamesOnly a certificate for the host of a member's address
	// is that member's.
	NamesOnly bool
}

// errNoServer refuses a certificate that members could not be dialled under.
var errNoServer = errors.New("the certificate is for clients only; a member's must be good for servers too")

// check says why cert is not that of the member at addr, which is one address or several with commas between; nil: it is.
func (c *Certificates) check(cert *x509.Certificate, addr string) error {
	if !serves(cert) {
		return errNoServer
	}
	if c.named(cert) {
		return nil
	}
	if c.NamesOnly {
		return fmt.Errorf("the certificate of %q has none of the names allowed to members", cert.Subject.CommonName)
	}
	var hosts []string
	for _, a := range strings.Split(addr, ",") {
		network, at := endpoint(a)
		host, _, err := net.SplitHostPort(at)
		if network == "unix" || err == nil && cert.VerifyHostname(host) == nil {
			return nil
		}
		hosts = append(hosts, host)
	}
	return fmt.Errorf("the certificate of %q is not for %s, where that member is", cert.Subject.CommonName, strings.Join(hosts, ", "))
}

// serves reports whether a server may show cert, as every member does.
func serves(cert *x509.Certificate) bool {
	return len(cert.ExtKeyUsage) == 0 && len(cert.UnknownExtKeyUsage) == 0 || slices.ContainsFunc(cert.ExtKeyUsage, func(u x509.ExtKeyUsage) bool {
		return u == x509.ExtKeyUsageServerAuth || u == x509.ExtKeyUsageAny
	})
}

// named reports whether cert has one of Names.
func (c *Certificates) named(cert *x509.Certificate) bool {
	return slices.ContainsFunc(c.Names, func(name string) bool {
		return name == cert.Subject.CommonName || cert.VerifyHostname(name) == nil
	})
}

// dialling sets up the side that dials addr: it accepts a certificate with one of Names for any host.
func (c *Certificates) dialling(cfg *tls.Config, addr string) {
	if len(c.Names) == 0 {
		return // the library compares the host
	}
	roots := cfg.RootCAs
	cfg.InsecureSkipVerify = true // the chain is verified below; the library would insist on the host
	cfg.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errors.New("no certificate")
		}
		chain := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
		for _, between := range s.PeerCertificates[1:] {
			chain.Intermediates.AddCert(between)
		}
		if _, err := s.PeerCertificates[0].Verify(chain); err != nil {
			return err
		}
		return c.check(s.PeerCertificates[0], addr)
	}
}

// vouch says why the certificate of an incoming connection is not that of the member it claims to be, nil if it is. A member
// that is not known yet is let in: only its introduction is read until its address is known, and receive checks again then.
func (t *TCP) vouch(cert *x509.Certificate, from uint64) (known bool, err error) {
	if t.opts.Members == nil || cert == nil {
		return true, nil
	}
	t.mu.Lock()
	p := t.peers[from]
	t.mu.Unlock()
	switch {
	case p != nil:
		return true, t.opts.Members.check(cert, strings.Join(p.at.Load().all, ","))
	case t.opts.Members.NamesOnly:
		return true, t.opts.Members.check(cert, "")
	case !serves(cert):
		return false, errNoServer
	}
	return t.opts.Members.named(cert), nil
}

// shown returns the certificate of the other side of a connection, nil if it showed none.
func shown(c net.Conn) *x509.Certificate {
	tc, ok := c.(*tls.Conn)
	if !ok {
		return nil
	}
	if all := tc.ConnectionState().PeerCertificates; len(all) > 0 {
		return all[0]
	}
	return nil
}
