package port

import (
	"testing"
)

// TestHandshakeErrors: what net/http says of a handshake that failed is told, with who came; everything else is dropped.
func TestHandshakeErrors(t *testing.T) {
	var told string
	log := HandshakeErrors(func(from string, err error) { told = from + "|" + err.Error() })
	for line, want := range map[string]string{
		"http: TLS handshake error from 127.0.0.1:40306: remote error: tls: bad certificate": "127.0.0.1:40306|remote error: tls: bad certificate",
		"http: TLS handshake error from [::1]:40306: tls: no cipher":                         "[::1]:40306|tls: no cipher",
		"http: TLS handshake error from 127.0.0.1:40306: EOF":                                "", // a probe
		"http: TLS handshake error from nobody":                                              "",
		"http: superfluous response.WriteHeader call":                                        "",
	} {
		told = ""
		log.Print(line)
		if told != want {
			t.Errorf("%s: told %q, want %q", line, told, want)
		}
	}
}
