package server

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"time"
)

// KeyPair is a certificate with its key, read again when one of the files changes: a renewed certificate must not need a
// restart.
type KeyPair struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.Mutex // guards the rest
	current *tls.Certificate
	stamp   [2]time.Time // modification times of the files current was read from
	checked time.Time
}

// certCheckInterval bounds how often the files' times are looked at, however many clients connect.
const certCheckInterval = time.Second

// LoadKeyPair reads both files.
func LoadKeyPair(certFile, keyFile string, log *slog.Logger) (*KeyPair, error) {
	p := &KeyPair{certFile: certFile, keyFile: keyFile, log: log}
	return p, p.load()
}

// load reads the files. mu is held, or p is not shared yet.
func (p *KeyPair) load() error {
	stamp, err := p.times()
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(p.certFile, p.keyFile)
	if err != nil {
		return err
	}
	p.current, p.stamp = &pair, stamp
	return nil
}

// reload reads both files now.
func (p *KeyPair) reload() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.again()
}

// again reads both files and says so. mu is held.
func (p *KeyPair) again() {
	if err := p.load(); err != nil {
		p.log.Warn("new certificate not taken, the old one serves on", "file", p.certFile, "err", err)
	} else {
		p.log.Info("certificate read again", "file", p.certFile)
	}
}

func (p *KeyPair) times() (t [2]time.Time, err error) {
	for i, f := range []string{p.certFile, p.keyFile} {
		st, err := os.Stat(f)
		if err != nil {
			return t, err
		}
		t[i] = st.ModTime()
	}
	return t, nil
}

// Get returns the newest pair that could be read. While the two files do not fit each other, as in the middle of a
// renewal, the old pair serves on.
func (p *KeyPair) Get() *tls.Certificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.checked) >= certCheckInterval {
		p.checked = now
		if t, err := p.times(); err == nil && t != p.stamp {
			p.again()
		}
	}
	return p.current
}
