package peer

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"testing"

	"github.com/holdfastdb/holdfast/internal/certtest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// secured is how a member is secured that shows a certificate of one authority and trusts another, or the same.
func secured(signed, trusted *certtest.Authority) TCPOptions {
	return TCPOptions{TLS: trusted.Config(signed.Issue("member"))}
}

func TestMutualTLS(t *testing.T) {
	ca := certtest.NewAuthority("members")
	a, ar := member(t, 1, secured(ca, ca))
	b, br := member(t, 2, secured(ca, ca))
	connect(t, a, ar, 2, b.Addr())
	if !a.Send(2, ChannelAppend, []byte("secret")) {
		t.Fatal("dropped")
	}
	br.await(t, "frame", func() bool { return len(br.frames[key(1, ChannelAppend)]) == 1 })
}

// Peer TLS with a wrong certificate gets no connection: not by either side's authority, not without a certificate, and not
// in cleartext.
func TestWrongCertificateGetsNoConnection(t *testing.T) {
	ca, other := certtest.NewAuthority("members"), certtest.NewAuthority("others")
	b, br := member(t, 2, secured(ca, ca))
	br.ask = func([]byte) ([]byte, error) { return []byte("answered"), nil }
	for _, c := range []struct {
		name string
		opts TCPOptions
	}{
		{"signed by another authority", secured(other, ca)},
		{"trusts another authority", secured(ca, other)},
		{"no certificate", TCPOptions{TLS: ca.Config()}},
		{"cleartext", TCPOptions{}},
	} {
		a, ar := member(t, 1, c.opts)
		a.SetPeer(2, b.Addr())
		ctx, cancel := context.WithTimeout(t.Context(), wait.Limit(t))
		if got, err := a.Ask(ctx, b.Addr(), []byte("who?")); err == nil {
			t.Errorf("%s: a question was answered: %q", c.name, got)
		}
		cancel()
		if a.Send(2, ChannelControl, []byte("x")) {
			t.Errorf("%s: a frame was taken", c.name)
		}
		ar.mu.Lock()
		if len(ar.reconns) != 0 {
			t.Errorf("%s: channels came up: %v", c.name, ar.reconns)
		}
		ar.mu.Unlock()
		a.Close()
	}
	br.mu.Lock()
	defer br.mu.Unlock()
	if len(br.frames) != 0 {
		t.Errorf("frames got through: %v", br.frames)
	}
}

// TestWhoDialsHasItsConnectionsWatched: each is told before its handshake, which may be judged, and a link that is closed from outside comes back.
func TestWhoDialsHasItsConnectionsWatched(t *testing.T) {
	ca := certtest.NewAuthority("members")
	var mu sync.Mutex
	var shown []net.Conn // guarded by mu: connections on which the other side has shown its certificate
	opts := secured(ca, ca)
	opts.Watch = func(conf *tls.Config, c net.Conn) {
		verified := conf.VerifyConnection
		conf.VerifyConnection = func(cs tls.ConnectionState) error {
			if verified != nil || len(cs.PeerCertificates) == 0 {
				t.Error("no certificate, or somebody else judges")
			}
			mu.Lock()
			defer mu.Unlock()
			shown = append(shown, c)
			return nil
		}
	}
	a, ar := member(t, 1, opts)
	b, br := member(t, 2, secured(ca, ca))
	connect(t, a, ar, 2, b.Addr())
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(shown)
	}
	before := count()
	if before == 0 {
		t.Fatal("nothing was told")
	}
	mu.Lock()
	for _, c := range shown {
		c.Close()
	}
	mu.Unlock()
	wait.Until(t, "each channel has dialled again", func() bool { return count() >= 2*before })
	wait.Until(t, "a frame gets through", func() bool {
		a.Send(2, ChannelAppend, []byte("again"))
		br.mu.Lock()
		defer br.mu.Unlock()
		return len(br.frames[key(1, ChannelAppend)]) > 0
	})
}
