package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/holdfastdb/holdfast/core/peer"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// certificates are those of this server: one for clients, and one for members, which may be the same.
type certificates struct {
	forClients, forMembers *KeyPair // nil: that side has no TLS
	// clientCAs nil: no client is asked for a certificate. memberCAs nil: members do not encrypt.
	clientCAs, memberCAs *Authorities
	// oneAuthority: an authority that signs for clients signs for members too. It is as of the start.
	oneAuthority bool
	names        []string // --peer-tls-allowed-names
}

// loadCertificates reads the files named in c.
func loadCertificates(c *Config, log *slog.Logger) (*certificates, error) {
	s := &certificates{names: c.peerTLSNames}
	var err error
	if s.forClients, err = loadFlagPair("", c.tlsCert, c.tlsKey, log); err != nil {
		return nil, err
	}
	if s.forMembers, err = loadFlagPair("peer-", c.peerTLSCert, c.peerTLSKey, log); err != nil {
		return nil, err
	}
	if s.forMembers == nil {
		s.forMembers = s.forClients
	}
	if c.tlsCA != "" {
		if s.clientCAs, err = loadAuthorities("tls-ca", c.tlsCA, log); err != nil {
			return nil, err
		}
		s.memberCAs = s.clientCAs
	}
	if c.peerTLSCA != "" {
		if s.memberCAs, err = loadAuthorities("peer-tls-ca", c.peerTLSCA, log); err != nil {
			return nil, err
		}
	}
	s.oneAuthority = s.memberCAs.shares(s.clientCAs)
	return s, nil
}

// loadFlagPair reads the certificate and key that --[prefix]tls-cert and --[prefix]tls-key name; nil if they name none.
func loadFlagPair(prefix, cert, key string, log *slog.Logger) (*KeyPair, error) {
	if cert == "" {
		return nil, nil
	}
	for _, f := range []struct{ flag, path string }{{"tls-cert", cert}, {"tls-key", key}} {
		if _, err := os.ReadFile(f.path); err != nil {
			return nil, fmt.Errorf("--%s%s %s: %s; give a PEM file this user can read", prefix, f.flag, f.path, cli.Reason(err))
		}
	}
	pair, err := LoadKeyPair(cert, key, log)
	if err != nil {
		return nil, fmt.Errorf("--%stls-cert %s with --%stls-key %s: %w; give a certificate and its own key, both PEM", prefix, cert, prefix, key, err)
	}
	return pair, nil
}

// loadAuthorities reads the file of authorities that a flag names.
func loadAuthorities(flag, path string, log *slog.Logger) (*Authorities, error) {
	switch a, err := LoadAuthorities(path, log); {
	case errors.Is(err, errNoAuthority):
		return nil, fmt.Errorf("--%s %s: %w; give the PEM file of the authority", flag, path, err)
	case err != nil:
		return nil, fmt.Errorf("--%s %s: %s; give a PEM file this user can read", flag, path, cli.Reason(err))
	default:
		return a, nil
	}
}

// clients is the configuration of doors, nil without TLS. With authorities every client must show a certificate signed by one of
// them.
func (s *certificates) clients() *tls.Config {
	if s.forClients == nil {
		return nil
	}
	c := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.forClients.Get(), nil },
	}
	if s.clientCAs != nil {
		s.clientCAs.Demand(c)
	}
	return c
}

// readers is the configuration of addresses with public reading: no client is asked for a certificate.
func (s *certificates) readers() *tls.Config {
	c := s.clients()
	if c != nil {
		c.ClientCAs, c.ClientAuth, c.GetConfigForClient = nil, tls.NoClientCert, nil
	}
	return c
}

// members is the configuration between members, which check each other in both directions; nil without authorities.
func (s *certificates) members() *tls.Config {
	if s.memberCAs == nil || s.forMembers == nil {
		return nil
	}
	c := &tls.Config{
		MinVersion:     tls.VersionTLS13, // both ends are ours
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.forMembers.Get(), nil },
		RootCAs:        s.memberCAs.Pool(),
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return s.forMembers.Get(), nil
		},
	}
	s.memberCAs.Demand(c)
	return c
}

// membership tells members' certificates from clients'.
func (s *certificates) membership() *peer.Certificates {
	return &peer.Certificates{Names: s.names, NamesOnly: s.oneAuthority && len(s.names) > 0}
}

// clientsPassForMembers reports whether a client's certificate may be taken for a member's. Both are signed by one authority, and no name
// tells the members. A cluster that began so goes on so, with a warning.
func (s *certificates) clientsPassForMembers() bool { return s.oneAuthority && len(s.names) == 0 }

// passForMembers is what to do about it.
const passForMembers = "members and clients have certificates of one authority, so a client may pass for a member; " +
	"start every member with --peer-tls-allowed-names, or with an authority of the members' own as --peer-tls-ca"
