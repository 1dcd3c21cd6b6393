package crash

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfastdb/holdfast/internal/certtest"
	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// authority is a CA made for one test, with a directory for files.
type authority struct {
	*certtest.Authority
	dir, ca string // ca is the PEM file of its certificate
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{Authority: certtest.NewAuthority(name), dir: t.TempDir()}
	var err error
	if a.ca, err = a.WriteFile(a.dir); err != nil {
		t.Fatal(err)
	}
	return a
}

// issue signs a certificate for loopback that serves and dials until notAfter, and names its files.
func (a *authority) issue(t *testing.T, name string, notAfter time.Time) (cert, key string) {
	t.Helper()
	cert, key, err := certtest.WriteFiles(a.dir, name, a.Issue(name, certtest.NotAfter(notAfter)))
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// clientConfig trusts a and shows the certificate, if any. Servers are checked only when verify is set: the question
// here is whom the server lets in.
func clientConfig(t *testing.T, a *authority, cert, key string, verify bool) *tls.Config {
	t.Helper()
	c := a.Config()
	c.InsecureSkipVerify = !verify
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}

// TestWrongCertificate: three members with mutual TLS work. A process with another authority's certificate, an expired one, none, or
// without TLS gets no connection to a member. A member with such a certificate takes no part.
func TestWrongCertificate(t *testing.T) {
	processTest(t, false)
	beside(t)
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	tomorrow := time.Now().Add(24 * time.Hour)
	cert, key := ours.issue(t, "member", tomorrow)
	wrongCert, wrongKey := theirs.issue(t, "stranger", tomorrow)
	oldCert, oldKey := ours.issue(t, "expired", time.Now().Add(-time.Minute))

	c := describe(t, 3, "--tls-cert", cert, "--tls-key", key, "--tls-ca", ours.ca)
	for _, n := range c.Nodes {
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
	}
	cli, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), TLS: clientConfig(t, ours, cert, key, true), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer cli.Close()
	if err := untilAnswered(t, putOnce(cli, "under", "tls")); err != nil {
		t.Fatalf("three members with good certificates do not serve: %v", err)
	}

	attempts := 0
	for _, n := range c.Nodes {
		for what, config := range map[string]*tls.Config{
			"a certificate of another authority": clientConfig(t, ours, wrongCert, wrongKey, false),
			"an expired certificate":             clientConfig(t, ours, oldCert, oldKey, false),
			"no certificate":                     clientConfig(t, ours, "", "", false),
			"no TLS":                             nil,
		} {
			attempts++
			refusedAt(t, n.Peer, what, config)
		}
	}

	// A member whose certificate went wrong: out while it lasts, in again afterwards.
	bin, err := proctest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	victim := c.Nodes[2]
	good := victim.Process
	kill(t, victim)
	for _, bad := range [][]string{{wrongCert, wrongKey, theirs.ca}, {oldCert, oldKey, ours.ca}} {
		stranger := proctest.NewProcess(good.LogFile(), bin, "serve", "--data", victim.Dir, "--name", victim.Name, "--kv", victim.KV,
			"--admin", victim.Admin, "--peer", victim.Peer, "--tls-cert", bad[0], "--tls-key", bad[1], "--tls-ca", bad[2])
		if err := stranger.Start(); err != nil {
			t.Fatal(err)
		}
		victim.Process = stranger // so that the cluster ends it
		time.Sleep(seconds("TLS_WAIT", 1, 5))
		if err := untilAnswered(t, putOnce(cli, "beside", "stranger")); err != nil {
			t.Errorf("two good members do not serve beside one with a wrong certificate: %v", err)
		}
		res, err := clientStatus(t, theirs, victim.KV, bad[0], bad[1])
		if err == nil && res.Leader != 0 {
			t.Errorf("a member with a wrong certificate knows a leader: %x", res.Leader)
		}
		if err := stranger.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	victim.Process = good
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	alone, err := clientv3.New(clientv3.Config{Endpoints: []string{victim.KV}, TLS: clientConfig(t, ours, cert, key, true), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer alone.Close()
	if err := untilAnswered(t, putOnce(alone, "back", "again")); err != nil {
		t.Errorf("the member with its good certificate again does not serve: %v", err)
	}
	summary(t, "wrong certificate: %d connections to members refused, a member with another authority's certificate and one with an expired one kept out",
		attempts)
}

// refusedAt fails the test unless the member closes the connection without having sent a byte of ours.
func refusedAt(t *testing.T, peer, what string, config *tls.Config) {
	t.Helper()
	var nc net.Conn
	var err error
	if config != nil {
		nc, err = tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", peer, config)
	} else {
		nc, err = net.DialTimeout("tcp", peer, 5*time.Second)
	}
	if err != nil {
		return // refused in the handshake
	}
	defer nc.Close()
	// TLS 1.3 clients are done before the server has looked at their certificate: the refusal comes with the first read.
	nc.SetDeadline(time.Now().Add(wait.Limit(t)))
	_, _ = nc.Write(make([]byte, 4096)) // may already meet the closed connection
	if config == nil {
		n, err := io.ReadAll(nc)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s keeps a connection with %s open (%d bytes answered)", peer, what, len(n))
		}
		return // a TLS alert may be answered to what is no TLS
	}
	n, err := nc.Read(make([]byte, 1))
	if n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s took a connection with %s: %d bytes, %v", peer, what, n, err)
	}
}

// clientStatus asks a member whose own certificate is wrong; it may refuse.
func clientStatus(t *testing.T, theirs *authority, endpoint, cert, key string) (*clientv3.StatusResponse, error) {
	t.Helper()
	config := clientConfig(t, theirs, cert, key, false)
	cli, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, TLS: config, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	defer cli.Close()
	return cli.Status(within(t, 2*time.Second), endpoint)
}
