package etcd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/doors/kv/etcd/flags"
)

// selfSigned returns the certificate and key files in dir. If they are missing it makes them, for the hosts of the given addresses and so
// many years. They are kept across restarts, so that a client may pin the certificate. An expired one is made anew, because the server
// could only refuse every client with it.
func selfSigned(dir string, at []flags.URL, years int) (certFile, keyFile string, err error) {
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if unexpired(certFile) {
		if _, err := os.Stat(keyFile); err == nil {
			return certFile, keyFile, nil
		}
	}
	if err := disk.OS().MkdirAll(dir); err != nil {
		return "", "", err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return "", "", err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{Organization: []string{"holdfast"}},
		NotBefore:    now.Add(-5 * time.Minute), // another machine's clock may be behind
		NotAfter:     now.AddDate(years, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		// It is its own authority, so that clients can be given it as theirs.
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	for _, u := range at {
		if ip := net.ParseIP(u.Host()); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else if !u.Unix() {
			template.DNSNames = append(template.DNSNames, u.Host())
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return "", "", err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return "", "", err
	}
	// The key is written first: the next start takes a certificate that is there for complete.
	if err := writePEM(keyFile, "EC PRIVATE KEY", keyDER, 0o600); err != nil {
		return "", "", err
	}
	return certFile, keyFile, writePEM(certFile, "CERTIFICATE", der, 0o644)
}

func unexpired(certFile string) bool {
	b, err := os.ReadFile(certFile)
	if err != nil {
		return false
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return false
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	return err == nil && time.Now().Before(cert.NotAfter)
}

func writePEM(file, kind string, der []byte, mode os.FileMode) error {
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
