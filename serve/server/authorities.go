package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// Authorities are those of one file, read again at SIGHUP. An authority that was dropped lets no new connection in, and the open ones whose
// certificate none of the others has signed are closed. Safe for concurrent use.
type Authorities struct {
	file  string
	log   *slog.Logger
	shown shown // on connections that are open

	mu   sync.Mutex // guards the rest
	pool *x509.CertPool
	text []byte // of the file
}

// errNoAuthority: a file has no certificate in it.
var errNoAuthority = errors.New("no certificate in it")

// errDropped: the authority of a certificate was dropped while it was shown.
var errDropped = errors.New("no authority has signed the certificate any more")

// LoadAuthorities reads the file.
func LoadAuthorities(file string, log *slog.Logger) (*Authorities, error) {
	a := &Authorities{file: file, log: log}
	return a, a.load()
}

// load reads the file. mu is held, or a is not shared yet.
func (a *Authorities) load() error {
	text, err := os.ReadFile(a.file)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return errNoAuthority
	}
	a.pool, a.text = pool, text
	return nil
}

// reload reads the file now.
func (a *Authorities) reload() {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.text
	switch err := a.load(); {
	case err != nil:
		a.log.Warn("new authorities not taken, the old ones count on", "file", a.file, "err", err)
	case bytes.Equal(was, a.text):
	default:
		a.log.Info("authorities read again", "file", a.file)
		if closed := a.shown.judge(a.pool); closed > 0 {
			a.log.Warn("connections closed whose certificate no authority has signed any more", "file", a.file, "connections", closed)
		}
	}
}

// Pool is the authorities of now; nil for nil, which is the system's.
func (a *Authorities) Pool() *x509.CertPool {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pool
}

// each lists the certificates of the authorities as they stand in the file.
func (a *Authorities) each() (all [][]byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for block, rest := pem.Decode(a.text); block != nil; block, rest = pem.Decode(rest) {
		all = append(all, block.Bytes)
	}
	return all
}

// shares reports whether one authority is in both.
func (a *Authorities) shares(b *Authorities) bool {
	if a == nil || b == nil {
		return false
	}
	others := b.each()
	return slices.ContainsFunc(a.each(), func(m []byte) bool {
		return slices.ContainsFunc(others, func(o []byte) bool { return bytes.Equal(m, o) })
	})
}

// Demand has conf demand a certificate that one of the authorities of the moment has signed. The caller may change the other fields of conf
// afterwards.
func (a *Authorities) Demand(conf *tls.Config) {
	conf.ClientAuth, conf.ClientCAs = tls.RequireAndVerifyClientCert, a.Pool()
	conf.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		now := conf.Clone()
		now.ClientCAs, now.GetConfigForClient = a.Pool(), nil
		a.Watch(now, h.Conn)
		return now, nil
	}
}

// Watch closes the connection below a handshake as soon as no authority has signed the certificate that the other side showed in it. conf
// is for this handshake alone, and is as it will be used. Authorities that are nil are the system's, which never change.
func (a *Authorities) Watch(conf *tls.Config, c net.Conn) {
	if a == nil {
		return
	}
	verified, began := conf.VerifyConnection, a.Pool()
	conf.VerifyConnection = func(cs tls.ConnectionState) error {
		if verified != nil {
			if err := verified(cs); err != nil {
				return err
			}
		}
		a.shown.add(c, cs.PeerCertificates)
		// The file may have been read since the handshake began. This comes after the note: a reading that is not seen here finds that.
		if now := a.Pool(); now != began && len(cs.PeerCertificates) > 0 && !(&proof{cs.PeerCertificates, time.Now()}).signedBy(now) {
			return errDropped
		}
		return nil
	}
}
