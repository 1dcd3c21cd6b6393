package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
)

// Authorities are those of one file, read again at SIGHUP. Connections that are open go on: an authority that was dropped lets no new ones in,
// and a restart ends the old ones. Safe for concurrent use.
type Authorities struct {
	file string
	log  *slog.Logger

	mu   sync.Mutex // guards the rest
	pool *x509.CertPool
	text []byte // of the file
}

// errNoAuthority: a file has no certificate in it.
var errNoAuthority = errors.New("no certificate in it")

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

// Demand has conf demand a certificate that one of the authorities of the moment has signed. conf may be changed afterwards, but for what this
// sets.
func (a *Authorities) Demand(conf *tls.Config) {
	conf.ClientAuth, conf.ClientCAs = tls.RequireAndVerifyClientCert, a.Pool()
	conf.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := conf.Clone()
		now.ClientCAs, now.GetConfigForClient = a.Pool(), nil
		return now, nil
	}
}
