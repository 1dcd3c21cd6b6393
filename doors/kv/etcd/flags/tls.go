package flags

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
)

// readTLS checks what is said about encryption.
func (g *given) readTLS(s *Settings) (err error) {
	for _, v := range []struct {
		flag string
		dst  *uint16
	}{{"tls-min-version", &s.MinTLS}, {"tls-max-version", &s.MaxTLS}} {
		switch g.value(v.flag) {
		case "":
		case "TLS1.2":
			*v.dst = tls.VersionTLS12
		case "TLS1.3":
			*v.dst = tls.VersionTLS13
		default:
			return fmt.Errorf("--%s %q: it is TLS1.2 or TLS1.3", v.flag, g.value(v.flag))
		}
	}
	if s.MaxTLS != 0 && s.MinTLS > s.MaxTLS {
		return fmt.Errorf("min version (%s) is greater than max version (%s)", g.value("tls-min-version"), g.value("tls-max-version"))
	}
	for _, name := range g.list("cipher-suites") {
		id, ok := cipherSuite(name)
		if !ok {
			return fmt.Errorf("unexpected TLS cipher suite %q", name)
		}
		s.CipherSuites = append(s.CipherSuites, id)
	}
	if s.MinTLS == tls.VersionTLS13 && len(s.CipherSuites) > 0 {
		return errors.New("cipher suites cannot be configured when only TLS1.3 is enabled")
	}
	if s.SelfSignedYears < 1 {
		return fmt.Errorf("--self-signed-cert-validity %d: it is a number of years", s.SelfSignedYears)
	}
	for _, side := range []struct {
		prefix string
		tls    *TLS
		at     []URL
	}{{"", &s.ClientTLS, slices.Concat(s.ListenClient, s.ListenClientHTTP)}, {"peer-", &s.PeerTLS, s.ListenPeer}} {
		t := side.tls
		if (t.CertFile == "") != (t.KeyFile == "") || (t.DialCertFile == "") != (t.DialKeyFile == "") {
			return fmt.Errorf("--%scert-file and --%skey-file belong together; give both", side.prefix, side.prefix)
		}
		if len(t.AllowedCNs) > 0 && len(t.AllowedHostnames) > 0 {
			return fmt.Errorf("allowed CNs %q and allowed hostnames %q exclude each other; give one of the lists", t.AllowedCNs, t.AllowedHostnames)
		}
		if t.Auto && t.Given() {
			g.warn("--%sauto-tls: not used, since certificate files are given", side.prefix)
			t.Auto = false
		}
		for _, u := range side.at {
			switch {
			case u.TLS() && !t.Given() && !t.Auto:
				return fmt.Errorf("TLS key/cert (--%scert-file, --%skey-file) must be provided for url %s with HTTPS scheme", side.prefix, side.prefix, u)
			case !u.TLS() && (t.Given() || t.CertAuth):
				g.warn("%s is not encrypted although certificates are configured: its scheme says so", u)
			}
		}
	}
	return nil
}

func cipherSuite(name string) (uint16, bool) {
	switch name { // etcd's own short forms
	case "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305":
		name += "_SHA256"
	}
	for _, c := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if c.Name == name {
			return c.ID, true
		}
	}
	return 0, false
}
