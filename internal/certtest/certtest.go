// Package certtest makes certificates for tests and conformance runs: an authority of its own, and certificates for programs on this
// machine. It is not for real servers: keys lie in plain files, and everything expires tomorrow.
//
// It panics where only a broken standard library could fail; a test has no better answer.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Authority signs certificates. Safe for concurrent use.
type Authority struct {
	Cert *x509.Certificate
	Key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority with a new key.
func NewAuthority(name string) *Authority {
	c := sign(&x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}, nil)
	return &Authority{Cert: c.Leaf, Key: c.PrivateKey.(*ecdsa.PrivateKey)}
}

// Issue signs a certificate that serves and dials as 127.0.0.1 and localhost until tomorrow, unless a change makes it another.
func (a *Authority) Issue(name string, changes ...func(*x509.Certificate)) tls.Certificate {
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames: []string{"localhost"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	for _, change := range changes {
		change(template)
	}
	return sign(template, a)
}

// Serial is a change that gives a certificate its number.
func Serial(n int64) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.SerialNumber = big.NewInt(n) }
}

// NotAfter is a change that lets a certificate end at t.
func NotAfter(t time.Time) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.NotAfter = t }
}

// Pool trusts this authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Cert)
	return pool
}

// Config trusts this authority on either side of a connection, and shows the certificates.
func (a *Authority) Config(certs ...tls.Certificate) *tls.Config {
	return &tls.Config{Certificates: certs, RootCAs: a.Pool(), ClientCAs: a.Pool()}
}

// Server is the configuration of a server that shows a certificate of this authority and wants one of it from every client.
func (a *Authority) Server() *tls.Config {
	c := a.Config(a.Issue("server"))
	c.ClientAuth = tls.RequireAndVerifyClientCert
	return c
}

// WriteFile writes the authority's certificate to DIR/ca.pem.
func (a *Authority) WriteFile(dir string) (path string, err error) {
	return write(dir, "ca.pem", "CERTIFICATE", a.Cert.Raw)
}

// WriteFiles writes a certificate and its key to DIR/NAME.pem and DIR/NAME-key.pem, over those that are there.
func WriteFiles(dir, name string, c tls.Certificate) (cert, key string, err error) {
	if cert, err = write(dir, name+".pem", "CERTIFICATE", c.Certificate[0]); err != nil {
		return "", "", err
	}
	key, err = write(dir, name+"-key.pem", "PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(c.PrivateKey)))
	return cert, key, err
}

func write(dir, name, kind string, der []byte) (string, error) {
	path := filepath.Join(dir, name)
	return path, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// sign completes the template with a key, a time and a number unless it has those, and signs it: by itself without an authority.
func sign(template *x509.Certificate, by *Authority) tls.Certificate {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	if template.SerialNumber == nil {
		template.SerialNumber = big.NewInt(time.Now().UnixNano())
	}
	template.NotBefore = time.Now().Add(-time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(24 * time.Hour)
	}
	if by == nil {
		by = &Authority{Cert: template, Key: key}
	}
	der := must(x509.CreateCertificate(rand.Reader, template, by.Cert, key.Public(), by.Key))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: must(x509.ParseCertificate(der))}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
