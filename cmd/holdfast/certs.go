package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificates is the one certificate of this server, for clients and members, read again when its file changes: a
// renewed certificate must not need a restart. The list of authorities is read once, because dropping one has to end
// connections too, which only a restart does for certain.
type certificates struct {
	certFile, keyFile string
	log               *slog.Logger
	authorities       *x509.CertPool // nil: nobody is asked for a certificate

	mu      sync.Mutex
	current *tls.Certificate
	stamp   [2]time.Time // modification times of the files current was read from
	checked time.Time
}

// certCheckInterval bounds how often the files' times are looked at, however many clients connect.
const certCheckInterval = time.Second

// loadCertificates reads the files named in c; nil without TLS.
func loadCertificates(c *config, log *slog.Logger) (*certificates, error) {
	if c.tlsCert == "" {
		return nil, nil
	}
	s := &certificates{certFile: c.tlsCert, keyFile: c.tlsKey, log: log}
	for _, f := range []struct{ flag, path string }{{"tls-cert", c.tlsCert}, {"tls-key", c.tlsKey}} {
		if _, err := os.ReadFile(f.path); err != nil {
			return nil, fmt.Errorf("--%s %s: %s; give a PEM file this user can read", f.flag, f.path, reason(err))
		}
	}
	if err := s.load(); err != nil {
		return nil, fmt.Errorf("--tls-cert %s with --tls-key %s: %w; give a certificate and its own key, both PEM", c.tlsCert, c.tlsKey, err)
	}
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

// load reads the key pair. s.mu is held, or nobody else has s yet.
func (s *certificates) load() error {
	stamp, err := s.times()
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(s.certFile, s.keyFile)
	if err != nil {
		return err
	}
	s.current, s.stamp = &pair, stamp
	return nil
}

func (s *certificates) times() (t [2]time.Time, err error) {
	for i, f := range []string{s.certFile, s.keyFile} {
		st, err := os.Stat(f)
		if err != nil {
			return t, err
		}
		t[i] = st.ModTime()
	}
	return t, nil
}

// get returns the newest pair that could be read. While the two files do not fit each other, as in the middle of a
// renewal, the old pair serves on.
func (s *certificates) get() *tls.Certificate {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.checked) >= certCheckInterval {
		s.checked = now
		if t, err := s.times(); err == nil && t != s.stamp {
			if err := s.load(); err != nil {
				s.log.Warn("new certificate not taken, the old one serves on", "file", s.certFile, "err", err)
			} else {
				s.log.Info("certificate read again", "file", s.certFile)
			}
		}
	}
	return s.current
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
