package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
)

// certificates is the one certificate of this server, for clients and members. The list of authorities is read once,
// because dropping one has to end connections too, which only a restart does for certain.
type certificates struct {
	*keyPair
	authorities *x509.CertPool // nil: nobody is asked for a certificate
}

// loadCertificates reads the files named in c; nil without TLS.
func loadCertificates(c *config, log *slog.Logger) (*certificates, error) {
	if c.tlsCert == "" {
		return nil, nil
	}
	for _, f := range []struct{ flag, path string }{{"tls-cert", c.tlsCert}, {"tls-key", c.tlsKey}} {
		if _, err := os.ReadFile(f.path); err != nil {
			return nil, fmt.Errorf("--%s %s: %s; give a PEM file this user can read", f.flag, f.path, reason(err))
		}
	}
	pair, err := loadKeyPair(c.tlsCert, c.tlsKey, log)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s with --tls-key %s: %w; give a certificate and its own key, both PEM", c.tlsCert, c.tlsKey, err)
	}
	s := &certificates{keyPair: pair}
	if c.tlsCA != "" {
		pem, err := os.ReadFile(c.tlsCA)
		if err != nil {
			return nil, fmt.Errorf("--tls-ca %s: %s; give a PEM file this user can read", c.tlsCA, reason(err))
		}
		s.authorities = x509.NewCertPool()
		if !s.authorities.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--tls-ca %s: no certificate in it; give the PEM file of the authority", c.tlsCA)
		}
	}
	return s, nil
}

// clients is the configuration of doors. With authorities every client must show a certificate signed by one of them.
func (s *certificates) clients() *tls.Config {
	if s == nil {
		return nil
	}
	c := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.get(), nil },
	}
	if s.authorities != nil {
		c.ClientCAs, c.ClientAuth = s.authorities, tls.RequireAndVerifyClientCert
	}
	return c
}

// members is the configuration between members, who check each other in both directions; nil without authorities.
func (s *certificates) members() *tls.Config {
	if s == nil || s.authorities == nil {
		return nil
	}
	c := s.clients()
	c.MinVersion = tls.VersionTLS13 // both ends are ours
	c.RootCAs = s.authorities
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return s.get(), nil }
	return c
}
