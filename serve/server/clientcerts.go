package server

import (
	"crypto/x509"
	"net"
	"runtime"
	"sync"
	"time"
	"weak"
)

// shown is which certificates were shown on connections that are open. It keeps no connection alive: one that has ended is forgotten when the
// collector takes it, so no door has to tell of its end. Safe for concurrent use. The zero value is ready.
type shown struct {
	mu  sync.Mutex
	all map[weak.Pointer[net.TCPConn]]proof // guarded by mu
}

// proof is the chain that was shown on a connection, and when.
type proof struct {
	chain []*x509.Certificate
	at    time.Time
}

// beneath returns the TCP connection that c is, or that it wraps and shows by a method NetConn; nil: there is none.
func beneath(c net.Conn) *net.TCPConn {
	for {
		switch at := c.(type) {
		case *net.TCPConn:
			return at
		case interface{ NetConn() net.Conn }:
			c = at.NetConn()
		default:
			return nil
		}
	}
}

// add notes what was shown on a connection.
func (s *shown) add(c net.Conn, chain []*x509.Certificate) {
	tcp := beneath(c)
	if tcp == nil || len(chain) == 0 {
		return
	}
	key := weak.Make(tcp)
	s.mu.Lock()
	if s.all == nil {
		s.all = map[weak.Pointer[net.TCPConn]]proof{}
	}
	s.all[key] = proof{chain: chain, at: time.Now()}
	s.mu.Unlock()
	runtime.AddCleanup(tcp, s.forget, key)
}

func (s *shown) forget(key weak.Pointer[net.TCPConn]) {
	s.mu.Lock()
	delete(s.all, key)
	s.mu.Unlock()
}

// judge closes the connections whose chain leads to none of the authorities, and returns how many they were.
func (s *shown) judge(authorities *x509.CertPool) (closed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, of := range s.all { // any order: each is judged by itself
		if of.signedBy(authorities) {
			continue
		}
		delete(s.all, key)
		if c := key.Value(); c != nil && c.Close() == nil { // else it was closed before
			closed++
		}
	}
	return closed
}

// signedBy reports whether the chain leads to one of the authorities. It is judged as of the handshake: a certificate that has expired since is no
// reason to close a connection.
func (p *proof) signedBy(authorities *x509.CertPool) bool {
	opt := x509.VerifyOptions{Roots: authorities, Intermediates: x509.NewCertPool(), CurrentTime: p.at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	for _, c := range p.chain[1:] {
		opt.Intermediates.AddCert(c)
	}
	_, err := p.chain[0].Verify(opt)
	return err == nil
}
