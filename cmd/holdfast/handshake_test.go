package main

import (
	"crypto/tls"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAFailedHandshakeIsOneLine: who came, and why it failed.
func TestAFailedHandshakeIsOneLine(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.issue(t, "server", 2)
	out := &said{}
	admin := freeAddr(t)
	open := strings.Replace(admin, "127.0.0.1", "0.0.0.0", 1) // on loopback alone operators need no TLS
	r := serveLogging(t, out, t.TempDir(), "--tls-cert", cert, "--tls-key", key, "--tls-ca", filepath.Join(a.dir, "ca.pem"), "--admin", open)
	if c, err := tls.Dial("tcp", r.kvAddr, &tls.Config{ServerName: "localhost"}); err == nil { // it does not know the authority
		c.Close()
		t.Fatal("a certificate of nobody was taken")
	}
	out.line(t, "a TLS handshake failed", "from=127.0.0.1", "bad certificate")
	time.Sleep(1100 * time.Millisecond) // a line a second at most
	if c, err := tls.Dial("tcp", admin, &tls.Config{ServerName: "localhost"}); err == nil {
		c.Close()
		t.Fatal("a certificate of nobody was taken on the admin port")
	}
	out.times(t, 2, "a TLS handshake failed")
}
