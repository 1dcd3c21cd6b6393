package main

import (
	"crypto/tls"
	"testing"
)

// TestAFailedHandshakeIsOneLine: who came, and why it failed.
func TestAFailedHandshakeIsOneLine(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.issue(t, "server", 2)
	out := &said{}
	r := serveLogging(t, out, t.TempDir(), "--tls-cert", cert, "--tls-key", key)
	if c, err := tls.Dial("tcp", r.kvAddr, &tls.Config{ServerName: "localhost"}); err == nil { // it does not know the authority
		c.Close()
		t.Fatal("a certificate of nobody was taken")
	}
	out.line(t, "a TLS handshake failed", "from=127.0.0.1", "bad certificate")
}
