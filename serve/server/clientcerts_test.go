package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/internal/certtest"
	"github.com/holdfastdb/holdfast/internal/wait"
	"github.com/holdfastdb/holdfast/serve/port"
)

// heldBy is an Authorities of a file with these authorities; believe changes the file and reads it again.
func heldBy(t *testing.T, all ...*certtest.Authority) (a *Authorities, believe func(...*certtest.Authority)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	write := func(all ...*certtest.Authority) {
		var text []byte
		for _, one := range all {
			at, err := one.WriteFile(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(at)
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, b...)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(all...)
	a, err := LoadAuthorities(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return a, func(all ...*certtest.Authority) {
		t.Helper()
		write(all...)
		a.reload()
	}
}

// tcpPair is the two ends of a connection, the second one as l accepts it.
func tcpPair(t *testing.T, wrap func(net.Listener) net.Listener) (dialled, accepted net.Conn) {
	t.Helper()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := wrap(plain)
	defer l.Close()
	if dialled, err = net.Dial("tcp", plain.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if accepted, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.Close(); accepted.Close() })
	for _, c := range []net.Conn{dialled, accepted} {
		c.SetDeadline(time.Now().Add(wait.Limit(t)))
	}
	return dialled, accepted
}

// open reports whether nothing ends a silent connection.
func open(c net.Conn) bool {
	c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// TestWhatADroppedAuthoritySignedIsClosed, on the accepting and on the dialling side, and only that. Certificates of another authority of
// the file stay, and so do those expired since.
func TestWhatADroppedAuthoritySignedIsClosed(t *testing.T) {
	t.Parallel()
	stays, goes := certtest.NewAuthority("stays"), certtest.NewAuthority("goes")
	same := func(l net.Listener) net.Listener { return l }
	for name, wrap := range map[string]func(net.Listener) net.Listener{"as it is": same, "bounded": func(l net.Listener) net.Listener { return port.Limit(l, 8) }} {
		a, believe := heldBy(t, stays, goes)
		accepts := &tls.Config{Certificates: []tls.Certificate{stays.Issue("server")}}
		a.Demand(accepts)
		shows := func(cert tls.Certificate) (client net.Conn) {
			c, s := tcpPair(t, wrap)
			done := make(chan error, 1)
			go func() { done <- tls.Server(s, accepts).Handshake() }()
			t.Cleanup(func() { runtime.KeepAlive(s) })
			conf := &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{cert}}
			if err := tls.Client(c, conf).Handshake(); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			return c
		}
		dials := func(server tls.Certificate) (client net.Conn) {
			c, s := tcpPair(t, wrap)
			conf := &tls.Config{ServerName: "localhost", RootCAs: a.Pool()}
			a.Watch(conf, c)
			done := make(chan error, 1)
			go func() { done <- tls.Server(s, &tls.Config{Certificates: []tls.Certificate{server}}).Handshake() }()
			if err := tls.Client(c, conf).Handshake(); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			return s
		}
		soon := stays.Issue("client", certtest.NotAfter(time.Now().Add(1500*time.Millisecond)))
		left := map[string]net.Conn{"accepted": shows(stays.Issue("client")), "accepted, expired since": shows(soon), "dialled": dials(stays.Issue("member"))}
		ended := map[string]net.Conn{"accepted": shows(goes.Issue("client")), "dialled": dials(goes.Issue("member"))}
		wait.Until(t, "a certificate expires", func() bool { return time.Now().After(soon.Leaf.NotAfter) })
		a.shown.mu.Lock()
		if n := len(a.shown.all); n != 5 {
			t.Errorf("%s: %d connections are known", name, n)
		}
		a.shown.mu.Unlock()
		believe(stays)
		for of, c := range ended {
			if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: %s: it goes on", name, of)
			}
		}
		for of, c := range left {
			if !open(c) {
				t.Errorf("%s: %s: it was closed", name, of)
			}
		}
	}
}

// TestWhatHasEndedIsForgotten: an ended connection costs nothing, without a call that reports its end.
func TestWhatHasEndedIsForgotten(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority("clients")
	a, _ := heldBy(t, ca)
	accepts := &tls.Config{Certificates: []tls.Certificate{ca.Issue("server")}}
	a.Demand(accepts)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const n = 20
	client := ca.Issue("client")
	for range n {
		done := make(chan error, 1)
		go func() {
			c, err := l.Accept()
			if err == nil {
				err = tls.Server(c, accepts).Handshake()
				c.Close()
			}
			done <- err
		}()
		c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{client}})
		if err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	wait.Until(t, "none is known", func() bool {
		runtime.GC()
		a.shown.mu.Lock()
		defer a.shown.mu.Unlock()
		return len(a.shown.all) == 0
	})
}

// TestATicketDoesNotOutliveItsAuthority: who resumes a session is judged by the authorities of now.
func TestATicketDoesNotOutliveItsAuthority(t *testing.T) {
	t.Parallel()
	stays, goes := certtest.NewAuthority("stays"), certtest.NewAuthority("goes")
	a, believe := heldBy(t, stays, goes)
	accepts := &tls.Config{Certificates: []tls.Certificate{stays.Issue("server")}}
	a.Demand(accepts)
	conf := &tls.Config{ServerName: "localhost", RootCAs: stays.Pool(), Certificates: []tls.Certificate{goes.Issue("client")}, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	enters := func() (resumed bool, err error) {
		c, s := tcpPair(t, func(l net.Listener) net.Listener { return l })
		done := make(chan error, 1)
		go func() {
			server := tls.Server(s, accepts)
			if err := server.Handshake(); err != nil {
				s.Close()
				done <- err
				return
			}
			_, err := server.Write([]byte{1})
			done <- err
		}()
		client := tls.Client(c, conf)
		if err := client.Handshake(); err != nil {
			<-done
			return false, err
		}
		_, _ = client.Read(make([]byte, 1)) // behind the ticket, or the refusal
		return client.ConnectionState().DidResume, <-done
	}
	if _, err := enters(); err != nil {
		t.Fatal(err)
	}
	if resumed, err := enters(); err != nil || !resumed {
		t.Fatalf("resumed %v, %v", resumed, err)
	}
	believe(stays)
	if _, err := enters(); err == nil {
		t.Error("a ticket opens the door after the authority was dropped")
	}
}

// TestAHandshakeThatBeganBeforeAnAuthorityWasDropped is judged by the authorities of its end: no client slips in while the file is read.
func TestAHandshakeThatBeganBeforeAnAuthorityWasDropped(t *testing.T) {
	t.Parallel()
	stays, goes := certtest.NewAuthority("stays"), certtest.NewAuthority("goes")
	a, believe := heldBy(t, stays, goes)
	accepts := &tls.Config{}
	a.Demand(accepts)
	begun := func() (end func(by *certtest.Authority) error) {
		_, s := tcpPair(t, func(l net.Listener) net.Listener { return l })
		conf, err := accepts.GetConfigForClient(&tls.ClientHelloInfo{Conn: s})
		if err != nil {
			t.Fatal(err)
		}
		return func(by *certtest.Authority) error {
			return conf.VerifyConnection(tls.ConnectionState{PeerCertificates: []*x509.Certificate{by.Issue("client").Leaf}})
		}
	}
	first, second, third := begun(), begun(), begun()
	if err := first(goes); err != nil {
		t.Errorf("before: %v", err)
	}
	believe(stays)
	if err := second(goes); err == nil {
		t.Error("it is let in by an authority that was dropped meanwhile")
	}
	if err := third(stays); err != nil {
		t.Errorf("the one that stays: %v", err)
	}
}
