package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfastdb/holdfast/core/peer"
	"github.com/holdfastdb/holdfast/doors/kv/etcd/flags"
	"github.com/holdfastdb/holdfast/serve/server"
)

// etcdTLS makes the configurations of one side under the name etcd: for the side that accepts connections and for the side that
// dials. Both read renewed certificate files by themselves; authorities are read again at SIGHUP, the revocation list at every handshake.
type etcdTLS struct {
	t           flags.TLS
	pair        *server.KeyPair
	dial        *server.KeyPair
	authorities *server.Authorities // nil: the system's
	base        tls.Config          // versions and cipher suites
	selfSigned  bool
}

// fixtures is the directory below etcd's data directory for certificates that --auto-tls makes.
const fixtures = "fixtures"

// loadEtcdTLS reads the files of one side, or makes them if --auto-tls asks for it; nil if the side has no TLS. Prefix is
// "" or "peer-", as in the names of the flags.
func loadEtcdTLS(s *flags.Settings, prefix string, t flags.TLS, at []flags.URL, log *slog.Logger) (_ *etcdTLS, err error) {
	if !slices.ContainsFunc(at, flags.URL.TLS) {
		if t.Auto {
			log.Warn("--" + prefix + "auto-tls makes no certificate, because no address of that side has an encrypted scheme")
		}
		return nil, nil
	}
	e := &etcdTLS{t: t, selfSigned: t.Auto}
	e.base.MinVersion, e.base.MaxVersion, e.base.CipherSuites = s.MinTLS, s.MaxTLS, s.CipherSuites
	if t.Auto {
		// Where etcd puts them, so that scripts which fetch the certificate for their clients find it.
		dir := filepath.Join(s.DataDir, fixtures, strings.TrimSuffix("client-"+prefix, "-"))
		if prefix != "" {
			dir = filepath.Join(s.DataDir, fixtures, strings.TrimSuffix(prefix, "-"))
		}
		if e.t.CertFile, e.t.KeyFile, err = selfSigned(dir, at, s.SelfSignedYears); err != nil {
			return nil, fmt.Errorf("--%sauto-tls: %w", prefix, err)
		}
	}
	if e.pair, err = server.LoadKeyPair(e.t.CertFile, e.t.KeyFile, log); err != nil {
		return nil, fmt.Errorf("--%scert-file %s with --%skey-file %s: %w", prefix, e.t.CertFile, prefix, e.t.KeyFile, err)
	}
	e.dial = e.pair
	if t.DialCertFile != "" {
		if e.dial, err = server.LoadKeyPair(t.DialCertFile, t.DialKeyFile, log); err != nil {
			return nil, fmt.Errorf("--%sclient-cert-file %s: %w", prefix, t.DialCertFile, err)
		}
	}
	if t.CAFile != "" {
		if e.authorities, err = server.LoadAuthorities(t.CAFile, log); err != nil {
			return nil, fmt.Errorf("--%strusted-ca-file %s: %w", prefix, t.CAFile, err)
		}
	}
	if t.CRLFile != "" {
		if _, err := revoked(t.CRLFile, nil); err != nil {
			return nil, fmt.Errorf("--%scrl-file: %w", strings.Replace(prefix+"client-", "peer-client-", "peer-", 1), err)
		}
	}
	return e, nil
}

// pairs are the certificates that operators see and that are read again when they ask for it.
func (e *etcdTLS) pairs() []*server.KeyPair {
	switch {
	case e == nil:
		return nil
	case e.dial == e.pair:
		return []*server.KeyPair{e.pair}
	}
	return []*server.KeyPair{e.pair, e.dial}
}

// believed are the authorities that are read again when operators ask for it.
func (e *etcdTLS) believed() []*server.Authorities {
	if e == nil || e.authorities == nil {
		return nil
	}
	return []*server.Authorities{e.authorities}
}

// roots returns the authorities of the moment; nil: those of connect.
func (e *etcdTLS) roots() func() *x509.CertPool {
	if e == nil || e.authorities == nil {
		return nil
	}
	return e.authorities.Pool
}

// watch has connections that are dialled closed when the authority of the other side is dropped; nil: it is not looked at.
func (e *etcdTLS) watch() peer.Watch {
	if e == nil || e.authorities == nil || e.selfSigned {
		return nil
	}
	return e.authorities.Watch
}

