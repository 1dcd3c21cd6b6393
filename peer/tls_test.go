package peer

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"testing"
	"time"
)

// authority signs certificates for 127.0.0.1.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	der, key := a.issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: "test ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign})
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a.cert, a.key = cert, key
	return a
}

func (a *authority) issue(t *testing.T, c *x509.Certificate) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return der, key
}

// config is a member's: its own certificate and trust in one authority, both ways.
func (a *authority) config(t *testing.T, trusts *authority) *tls.Config {
	t.Helper()
	der, key := a.issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: "member"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}})
	pool := x509.NewCertPool()
	pool.AddCert(trusts.cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, RootCAs: pool, ClientCAs: pool}
}

func TestMutualTLS(t *testing.T) {
	ca := newAuthority(t)
	a, ar := member(t, 1, TCPOptions{TLS: ca.config(t, ca)})
	b, br := member(t, 2, TCPOptions{TLS: ca.config(t, ca)})
	connect(t, a, ar, 2, b.Addr())
	if !a.Send(2, LaneAppend, []byte("secret")) {
		t.Fatal("dropped")
	}
	br.await(t, "frame", func() bool { return len(br.frames[key(1, LaneAppend)]) == 1 })
}

// Peer TLS with a wrong certificate gets no connection: not by either side's authority, not without a certificate, and not
// in cleartext.
func TestWrongCertificateGetsNoConnection(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	b, br := member(t, 2, TCPOptions{TLS: ca.config(t, ca)})
	br.ask = func([]byte) ([]byte, error) { return []byte("answered"), nil }
	bare := ca.config(t, ca)
	bare.Certificates = nil
	for _, c := range []struct {
		name string
		tls  *tls.Config
	}{
		{"signed by another authority", other.config(t, ca)},
		{"trusts another authority", ca.config(t, other)},
		{"no certificate", bare},
		{"cleartext", nil},
	} {
		a, ar := member(t, 1, TCPOptions{TLS: c.tls})
		a.SetPeer(2, b.Addr())
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if got, err := a.Ask(ctx, b.Addr(), []byte("who?")); err == nil {
			t.Errorf("%s: a question was answered: %q", c.name, got)
		}
		cancel()
		if a.Send(2, LaneControl, []byte("x")) {
			t.Errorf("%s: a frame was taken", c.name)
		}
		ar.mu.Lock()
		if len(ar.reconns) != 0 {
			t.Errorf("%s: lanes came up: %v", c.name, ar.reconns)
		}
		ar.mu.Unlock()
		a.Close()
	}
	br.mu.Lock()
	defer br.mu.Unlock()
	if len(br.frames) != 0 {
		t.Errorf("frames got through: %v", br.frames)
	}
}
