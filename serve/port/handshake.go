package port

import (
	"errors"
	"io"
	"log"
	"strings"
)

// HandshakeErrors is the ErrorLog of a server of net/http whose listener speaks TLS. failed hears of failed handshakes, from any goroutine;
// net/http's lines on malformed requests are dropped. A client that connects and closes is a probe and has not failed.
//
// net/http makes the handshake itself and reports only to its log (net/http.conn.serve), so the line is parsed here. A listener that made
// the handshake before Accept would let one slow client keep out all others.
func HandshakeErrors(failed func(from string, err error)) *log.Logger {
	return log.New(handshakeErrors(failed), "", 0)
}

type handshakeErrors func(from string, err error)

// Write implements io.Writer; b is one line.
func (failed handshakeErrors) Write(b []byte) (int, error) {
	if line, ok := strings.CutPrefix(string(b), "http: TLS handshake error from "); ok {
		// An IPv6 address has colons, but none that a space follows.
		if from, why, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && why != io.EOF.Error() && failed != nil {
			failed(from, errors.New(why))
		}
	}
	return len(b), nil
}
