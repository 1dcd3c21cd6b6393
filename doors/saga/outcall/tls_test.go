package outcall

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestCallsOverTLS(t *testing.T) {
	conns := map[string]bool{}
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { conns[r.RemoteAddr+r.Proto] = true }))
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	n := newNet(t, Options{TLS: &tls.Config{RootCAs: roots}, Lookup: names(map[string][]string{"example.com": {"127.0.0.1"}, "other.test": {"127.0.0.1"}})})
	for range 3 {
		want(t, do(t, n, &Request{URL: s.URL}), OK, "")
	}
	if len(conns) != 1 {
		t.Errorf("three calls were made by %v", conns)
	}
	named := strings.Replace(s.URL, "127.0.0.1", "example.com", 1)
	want(t, do(t, n, &Request{URL: named}), OK, "")
	want(t, do(t, n, &Request{URL: strings.Replace(s.URL, "127.0.0.1", "other.test", 1)}), Transient, "certificate")
	want(t, do(t, newNet(t, Options{}), &Request{URL: s.URL}), Transient, "certificate")
	want(t, do(t, n, &Request{URL: strings.Replace(s.URL, "https:", "http:", 1)}), Transient, "answered 400")
	plain := serve(t, func(http.ResponseWriter, *http.Request) {})
	want(t, do(t, n, &Request{URL: strings.Replace(plain.URL, "http:", "https:", 1)}), Transient, "TLS handshake")
}
