package peer

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfastdb/holdfast/internal/certtest"
)

// A member may listen at several places, a socket file among them, and each of them reaches it.
func TestAMemberListensAtSeveralPlaces(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "peer:1")
	if err := os.WriteFile(socket, nil, 0o600); err != nil { // left behind by a process that was killed
		t.Fatal(err)
	}
	b, err := ListenTCP("127.0.0.1:0", TCPOptions{}, "unix:"+socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	br := newRecorder()
	b.Identify(testCluster, 2)
	b.Start(br)
	for i, addr := range []string{b.Addr(), "unix:" + socket} {
		id := uint64(10 + i)
		a, ar := member(t, id, TCPOptions{})
		connect(t, a, ar, 2, addr)
		if !a.Send(2, ChannelAppend, []byte("hello")) {
			t.Fatalf("%s: dropped", addr)
		}
		br.await(t, "frame over "+addr, func() bool { return len(br.frames[key(id, ChannelAppend)]) == 1 })
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(socket); err == nil {
		t.Error("the socket file outlives the listener")
	}
}

// Of several addresses of a member any one will do.
func TestOneOfSeveralAddressesIsEnough(t *testing.T) {
	b, _ := member(t, 2, TCPOptions{})
	a, ar := member(t, 1, TCPOptions{})
	connect(t, a, ar, 2, "127.0.0.1:1,"+b.Addr()) // the first has no listener
}

// Where the sides differ the accepting one decides whether it asks for a certificate, as members do that made their own.
func TestTheAcceptingSideDecidesWhoMustShowACertificate(t *testing.T) {
	ca := certtest.NewAuthority("members")
	anonymous := &tls.Config{InsecureSkipVerify: true}
	open := secured(ca, ca).TLS
	open.ClientAuth = tls.NoClientCert
	b, _ := member(t, 2, TCPOptions{TLS: open, DialTLS: anonymous})
	a, ar := member(t, 1, TCPOptions{TLS: open, DialTLS: anonymous})
	connect(t, a, ar, 2, b.Addr())

	strict := secured(ca, ca).TLS
	strict.ClientAuth = tls.RequireAndVerifyClientCert
	c, _ := member(t, 3, TCPOptions{TLS: strict, DialTLS: anonymous})
	if got, err := a.Ask(t.Context(), c.Addr(), []byte("who?")); err == nil {
		t.Errorf("asked without a certificate and answered: %q", got)
	}
}
