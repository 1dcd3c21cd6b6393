package peer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/internal/certtest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// Of certificates that one authority has signed only a member's speaks for a member, in a channel and in a question.
func TestClientsCertificatesDoNotSpeakForMembers(t *testing.T) {
	ca := certtest.NewAuthority("everybody's")
	elsewhere := func(c *x509.Certificate) {
		c.IPAddresses, c.DNSNames = []net.IP{net.IPv4(127, 0, 0, 9)}, []string{"elsewhere.example"}
	}
	client := func(c *x509.Certificate) {
		c.IPAddresses, c.DNSNames, c.ExtKeyUsage = nil, nil, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	forClients := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }
	named := func(c *x509.Certificate) { elsewhere(c); c.DNSNames = []string{"member.example"} }
	cases := []struct {
		name    string
		members Certificates
		cert    tls.Certificate
		good    bool
	}{
		{"of the member's host", Certificates{}, ca.Issue("m1"), true},
		{"of another host", Certificates{}, ca.Issue("m1", elsewhere), false},
		{"a client's", Certificates{}, ca.Issue("alice", client), false},
		{"of the member's host, for clients only", Certificates{}, ca.Issue("alice", forClients), false},
		{"with an allowed name", Certificates{Names: []string{"x", "member.example"}}, ca.Issue("m1", named), true},
		{"with an allowed common name", Certificates{Names: []string{"m1"}}, ca.Issue("m1", elsewhere), true},
		{"of the member's host beside names", Certificates{Names: []string{"member.example"}}, ca.Issue("m1"), true},
		{"of the member's host where names count alone", Certificates{Names: []string{"member.example"}, NamesOnly: true}, ca.Issue("alice"), false},
		{"with an allowed name where names count alone", Certificates{Names: []string{"member.example"}, NamesOnly: true}, ca.Issue("m1", named), true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			// The one who accepts has a certificate that passes under every rule.
			own := func(x *x509.Certificate) { x.DNSNames = append(x.DNSNames, "member.example", "m1") }
			b, br := member(t, 2, TCPOptions{TLS: ca.Config(ca.Issue("b", own)), Members: &c.members,
				AskedAt: func([]byte) string { return "127.0.0.1:1" }})
			br.ask = func([]byte) ([]byte, error) { return []byte("answered"), nil }
			b.SetPeer(1, "127.0.0.1:1")
			a, ar := member(t, 1, TCPOptions{TLS: ca.Config(c.cert)})
			ctx, cancel := context.WithTimeout(t.Context(), wait.Limit(t))
			defer cancel()
			if _, err := a.Ask(ctx, b.Addr(), []byte("who?")); (err == nil) != c.good {
				t.Errorf("a question: %v", err)
			}
			if _, _, err := a.dial(ctx, b.Addr(), hello{kind: byte(ChannelControl), cluster: testCluster, from: 1, to: 2}, dialTimeout); (err == nil) != c.good {
				t.Errorf("a channel: %v", err)
			}
			ar.mu.Lock()
			defer ar.mu.Unlock()
		})
	}
}

// The side that dials looks as well: an address that answers with another's certificate is not the member.
func TestWhoIsDialledIsTheMember(t *testing.T) {
	ca := certtest.NewAuthority("everybody's")
	for _, c := range []struct {
		name    string
		members Certificates
		good    bool
	}{
		{"host", Certificates{}, true},
		{"another name is allowed", Certificates{Names: []string{"x.example"}}, true},
		{"only another name is allowed", Certificates{Names: []string{"x.example"}, NamesOnly: true}, false},
		{"its common name is allowed", Certificates{Names: []string{"b"}, NamesOnly: true}, true},
	} {
		b, br := member(t, 2, TCPOptions{TLS: ca.Config(ca.Issue("b"))})
		br.ask = func([]byte) ([]byte, error) { return []byte("answered"), nil }
		a, _ := member(t, 1, TCPOptions{TLS: ca.Config(ca.Issue("a")), Members: &c.members})
		ctx, cancel := context.WithTimeout(t.Context(), wait.Limit(t))
		if _, err := a.Ask(ctx, b.Addr(), []byte("who?")); (err == nil) != c.good {
			t.Errorf("%s: %v", c.name, err)
		}
		cancel()
	}
	// A name does not stand in for the authority.
	other := certtest.NewAuthority("others")
	b, _ := member(t, 2, TCPOptions{TLS: ca.Config(other.Issue("b"))})
	a, _ := member(t, 1, TCPOptions{TLS: ca.Config(ca.Issue("a")), Members: &Certificates{Names: []string{"b"}}})
	if _, err := a.Ask(t.Context(), b.Addr(), []byte("who?")); err == nil || !strings.Contains(err.Error(), "authority") {
		t.Errorf("signed by another authority: %v", err)
	}
}

// A member that is not known yet may introduce itself; from when its address is known, its certificate must be for it.
func TestUnknownMemberIsComparedOnceItIsKnown(t *testing.T) {
	ca := certtest.NewAuthority("members")
	for addr, good := range map[string]bool{"127.0.0.1:1": true, "127.0.0.9:1": false} {
		b, br := member(t, 2, TCPOptions{TLS: ca.Config(ca.Issue("b")), Members: &Certificates{}})
		a, ar := member(t, 1, TCPOptions{TLS: ca.Config(ca.Issue("a"))})
		connect(t, a, ar, 2, b.Addr())
		send := func(text string) { a.Send(2, ChannelAppend, []byte(text)) }
		send("before")
		br.await(t, "frame", func() bool { return len(br.frames[key(1, ChannelAppend)]) == 1 })
		b.SetPeer(1, addr)
		send("after")
		if good {
			br.await(t, "frame", func() bool { return len(br.frames[key(1, ChannelAppend)]) == 2 })
			continue
		}
		wait.Until(t, "connection cut", func() bool { return b.ConnectedFor(1) == 0 && !a.Send(2, ChannelAppend, []byte("more")) })
		br.mu.Lock()
		if n := len(br.frames[key(1, ChannelAppend)]); n != 1 {
			t.Errorf("%d frames taken", n)
		}
		br.mu.Unlock()
	}
}

// No other process speaks for this member, and a refusal does not name what it was compared with.
func TestNobodySpeaksForThisMember(t *testing.T) {
	b, _ := member(t, 2, TCPOptions{})
	a, _ := member(t, 1, TCPOptions{})
	for _, from := range []uint64{0, 2} {
		if _, _, err := a.dial(t.Context(), b.Addr(), hello{kind: byte(ChannelControl), cluster: testCluster, from: from, to: 2}, dialTimeout); err == nil {
			t.Errorf("a channel from %d to 2 was accepted", from)
		}
	}
}
