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

// TestASecondConnectionOverTLSResumesTheSession: it spares the service a handshake of its own.
func TestASecondConnectionOverTLSResumesTheSession(t *testing.T) {
	var resumed []bool
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resumed = append(resumed, r.TLS.DidResume)
		w.Header().Set("Connection", "close")
	}))
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	n := newNet(t, Options{TLS: &tls.Config{RootCAs: roots}})
	for range 2 {
		want(t, do(t, n, &Request{URL: s.URL}), OK, "")
	}
	if len(resumed) != 2 || resumed[0] || !resumed[1] {
		t.Errorf("of two connections these were resumed: %v", resumed)
	}
}

// TestCredentialsStayWithinTLS: a redirect from https to http at the same host would show them to every router between. One from https to https,
// and one from http, takes them along.
func TestCredentialsStayWithinTLS(t *testing.T) {
	var to string
	var got http.Header
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
			return
		}
		got = r.Header
	})
	secure := httptest.NewTLSServer(h)
	defer secure.Close()
	plain := serve(t, h)
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	n := newNet(t, Options{TLS: &tls.Config{RootCAs: roots}})
	for _, c := range []struct {
		from, to string
		kept     bool
	}{{secure.URL, secure.URL, true}, {secure.URL, plain.URL, false}, {plain.URL, secure.URL, true}, {plain.URL, plain.URL, true}} {
		to, got = c.to+"/there", nil
		headers := []Header{{"Authorization", "Bearer 1"}, {"Cookie", "a=b"}, {"X-Trace", "7"}}
		want(t, do(t, n, &Request{URL: c.from + "/away", Headers: headers}), OK, "")
		if (got.Get("Authorization") != "") != c.kept || (got.Get("Cookie") != "") != c.kept || got.Get("X-Trace") != "7" {
			t.Errorf("from %s to %s went %v", c.from, c.to, got)
		}
	}
}