// accept is the configuration of the side that accepts. As in etcd 3.7 a certificate is demanded if one was asked for or if an authority is
// named. Naming one says that only clients with its certificates are trusted.
func (e *etcdTLS) accept() *tls.Config {
	if e == nil {
		return nil
	}
	c := e.base.Clone()
	c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return e.pair.Get(), nil }
	if e.t.CAFile == "" && !e.t.CertAuth {
		return c
	}
	c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, e.authorities.Pool()
	c.VerifyConnection = e.allowed
	plain := c.Clone()
	c.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		here := plain.Clone()
		here.ClientCAs = e.authorities.Pool()
		if !e.t.SkipSANCheck { // the check needs the address the connection comes from, which is known only per handshake
			here.VerifyConnection = func(cs tls.ConnectionState) error {
				if err := e.allowed(cs); err != nil {
					return err
				}
				return comesFrom(h.Context(), cs.PeerCertificates[0], h.Conn.RemoteAddr())
			}
		}
		e.authorities.Watch(here, h.Conn)
		return here, nil
	}
	return c
}

// connect is the configuration of the side that dials. Members with certificates they made themselves encrypt but cannot
// authenticate each other, as in etcd: --peer-auto-tls protects against eavesdropping, not against intruders.
func (e *etcdTLS) connect() *tls.Config {
	if e == nil {
		return nil
	}
	c := e.base.Clone()
	c.RootCAs, c.InsecureSkipVerify = e.authorities.Pool(), e.selfSigned
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return e.dial.Get(), nil }
	if !e.selfSigned {
		c.VerifyConnection = e.allowed
	}
	return c
}

// allowed checks a properly signed certificate: its names, and whether it was revoked.
func (e *etcdTLS) allowed(cs tls.ConnectionState) error {
	if len(cs.PeerCertificates) == 0 {
		return nil
	}
	cert := cs.PeerCertificates[0]
	good := len(e.t.AllowedCNs) == 0 && len(e.t.AllowedHostnames) == 0 || slices.Contains(e.t.AllowedCNs, cert.Subject.CommonName) ||
		slices.ContainsFunc(e.t.AllowedHostnames, func(h string) bool { return cert.VerifyHostname(h) == nil })
	if !good {
		return fmt.Errorf("certificate of %q is not among those allowed", cert.Subject.CommonName)
	}
	if e.t.CRLFile == "" {
		return nil
	}
	switch bad, err := revoked(e.t.CRLFile, cs.PeerCertificates); {
	case err != nil:
		return err
	case bad != nil:
		return fmt.Errorf("certificate serial %x revoked", bad.SerialNumber)
	}
	return nil
}

// revoked returns the first of certs that the list names. Like etcd's, the list is DER, and its signature is not checked. A process that
// can write the file can replace the certificates beside it too.
func revoked(file string, certs []*x509.Certificate) (*x509.Certificate, error) {
	der, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, c := range certs {
		for _, r := range list.RevokedCertificateEntries {
			if r.SerialNumber.Cmp(c.SerialNumber) == 0 {
				return c, nil
			}
		}
	}
	return nil, nil
}

// comesFrom checks that a certificate which names hosts names the one it comes from: so a stolen key is of no use on another
// machine. A certificate without names passes, and so does a socket file.
func comesFrom(ctx context.Context, cert *x509.Certificate, from net.Addr) error {
	if len(cert.IPAddresses) == 0 && len(cert.DNSNames) == 0 {
		return nil
	}
	tcp, ok := from.(*net.TCPAddr)
	if !ok {
		return nil
	}
	host := tcp.IP.String()
	if len(cert.IPAddresses) > 0 && cert.VerifyHostname(host) == nil {
		return nil
	}
	// The name that the address has, then the addresses that the names have. Errors only mean that a name does not help.
	names, _ := net.DefaultResolver.LookupAddr(ctx, host)
	for _, n := range names {
		if cert.VerifyHostname(strings.TrimSuffix(n, ".")) == nil {
			return nil
		}
	}
	for _, n := range cert.DNSNames {
		if strings.HasPrefix(n, "*.") {
			continue
		}
		if addrs, _ := net.DefaultResolver.LookupHost(ctx, n); slices.Contains(addrs, host) {
			return nil
		}
	}
	return errors.New("certificate is for " + strings.Join(cert.DNSNames, ", ") + " and comes from " + host)
}
